"""ShowUI-web: captions and texts of elements on web pages, a list of named boxes a screenshot.

A raw element of the array `metadata/hf_train.json` (made up):

    {"img_url": "5f3c.png", "img_size": [1920, 1080], "element": [
        {"instruction": "Contact us", "bbox": [0.1, 0.02, 0.2, 0.05], "point": [0.15, 0.04], "data_type": "text"}],
     "element_size": 1}

The published file has `class_name`, a role such as `ListItem`, in the place of `data_type`: then all are texts.

| native | unified |
|---|---|
| text element | "Where is <text>?" → centre of `bbox`; "What is at [x,y]?" → the text |
| text that stands on several places of the page | "What is at [x,y]?" alone (lossy: `ambiguous_name`) |
| `class_name` | role of the screen's element |
| another `data_type` | quarantined: `unknown_action:<word>` |
| `point` | not used: two decimals, where the box has more |

Pictures lie in `images/` beside `metadata/`. The parquet revision without pictures is refused (`unknown_schema`).
"""

from functools import partial
from typing import Any

from pipelines.mapping.adapter import Adapter, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import SampleBuilder
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.frames import fitting_screen, stated_size
from pipelines.mapping.items import ItemError, is_text, notices, refusing, unknown_fields
from pipelines.native import named_boxes
from pipelines.native.named_boxes import Named
from pipelines.native.record_readers import count_of, field_id, json_list

_ROW = frozenset({"img_url", "img_size", "element", "element_size"})
_ELEMENT = frozenset({"instruction", "bbox", "point", "data_type", "class_name"})

DESCRIPTOR = Descriptor(
    id="showui_web",
    title="ShowUI-web",
    licence="none stated (UNCONFIRMED; code Apache-2.0)",
    platforms=("web",),
    objectives=("grounding", "perception"),
    size="22,000 screenshots, 576,000 elements (UNCONFIRMED)",
    citation="Lin et al., ShowUI: One Vision-Language-Action Model for GUI Visual Agent, arXiv 2411.17465",
    frame="fractions 0..1 of the picture, left, top, right, bottom",
    record_unit="screen",
    item_unit="element",
    known_problems=(
        "one text may stand on several places of a page",
        "a few languages besides English",
        "points have two decimals only",
    ),
    loss=(
        Loss("text", "grounding and perception samples", "kept", "lossy where the text is ambiguous: perception alone"),
        Loss("element", "-", "dropped", "no text, no usable box, or a data_type never seen"),
        Loss("point", "-", "lossy", "two decimals: the centre of the box stands for it"),
    ),
    download=Download("showlab/ShowUI-web", files=("metadata/hf_train.json",), unpack=(("images.tar.gz", "."),)),
)


class ShowuiWebAdapter(Adapter):
    """One record per screenshot."""

    descriptor = DESCRIPTOR
    version = 3
    items_at = ("element",)
    reader = partial(json_list, of_id=field_id("img_url"), count=count_of('"bbox"'))

    def parts(self, raw: Raw) -> list[tuple[str, ...]]:
        """One part per metadata file; the older tree's side files beside the pictures are no metadata."""
        return [(name,) for name in raw.files("**/*.json") if not name.startswith("images/")]

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One screenshot → grounding and perception samples. Raises `RecordError`."""
        row = record.payload
        listed = row.get("element") if isinstance(row, dict) else None
        if not isinstance(listed, list) or not isinstance(row.get("img_url"), str):
            raise RecordError("missing_field", "expected img_url and a list named element")
        with refusing(len(listed)):
            frame = stated_size(row.get("img_size"), "img_size", "element")
        good, failed, new = named_boxes.read_elements(listed, _element, _ELEMENT, "element")
        data = raw.first([f"images/{row['img_url']}"], len(listed))
        elements = named_boxes.screen_elements(good)
        screen = fitting_screen(data, frame, elements) if frame else RecordScreen.load(data, elements, normalised=True)
        builder = SampleBuilder(self.descriptor, record, record_id=row["img_url"])
        return notices(named_boxes.emit(builder, screen, good, failed, new), unknown_fields(row, _ROW))


def _element(element: Any) -> Named:
    role, name = element.get("class_name"), element.get("instruction")
    kind = element.get("data_type") or ("text" if isinstance(role, str) else None)
    if kind != "text":
        found = f"found {kind!r:.60}" if "data_type" in element else "found none"
        detail = f"data_type: expected text, or a class_name as the published file has it, {found}"
        raise ItemError(f"unknown_action:{str(kind)[:60]}", detail, "element")
    if not isinstance(name, str):
        raise ItemError("missing_field", f"instruction: expected a text, found {name!r:.60}", "element")
    if not name.strip():
        raise ItemError("empty_text", "the element has no text", "element")
    box = named_boxes.unit_box(element.get("bbox"), (1.0, 1.0), "element")
    return Named(name, box, kind, role if isinstance(role, str) and is_text(role) else "")
