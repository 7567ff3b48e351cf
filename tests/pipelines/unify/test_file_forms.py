"""The same content in another valid form of file gives the same rows: a byte order mark, Windows' ends of lines,
numbers that a tool without ints has written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import native
import pytest

from pipelines import sources
from pipelines.store import Store
from pipelines.unify import unify_source

pytestmark = pytest.mark.slow

TEXTS = (".json", ".jsonl", ".csv", ".tsv", ".txt")
BOM = b"\xef\xbb\xbf"


def with_mark(file: Path, data: bytes) -> bytes:
    del file
    return BOM + data.removeprefix(BOM)


def with_windows_ends(file: Path, data: bytes) -> bytes:
    del file
    return data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")


def with_floats(file: Path, data: bytes) -> bytes:
    """Ints as floats, line by line; what isn't JSON stays."""
    if file.suffix not in (".json", ".jsonl"):
        return data
    parts = data.split(b"\n") if file.suffix == ".jsonl" else [data]
    return b"\n".join(map(_floats, parts))


def _floats(text: bytes) -> bytes:
    try:
        return json.dumps(_changed(json.loads(text))).encode()
    except ValueError:
        return text


def _changed(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _changed(one) for name, one in value.items()}
    if isinstance(value, list):
        return list(map(_changed, value))
    return float(value) if type(value) is int and abs(value) < 2**40 else value


def counts(source: str, root: Path, change: Callable[[Path, bytes], bytes] | None) -> dict[str, int]:
    native.fixture(source).write(root)
    for file in root.rglob("*"):
        if change is not None and file.suffix in TEXTS and file.is_file():
            file.write_bytes(change(file, file.read_bytes()))
    found = unify_source(Store(root / "home"), source, native.raw_of(source, root)).counts
    return {name: found[name] for name in ("records_in", "items_in", "items_mapped", "damaged_files")}


@pytest.mark.parametrize("source", sorted(set(sources.registry()) & set(native.names())))
def test_another_form_of_a_text_file_costs_nothing(source: str, tmp_path: Path) -> None:
    plain = counts(source, tmp_path / "plain", None)
    for change in (with_mark, with_windows_ends, with_floats):
        assert counts(source, tmp_path / change.__name__, change) == plain, change.__name__
