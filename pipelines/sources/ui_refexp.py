"""UIBert RefExp: referring expressions for elements of Rico screens, plain TFRecord, one `tf.Example` per expression.

Link: https://github.com/google-research-datasets/uibert (ref_exp; arXiv 2107.13731)
Licence: CC BY 4.0. The pictures are Rico's, by id, and come as the companion `rico` (`combined/<id>.jpg`).

A raw row (features of one Example, lists shortened):

    image/id ["18177"]  image/ref_exp/text ["click on option below 50"]  image/ref_exp/label [10]
    image/object/num [22.0]  image/object/bbox/xmin [0.878, ...]  .../ymin  .../xmax  .../ymax
    image/view_hierarchy/bbox/xmin [0.0, ...]  .../ymin  .../xmax  .../ymax
    image/view_hierarchy/class/name ["TEXT_VIEW", ...]  image/view_hierarchy/class/label [1, ...]
    image/view_hierarchy/text ["show", ...]
    image/view_hierarchy/description ["", ...]  image/view_hierarchy/id/name ["textViewTabStripItem", ...]

| native | unified |
|---|---|
| text, object[label] | grounding sample: where is <text without "click on">? → centre of the box, its target |
| view_hierarchy | elements of the screen (box, class, text, description) |

`label` is an index into the objects, not a class. Coordinates are 0..1, so a row without its picture is mapped, too.
Split: the file's name (`train`, `dev` = validation, `test`).
"""

import re
from collections.abc import Iterator
from typing import Any

from pipelines.derivers.grounding import expression as pointed_at
from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import SampleBuilder
from pipelines.mapping.card import Descriptor, Loss
from pipelines.mapping.items import ItemError, notices, unknown_fields
from pipelines.native import tf_example
from pipelines.native.named_boxes import unit_box
from pipelines.native.tf_example import one, readable, texts
from schemas.coordinates import OffScreen, ScreenBox, box_to_unit
from schemas.ids import digest

COMPANION = "rico"
_FILE = re.compile(r"(-\d+-of-\d+|\.tfrecords?(\.gz)?)$")
_SIDES = ("xmin", "ymin", "xmax", "ymax")
_TREE = "image/view_hierarchy"
_KNOWN = frozenset(
    ["image/id", "image/ref_exp/text", "image/ref_exp/label", "image/object/num"]
    + [f"{group}/bbox/{side}" for group in ("image/object", _TREE) for side in _SIDES]
    + [f"{_TREE}/{name}" for name in ("class/label", "class/name", "description", "id/name", "text")]
)

DESCRIPTOR = Descriptor(
    id="ui_refexp",
    title="UIBert RefExp",
    origin="https://github.com/google-research-datasets/uibert",
    licence="CC-BY-4.0",
    platforms=("mobile",),
    objectives=("grounding",),
    size="about 15,600 train expressions, 509 dev, about 500 test",
    citation="Bai et al., UIBert: Learning Generic Multimodal Representations for UI Understanding, arXiv 2107.13731",
    frame="0..1, x and y named, origin top left",
    item_unit="expression",
    known_problems=(
        "expressions are terse and often relative (below 50)",
        "boxes come from Rico's view hierarchy and may be off the drawn element",
        "32 duplicate rows in a widely used copy",
    ),
    loss=(
        Loss(
            "expression",
            "grounding sample",
            "kept",
            "answer = centre of object[label], box kept; a leading verb is left out, the words stay in provenance",
        ),
        Loss("image/object/*", "-", "lossy", "only the target's box is used; the others stay in the raw file"),
        Loss("image/view_hierarchy/*", "screens.elements", "lossy", "class id, resource id are left out; needs rico"),
    ),
    companions=(COMPANION,),
)


class UiRefexpAdapter(Adapter):
    """One record per expression."""

    descriptor = DESCRIPTOR
    version = 2

    def parts(self, raw: Raw) -> list[tuple[str, ...]]:
        """One part per TFRecord file."""
        return [(name,) for name in raw.files("**/*") if _FILE.search(name)]

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """One expression at a time. A damaged record counts as one item if any byte of it was there."""
        for file in files:
            for found in tf_example.examples(raw, file, lost_items=1):
                if isinstance(found, Broken):
                    yield found
                else:  # rows have no id of their own: image/id is the screen's
                    number, features = found
                    yield Record(file, f"record {number}", readable(features), digest(features))

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One expression → one grounding sample. Raises `RecordError`."""
        features: dict[str, Any] = record.payload
        words = one(features, "image/ref_exp/text", str)
        if not words.strip():
            raise RecordError("empty_text", "the expression is empty")
        expression = pointed_at(words)
        box = _target(features)
        image_id = one(features, "image/id", str)
        # It becomes part of a path.
        if not re.fullmatch(r"[0-9]{1,12}", image_id):
            raise RecordError("unsafe_path", f"image/id: expected digits, found {image_id[:60]!r}")
        found: list[tuple[str, str, Any]] = []
        data = raw.read_if_there(f"combined/{image_id}.jpg", COMPANION)
        screen = RecordScreen.load(data, _elements(features, found), normalised=True)
        builder = SampleBuilder(self.descriptor, record, split=_split(record.file))
        rules = [f"verb left out of: {words}"] if expression else []
        builder.grounding(expression or words, box, screen, 0, "expression", rules=rules)
        return notices(builder.finish(), found + unknown_fields(features, _KNOWN))


def _split(file: str) -> str:
    name = file.rpartition("/")[2].lower()
    if name.startswith(("dev", "val")):
        return "validation"
    return "test" if name.startswith("test") else "train"


def _target(features: dict[str, Any]) -> ScreenBox:
    """Box of object[label], 0..1000. Raises `RecordError`: missing_field, bad_value, bad_box, off_screen."""
    label = one(features, "image/ref_exp/label", int)
    sides = [features.get(f"image/object/bbox/{side}", []) for side in _SIDES]
    numbers = {len(side) for side in sides}
    if numbers == {0}:
        raise RecordError("missing_field", "expected image/object/bbox lists")
    if len(numbers) != 1:
        raise RecordError("bad_value", f"image/object/bbox: lists of {[len(side) for side in sides]} numbers")
    # The lists must be of one length, or labels point at others.
    if features.get("image/object/num") and one(features, "image/object/num", float) != len(sides[0]):
        raise RecordError("bad_value", f"image/object/num {features['image/object/num']}, but {len(sides[0])} boxes")
    if not 0 <= label < len(sides[0]):
        raise RecordError("bad_value", f"image/ref_exp/label {label}: there are {len(sides[0])} objects")
    left, top, right, bottom = (side[label] for side in sides)
    try:
        return unit_box([left, top, right, bottom], (1.0, 1.0), "expression")
    except ItemError as error:
        raise RecordError(error.reason, error.detail) from error


def _elements(features: dict[str, Any], found: list[tuple[str, str, Any]]) -> list[dict[str, Any]]:
    """Nodes of the view hierarchy with an area on the screen."""
    names = [*(f"bbox/{side}" for side in _SIDES), "class/name", "text", "description"]
    columns = [features.get(f"{_TREE}/{name}", []) for name in names]
    try:
        for name in names[4:]:
            texts(features, f"{_TREE}/{name}")
        if len({len(column) for column in columns}) != 1:
            raise RecordError("bad_elements", f"lists of {[len(column) for column in columns]} values")
    except RecordError as error:
        found.append(("bad_elements", f"{_TREE}: {error.detail}", dict(zip(names, columns, strict=True))))
        return []
    elements = []
    for left, top, right, bottom, role, words, description in zip(*columns, strict=True):
        try:
            box = box_to_unit((left, top, right, bottom), (1.0, 1.0))
        except OffScreen:
            continue
        if box[0] < box[2] and box[1] < box[3]:
            elements.append({"box": box, "role": role, "text": words.strip(), "name": (description or words).strip()})
    return elements
