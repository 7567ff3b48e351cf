"""Jedi (OSWorld-G): icons, components and layouts of drawn and photographed desktops, as chats of one picture.

A raw line of `<subset>.jsonl` (made up, shortened); pictures lie in `images/<folder>/`:

    {"image": "a/b.png", "conversations": [
      {"from": "system", "value": "… The screen's resolution is 1920x1080. …"},
      {"from": "human", "value": "<image>\\nClick on the red star."},
      {"from": "gpt", "value": "<tool_call>\\n{\\"name\\": \\"computer_use\\", \\"arguments\\": {\\"action\\":
        \\"left_click\\", \\"coordinate\\": [960, 540]}}\\n</tool_call>"}]}

| native | unified |
|---|---|
| a click at a coordinate | "Where is <what is asked for>?" → the point |
| a box whose order is told (x, y, w, h or w, h, x, y) | the same with the box |
| a box in the question, a text as answer | what is at the centre of the box → the text |
| files named `refusal` | "Where is <what is asked for>?" → `[-1,-1]` |
| four numbers in no told order | quarantined: `bad_box` |
| a text about the whole picture | quarantined, `no_counterpart`: lone icons, described by their file names |

Coordinates are pixels: of the resolution that the prompt states, else of the picture. A picture of another shape than
the stated resolution isn't used (`image_misfit`); without picture and resolution the line is refused (`bad_frame`).
"""

import json
import posixpath
import re
from functools import partial
from typing import Any

from pipelines.derivers.grounding import expression
from pipelines.mapping.adapter import Adapter, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import SampleBuilder
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.frames import fitting_screen
from pipelines.mapping.items import ItemError, is_text, notices, unknown_fields
from pipelines.mapping.points import pixel_point
from pipelines.native.chat import ChatTurn, said_by, turns, without_pictures
from pipelines.native.named_boxes import unit_box
from pipelines.native.record_readers import count_of, json_lines
from pipelines.prompts import REFUSAL, grounding_text
from schemas.coordinates import ScreenBox
from schemas.ids import digest

POINT, BOX, REGION, ABSENT, OTHER = "click", "box", "description of a box", "refusal", "other answers"
_CALL = re.compile(r"<tool_call>\s*(\{.*\})\s*</tool_call>", re.DOTALL)
_RESOLUTION = re.compile(r"resolution is (\d{2,5})x(\d{2,5})")
_ORDER = re.compile(r"\b(x\s*,\s*y\s*,\s*w\s*,\s*h|w\s*,\s*h\s*,\s*x\s*,\s*y)\b", re.IGNORECASE)
_NAMED = re.compile(r"\b([xywh])\s*[=:]\s*(\d+(?:\.\d+)?)", re.IGNORECASE)
_FOUR = re.compile(r"[\[(]?\s*" + r"\s*,\s*".join([r"(\d+(?:\.\d+)?)"] * 4) + r"\s*[\])]?")

DESCRIPTOR = Descriptor(
    id="jedi",
    title="Jedi",
    licence="not stated (UNCONFIRMED)",
    platforms=("desktop",),
    objectives=("grounding", "perception"),
    size="about 4 million examples",
    citation="Xie et al., Scaling Computer-Use Grounding via User Interface Decomposition and Synthesis, "
    "arXiv 2505.13227",
    frame="pixels of the resolution that the prompt states, else of the picture",
    item_unit="question",
    known_problems=(
        "more than half of the clicks are on icons scattered over a blank canvas",
        "four in five boxes are the same picture and box with another wording",
        "one in seven questions is garbled by its template",
        "published with the OSWorld-G benchmark: whether screens overlap isn't known",
    ),
    loss=(
        Loss(POINT, "grounding sample", "kept"),
        Loss(BOX, "grounding sample", "kept", "dropped where the order of its numbers isn't told"),
        Loss(REGION, "perception sample", "kept"),
        Loss(ABSENT, "grounding sample [-1,-1]", "kept", "dropped if the answer points somewhere"),
        Loss(OTHER, "-", "dropped", "a text about the whole picture, an answer in no known form"),
    ),
    download=Download("xlangai/Jedi", files=("*.jsonl",)),
)


class JediAdapter(Adapter):
    """One record per line; lines have no id."""

    descriptor = DESCRIPTOR
    patterns = ("**/*.jsonl",)
    reader = partial(json_lines, count=count_of('"gpt"'))
    rows_alone = (".jsonl",)

    def count_items(self, record: Record) -> int:
        """Questions: turns of the human."""
        row = record.payload if isinstance(record.payload, dict) else {}
        return max(said_by(row.get("conversations"), "human", "user"), 1)

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One line → a sample a question. Raises `RecordError`: missing_field, bad_frame, unknown_role, unsafe_path."""
        row, items = record.payload, self.count_items(record)
        if not isinstance(row, dict) or not isinstance(row.get("image"), str):
            raise RecordError("missing_field", "expected image and conversations", items)
        chat = turns(row.get("conversations"), items)
        prompt = " ".join(turn.text for turn in chat if turn.role == "system")
        folder, name = posixpath.split(record.file)
        places = (f"images/{name.rpartition('.')[0]}", "images", posixpath.join(folder, "images"), folder, "")
        data = raw.first(dict.fromkeys(posixpath.join(place, row["image"]) for place in places), items)
        stated = _RESOLUTION.search(prompt)
        screen = fitting_screen(data, (int(stated[1]), int(stated[2]))) if stated else RecordScreen.load(data)
        builder = SampleBuilder(self.descriptor, record, record_id=digest(row))
        pairs = _pairs(chat)
        if not pairs:
            raise RecordError("missing_field", "expected questions with their answers", items)
        for place, (asked, said) in enumerate(pairs):
            try:
                _sample(builder, place, asked, said, prompt, screen, refusal="refusal" in record.file)
            except ItemError as error:
                builder.reject(
                    error.reason, native=[asked, said], native_index=place, word=error.word, detail=error.detail
                )
        return notices(builder.finish(), unknown_fields(row, frozenset({"image", "image_id", "conversations", "id"})))


def _pairs(chat: list[ChatTurn]) -> list[tuple[str, str]]:
    """Questions with their answers; answers that follow each other (a thought, then a call) are one."""
    pairs: list[tuple[str, str]] = []
    for turn in chat:
        if turn.role == "user":
            pairs.append((without_pictures(turn.text), ""))
        elif turn.role == "assistant" and pairs:
            pairs[-1] = (pairs[-1][0], f"{pairs[-1][1]}\n{turn.text}".strip())
    return pairs


def _sample(
    builder: SampleBuilder, place: int, asked: str, said: str, prompt: str, screen: RecordScreen, *, refusal: bool
) -> None:
    """Raises `ItemError`."""
    if not asked or not said or not is_text(asked + said):
        raise ItemError(
            "empty_text" if is_text(asked + said) else "bad_value", "a question or answer of no words", OTHER
        )
    assert screen.width_px is not None and screen.height_px is not None, "loaded without `normalised`"
    size, what = (screen.width_px, screen.height_px), expression(asked) or asked
    point = _clicked(said)
    if refusal:
        if point not in (None, [-1, -1]) or _FOUR.search(said):
            raise ItemError("bad_value", f"a refusal that points somewhere: {said[:60]!r}", ABSENT)
        builder.sample("grounding", grounding_text(what), REFUSAL, screen, place, ABSENT)
    elif point is not None:
        at = pixel_point(point, size, POINT)
        builder.point(what, at, screen, place, POINT, rules=["point_without_box"])
    elif (box := _box(said, prompt + asked, size, BOX)) is not None:
        builder.grounding(what, box, screen, place, BOX)
    elif (box := _box(asked, prompt, size, REGION)) is not None:
        builder.region(said, box, screen, place, REGION)
    else:
        raise ItemError("no_counterpart", "a text about the whole picture", OTHER)


def _clicked(said: str) -> Any:
    """The coordinate of the answer's call; None if it calls nothing. Raises `ItemError`: bad_json, missing_field."""
    call = _CALL.search(said)
    if call is None:
        return None
    try:
        coordinate = json.loads(call[1])["arguments"]["coordinate"]
    except (KeyError, TypeError) as error:
        raise ItemError("missing_field", f"expected a coordinate in {call[1][:80]!r}", OTHER) from error
    except (ValueError, RecursionError) as error:
        raise ItemError("bad_json", str(error)[:100], OTHER) from error
    return coordinate


def _box(text: str, context: str, size: tuple[int, int], word: str) -> ScreenBox | None:
    """The box that a text states, in 0..1000; None if it states none. Its order is told by the letters at its numbers,
    or by a list of them in the text or around it. Raises `ItemError`: bad_box, off_screen."""
    named = {letter.lower(): float(number) for letter, number in _NAMED.findall(text)}
    four = _FOUR.search(text)
    if len(named) < 4:
        if four is None:
            return None
        order = _ORDER.search(text) or _ORDER.search(context)
        if order is None:
            raise ItemError("bad_box", f"four numbers, and nothing tells their order: {text[:80]!r}", word)
        letters = re.findall(r"[xywh]", order[1].lower())
        named = dict(zip(letters, map(float, four.groups()), strict=True))
    left, top = named["x"], named["y"]
    return unit_box([left, top, left + named["w"], top + named["h"]], size, word)
