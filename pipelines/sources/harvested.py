"""Harvested: web pages and desktop programs as Vesper's own harvesters read them (`vesper harvest`), hit-tested.

A raw line of `screens.jsonl` (made up; pictures lie in `images/`, named by their SHA-256):

    {"screenshot": "images/5f3c….png", "size_px": [1280, 800], "platform": "web", "app": "datasette", "page": "/shop",
     "scroll_px": 0, "absent": ["Sign out"], "elements": [{"box_px": [10, 20, 60, 40], "role": "link", "name": "orders",
     "text": "orders", "expressions": ["orders", "the link \\"orders\\""]}]}

| native | unified |
|---|---|
| each of an element's `expressions` | "Where is <expression>?" → centre of its box |
| an element with a name and no text | also a caption: what the unlabelled element at the point is → its name |
| an element that nothing unique can be said of | stays in the screen's list of elements |
| `absent` | "Where is <name>?" → `[-1,-1]`: another page says it, this whole page doesn't |
| `app`, `route`, `scroll_px` | - |

Boxes are pixels of the picture. A screen of which nothing can be said is quarantined whole (`empty_text`).
"""

import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from pipelines.mapping.adapter import Adapter, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import SampleBuilder
from pipelines.mapping.card import Descriptor, Loss
from pipelines.mapping.frames import whole_sides
from pipelines.mapping.items import ItemError, is_text, notices, unknown_fields
from pipelines.native import named_boxes
from pipelines.native.named_boxes import Named
from pipelines.native.record_readers import count_of, field_id, json_lines
from pipelines.prompts import REFUSAL, caption_text, grounding_text
from schemas.coordinates import centre_in_units

ELEMENT, ABSENT = "element", "absent"
PLATFORMS = ("web", "mobile", "desktop")
PICTURE = re.compile(r"images/[0-9a-f]{64}\.png")
CAPTION_K = 1000
"""The caption's number among an element's samples; expressions count from 0."""
_ROW = frozenset({"screenshot", "size_px", "platform", "app", "page", "route", "scroll_px", "absent", "elements"})
_ELEMENT = frozenset({"box_px", "role", "name", "text", "expressions"})

DESCRIPTOR = Descriptor(
    id="harvested",
    title="Harvested screens",
    origin="made on the spot with `vesper harvest`",
    licence="that of the pages and programs that were harvested (UNCONFIRMED)",
    platforms=PLATFORMS,
    language="multi",
    objectives=("grounding", "perception"),
    size="as much as is harvested",
    citation="methods: Gou et al., UGround, arXiv 2410.05243; Wu et al., OS-Atlas, arXiv 2410.23218",
    frame="pixels of the picture, left, top, right, bottom",
    record_unit="screen",
    item_unit="element",
    known_problems=(
        "names are what the page or program says of itself, which may be wrong or missing",
        "an expression is unique among the elements that were read; drawings without markup are not",
    ),
    loss=(
        Loss(
            ELEMENT, "grounding samples, a caption where no text is drawn", "kept", "without expressions: listed only"
        ),
        Loss(ABSENT, "refusal sample", "kept"),
        Loss("app, route, scroll_px", "-", "lossy", "stay in the raw file"),
    ),
)


class HarvestedAdapter(Adapter):
    """One record per screen."""

    descriptor = DESCRIPTOR
    version = 2
    items_at = ("elements", "absent")
    patterns = ("**/screens.jsonl",)
    reader = partial(json_lines, of_id=field_id("screenshot"), count=count_of('"box_px"'))
    rows_alone = (".jsonl",)

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One screen → samples. Raises `RecordError`: missing_field, unknown_platform, bad_value, bad_frame,
        empty_text."""
        row = record.payload
        listed = row.get("elements") if isinstance(row, dict) else None
        if not isinstance(listed, list) or not isinstance(row.get("screenshot"), str):
            raise RecordError("missing_field", "expected screenshot and a list of elements")
        # Names that nothing on the screen bears: asking for them should be refused.
        absent = row.get("absent") or []
        items = max(len(listed) + (len(absent) if isinstance(absent, list) else 0), 1)
        size = _size(row, items)
        good, failed, new = named_boxes.read_elements(
            listed, lambda element: _element(element, size), _ELEMENT, ELEMENT
        )
        # A screen of which nothing is said teaches nothing.
        if not any(_expressions(listed[index]) for index, _ in good):
            raise RecordError("empty_text", "nothing is said of any element", items)
        shown = [_listed(one, listed[at]) for at, one in good]
        screen = RecordScreen.load(_picture(record, raw, row["screenshot"], items), shown, frame=size)
        # pages and programs may look the same: the line tells records apart
        builder = SampleBuilder(
            self.descriptor, record, record_id=f"{record.file}#{record.locator}", platform=row["platform"]
        )
        for index, element, error in failed:
            builder.reject(error.reason, native=element, native_index=index, word=error.word, detail=error.detail)
        for index, one in good:
            _samples(builder, screen, index, one, listed[index])
        _refusals(builder, screen, absent, len(listed))
        return notices(builder.finish(), [*new, *unknown_fields(row, _ROW)])


def _size(row: Mapping[str, object], items: int) -> tuple[int, int]:
    if row.get("platform") not in PLATFORMS:
        raise RecordError(f"unknown_platform:{str(row.get('platform'))[:40]}", f"expected one of {PLATFORMS}", items)
    size = whole_sides(row.get("size_px"))
    if size is None:
        raise RecordError("bad_frame", f"size_px: expected two whole numbers, found {row.get('size_px')!r:.60}", items)
    return size


def _picture(record: Record, raw: Raw, name: str, items: int) -> bytes | None:
    """The picture lies beside its file of lines. A name that leads elsewhere is refused."""
    if not PICTURE.fullmatch(name):
        raise RecordError("bad_value", f"screenshot: expected images/<sha256>.png, found {name[:80]!r}", items)
    folder = record.file.rpartition("/")[0]
    return raw.first([f"{folder}/{name}" if folder else name], items)


def _expressions(element: Mapping[str, object]) -> list[str]:
    said = element.get("expressions")
    return said if isinstance(said, list) else []


def _element(element: Any, size: tuple[int, int]) -> Named:
    texts = [element.get(name) for name in ("role", "name", "text")]
    if not all(isinstance(text, str) and is_text(text) for text in [*texts, *_expressions(element)]):
        raise ItemError("missing_field", "role, name, text, expressions: expected Unicode texts", ELEMENT)
    box = named_boxes.unit_box(element.get("box_px"), size, ELEMENT)
    role, name, text = (str(one) for one in texts)
    # what has no name is called by what it is; the samples ask for expressions, never for this
    return Named(name.strip() or text.strip() or role or "element", box, ELEMENT, role, drawn=bool(text.strip()))


def _listed(one: Named, element: Mapping[str, object]) -> dict[str, Any]:
    """An element of the `screens` table."""
    return {"box": list(one.box), "role": one.role, "text": element["text"], "name": element["name"]}


def _samples(builder: SampleBuilder, screen: RecordScreen, index: int, one: Named, element: Mapping[str, Any]) -> None:
    said = [expression for expression in _expressions(element) if expression.strip()]
    for k, expression in enumerate(said):
        # The same element in other words is one native item.
        builder.grounding(expression, one.box, screen, index, ELEMENT, k=k, count=k == 0)
    if not said:
        builder.count(ELEMENT, 1)
    elif not one.drawn and element["name"].strip():
        # What is drawn can be read off the screen; a caption is asked only where it can't.
        asked = caption_text(*centre_in_units(one.box))
        builder.sample(
            "perception",
            asked,
            element["name"].strip(),
            screen,
            index,
            ELEMENT,
            k=CAPTION_K,
            count=False,
            target_boxes=[one.box],
        )


def _refusals(builder: SampleBuilder, screen: RecordScreen, absent: object, first: int) -> None:
    for number, name in enumerate(absent if isinstance(absent, list) else [absent]):
        if isinstance(name, str) and name.strip() and is_text(name):
            builder.sample("grounding", grounding_text(name), REFUSAL, screen, first + number, ABSENT)
        else:
            builder.reject(
                "bad_value",
                native=name,
                native_index=first + number,
                word=ABSENT,
                detail=f"absent: expected a name, found {name!r:.60}",
            )
