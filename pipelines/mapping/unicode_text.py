"""Texts as tables hold them: a lone surrogate refuses its record, since no table can hold it; U+0000, which means
nothing on a screen and ends a text for many readers, is left out. What is native stays as it was.
"""

import json
from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.mapping.adapter import RecordError


def check_texts(payload: object, items: int | None = None) -> None:
    """A plain JSON value. Raises `RecordError("bad_value")` if a text in it (or a key) holds a lone surrogate; `items`
    native items go with it."""
    try:
        # Encoding is the test: surrogates are what UTF-8 can't write.
        json.dumps(payload, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise RecordError("bad_value", f"a text holds a lone surrogate: {error.reason}", items) from error


_NATIVE = ("native_action", "provenance", "native")
_ESCAPED = r"((?:^|[^\\])(?:\\\\)*)\\u0000"
"""U+0000 within JSON text, an odd number of backslashes before the u."""


def without_nul(table: pa.Table) -> tuple[pa.Table, int]:
    """(the table with U+0000 left out of its texts and chats, how many cells held one)."""
    cells = 0
    for place, name in enumerate(table.column_names):
        column = table.column(place)
        # What is native stays as it was, as evidence.
        if name in _NATIVE or not pa.types.is_string(column.type):
            continue
        raw = pc.match_substring(column, "\0")
        # A chat is JSON within a text, where U+0000 stands written out.
        held = pc.or_(raw, pc.match_substring(column, "\\u0000")) if name == "messages" else raw
        if not pc.any(held).as_py():
            continue
        cells += pc.sum(held).as_py()
        column = pc.replace_substring(column, "\0", "")
        # Again, as two in a row share the backslashes that the expression looks at.
        while name == "messages" and pc.any(pc.match_substring_regex(column, _ESCAPED)).as_py():  # in a row
            column = pc.replace_substring_regex(column, _ESCAPED, r"\1")
        table = table.set_column(place, table.schema.field(place), column)
    return table, cells


def element_without_nul(element: Mapping[str, object]) -> dict[str, object]:
    """The same for an element of a screen."""
    return {name: value.replace("\0", "") if isinstance(value, str) else value for name, value in element.items()}
