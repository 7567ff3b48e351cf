"""Ids: pure functions of native content, so the same record has the same id on every run and machine."""

import datetime
import decimal
import hashlib
import json
import math
import uuid
from collections.abc import Iterator
from typing import Any

import orjson

GENERATED_SOURCE = "generated"
"""The source of the episodes that are made here: each is a trajectory of the generation loop, and its id is the
trajectory's."""


def canonical_json(value: object) -> str:
    """JSON with sorted keys, no blanks, UTF-8 characters as they are, floats by `repr`.

    Bytes are written as `{"sha256": …, "bytes": n}` (pictures never enter a text column), non-finite floats as texts
    ("nan", "inf"), which JSON has no numbers for; dates and times in ISO 8601, durations as `PT…S` of their seconds,
    decimals and UUIDs as their texts: all that an Arrow table can hold. Other types raise `ValueError`.
    """
    return _json_bytes(value).decode()


def _json_bytes(value: object) -> bytes:
    """`canonical_json` in UTF-8: by orjson, many times as fast, what it writes the same way."""
    # Only what both libraries write alike goes to the fast one, so a
    # digest never depends on which one wrote it.
    if not _is_plain(value):
        return _written_by_json(value)
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:  # a lone surrogate, a number of more than 64 bits, deep nesting
        return _written_by_json(value)


def _written_by_json(value: object) -> bytes:
    plain = _plain(value)
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


_TEXT = frozenset((str,))
_LEAVES = frozenset((str, int, bool, type(None)))


def _is_plain(value: Any) -> bool:
    """Whether a value holds only what orjson writes as `json` does, or refuses: of these very types, and floats in the
    range in which neither writes an exponent."""
    kind = type(value)
    if kind in _LEAVES:
        return True
    # Keys of other types are sorted and written differently by the two.
    if kind is dict:
        if not _TEXT.issuperset(map(type, value)):
            return False
        value = value.values()
    elif kind is not list and kind is not tuple:
        # Outside of this range exponents are written, in two ways.
        return kind is float and (1e-4 <= abs(value) < 1e16 or value == 0)
    return _LEAVES.issuperset(map(type, value)) or all(map(_is_plain, value))


def split_json_lines(text: str) -> list[str]:
    """Text of JSON lines → the lines, without their ends. `str.splitlines` would also cut at U+2028, U+2029 and U+0085,
    which `canonical_json` writes as they are: a record whose text holds one would come back in two pieces."""
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def texts_within(value: object) -> Iterator[str]:
    """All texts of a JSON value, but names."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from texts_within(inner)


def _plain(value: object) -> Any:
    if value is None or isinstance(value, str | bool | int):
        # A lone surrogate can't be written as UTF-8: keep it readable instead of failing the whole record.
        return value.encode("utf-8", "backslashreplace").decode("utf-8") if isinstance(value, str) else value
    if isinstance(value, float):
        return value if math.isfinite(value) else repr(value)
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bytes | bytearray):
        return {"sha256": hashlib.sha256(value).hexdigest(), "bytes": len(value)}
    if isinstance(value, datetime.date | datetime.time):  # a datetime is a date
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return f"PT{value / datetime.timedelta(seconds=1)!r}S"
    if isinstance(value, decimal.Decimal | uuid.UUID):
        return str(value)
    if hasattr(value, "item"):  # numpy scalar
        return _plain(value.item())
    raise ValueError(f"canonical JSON: expected plain data, found {type(value).__name__}")


def digest(value: object) -> str:
    """sha256 (hex) of the canonical JSON of a value."""
    return hashlib.sha256(_json_bytes(value)).hexdigest()


def sample_id(source: str, episode_id: str, step_index: int, deriver: str, version: int, k: int) -> str:
    """First 32 hex digits of sha256 over `[source, episode_id, step_index, deriver, version, k]`."""
    named = [source, episode_id, step_index, deriver, version, k]
    try:
        written = orjson.dumps(named)  # texts and whole numbers, as nearly always: no need to look for others
    # Lone surrogates, as in hostile file names.
    except orjson.JSONEncodeError:
        return digest(named)[:32]
    return hashlib.sha256(written).hexdigest()[:32]


def item_episode(source: str, episode_id: str) -> str:
    """`episode:<source>/<episode_id>`."""
    return f"episode:{source}/{episode_id}"


def item_step(source: str, episode_id: str, step_index: int) -> str:
    """`step:<source>/<episode_id>/<step_index>`."""
    return f"step:{source}/{episode_id}/{step_index}"


def item_sample(identifier: str) -> str:
    """`sample:<sample_id>`."""
    return f"sample:{identifier}"


def text_key(text: str) -> str:
    """What a cache knows a text by: 32 hex digits, the same however its blanks are; lone surrogates are no error."""
    return hashlib.sha256(" ".join(text.split()).encode("utf-8", "backslashreplace")).hexdigest()[:32]
