"""GUIChat (GUICourse): dialogues about web pages full of text.

A raw row (element of `guichat_data.json`; pictures in `guichat_images.parquet`, in a column called base64 that holds
the picture's bytes themselves):

    {"uid": "guichat_0", "image_id": "page_0", "text": [
      {"from": "human", "value": "<image>page_0</image>\\nWhere is the search field?"},
      {"from": "gpt", "value": "At the top right <box>700 20 950 60</box>."}]}

| native | unified |
|---|---|
| a human turn and the gpt turn after it | a vqa sample; earlier turns stand before a later question |
| `<box>` in an answer | stays in the text (0..1000, left top right bottom), and is a target box |
| a human turn without an answer | rejected (`missing_field`) |

An answer with a box outside 0..1000 or without area is rejected (`off_screen`, `bad_box`, `bad_value`).
"""

import re
from functools import partial
from typing import Any

from pipelines.mapping.adapter import Adapter, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import SampleBuilder
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.items import ItemError, is_text, notices, unknown_fields
from pipelines.native import guicourse
from pipelines.native.chat import ChatTurn, said_by, turns, without_pictures
from pipelines.native.record_readers import count_of, field_id, json_list
from schemas.coordinates import ScreenBox
from schemas.ids import digest

_KNOWN = frozenset({"uid", "image_id", "text"})
_BOX = re.compile(r"<box>[^<>]*</box>")
WORD = "exchange"

DESCRIPTOR = Descriptor(
    id="guichat",
    title="GUIChat (GUICourse)",
    licence="CC-BY-4.0",
    platforms=("web",),
    objectives=("vqa",),
    size="44,000 dialogues of one turn, 6,000 of several",
    citation="Chen et al., GUICourse: From General Vision Language Model to Versatile GUI Agent, arXiv 2406.11317",
    frame="boxes in answers: 0..1000, left top right bottom, separated by blanks",
    record_unit="dialogue",
    item_unit="question",
    known_problems=("dialogues are written by a model", "the column base64 holds bytes"),
    loss=(Loss(WORD, "vqa", "kept", "earlier turns stand in the prompt of a later one"),),
    download=Download("yiye2023/GUIChat"),
)


class GuichatAdapter(Adapter):
    """One record per dialogue."""

    descriptor = DESCRIPTOR
    version = 2
    patterns = (f"**/*{guicourse.DATA}",)
    reader = partial(json_list, of_id=field_id("uid"), count=count_of('"human"'))

    def count_items(self, record: Record) -> int:
        """As many as the chat has turns of human."""
        payload = record.payload if isinstance(record.payload, dict) else {}
        return max(said_by(payload.get("text"), "human", "user"), 1)

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One dialogue → a sample per question. Raises `RecordError`: bad_value, missing_field, unknown_role."""
        row: Any = record.payload
        if not isinstance(row, dict):
            raise RecordError("bad_value", f"expected an object, found {type(row).__name__}")
        listed = row.get("text")
        asked = (
            [turn for turn in listed if isinstance(turn, dict) and turn.get("from") == "human"]
            if isinstance(listed, list)
            else []
        )
        found = turns(listed, max(1, len(asked)))
        builder = SampleBuilder(
            self.descriptor,
            record,
            record_id=record.native_id or digest(row),
            split=guicourse.split_of_file(record.file),
        )
        _dialogue(builder, found, guicourse.screen_of(raw, record.file, row, encoded=False))
        return notices(builder.finish(), unknown_fields(row, _KNOWN))


def _dialogue(builder: SampleBuilder, found: list[ChatTurn], screen: RecordScreen) -> None:
    """A sample for each question. What was said before is part of the prompt: a later question leans on it."""
    before: list[str] = []
    number = 0
    for place, turn in enumerate(found):
        text = without_pictures(turn.text)
        if turn.role == "user":
            # The answer is the very next turn, or there is none.
            after = found[place + 1] if place + 1 < len(found) else None
            answer = without_pictures(after.text) if after is not None and after.role == "assistant" else None
            native = {"question": turn.text, "answer": after.text if answer is not None and after else None}
            try:
                boxes = _checked(text, answer)
                assert answer is not None
                builder.sample(
                    "vqa",
                    "\n\n".join([*before, text]),
                    answer,
                    screen,
                    number,
                    WORD,
                    target_boxes=boxes,
                    rules=["earlier_turns_in_prompt"] if before else [],
                )
            except ItemError as error:
                builder.reject(error.reason, native=native, native_index=number, word=WORD, detail=error.detail)
            number += 1
        # Also what was rejected: later questions were asked after it.
        before.append(text)


def _checked(question: str, answer: str | None) -> list[ScreenBox]:
    """The boxes of a sound answer, in 0..1000. Raises `ItemError`."""
    if answer is None:
        raise ItemError("missing_field", "no answer follows the question", WORD)
    if not question or not answer:
        raise ItemError("empty_text", "question or answer", WORD)
    if not is_text(question) or not is_text(answer):
        raise ItemError("bad_value", "a lone surrogate: no Unicode text", WORD)
    return [guicourse.unit_box(tag, WORD, 1000.0) for tag in _BOX.findall(answer)]
