"""Streams the elements of a JSON array file: a shard of some hundred megabytes is never held whole."""

import codecs
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CHUNK_CHARS = 1 << 20
_BLANK = re.compile(r"[\s\ufeff]*")
_CUT = 64
"""An error this close to the end of what was read may be the cut, not the file."""


@dataclass(frozen=True, slots=True)
class ArrayDamage:
    """Where an array can't be read on: reason (`bad_json`, `truncated_record`), detail, the text from there on."""

    reason: str
    detail: str
    rest: str


def elements(path: Path, chunk_chars: int = CHUNK_CHARS) -> Iterator[tuple[int, Any | ArrayDamage]]:
    """(index, element) of a UTF-8 JSON array, one element in memory at a time; a `ArrayDamage` ends the stream.

    Reads on by doubling, so that an element is decoded a few times at most, whatever its size.
    """
    decoder, index, buffer, done = json.JSONDecoder(), 0, "", False
    opened, undecoded = False, ("", "")
    # A character may lie across two pieces.
    utf8 = codecs.getincrementaldecoder("utf-8")()
    with path.open("rb") as file:
        step = chunk_chars
        while True:
            at = _BLANK.match(buffer).end()  # type: ignore[union-attr]
            buffer = buffer[at:]
            want = not buffer
            if buffer and not opened:
                if buffer[0] != "[":
                    yield index, ArrayDamage("bad_value", f"expected a JSON array, found {buffer[:40]!r}", buffer)
                    return
                opened, buffer = True, buffer[1:]
                continue
            if buffer and buffer[0] == "]":
                yield from _trailing(index, buffer[1:] + undecoded[1])
                return
            if buffer and not want:
                if buffer[0] == "," and index:
                    buffer = buffer[1:]
                    continue
                try:
                    value, end = decoder.raw_decode(buffer)
                    # A number at the end of a piece may go on in the next.
                    if end < len(buffer) or done:
                        yield index, value
                        index, buffer, step = index + 1, buffer[end:], chunk_chars
                        continue
                except (json.JSONDecodeError, RecursionError) as error:
                    # An error at the very end may be that more is to come.
                    cut = not isinstance(error, RecursionError) and _may_be_cut(error, buffer)
                    if done or not cut:
                        ended = cut and is_cut(error, buffer)  # type: ignore[arg-type]
                        reason = "truncated_record" if ended else "bad_json"
                        yield index, ArrayDamage(undecoded[0] or reason, undecoded[1] or str(error), buffer)
                        return
            if done:
                why = undecoded[1] or "the file ends before the array does"
                yield index, ArrayDamage(undecoded[0] or "truncated_record", why, buffer)
                return
            data = file.read(step)
            try:
                more = utf8.decode(data, final=not data)
            except UnicodeDecodeError as error:  # what stands before it is read all the same
                undecoded = ("bad_json" if data else "truncated_record", f"not UTF-8: {error.reason}")
                more, data = error.object[: error.start].decode(), b""
            # Doubled until the element fits: a large one is decoded a few times, not once a piece.
            done, buffer, step = not data, buffer + more, step * 2


def _may_be_cut(error: json.JSONDecodeError, buffer: str) -> bool:
    return error.msg.startswith("Unterminated string") or error.pos >= len(buffer.rstrip()) - _CUT


def is_cut(error: json.JSONDecodeError, buffer: str) -> bool:
    """Of a text that ends here: whether the error is that it ends, and not what stands in it."""
    rest = buffer[error.pos :].strip()
    token = any(word.startswith(rest) for word in ("true", "false", "null"))
    return (
        error.msg.startswith(("Unterminated string", "Invalid \\uXXXX"))
        or token
        or error.pos >= len(buffer.rstrip()) - 1
    )


def _trailing(index: int, rest: str) -> Iterator[tuple[int, ArrayDamage]]:
    if rest.strip():
        yield index, ArrayDamage("bad_json", f"text after the array: {rest.strip()[:40]!r}", rest)
