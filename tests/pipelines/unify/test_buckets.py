"""Buckets: the same rows give the same tables, however they were spread over files, and nothing is parted or lost."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.store import PartSpec, Store
from pipelines.unify.buckets import BUCKET_ROWS, TABLES, MappedRows, bucket_count
from pipelines.unify.chunks import ChunkWriter

SPLIT = {"source": "made", "split": "train", "platform": "web"}


def sha(name: object) -> str:
    return hashlib.sha256(str(name).encode()).hexdigest()


def element(name: str, x: float) -> dict[str, Any]:
    return {"box": [x, 1.0, x + 2, 3.0], "role": "button", "text": name, "name": name}


def record(number: int) -> dict[str, list[dict[str, Any]]]:
    """A record of three steps, the first on a screen that all show, and two samples on a picture that ten show; each
    knows other elements of what it shares."""
    own, group = sha(f"own {number}"), sha(f"group {number // 10}")
    step = {
        **SPLIT,
        "episode_id": f"e{number}",
        "instruction": "go",
        "action_text": "Wait()",
        "action_type": "Wait",
        "native_action": "{}",
        "provenance": "{}",
        "episode_outcome": "unknown",
    }
    sample = {
        **SPLIT,
        "objective": "vqa",
        "images": [group],
        "messages": "[]",
        "answer": "yes",
        "target_boxes": [],
        "tokens": 1,
        "licence": "CC0",
        "parents": [],
        "synthetic": False,
        "provenance": "{}",
    }
    shows = {"source": "made", "width_px": 9, "height_px": 9, "phash": 1}
    known = [element(f"{number}-{place}", number + 0.1) for place in range(1 + number % 3)]
    return {
        "steps": [
            {**step, "step_index": index, "screenshot_sha256": sha("home") if index == 0 else own} for index in range(3)
        ],
        "samples": [{**sample, "sample_id": f"s{number}-{place}"} for place in range(2)],
        "screens": [{**shows, "screenshot_sha256": name, "elements": known} for name in (sha("home"), own, group)],
        "quarantine": [
            {
                "source": "made",
                "unit": "item",
                "items": 1,
                "reason": "off_screen",
                "detail": "",
                "file": "a",
                "record": str(number),
                "native": "{}",
            }
        ],
    }


def written(home: Path, parts: Sequence[Sequence[int]]) -> dict[str, list[Path]]:
    """The mapped tables of records, in as many parts."""
    store = Store(home)
    specs = [PartSpec(f"p{place:03d}", str(place)) for place in range(len(parts))]
    with store.build("mapped/made", code_version="1", parts=specs) as build:
        for spec, numbers in zip(specs, parts, strict=True):

            def write(out: Any, numbers: Sequence[int] = numbers) -> None:
                chunks = ChunkWriter(out)
                for number in numbers:
                    found = record(number)
                    for name in ("steps", "samples", "quarantine"):
                        chunks.rows(name, found[name])
                    fresh = [
                        row for row in found["screens"] if chunks.is_news(row["screenshot_sha256"], row["elements"])
                    ]
                    chunks.rows("screens", fresh)
                    chunks.may_end()
                chunks.flush()

            build.run_part(spec, write)
        manifest = build.commit()
    return {name: manifest.paths(name) for name in TABLES}


@pytest.mark.slow
def test_tables_of_buckets_are_the_same_however_rows_were_spread(tmp_path: Path, monkeypatch: Any) -> None:
    rng, numbers = random.Random(0), list(range(60))
    whole = written(tmp_path / "whole", [numbers])
    expected = [MappedRows(whole, bucket, bucket + 1, 8).tables(bucket) for bucket in range(8)]
    for rows in (7, 40):
        monkeypatch.setattr("pipelines.unify.chunks.CHUNK_ROWS", rows)
        rng.shuffle(numbers)
        cut = written(tmp_path / str(rows), [numbers[:5], numbers[5:6], numbers[6:]])
        found = MappedRows(cut, 0, 8, 8)
        for bucket, tables in enumerate(expected):
            assert found.tables(bucket) == tables


def test_nothing_is_lost_or_parted(tmp_path: Path) -> None:
    paths = written(tmp_path, [range(30), range(30, 60)])
    rows = MappedRows(paths, 0, 8, 8)
    tables = [rows.tables(bucket) for bucket in range(8)]
    steps = pa.concat_tables(one["steps"] for one in tables if "steps" in one)
    assert sorted(steps["episode_id"].to_pylist()) == sorted(f"e{number}" for number in range(60) for _ in range(3))
    assert sum(one["samples"].num_rows for one in tables if "samples" in one) == 120
    assert sum(one["quarantine"].num_rows for one in tables if "quarantine" in one) == 60
    for table, of in (("steps", lambda row: row["episode_id"]), ("samples", lambda row: row["images"][0])):
        homes = [{of(row) for row in one[table].to_pylist()} for one in tables if table in one]
        assert len(set().union(*homes)) == sum(map(len, homes)), "no episode, and no picture's samples, in two buckets"


def test_each_bucket_has_the_screens_that_its_rows_show_with_the_fullest_list(tmp_path: Path) -> None:
    rows = MappedRows(written(tmp_path, [range(30), range(30, 60)]), 0, 4, 4)
    for bucket in range(4):
        tables = rows.tables(bucket)
        shown = set(tables["steps"]["screenshot_sha256"].to_pylist())
        shown |= {name for images in tables["samples"]["images"].to_pylist() for name in images}
        screens = {row["screenshot_sha256"]: row for row in tables["screens"].to_pylist()}
        assert set(screens) == shown and len(screens) == tables["screens"].num_rows
        home = [one["name"] for one in screens[sha("home")]["elements"]]
        assert len(home) == 3 and home[0] == "11-0", "of equally long lists the first in order, not the first read"


@pytest.mark.parametrize(("rows", "count"), [(0, 1), (1, 1), (8_192, 1), (8_193, 2), (20_000, 4), (5_700_000, 1_024)])
def test_buckets_follow_the_rows(rows: int, count: int) -> None:
    assert bucket_count(rows) == count
    assert count == 1 or rows / count <= BUCKET_ROWS < 2 * rows / count + 2


def test_a_reader_of_some_buckets_opens_few_row_groups(tmp_path: Path) -> None:
    [path] = written(tmp_path, [range(60)])["steps"]
    file = pq.ParquetFile(path)
    found = file.read(["bucket"])["bucket"].to_pylist()
    assert found == sorted(found)
    assert file.metadata.row_group(0).column(file.schema_arrow.get_field_index("bucket")).statistics.has_min_max
