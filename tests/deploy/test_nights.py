"""What the soak of three nights counts: a part that is made again is seen, costs are read from what was written."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))
from bench import nights_figures as figures  # noqa: E402
from bench.nights_arrivals import BY_HAND, Arrivals  # noqa: E402
from pipelines.store import PartSpec, PartWriter, Store  # noqa: E402
from pipelines.training_data.mixture import SHARES, Mixture  # noqa: E402


def _commit(store: Store, asset: str, parts: dict[str, int]) -> None:
    """`parts`: key → native rows that it took in."""
    specs = {PartSpec(key, f"{asset}{key}{rows}"): rows for key, rows in parts.items()}
    with store.build(asset, code_version="1", parts=list(specs)) as build:
        for spec, rows in specs.items():

            def write(out: PartWriter, rows: int = rows) -> dict[str, int]:
                out.table("steps", pa.table({"a": list(range(rows))}))
                return {"items_in": rows}

            build.run_part(spec, write)
        build.commit(counts={"items_in": sum(parts.values())})


def test_a_night_costs_what_it_added(store: Store) -> None:
    parts = figures.Parts(store.home)
    _commit(store, "unified/aitw", {"one": 5})
    before = figures.Look.at(store.home, parts, judge=3)
    _commit(store, "unified/aitw", {"one": 5, "two": 2})
    cache = store.home / "cache" / "embeddings" / "model"
    cache.mkdir(parents=True)
    np.save(cache / "a.npy", np.zeros((2, 3), np.float32))
    (cache / "a.keys").write_text("x\ny")
    after = figures.Look.at(store.home, parts, judge=10)
    spent = figures.cost(before, after, store.home)
    assert (spent.rows, spent.judge, spent.embedded, spent.parts) == (2, 7, 2, 1)
    new = list((store.home / "assets").rglob("*two*.parquet"))
    assert len(new) == 1 and new[0].stat().st_size < spent.bytes
    assert figures.rows_of(store) == 7 and parts.again == []
    whole = figures.Cost(rows=7, bytes=10 * spent.bytes, judge=0, embedded=4)
    told = figures.against(spent, whole, 2 / 7)
    assert told["rows"]["times"] == 1 and told["judge"]["times"] is None
    assert told["embedded"]["times"] == pytest.approx(0.5 * 7 / 2, abs=1e-3)


def test_a_part_that_was_whole_and_is_made_again_is_seen(store: Store) -> None:
    parts = figures.Parts(store.home)
    _commit(store, "unified/aitw", {"one": 5})
    parts.look()
    marker = next(iter(parts.seen))
    text = marker.read_text()
    marker.unlink()
    marker.write_text(text)
    parts.look()
    assert parts.again == [str(marker.relative_to(store.home))]


def _run(job: str, status: str, created: float, ended: float | None = None, **tags: str) -> dict[str, Any]:
    return {"jobName": job, "status": status, "creationTime": created, "endTime": ended, "tags": tags}


@pytest.mark.parametrize(
    ("more", "ended"),
    [
        ([], False),
        (
            [_run("build_corpus", "SUCCESS", 15, 18)],
            False,
        ),  # of the refresh for new files, before the nightly one ended
        ([_run("build_corpus", "SUCCESS", 21, 25)], True),
        ([_run("build_corpus", "SUCCESS", 21, 25), _run("build_corpus", "QUEUED", 14)], False),
        ([_run("build_corpus", "SUCCESS", 21, 25), _run("refresh_sources", "STARTED", 24)], True),  # the next tick's
        ([_run("build_corpus", "FAILURE", 21, 25)], False),
    ],
)
def test_a_night_has_ended_when_the_corpus_holds_all_that_arrived(more: list[dict[str, Any]], ended: bool) -> None:
    from bench.nights import Nights

    runs = [
        _run("refresh_sources", "SUCCESS", 11, 12, because="new_raw_files"),
        _run("refresh_sources", "SUCCESS", 12, 20),
    ]
    night = object.__new__(Nights)
    night.house = SimpleNamespace(runs=lambda: [*runs, *more])  # type: ignore[assignment]
    assert night._ended(10) is ended


def test_damage_is_found(tmp_path: Path) -> None:
    found = []
    for place in ("a", "b"):
        store = Store(tmp_path / place)
        row = {"shard": "s", "sha256": "0", "bytes": 1, "rows": [1], "repeats": [1], "row_groups": [0], "tokens": 9}

        def write(out: PartWriter, row: dict[str, object] = row) -> None:
            out.table("mixture", pa.Table.from_pylist([row], schema=Mixture.schema))
            out.table("shares", SHARES.empty_table())

        spec = PartSpec("all", place)
        with store.build("mid_training/mixture", code_version="1", parts=[spec]) as build:
            build.run_part(spec, write)
            build.commit()
        found.append(figures.versions(store.home))
        assert figures.damage(store.home) == []
    assert found[0] == found[1]
    path = next((store.home / "assets").rglob("*.mixture.parquet"))
    path.write_bytes(path.read_bytes() + b"x")
    assert len(figures.damage(store.home)) == 1


def test_split_lists_name_all_shards_from_the_first_night_on(tmp_path: Path) -> None:
    """A list that grew would change every shard's episodes, and a night would cost a whole build."""
    shards, commits = tmp_path / "shards", []
    for source, (native, _, splits) in BY_HAND.items():
        for seed in range(2):
            for name, text in ((native, f"{source}{seed}"), (splits, f'{{"train": ["{seed}"]}}')):
                path = shards / f"{source}-{seed}" / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
    for seed in range(2):
        path = shards / f"mind2web-{seed}" / "data" / "train" / "train_0.json"
        path.parent.mkdir(parents=True)
        path.write_text(f"[{seed}]")

    class Hub:
        def commit(self, repo: str, files: dict[str, bytes]) -> str:
            commits.append(files)
            return repo

    arrivals = Arrivals(shards, tmp_path / "incoming", Hub(), 2)
    arrivals.arrive([0])
    before = {path: path.read_bytes() for path in (tmp_path / "incoming").rglob("*") if path.is_file()}
    arrivals.arrive([1])
    after = {path: path.read_bytes() for path in (tmp_path / "incoming").rglob("*") if path.is_file()}
    assert before.items() <= after.items() and len(after) == len(before) + len(BY_HAND)
    assert commits == [
        {"data/train/train_0.json": b"[0]"},
        {"data/train/train_0.json": b"[0]", "data/train/train_1.json": b"[1]"},
    ]
