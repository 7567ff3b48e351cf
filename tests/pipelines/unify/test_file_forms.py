"""The same content in another valid form of file gives the same rows: a byte order mark, Windows' ends of lines,
numbers that a tool without ints has written, other types of parquet, columns that nobody reads."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import native
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines import sources
from pipelines.store import Store
from pipelines.unify import unify_source

pytestmark = pytest.mark.slow

TEXTS = (".json", ".jsonl", ".csv", ".tsv", ".txt")
SOURCES = sorted(set(sources.registry()) & set(native.names()))
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


CHANGES = (with_floats, with_windows_ends, with_mark)


def with_all(file: Path, data: bytes) -> bytes:
    for change in CHANGES:
        data = change(file, data)
    return data


def counts(source: str, root: Path, change: Callable[[Path, bytes], bytes] | None) -> dict[str, int]:
    native.fixture(source).write(root)
    for file in root.rglob("*"):
        if change is not None and file.suffix in TEXTS and file.is_file():
            file.write_bytes(change(file, file.read_bytes()))
    return _counted(source, root)


def _counted(source: str, root: Path) -> dict[str, int]:
    found = unify_source(Store(root / "home"), source, native.raw_of(source, root)).counts
    return {name: found[name] for name in ("records_in", "items_in", "items_mapped", "damaged_files")}


@pytest.mark.parametrize("source", SOURCES)
def test_another_form_of_a_text_file_costs_nothing(source: str, tmp_path: Path) -> None:
    plain = counts(source, tmp_path / "plain", None)
    if counts(source, tmp_path / "all", with_all) != plain:  # by which?
        for change in CHANGES:
            assert counts(source, tmp_path / change.__name__, change) == plain, change.__name__
        raise AssertionError("each of them alone costs nothing, all together do")


def sound_parquet(root: Path) -> dict[Path, pa.Table]:
    """The parquet files of a fixture that can be read; it has broken ones, too."""
    found = {}
    for file in sorted(root.rglob("*.parquet")):
        with contextlib.suppress(pa.ArrowException):
            if (table := pq.read_table(file)).num_rows:
                found[file] = table
    return found


def with_odd_columns(table: pa.Table) -> pa.Table:
    """Columns that no adapter reads, of values that Arrow holds and Python doesn't."""
    odd = {
        "zz_day": pa.array([2**30] * len(table), pa.date32()),
        "zz_time": pa.array([2**62] * len(table), pa.timestamp("us")),
        "zz_map": pa.array([[("a", 1)]] * len(table), pa.map_(pa.string(), pa.int64())),
        "zz_large": pa.array([2**64 - 1] * len(table), pa.uint64()),
    }
    for name, column in odd.items():
        table = table.append_column(name, column)
    return table


def with_large_types(table: pa.Table) -> pa.Table:
    """Texts, bytes and lists with 64-bit offsets, ints as floats."""
    return pa.table([column.cast(_large(column.type)) for column in table.columns], names=table.column_names)


def _large(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.large_list(_large(kind.value_type))
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(part.name, _large(part.type)) for part in kind])
    large = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary(), pa.int64(): pa.float64()}
    return large.get(kind, kind)


@pytest.mark.parametrize(
    "source", [name for name in SOURCES if "parquet" in (native.FOLDER / f"{name}.py").read_text()]
)
def test_another_form_of_parquet_costs_nothing(source: str, tmp_path: Path) -> None:
    plain = counts(source, tmp_path / "plain", None)
    assert sound_parquet(tmp_path / "plain")
    for change in (with_odd_columns, with_large_types):
        native.fixture(source).write(tmp_path / change.__name__)
        for file, table in sound_parquet(tmp_path / change.__name__).items():
            pq.write_table(change(table), file)
        found = _counted(source, tmp_path / change.__name__)
        # A record that another file repeats is no exact repeat any more, so it may be mapped.
        assert found.pop("items_mapped") >= plain["items_mapped"], change.__name__
        assert found == {name: plain[name] for name in found}, change.__name__
