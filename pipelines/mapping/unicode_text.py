"""Refuses records whose texts are no Unicode text: JSON can hold lone surrogates, and no table can."""

from __future__ import annotations

import json

from pipelines.mapping.adapter import RecordError


def check_texts(payload: object, items: int = 1) -> None:
    """A plain JSON value. Raises `RecordError("bad_value")` if a text in it (or a key) holds a lone surrogate; `items`
    native items go with it."""
    try:
        json.dumps(payload, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise RecordError("bad_value", f"a text holds a lone surrogate: {error.reason}", items) from error
