"""The same content in another valid form of file gives the same rows: a byte order mark, Windows' ends of lines,
numbers that a tool without ints has written, keys in another order, other types of parquet, columns that nobody reads.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import native
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines import sources
from pipelines.store import Store
from pipelines.store.manifest import Manifest
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
    return _written_anew(file, data, _floats)


def with_keys_turned(file: Path, data: bytes) -> bytes:
    """The keys of all objects in the reverse order."""
    return _written_anew(file, data, _turned)


def _written_anew(file: Path, data: bytes, change: Callable[[Any], Any]) -> bytes:
    def anew(text: bytes) -> bytes:
        try:
            return json.dumps(change(json.loads(text))).encode()
        except ValueError:
            return text

    if file.suffix not in (".json", ".jsonl"):
        return data
    return b"\n".join(map(anew, data.split(b"\n") if file.suffix == ".jsonl" else [data]))


def _floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _floats(one) for name, one in value.items()}
    if isinstance(value, list):
        return list(map(_floats, value))
    return float(value) if type(value) is int and abs(value) < 2**40 else value


def _turned(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _turned(value[name]) for name in reversed(value)}
    return list(map(_turned, value)) if isinstance(value, list) else value


CHANGES = (with_floats, with_keys_turned, with_windows_ends, with_mark)
READ = ("split", "episode_id", "step_index", "action_text", "instruction", "screenshot_sha256", "target_box")
DIGEST = re.compile(r"[0-9a-f]{12}")
READ_OF_SAMPLES = ("split", "objective", "messages", "answer", "target_boxes", "images")


def with_all(file: Path, data: bytes) -> bytes:
    for change in CHANGES:
        data = change(file, data)
    return data


def made(source: str, root: Path, change: Callable[[Path, bytes], bytes] | None) -> tuple[dict[str, int], list[str]]:
    """Counts and rows."""
    native.fixture(source).write(root)
    for file in root.rglob("*"):
        if change is not None and file.suffix in TEXTS and file.is_file():
            file.write_bytes(change(file, file.read_bytes()))
    manifest = unified(source, root)
    return _counted(manifest), _rows(manifest)


def unified(source: str, root: Path) -> Manifest:
    return unify_source(Store(root / "home"), source, native.raw_of(source, root))


def _counted(manifest: Manifest) -> dict[str, int]:
    return {name: manifest.counts[name] for name in ("records_in", "items_in", "items_mapped", "damaged_files")}


def _rows(manifest: Manifest) -> list[str]:
    """What is trained on, and in which split; without ids that are digests of numbers as they are written."""
    found = []
    for table, names in (("steps", READ), ("samples", READ_OF_SAMPLES)):
        for row in manifest.read(table).to_pylist() if manifest.paths(table) else ():
            shown = [row[name] for name in names if not (name == "episode_id" and DIGEST.search(row[name]))]
            found.append(f"{shown} {'gap_at' in row['provenance']}")
    return sorted(found)


@pytest.mark.parametrize("source", SOURCES)
def test_another_form_of_a_text_file_costs_nothing(source: str, tmp_path: Path) -> None:
    plain = made(source, tmp_path / "plain", None)
    if made(source, tmp_path / "all", with_all) != plain:  # by which?
        for change in CHANGES:
            assert made(source, tmp_path / change.__name__, change) == plain, change.__name__
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
    plain, _ = made(source, tmp_path / "plain", None)
    assert sound_parquet(tmp_path / "plain")
    for change in (with_odd_columns, with_large_types):
        native.fixture(source).write(tmp_path / change.__name__)
        for file, table in sound_parquet(tmp_path / change.__name__).items():
            pq.write_table(change(table), file)
        found = _counted(unified(source, tmp_path / change.__name__))
        # A record that another file repeats is no exact repeat any more, so it may be mapped.
        assert found.pop("items_mapped") >= plain["items_mapped"], change.__name__
        assert found == {name: plain[name] for name in found}, change.__name__
