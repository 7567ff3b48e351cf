"""Native files are joined and cut to parts of a size; what they become, and what is counted, never depends on it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import native
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines import sources
from pipelines.engines.run_parts import Execution
from pipelines.engines.settings import EngineSettings
from pipelines.mapping.adapter import Raw
from pipelines.mapping.raw_files import Piece
from pipelines.store import Store
from pipelines.store.manifest import Manifest
from pipelines.unify import parts_by_cost
from pipelines.unify.changes import ChangeBands
from pipelines.unify.unify import unify_source

pytestmark = pytest.mark.slow

ADAPTER = """
import json
from pipelines.mapping.adapter import Adapter, RecordScreen
from pipelines.mapping.builders import EpisodeBuilder
from pipelines.mapping.card import Descriptor, Loss
from pipelines.native.record_readers import field_id, json_lines
from functools import partial
from schemas.actions import Click


class Taps(Adapter):
    descriptor = Descriptor(
        id="taps", title="Taps", origin="here", licence="CC0", platforms=("mobile",), language="en",
        objectives=("navigation",), size="few", citation="", frame="0..1000", record_unit="episode",
        item_unit="action", known_problems=(), loss=(Loss("tap", "Click", "kept"),),
    )
    version = 1
    patterns = ("*.jsonl",)
    reader = partial(json_lines, of_id=field_id("id"))

    def map(self, record, raw):
        at = record.payload["at"]
        episode = EpisodeBuilder(self.descriptor, record, episode_id=record.native_id, instruction="go")
        screen = RecordScreen.load(None, normalised=True)
        episode.add(Click(tuple(at)), native=at, native_index=0, word="tap", screen=screen)
        return episode.finish()
"""
ALL = 1 << 40
CUT = sorted(name for name in set(native.names()) & set(sources.registry()) if sources.get(name).rows_alone)


def unified(home: Path, source: str, raw: Raw, part_bytes: int) -> Manifest:
    by = Execution(EngineSettings(runner="in-process", part_bytes=part_bytes))
    return unify_source(Store(home), source, raw, execution=by, bands=ChangeBands(damaged_files=1))


def mapped_parts(home: Path, source: str) -> set[str]:
    """Keys of the parts that read native files."""
    found = Store(home).current(f"mapped/{source}")
    assert found is not None
    return {entry.part for entry in found.files}


def same(tmp_path: Path, source: str, raw: Raw, *targets: int) -> list[set[str]]:
    """Parts for each target, all of which must give the same data and counts."""
    made = {target: unified(tmp_path / f"home-{target}", source, raw, target) for target in targets}
    first = made[targets[0]]
    assert {one.data_version for one in made.values()} == {first.data_version}
    assert all(one.counts == first.counts for one in made.values())
    return [mapped_parts(tmp_path / f"home-{target}", source) for target in targets]


@pytest.fixture
def taps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "adapters").mkdir()
    (tmp_path / "adapters" / "taps.py").write_text(ADAPTER)
    monkeypatch.setenv("VESPER_SOURCES", str(tmp_path / "adapters"))
    sources.registry.cache_clear()
    (tmp_path / "raw").mkdir()
    yield tmp_path / "raw"
    sources.registry.cache_clear()


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts_by_cost, "_BLOCK", 64)


@pytest.mark.parametrize("source", sorted(set(native.names()) & set(sources.registry()) - set(CUT)))
def test_small_groups_of_every_source_can_be_joined(source: str, tmp_path: Path) -> None:
    native.fixture(source).write(tmp_path / "raw")
    same(tmp_path, source, native.raw_of(source, tmp_path / "raw"), 1, ALL)


def damaged_lines(path: Path) -> None:
    """A line of no JSON in the middle, and a last one that is cut."""
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b'{"no": json}\n\n', *lines[2:], lines[0][: len(lines[0]) // 2]]))


def damaged_group(path: Path) -> None:
    """The second of the row groups can't be read."""
    with pq.ParquetFile(path) as table:
        columns = [table.metadata.row_group(1).column(at) for at in range(table.metadata.num_columns)]
    data = bytearray(path.read_bytes())
    for column in columns:
        start = column.dictionary_page_offset or column.data_page_offset
        data[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(data)


@pytest.mark.parametrize("is_damaged", [False, True])
@pytest.mark.parametrize("source", CUT)
def test_files_of_rows_that_stand_alone_can_be_cut(
    source: str, is_damaged: bool, tmp_path: Path, small_blocks: None
) -> None:
    native.fixture(source).write(tmp_path / "raw")
    raw, (ending,) = native.raw_of(source, tmp_path / "raw"), sources.get(source).rows_alone
    damage: Callable[[Path], None] = damaged_group if ending == ".parquet" else damaged_lines
    for path in (path for path in raw.root.rglob(f"*{ending}") if ".vesper" not in path.parts):
        if ending == ".parquet":
            rows = pq.read_table(path)
            pq.write_table(pa.concat_tables([rows, rows]), path, row_group_size=1)
        else:
            path.write_bytes(b"\n".join(2 * path.read_bytes().splitlines()) + b"\n")
        if is_damaged:
            damage(path)
    pieces, whole = same(tmp_path, source, raw, 1, ALL)
    assert len(pieces) > len(whole) and any("-00001" in key for key in pieces)


def write(path: Path, *found: tuple[str, int]) -> None:
    rows = ({"id": name, "at": [at, at]} for name, at in found)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_the_first_of_a_name_keeps_it_whatever_files_a_part_has(taps: Path, tmp_path: Path) -> None:
    for place in range(60):
        write(taps / f"{place:04d}.jsonl", ("x", place % 7), (f"e{place}", place), ("y", place % 5), ("x", place % 3))
    counts = [len(parts) for parts in same(tmp_path, "taps", Raw(taps), 1, 200_000, ALL)]
    assert counts[0] == 60 and 4 < counts[1] < 20 and counts[2] == 1
    found = unified(tmp_path / "home-1", "taps", Raw(taps), 1).read("steps").to_pylist()
    assert [row["native_action"] for row in found if row["episode_id"] in ("x", "y")] == ["[0,0]", "[0,0]"]


def test_a_file_that_comes_or_changes_maps_the_part_that_holds_it(taps: Path, tmp_path: Path) -> None:
    home, target = tmp_path / "home", 10 * parts_by_cost.LEAST_FILE_BYTES
    for place in range(120):
        write(taps / f"{place:04d}.jsonl", (f"e{place}", place))

    def files() -> dict[str, set[str]]:
        """What a part wrote → the native files that its rows are from."""
        unified(home, "taps", Raw(taps), target)
        found = Store(home).current("mapped/taps")
        assert found is not None
        tables = {entry.path: pq.read_table(found.root / entry.path) for entry in found.files}
        return {
            path: {json.loads(text)["file"] for text in table["provenance"].to_pylist()}
            for path, table in tables.items()
            if "provenance" in table.column_names
        }

    before = files()
    assert 12 < len(before) < 48
    write(taps / "0007.jsonl", ("e7", 999))
    after = files()
    assert [list(before[path]) for path in before.keys() - after.keys()] == [
        list(after[path]) for path in after.keys() - before.keys()
    ]
    (changed,) = after.keys() - before.keys()
    assert "0007.jsonl" in after[changed] and len(after[changed]) <= 10
    for place in range(120, 140):
        was = files()
        write(taps / f"{place:04d}.jsonl", (f"e{place}", place))
        now = files()
        new, old = now.keys() - was.keys(), was.keys() - now.keys()
        touched = set().union(*(now[path] for path in new))
        assert f"{place:04d}.jsonl" in touched and len(touched) <= 11 and len(old) <= 1


def test_pictures_beside_files_count(taps: Path, tmp_path: Path) -> None:
    for place in range(40):
        write(taps / f"{place:04d}.jsonl", *((f"e{place}-{row}", row) for row in range(1000)))
    native = sum(path.stat().st_size for path in taps.iterdir())
    assert len(parts(taps, 2 * native)) == 1
    (taps / "shots").mkdir()
    for number in range(8):
        (taps / "shots" / f"{number}.png").write_bytes(bytes(2 * native))
    joined = parts(taps, 2 * native)
    assert 8 <= len(joined) < 40
    (taps / "shots" / "9.png").write_bytes(bytes(native))
    assert parts(taps, 2 * native) == joined


def parts(folder: Path, target: int) -> list[parts_by_cost.FilesPart]:
    adapter, raw = sources.get("taps"), Raw(folder)
    cuts = parts_by_cost.LinePieces(folder.parent / "lines.json", {})
    return parts_by_cost.parts_by_cost(adapter, raw, adapter.parts(raw), target, cuts)


def test_lines_are_cut_between_lines_and_row_groups_between_groups(tmp_path: Path, small_blocks: None) -> None:
    path = tmp_path / "a.jsonl"
    lines = [b"x" * length + b"\n" for length in (3, 500, 2, 2, 2, 90, 1)]
    path.write_bytes(b"".join(lines) + b"no end")
    name = str(path)
    book = tmp_path / "lines.json"
    pieces = parts_by_cost.LinePieces(book, {name: "hash"})(name, 70)
    assert [(piece.first, piece.past, piece.before) for piece in pieces] == [(0, 505, 0), (505, 605, 2), (605, 613, 6)]
    path.write_bytes(b"")
    assert parts_by_cost.LinePieces(book, {name: "hash"})(name, 70) == pieces, "of the same bytes it is known"
    assert parts_by_cost.LinePieces(book, {name: "other"})(name, 70) == []
    table = pa.table({"a": list(range(10))})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=4)
    assert parts_by_cost.row_group_pieces(str(tmp_path / "a.parquet"), 1) == [
        Piece(0, 1, 0),
        Piece(1, 2, 4),
        Piece(2, 3, 8),
    ]
    assert parts_by_cost.row_group_pieces(str(path), 1) == []
