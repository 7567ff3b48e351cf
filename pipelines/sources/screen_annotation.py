"""ScreenAI Screen Annotation: nested lists of the elements of Rico screens, with captions, as one line of text.

A raw row of `valid.csv` (header `screen_id,screen_annotation`; shortened):

    11107,"PICTOGRAM three bars 0 132 30 109, TOOLBAR 0 999 31 109 (TEXT Account 171 352 54 84), ..."

An element is `CLASS TEXT x_min x_max y_min y_max` (the x pair first), its children follow in parentheses. Texts hold
commas, parentheses and digits: an element ends at the first four integers after which the syntax goes on.

| native | unified |
|---|---|
| whole row | a perception sample "List the elements.": `CLASS text`, one line an element, parents before children |
| element, innermost at its own centre | a perception sample "What is at [x,y]?" → `CLASS text` |
| TEXT, BUTTON whose text is unique on the screen | a grounding sample "Where is <text>?" → its centre |
| every element | screens.elements: role = class in lower case, name = text = caption |
| element with a side below 0, above 999, swapped or of no length | rejected (`bad_box`), its children stay |

The grid 0..999 isn't stretched to 1000. Pictures come from the companion `rico`
(`combined/<screen_id>.jpg`); without it the samples have no picture (`image_missing`).
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import SampleBuilder
from pipelines.mapping.card import Descriptor, Loss
from pipelines.native import rico
from pipelines.native.record_readers import csv_rows, field_id
from pipelines.prompts import LIST_QUESTION, point_text
from schemas.coordinates import contains

COLUMNS = ("screen_id", "screen_annotation")
CLASSES = (
    "PICTOGRAM",
    "TEXT_INPUT",
    "TEXT",
    "LIST_ITEM",
    "BUTTON",
    "IMAGE",
    "LABEL",
    "TOOLBAR",
    "NAVIGATION_BAR",
    "CHECKBOX",
    "RADIO_BUTTON",
    "SWITCH",
    "PAGER_INDICATOR",
    "KEYBOARD",
    "MAP",
    "ADVERTISEMENT",
    "VIDEO",
    "SLIDER",
    "PROGRESS_BAR",
    "SPINNER",
    "DATE_PICKER",
    "RATING_BAR",
    "WEB_VIEW",
    "CARD",
    "MODAL",
    "DRAWER",
    "TABLE",
)
"""The 14 classes seen, and classes that may turn up: a word in capitals that isn't listed would be taken for text."""
_CLASS = rf"(?:{'|'.join(CLASSES)})"
_ELEMENT = re.compile(
    rf"({_CLASS})\b(.*?) (-?\d{{1,9}}) (-?\d{{1,9}}) (-?\d{{1,9}}) (-?\d{{1,9}})"
    rf"(?=\s*$|, ?{_CLASS}\b| \({_CLASS}\b|\)+(?:\s*$|, ?{_CLASS}\b))",
    re.DOTALL,
)
_START = re.compile(rf"(?:^|(?<=[(,] )|(?<=[(,])){_CLASS}\b")
MAX_CHARS = 100_000
GRID_MAX = 999

DESCRIPTOR = Descriptor(
    id="screen_annotation",
    title="ScreenAI Screen Annotation",
    origin="https://github.com/google-research-datasets/screen_annotation",
    licence="CC-BY-4.0",
    platforms=("mobile",),
    objectives=("perception", "grounding"),
    size="15,743 / 2,364 / 4,310 screens (train / validation / test) by its README; valid.csv has 2,311 rows",
    citation="Baechler et al., ScreenAI: A Vision-Language Model for UI and Infographics Understanding, 2402.04615",
    frame="a grid of 0..999 on both axes, x_min x_max y_min y_max, origin top left",
    record_unit="screen",
    item_unit="element",
    known_problems=(
        "captions of pictograms and images are written by a model, some are absurd",
        "negative and degenerate boxes",
        "fewer rows than the README says",
    ),
    loss=(
        Loss(
            "element",
            "perception sample",
            "kept",
            "asked by its centre; TEXT and BUTTON with a unique text also by name",
        ),
        Loss(
            "element/listed",
            "line of the element list",
            "kept",
            "another element covers its centre, or TEXT without text",
        ),
        Loss("element/bad", "-", "dropped", "bad_box: a side is below 0, above 999, swapped or of no length"),
        Loss(
            "element/unread",
            "-",
            "dropped",
            "bad_value: the text can't be read from here on; its elements are counted by their class words",
        ),
        Loss("nesting", "order of the list", "lossy", "parents stand before their children; the depth is not written"),
    ),
    companions=(rico.COMPANION,),
)


@dataclass(frozen=True, slots=True)
class AnnotationNode:
    """One element as written. `box` is left, top, right, bottom on the grid; `depth` 0 is the screen's own list."""

    kind: str
    text: str
    box: tuple[int, int, int, int]
    depth: int

    @property
    def area(self) -> int:
        return (self.box[2] - self.box[0]) * (self.box[3] - self.box[1])

    @property
    def centre(self) -> tuple[int, int]:
        return (self.box[0] + self.box[2] + 1) // 2, (self.box[1] + self.box[3] + 1) // 2

    @property
    def line(self) -> str:
        """`CLASS text`"""
        return f"{self.kind} {self.text}".strip()

    @property
    def sound(self) -> bool:
        left, top, right, bottom = self.box
        return 0 <= left < right <= GRID_MAX and 0 <= top < bottom <= GRID_MAX


def parse_annotation(text: str) -> tuple[list[AnnotationNode], str]:
    """The elements of an annotation, parents before children, and what could not be read ("" if all was).

    A stack holds the open parentheses. Reading stops where the syntax breaks: at a text without four integers, a `)`
    too many, or an end with parentheses open (then all elements are returned, and the rest is the missing `)`).
    """
    nodes: list[AnnotationNode] = []
    stack: list[AnnotationNode] = []
    at, end = 0, len(text.rstrip())
    # Longer texts aren't annotations, and would keep the pattern busy.
    if end > MAX_CHARS:
        return [], text
    while at < end:
        match = _ELEMENT.match(text, at)
        if match is None:
            return nodes, text[at:]
        kind, words = match.group(1), match.group(2)
        # Left, right, top, bottom is the source's order.
        left, right, top, bottom = (int(value) for value in match.groups()[2:])
        nodes.append(AnnotationNode(kind, " ".join(words.split()), (left, top, right, bottom), len(stack)))
        at = match.end()
        if text.startswith(" (", at):
            stack.append(nodes[-1])
            at += 2
            continue
        while at < end and text[at] == ")":
            if not stack:
                return nodes, text[at:]
            stack.pop()
            at += 1
        if at < end:  # the pattern allows only a comma here
            at += 2 if text.startswith(", ", at) else 1
    return nodes, ")" * len(stack)


def _items(text: str) -> int:
    return max(len(_START.findall(text)), 1)


class ScreenAnnotationAdapter(Adapter):
    """One record per screen."""

    descriptor = DESCRIPTOR
    patterns = ("**/*.csv",)

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """One row at a time; a row that is no UTF-8 or has another number of columns is broken on its own."""
        for file in files:
            yield from csv_rows(raw, file, COLUMNS, of_id=field_id("screen_id"), count=_items)

    def count_items(self, record: Record) -> int:
        """Elements that the annotation begins to list."""
        return _items(str(record.payload.get("screen_annotation")))

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One screen → perception and grounding samples. Raises `RecordError`: unsafe_path, empty_text, bad_value."""
        row: dict[str, str] = record.payload
        text = row["screen_annotation"]
        expected = _items(text)
        if not text.strip():
            raise RecordError("empty_text", "the annotation is empty")
        screen_id = rico.screen_id(row["screen_id"], expected)
        # What was read before the damage is used.
        nodes, rest = parse_annotation(text)
        if not nodes:
            raise RecordError("bad_value", f"no element could be read: {text[:80]!r}", items=expected)
        sound = [node for node in nodes if node.sound]
        elements = [
            {"box": [float(side) for side in node.box], "role": node.kind.lower(), "text": node.text, "name": node.text}
            for node in sound
        ]
        screen = RecordScreen.load(rico.picture(raw, screen_id), elements, normalised=True)
        builder = SampleBuilder(self.descriptor, record, record_id=screen_id, split=rico.file_split(record.file))
        listed = _emit(builder, nodes, sound, screen)
        # Parentheses alone lose no element.
        if rest.strip(")"):
            builder.reject(
                "bad_value",
                native=rest,
                native_index=len(nodes),
                word="element/unread",
                items=_items(rest),
                detail="expected CLASS text and four integers, or a parenthesis too many",
            )
        builder.count("element/listed", listed)
        return builder.finish()


def _emit(
    builder: SampleBuilder, nodes: list[AnnotationNode], sound: list[AnnotationNode], screen: RecordScreen
) -> int:
    """The samples; returns how many elements stand only in the list."""
    listed = 0
    # Text that stands twice points at neither.
    names = Counter(node.text.casefold() for node in nodes)
    for index, node in enumerate(nodes):
        if not node.sound:
            native = {"class": node.kind, "text": node.text, "box": list(node.box)}
            builder.reject("bad_box", native=native, native_index=index, word="element/bad", detail=f"{node.box}")
            continue
        box = [float(side) for side in node.box]
        # At its centre one would see whatever lies on top.
        if _innermost(node, sound) and (node.text or node.kind != "TEXT"):
            builder.sample(
                "perception",
                point_text(*node.centre),
                node.line,
                screen,
                index,
                "element",
                target_boxes=[box],
                rules=["innermost_at_its_centre"],
            )
        else:
            listed += 1
        if node.kind in ("TEXT", "BUTTON") and node.text and names[node.text.casefold()] == 1:
            rules = ["unique_text", "centre_of_box"]
            builder.point(
                node.text, node.centre, screen, index, "element", k=1, count=False, target_boxes=[box], rules=rules
            )
    # The whole list once, as the source writes it.
    if sound:
        builder.sample(
            "perception",
            LIST_QUESTION,
            "\n".join(node.line for node in sound),
            screen,
            len(nodes),
            "element",
            k=2,
            count=False,
            target_boxes=[[float(v) for v in n.box] for n in sound],
            rules=["native_order"],
        )
    return listed


def _innermost(node: AnnotationNode, nodes: list[AnnotationNode]) -> bool:
    """Whether no other element of the same or a smaller size holds the centre."""
    return not any(
        other is not node and other.area <= node.area and contains(other.box, node.centre) for other in nodes
    )
