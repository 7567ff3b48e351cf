"""Rows found by id: the same as a scan of all files, from the few files that hold them."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dagster_project.lineage import id_index
from dagster_project.lineage.id_index import IdIndex, index_of, index_version
from dagster_project.lineage.rows import TableVersions, isin
from dagster_project.lineage.table_files import distinct_files
from pipelines.store import Check, PartSpec, Store
from pipelines.store.collect_garbage import ID_INDEX, collect
from pipelines.store.manifest import Manifest

SCHEMA = pa.schema([("sample_id", pa.string()), ("answer", pa.string())])


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "home")


def commit(store: Store, asset: str, parts: list[list[str]]) -> Manifest:
    """A version whose parts hold these samples."""
    specs = [PartSpec(f"{number:04d}", " ".join(ids) + asset) for number, ids in enumerate(parts)]
    with store.build(asset, code_version="1", inputs={}, parts=specs) as build:
        for spec, ids in zip(specs, parts, strict=True):
            rows = pa.table({"sample_id": ids, "answer": [f"{asset} {name}" for name in ids]}, schema=SCHEMA)
            build.run_part(spec, lambda out, rows=rows: out.table("samples", rows) and {})
        return build.commit(checks=[Check("made", True, "yes", "yes")])


def drawn(seed: int, parts: int) -> list[list[str]]:
    """Parts of up to 20 ids out of 100, so that versions share ids and one part may be another's."""
    draw = random.Random(seed)
    return [sorted(draw.sample([f"id-{n}" for n in range(100)], draw.randint(0, 20))) for _ in range(parts)]


def answers(found: list[tuple[Path, dict[str, str]]]) -> list[tuple[str, str]]:
    return sorted((path.name, row["answer"]) for path, row in found)


def by_scan(tables: TableVersions, names: list[str]) -> list[tuple[str, str]]:
    return answers(tables.where(["answer"], isin("sample_id", names)))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("collide", [False, True])
def test_lookups_are_what_a_scan_finds(store: Store, seed: int, collide: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if collide:  # ids of one hash cost files, never an answer
        monkeypatch.setattr(id_index, "hashes_of", lambda ids: np.array([len(name) for name in ids], np.uint32))
    made = [commit(store, f"gold/s{n}", drawn(seed * 10 + n, 6)) for n in range(3)]
    made.append(commit(store, "gold/s0", drawn(seed * 10, 7)))  # shares its first six files with the version before
    for held in (made[:1], made[1:3], made):
        tables = TableVersions(held, "samples")
        for names in (["id-7"], [f"id-{n}" for n in range(0, 100, 9)], ["no such id"], []):
            assert answers(tables.with_ids(["answer"], "sample_id", names)) == by_scan(tables, names)


def test_only_the_files_that_hold_an_id_are_opened(store: Store) -> None:
    made = commit(store, "gold/s", [["a", "b"], ["c"], ["d"]])
    index_version(made)
    [_, other, _] = made.paths("samples")
    other.unlink()  # an index of the version knows that it isn't needed
    index_of.cache_clear()
    [(path, row)] = TableVersions([made], "samples").with_ids(["answer"], "sample_id", ["b"])
    assert (path, row) == (made.folder / made.files[0].path, {"answer": "gold/s b"})
    with pytest.raises(ValueError, match="can't be read"):
        TableVersions([made], "samples").with_ids(["answer"], "sample_id", ["c"])


def test_a_new_version_adds_the_files_that_are_new(store: Store) -> None:
    folder = store.home / ID_INDEX / "sample_id"
    for count in range(1, 13):
        made = commit(store, "gold/s", [[f"id-{number}"] for number in range(count)])
        index_version(made)
        stored = [set((path / "digests.txt").read_text().split()) for path in folder.iterdir()]
        assert sum(map(len, stored)) == len(set().union(*stored)) == count
        assert len(stored) <= id_index.MOST_SEGMENTS
    index_of.cache_clear()
    tables = TableVersions([made], "samples")
    for number in range(count):
        assert len(tables.with_ids(["answer"], "sample_id", [f"id-{number}"])) == 1


def test_a_damaged_or_missing_cache_is_made_again(store: Store) -> None:
    made = commit(store, "gold/s", [["a"], ["b"]])
    index_version(made)
    for damage in (lambda path: path.write_bytes(b"\x93NUMPY"), Path.unlink):
        [segment] = (store.home / ID_INDEX / "sample_id").iterdir()
        damage(segment / "hashes.npy")
        fresh = IdIndex(store.home / ID_INDEX)
        assert [
            file.entry.part for file in fresh.files_with("sample_id", distinct_files([made], "samples"), ["b"])
        ] == ["0001"]


def test_a_folder_that_cant_be_written_costs_the_cache_alone(store: Store) -> None:
    made = commit(store, "gold/s", [["a"], ["b"]])
    (store.home / "cache").write_text("a file where the folder should be")
    index = IdIndex(store.home / ID_INDEX)
    for _ in range(2):
        assert len(index.files_with("sample_id", distinct_files([made], "samples"), ["a", "b"])) == 2


def test_what_is_collected_leaves_the_index(store: Store) -> None:
    for parts in ([["a"]], [["b"]]):
        made = commit(store, "gold/s", parts)
        index_version(made)
    assert (store.home / ID_INDEX).exists()
    assert collect(store, 1, min_age_s=0).files
    assert not (store.home / ID_INDEX).exists()
    index_of.cache_clear()
    assert len(TableVersions([made], "samples").with_ids(["answer"], "sample_id", ["b"])) == 1
