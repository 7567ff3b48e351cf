"""Rows set aside on disk while a source is grouped or looked up: one streamed pass in, any row out, little memory."""

import json
import tempfile
from typing import Any


class Spill:
    """An unnamed temporary file of (JSON value, bytes) pairs under keys; it goes away with the object."""

    def __init__(self) -> None:
        # Without a name, so that nothing is left when the process dies.
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as this object
        self._places: dict[str, tuple[int, int, int]] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._places

    def put(self, key: str, value: object, data: bytes) -> None:
        """Keep a plain value and bytes; a key that is there already keeps its first pair."""
        if key in self._places:
            return
        text = json.dumps(value).encode()
        # Always at the end: reads move the position.
        offset = self._file.seek(0, 2)
        self._file.write(text)
        self._file.write(data)
        self._places[key] = (offset, len(text), len(data))

    def get(self, key: str) -> tuple[Any, bytes]:
        """The pair of a key. Raises `KeyError`."""
        offset, text, data = self._places[key]
        self._file.seek(offset)
        return json.loads(self._file.read(text)), self._file.read(data)
