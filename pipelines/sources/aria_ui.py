"""Aria-UI: elements of web, phone and desktop screens, each with several instructions.

A raw element of `<platform>/aria_ui_<platform>….json` (made up; that web and mobile rows look like the desktop's is
UNCONFIRMED: what differs is refused as `missing_field`):

    {"img_file": "screen_1.png", "elements": [{"instructions": ["open the menu", "show more"],
     "bbox_norm": [10, 20, 60, 40]}]}

| native | unified |
|---|---|
| instruction | "Where is <what it points at>?" → the centre of its element's box |
| instruction that several elements bear | "What is at [x,y]?" → it (lossy: `ambiguous_name`) |
| box whose sides are all below 1 | quarantined, `bad_box`: fractions, where 0..1000 is expected |

The platform is that of the file's name. Pictures lie in `images/` or `screenshots/`; those of `mobile` are AMEX's.
"""

import posixpath
from collections.abc import Mapping
from functools import partial
from typing import Any

from pipelines.derivers.grounding import expression
from pipelines.mapping.adapter import Adapter, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import SampleBuilder
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.items import ItemError, notices, text_of, unknown_fields
from pipelines.native import named_boxes
from pipelines.native.named_boxes import Named
from pipelines.native.record_readers import count_of, field_id, json_list

WORD = "instruction"

DESCRIPTOR = Descriptor(
    id="aria_ui",
    title="Aria-UI",
    licence="Apache-2.0",
    platforms=("web", "mobile", "desktop"),
    objectives=("grounding", "perception"),
    size="2.9 million instructions of web, 1.1 million of mobile, 150,000 of desktop screens",
    citation="Yang et al., Aria-UI: Visual Grounding for GUI Instructions, arXiv 2412.16256",
    frame="0..1000 on both axes, left, top, right, bottom",
    record_unit="screen",
    item_unit="expression",
    known_problems=(
        "that web and mobile rows have the desktop's form isn't confirmed",
        "mobile pictures are AMEX's and come with that set; the same screens are in amex",
        "of the two desktop files one has no instructions: its elements are quarantined",
    ),
    loss=(
        Loss(WORD, "grounding sample", "kept", "lossy where several elements bear it; dropped without a usable box"),
    ),
    download=Download("Aria-UI/Aria-UI_Data", files=("*.json",), unpack=(("web/images.z*", "web/images"),)),
)


class AriaUiAdapter(Adapter):
    """One record per screen."""

    descriptor = DESCRIPTOR
    patterns = ("**/aria_ui_*.json",)
    reader = partial(json_list, of_id=field_id("img_file"), count=count_of('"bbox_norm"'))

    def count_items(self, record: Record) -> int:
        """Instructions of all elements; an element without any is one item."""
        return max(len(_instructions(record.payload)), 1)

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One screen → a sample an instruction. Raises `RecordError`: missing_field, unknown_platform, unsafe_path."""
        row, items = record.payload, self.count_items(record)
        if not isinstance(row, dict) or not isinstance(row.get("img_file"), str) or not _instructions(row):
            raise RecordError("missing_field", "expected img_file and a list of elements", items)
        folder, name = posixpath.split(record.file)
        platform = next((one for one in DESCRIPTOR.platforms if name.startswith(f"aria_ui_{one}")), None)
        if platform is None:
            raise RecordError(f"unknown_platform:{name[:40]}", f"expected one of {DESCRIPTOR.platforms}", items)
        places = (posixpath.join(folder, place, row["img_file"]) for place in ("images", "screenshots", ""))
        screen = RecordScreen.load(raw.first(places, items), normalised=True)
        good, failed, new = named_boxes.read_elements(
            _instructions(row), _element, frozenset({"instructions", "bbox_norm"}), WORD
        )
        builder = SampleBuilder(self.descriptor, record, record_id=row["img_file"], platform=platform)
        found = unknown_fields(row, frozenset({"img_file", "elements"}))
        return notices(named_boxes.emit(builder, screen, good, failed, new), found)


def _instructions(row: object) -> list[object]:
    """The elements of a screen, one an instruction: each holds one text in place of its list of texts."""
    listed = row.get("elements") if isinstance(row, Mapping) else None
    found: list[object] = []
    for element in listed if isinstance(listed, list) else []:
        texts = element.get("instructions") if isinstance(element, Mapping) else None
        many = isinstance(texts, list) and texts
        found += [{**element, "instructions": text} for text in texts] if many else [element]  # type: ignore[union-attr]
    return found


def _element(element: Any) -> Named:
    said, box = (
        text_of(element, "instructions", WORD),
        named_boxes.unit_box(element.get("bbox_norm"), (1000, 1000), WORD),
    )
    # A box of less than a unit in the corner is none: another frame was meant.
    if max(box) <= 1:
        raise ItemError("bad_box", f"{box}: fractions, expected 0..1000", WORD)
    return Named(expression(said) or said, box, WORD, drawn=False)
