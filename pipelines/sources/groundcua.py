"""GroundCUA: screenshots of 87 desktop programs, nearly every element of them boxed and named by people.

Link: https://huggingface.co/datasets/ServiceNow/GroundCUA (fields: github.com/ServiceNow/GroundCUA, instruction_tuning)

Raw files (made up): `data/<program>/<id>.json`, the elements of `images/<program>/<id>.png`; and, unpacked from
`instruction_tuning.tar.gz`, lists of instructions for the same elements:

    [{"bbox": [10.5, 20.0, 60.0, 40.0], "text": "Save", "category": "Button", "id": "e1", "image_path": "…"}]
    [{"id": "<id>", "platform": "Veusz", "bbox": [10.5, 20.0, 60.0, 40.0], "text": "Save", "category": "Button",
      "all_instructions": {…}, "instruction": "Store your work."}]
    [{"id": "<id>", "platform": "Veusz", "coordinate": [35.2, 30.0], "instruction": "Click the floppy disk."}]

| native | unified |
|---|---|
| element, instruction with `bbox` | "Where is <text>?" → the centre of its box |
| instruction with `coordinate` (or `cordinate`) | "Where is <text>?" → the point, without a box |
| text that several elements of a screen bear | "What is at [x,y]?" → it (lossy: `ambiguous_name`) |

Boxes are pixels of the picture, so a screen without its picture is refused (`bad_frame`). Sides may be swapped, as the
set's own reader says: they are put in order.
"""

import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.derivers.grounding import expression
from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import SampleBuilder
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.items import ItemError, notices, text_of, unknown_fields
from pipelines.mapping.points import pixel_point
from pipelines.native import named_boxes
from pipelines.native.named_boxes import Named
from pipelines.native.record_readers import count_of, json_document, json_list

ELEMENT, INSTRUCTION = "element", "instruction"
_KNOWN = frozenset(
    {"id", "platform", "image_path", "bbox", "coordinate", "cordinate", "text", "category", "instruction"}
) | {"all_instructions"}

DESCRIPTOR = Descriptor(
    id="groundcua",
    title="GroundCUA",
    licence="MIT",
    platforms=("desktop",),
    objectives=("grounding", "perception"),
    size="56,000 screenshots of 87 programs, 3.56 million elements, 1.15 million instructions",
    citation="Feizi et al., Grounding Computer Use Agents on Human Demonstrations, arXiv 2511.07332",
    frame="pixels of the picture, left, top, right, bottom",
    record_unit="screen",
    item_unit="element",
    known_problems=(
        "by the people of UI-Vision and of the same programs: screens may overlap",
        "instructions are written by a model from names that people gave",
        "texts may be names that the screen doesn't show",
    ),
    loss=(
        Loss(ELEMENT, "grounding sample", "kept", "lossy where the text is ambiguous; dropped without a usable box"),
        Loss(INSTRUCTION, "grounding sample", "kept", "a point where the source has no box"),
    ),
    download=Download(
        "ServiceNow/GroundCUA", files=("data/*", "images/*"), unpack=(("instruction_tuning.tar.gz", ""),)
    ),
)


class GroundcuaAdapter(Adapter):
    """One record per screen, and one per instruction."""

    descriptor = DESCRIPTOR
    items_at = (".",)
    patterns = ("**/*.json",)

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """Files below `data/` are screens; others are lists of instructions."""
        for file in files:
            is_screen = "data" in file.split("/")[:-1]
            read = json_document if is_screen else json_list
            yield from read(raw, file, count=count_of('"bbox"' if is_screen else '"instruction"'))

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One screen or instruction → its samples. Raises `RecordError`: missing_field, bad_frame, unsafe_path."""
        row, items = record.payload, self.count_items(record)
        folder, name = posixpath.split(record.file)
        root, _, program = folder.rpartition("data/")
        if isinstance(row, Mapping):
            root, program, name = folder.rpartition("/")[0], str(row.get("platform")), str(row.get("id"))
        elif not isinstance(row, list):
            raise RecordError(
                "missing_field", f"expected elements or an instruction, found {type(row).__name__}", items
            )
        picture = f"images/{program}/{posixpath.splitext(name)[0]}.png"
        screen = RecordScreen.load(raw.first(dict.fromkeys((posixpath.join(root, picture), picture)), items))
        assert screen.width_px is not None and screen.height_px is not None, "loaded without `normalised`"
        size = (screen.width_px, screen.height_px)
        builder = SampleBuilder(self.descriptor, record, record_id=f"{record.file}#{record.locator}")
        if isinstance(row, Mapping):
            return notices(_instruction(builder, row, size, screen), unknown_fields(row, _KNOWN))
        good, failed, new = named_boxes.read_elements(
            row,
            lambda one: Named(text_of(one, "text", ELEMENT), _box(one, size, ELEMENT), ELEMENT, drawn=False),
            _KNOWN,
        )
        return named_boxes.emit(builder, screen, good, failed, new)


def _box(element: Mapping[str, Any], size: tuple[int, int], word: str) -> tuple[float, float, float, float]:
    """Raises `ItemError`: bad_box, off_screen."""
    box = element.get("bbox")
    try:
        left, top, right, bottom = box  # type: ignore[misc]
        box = [min(left, right), min(top, bottom), max(left, right), max(top, bottom)]
    except (TypeError, ValueError):
        pass  # no four numbers, which `unit_box` says
    return named_boxes.unit_box(box, size, word)


def _instruction(builder: SampleBuilder, row: Mapping[str, Any], size: tuple[int, int], screen: RecordScreen) -> Mapped:
    try:
        said = text_of(row, "instruction", INSTRUCTION)
        said = expression(said) or said
        point = row.get("coordinate", row.get("cordinate"))
        if "bbox" in row or point is None:
            builder.grounding(said, _box(row, size, INSTRUCTION), screen, 0, INSTRUCTION)
        else:
            at = pixel_point(point, size, INSTRUCTION)
            builder.point(said, at, screen, 0, INSTRUCTION, rules=["point_without_box"])
    except ItemError as error:
        builder.reject(error.reason, native=row, native_index=0, word=error.word, detail=error.detail)
    return builder.finish()
