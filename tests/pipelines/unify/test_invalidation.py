"""What a part depends on: its own files, and what it read beside them, there or not; nothing else."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pipelines import sources
from pipelines.engines.run_parts import Execution
from pipelines.engines.settings import EngineSettings
from pipelines.mapping.adapter import Raw, RecordError
from pipelines.store import Store, images
from pipelines.store.images import encode_png
from pipelines.store.manifest import Manifest
from pipelines.unify import chunks
from pipelines.unify.tracked_raw import Folders, TrackedRaw, changes
from pipelines.unify.unify import unify_source

ADAPTER = """
import json
from pipelines.mapping.adapter import Adapter, Record, RecordScreen
from pipelines.mapping.card import Descriptor, Loss
from pipelines.mapping.builders import EpisodeBuilder
from schemas.actions import Click


class DotsAdapter(Adapter):
    descriptor = Descriptor(
        id="dots", title="Dots", origin="here", licence="CC0", platforms=("mobile",), language="en",
        objectives=("navigation",), size="few", citation="", frame="0..1000", record_unit="episode",
        item_unit="action", known_problems=(), loss=(Loss("tap", "Click", "kept"),), companions=("pictures",),
    )
    version = 1

    def parts(self, raw):
        return [(name,) for name in raw.files("*.jsonl")]

    def records(self, raw, files):
        for name in files:
            for number, line in enumerate(raw.read(name).splitlines()):
                payload = json.loads(line)
                yield Record(name, f"line {number}", payload, payload["id"])

    def map(self, record, raw):
        episode = EpisodeBuilder(self.descriptor, record, episode_id=record.native_id, instruction="go")
        for index, image in enumerate(record.payload["images"]):
            data = raw.read_if_there(image)
            if data is None:
                data = raw.read_if_there(image, companion="pictures")
            screen = RecordScreen.load(data, normalised=True)
            episode.add(Click((index % 1000, 0)), native=image, native_index=index, word="tap", screen=screen)
        return episode.finish()
"""


@pytest.fixture
def raw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "adapters").mkdir()
    (tmp_path / "adapters" / "dots.py").write_text(ADAPTER)
    monkeypatch.setenv("VESPER_SOURCES", str(tmp_path / "adapters"))
    sources.registry.cache_clear()
    (tmp_path / "raw/shots").mkdir(parents=True)
    yield tmp_path / "raw"
    sources.registry.cache_clear()


def picture(path: Path, seed: int) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = encode_png(np.random.default_rng(seed).integers(0, 255, (8, 6, 3), np.uint8))
    path.write_bytes(data)
    return data


def write(path: Path, *episodes: tuple[str, list[str]]) -> None:
    path.write_text("".join(json.dumps({"id": name, "images": shown}) + "\n" for name, shown in episodes))


def by_file(store: Store, raw: Raw) -> Manifest:
    """Unified, each native file a part of its own."""
    return unify_source(store, "dots", raw, execution=Execution(EngineSettings(part_bytes=1)))


def mapped(store: Store) -> Manifest:
    """The rows of the last ingest, in parts that follow the native files."""
    found = store.current("mapped/dots")
    assert found is not None
    return found


def ran(before: Manifest, after: Manifest) -> set[str]:
    """Names of the parts of native files that were done anew."""
    old = {entry.path for entry in before.files}
    return {entry.path.rpartition("part-")[2][0] for entry in after.files if entry.path not in old}


def shown(manifest: Manifest) -> list[bool]:
    return [sha is not None for sha in manifest.read("steps")["screenshot_sha256"].to_pylist()]


@pytest.fixture
def two(raw: Path) -> Path:
    """Parts a and b; a reads 1 and misses 2 and 3, b reads 4."""
    write(raw / "a.jsonl", ("a", ["shots/1.png", "shots/2.png", "gone/3.png"]))
    write(raw / "b.jsonl", ("b", ["shots/4.png"]))
    for number in (1, 4, 9):
        picture(raw / f"shots/{number}.png", number)
    return raw


def test_one_picture_redoes_the_parts_that_read_it(two: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    first = by_file(store, Raw(two))
    parts = mapped(store)
    assert shown(first) == [True, False, False, True]
    assert by_file(store, Raw(two)) == first
    picture(two / "shots/9.png", 90)  # nobody reads it
    (two / "shots/new.png").write_bytes(b"new")
    assert by_file(store, Raw(two)) == first
    picture(two / "shots/4.png", 40)
    second = by_file(store, Raw(two))
    assert ran(parts, mapped(store)) == {"b"} and second.data_version != first.data_version
    picture(two / "shots/4.png", 4)  # back again: that was done before
    assert by_file(store, Raw(two)).data_version == first.data_version


@pytest.mark.parametrize("name", ["shots/2.png", "gone/3.png"])
def test_a_missing_picture_that_appears_redoes_the_part_that_asked(two: Path, tmp_path: Path, name: str) -> None:
    store = Store(tmp_path / "home")
    first = by_file(store, Raw(two))
    parts = mapped(store)
    picture(two / name, 7)
    second = by_file(store, Raw(two))
    assert ran(parts, mapped(store)) == {"a"} and sum(shown(second)) == 3
    (two / name).unlink()
    third = by_file(store, Raw(two))
    assert third.data_version == first.data_version and sum(shown(third)) == 2


def test_a_picture_that_is_only_touched_costs_nothing(two: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    first = by_file(store, Raw(two))
    os.utime(two / "shots/1.png", ns=(1, 1))
    assert by_file(store, Raw(two)) == first


def test_companions_are_followed_picture_by_picture(two: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    with_companion = Raw(two, {"pictures": tmp_path / "pictures"})
    (tmp_path / "pictures/shots").mkdir(parents=True)
    first = by_file(store, with_companion)
    parts = mapped(store)
    picture(tmp_path / "pictures/shots/5.png", 5)
    assert by_file(store, with_companion) == first
    picture(tmp_path / "pictures/shots/2.png", 2)
    second = by_file(store, with_companion)
    assert ran(parts, mapped(store)) == {"a"} and sum(shown(second)) == 3


def test_a_known_picture_is_not_decoded_again(two: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []
    real = images._decode
    monkeypatch.setattr(images, "_decode", lambda data: decoded.append(data) or real(data))
    store = Store(tmp_path / "home")
    first = by_file(store, Raw(two))
    assert len(decoded) == 2, "each once: verified and stored"
    write(two / "c.jsonl", ("c", ["shots/1.png", "shots/9.png"]))
    second = by_file(store, Raw(two))
    assert len(decoded) == 3 and second.counts["images"] == first.counts["images"] + 1
    screens = {row["screenshot_sha256"]: row for row in second.read("screens").to_pylist()}
    for sha, row in screens.items():
        info = images.read_image(store.screen_bytes(sha))
        assert (row["width_px"], row["height_px"], row["phash"]) == (info.width_px, info.height_px, info.phash)


def test_large_parts_are_written_in_chunks_that_change_nothing(
    raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture(raw / "shots/1.png", 1)
    episodes = [(f"e{number:02d}", ["shots/1.png", "none.png", "none.png"]) for number in range(20, 0, -1)]
    write(raw / "a.jsonl", *episodes)
    whole = unify_source(Store(tmp_path / "whole"), "dots", Raw(raw))
    monkeypatch.setattr(chunks, "CHUNK_ROWS", 10)
    store = Store(tmp_path / "home")
    cut = unify_source(store, "dots", Raw(raw))
    assert len(mapped(store).paths("steps")) == 5
    assert cut.data_version == whole.data_version


def test_one_name_in_three_parts_is_settled_once_and_stays_so(raw: Path, tmp_path: Path) -> None:
    write(raw / "a.jsonl", ("x", ["1"]), ("x", ["2"]))
    write(raw / "b.jsonl", ("x", ["2"]), ("x", ["3"]), ("y", ["1"]))
    write(raw / "c.jsonl", ("x", ["3"]), ("x", ["1"]))
    store = Store(tmp_path / "home")
    first = unify_source(store, "dots", Raw(raw))
    rows = first.read("steps").to_pylist()
    assert sorted((row["episode_id"].partition("#")[0], row["native_action"]) for row in rows) == [
        ("x", '"1"'),
        ("x", '"2"'),
        ("x", '"3"'),
        ("y", '"1"'),
    ]
    assert len({row["episode_id"] for row in rows}) == 4 and first.counts["reasons"] == {"duplicate": 3}
    stamps = {path: path.stat().st_mtime_ns for path in (store.home / "assets").rglob("*.parquet")}
    assert unify_source(store, "dots", Raw(raw)) == first
    assert {path: path.stat().st_mtime_ns for path in (store.home / "assets").rglob("*.parquet")} == stamps


def test_what_is_read_is_recorded_and_compared(tmp_path: Path) -> None:
    root = tmp_path / "raw"
    (root / "in").mkdir(parents=True)
    (root / "in/a.txt").write_text("a")
    (root / "own.txt").write_text("o")

    def track(*calls: Any) -> Any:
        raw = TrackedRaw(root, own=frozenset({"own.txt"}))
        for call in calls:
            call(raw)
        return raw.reads()

    def now(reads: Any) -> str | None:
        with pa.ipc.new_file(tmp_path / "reads.arrow", reads.schema) as stream:
            stream.write_table(reads)
        return changes(tmp_path / "reads.arrow", Raw(root), Folders(), Raw(root).files)

    assert track(lambda raw: raw.read("own.txt")) is None
    calls = {
        "read": lambda raw: raw.read("in/a.txt"),
        "path": lambda raw: raw.path("in/b.txt").is_file(),
        "glob": lambda raw: raw.files("in/*.txt"),
        "listing": lambda raw: raw.listing("in"),
    }
    reads = {name: track(call) for name, call in calls.items()}
    assert {name: now(table) for name, table in reads.items()} == dict.fromkeys(reads)
    (root / "in/b.txt").write_text("b")
    changed = {name for name, table in reads.items() if now(table) is not None}
    assert changed == {"path", "glob", "listing"}
    (root / "in/a.txt").write_text("changed")
    assert now(reads["read"]) is not None
    with pytest.raises(RecordError, match="unsafe_path"):
        track(lambda raw: raw.read_if_there("../x"))


@pytest.mark.parametrize("root", ["raw", ".", "/"])
def test_a_tracked_path_is_that_of_raw(root: str, tmp_path: Path) -> None:
    folder = tmp_path / "raw" if root == "raw" else Path(root)
    plain, tracked = Raw(folder), TrackedRaw(folder)
    for name in ("a", "a/b.json", "a b/ü.png", "a//b", "a/./b", ".a/b", "a/.b", "a/b/", "a/../b", ".", "a/b\n"):
        assert tracked.place(name) == plain.place(name)
    for name in ("../a", "a/../../b", "/a", "a\0", "a/b/../../../c") if root == "raw" else ():
        for raw in (plain, tracked):
            with pytest.raises(RecordError, match="unsafe_path"):
                raw.place(name)
