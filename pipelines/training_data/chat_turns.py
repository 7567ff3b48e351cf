"""The chat of a packed sample: typed turns in the order in which they're trained, the answer as the last of them.

    [{role: user, content: [{type: text, text: "Where is Cart?", image_index: null},
                            {type: image, text: null, image_index: 0}]},
     {role: assistant, content: [{type: text, text: "[250,140]", image_index: null}]}]

Other trainers read this form as it is: a list with roles is what they call conversational. Tables before the shards
(`schemas.tables.Samples`), and shards that were packed before this form, keep the prompt as JSON and the answer beside
it. `prompts` reads either column into that JSON, so that training sees the same text whenever a shard was packed.
"""

import json
from collections.abc import Iterator
from itertools import count
from json.encoder import encode_basestring
from typing import TypedDict

import pyarrow as pa

PART = pa.struct([("type", pa.string()), ("text", pa.string()), ("image_index", pa.int32())])
TURNS = pa.list_(pa.struct([("role", pa.string()), ("content", pa.list_(PART))]))
"""Type of the column `messages` of a shard."""
MEANING = "the chat as it trains, the answer as its last turn; a picture by its place in `images`"


class Part(TypedDict):
    """A part of a turn: `text` of a text, `image_index` (place in the row's pictures, from 0) of a picture."""

    type: str
    text: str | None
    image_index: int | None


class Turn(TypedDict):
    """What one side says."""

    role: str
    content: list[Part]


def trained_turns(messages: str, answer: str) -> list[Turn]:
    """A prompt as canonical JSON and the answer → all turns. Raises `ValueError` if the prompt is no JSON chat."""
    try:
        # Numbered over all turns: `image_index` is the place among the row's pictures.
        pictures = count()
        turns = [_turn(turn["role"], turn["content"], pictures) for turn in json.loads(messages)]
    except (KeyError, TypeError) as error:
        raise ValueError(f"messages: expected a JSON chat, found {messages[:80]!r}") from error
    return [*turns, _turn("assistant", answer, pictures)]


def _turn(role: str, content: object, pictures: Iterator[int]) -> Turn:
    given = [{"type": "text", "text": content}] if isinstance(content, str) else content
    if not isinstance(given, list):
        raise TypeError(f"expected a text or a list of parts, found {type(content).__name__}")
    parts: list[Part] = [
        {
            "type": part["type"],
            "text": part.get("text"),
            "image_index": next(pictures) if part["type"] == "image" else None,
        }
        for part in given
    ]
    return {"role": role, "content": parts}


def prompts(column: pa.ChunkedArray) -> list[str]:
    """The column `messages` of either form → each row's prompt as canonical JSON."""
    if pa.types.is_string(column.type):
        whole: list[str] = column.to_pylist()
        return whole
    # Flat columns instead of a dict a part: this runs for every row that trains, and nested lists would halve its rate.
    # Without a copy where there is one piece, as there is for a row group.
    rows = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    turns = rows.values
    contents = turns.field("content")
    kinds, texts = (contents.values.field(name).to_pylist() for name in ("type", "text"))
    # The JSON that `canonical_json` gives: sorted keys, no spaces, text as Python's encoder escapes it.
    written = [
        f'{{"type":{encode_basestring(kind)}}}'
        if text is None
        else f'{{"text":{encode_basestring(text)},"type":{encode_basestring(kind)}}}'
        for kind, text in zip(kinds, texts, strict=True)
    ]
    ends = contents.offsets.to_pylist()
    said = [
        f'{{"content":[{",".join(written[start:end])}],"role":{encode_basestring(role)}}}'
        # Bounds are one more than rows, so the zips end with the shorter side.
        for role, start, end in zip(turns.field("role").to_pylist(), ends, ends[1:], strict=False)
    ]
    bounds = rows.offsets.to_pylist()
    # Less one turn: the last is the answer.
    return [f"[{','.join(said[start : end - 1])}]" for start, end in zip(bounds, bounds[1:], strict=False)]


def with_prompts(table: pa.Table) -> pa.Table:
    """A table with its `messages` as JSON, whichever form they have; one without that column as it is."""
    place = table.schema.get_field_index("messages")
    if place < 0 or pa.types.is_string(table.schema.field(place).type):
        return table
    return table.set_column(place, "messages", pa.array(prompts(table["messages"]), pa.string()))
