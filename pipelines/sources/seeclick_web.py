"""SeeClick web grounding: link texts and hover texts of 270,000 rendered pages, a list of named boxes a page.

A raw element of the array `seeclick_web.json` (made up):

    {"img_filename": "5f3c.png", "url": "http://example.org/", "elements": [
        {"instruction": "Contact us", "bbox": [0.1, 0.02, 0.2, 0.05], "data_type": "text"}]}

| native | unified |
|---|---|
| text element | "Where is <text>?" → centre of its box; "What is at [x,y]?" → the text |
| hover element (title, alt: not drawn) | "Where is <text>?" alone |
| text that stands on several places of the page | "What is at [x,y]?" alone (lossy: `ambiguous_name`) |
| negative, inverted or empty box, over 1, text over 60 characters or with a template mark | rejected |

The chat form of the Aguvis copy is refused (`unknown_schema`): it is that of `aguvis_stage1`.
"""

from functools import partial
from typing import Any

from pipelines.mapping.adapter import Adapter, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import SampleBuilder
from pipelines.mapping.card import Descriptor, Loss
from pipelines.mapping.items import ItemError, notices, unknown_fields
from pipelines.native import named_boxes
from pipelines.native.named_boxes import Named
from pipelines.native.record_readers import count_of, field_id, json_list

FOLDERS = ("", "seeclick_web_imgs/", "images/")
MAX_CHARS = 60
"""The source's own loader drops longer texts, and those with a brace (`pretrain_process.py`)."""
_ROW = frozenset({"img_filename", "url", "elements"})
_ELEMENT = frozenset({"instruction", "bbox", "data_type"})

DESCRIPTOR = Descriptor(
    id="seeclick_web",
    title="SeeClick web",
    origin="https://github.com/njucckevin/SeeClick",
    licence="none stated (UNCONFIRMED; code Apache-2.0)",
    platforms=("web",),
    objectives=("grounding", "perception"),
    size="some 270,000 pages, 3 million elements",
    citation="Cheng et al., SeeClick: Harnessing GUI Grounding for Advanced Visual GUI Agents, arXiv 2401.10935",
    frame="fractions 0..1 of the picture, left, top, right, bottom",
    record_unit="screen",
    item_unit="element",
    known_problems=(
        "one text may stand on several places of a page",
        "hover texts are not visible",
        "re-hosted in OS-Atlas and Aguvis under the same picture names",
    ),
    loss=(
        Loss("text", "grounding and perception samples", "kept", "lossy where the text is ambiguous: perception alone"),
        Loss("hover", "grounding sample", "kept", "the text isn't drawn; lossy where it is ambiguous"),
        Loss(
            "element", "-", "dropped", "no text, a text over 60 characters or a template, no usable box, unknown type"
        ),
    ),
)


class SeeclickWebAdapter(Adapter):
    """One record per page."""

    descriptor = DESCRIPTOR
    version = 2
    items_at = ("elements",)
    patterns = ("**/*.json",)
    reader = partial(json_list, of_id=field_id("img_filename"), count=count_of('"bbox"'))

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One page → grounding and perception samples. Raises `RecordError`: unknown_schema, missing_field."""
        row = record.payload
        if isinstance(row, dict) and "conversations" in row:
            # That file is read elsewhere; rows of both would be the same twice.
            raise RecordError("unknown_schema", "a chat: see aguvis_stage1", max(len(row["conversations"]) // 2, 1))
        listed = row.get("elements") if isinstance(row, dict) else None
        if not isinstance(listed, list) or not isinstance(row.get("img_filename"), str):
            raise RecordError("missing_field", "expected img_filename and a list of elements")
        good, failed, new = named_boxes.read_elements(listed, _element, _ELEMENT, "element")
        data = raw.first((folder + row["img_filename"] for folder in FOLDERS), len(listed))
        screen = RecordScreen.load(data, named_boxes.screen_elements(good), normalised=True)
        builder = SampleBuilder(self.descriptor, record, record_id=row["img_filename"])
        return notices(named_boxes.emit(builder, screen, good, failed, new), unknown_fields(row, _ROW))


def _element(element: Any) -> Named:
    kind, name = element.get("data_type"), element.get("instruction")
    if kind not in ("text", "hover"):
        raise ItemError(f"unknown_action:{str(kind)[:60]}", "data_type: expected text or hover", "element")
    if not isinstance(name, str):
        raise ItemError("missing_field", f"instruction: expected a text, found {name!r:.60}", "element")
    # Such texts are code of the page, which nobody sees.
    if len(name) > MAX_CHARS or "{" in name or "}" in name:
        raise ItemError("bad_value", f"a text of {len(name)} characters, or a template: {name[:60]!r}", "element")
    if not name.strip():
        raise ItemError("empty_text", "the element has no text", "element")
    box = named_boxes.unit_box(element.get("bbox"), (1.0, 1.0), "element")
    return Named(name, box, kind, "link" if kind == "text" else "", drawn=kind == "text")
