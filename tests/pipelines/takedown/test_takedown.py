"""Records that were taken down are gone: from tables, shards and pictures."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from goldmaker import gold, screen_row, step_row
from hypothesis import given
from hypothesis import strategies as st

from pipelines.mapping.adapter import Raw
from pipelines.store import PartSpec, PartWriter, Store
from pipelines.store.collect_garbage import survey
from pipelines.store.current_version import read_history
from pipelines.store.files import StoreError, file_sha256
from pipelines.store.manifest import Manifest
from pipelines.takedown.check import verify
from pipelines.takedown.takedown import TakedownReport, take_down
from pipelines.takedown.withdrawn import NAME, TakenDown, WithdrawnEntry, read_list
from pipelines.training_data.mixture import build_mixture, shards_of
from pipelines.training_data.shards import build_shards
from schemas.ids import canonical_json
from schemas.tables import Screens, Steps, Tasks, Trajectories, TrajectoryRuns

pytestmark = pytest.mark.slow

KEYS = ("unified/toy", "gold/toy", "mid_training/shards", "mid_training/mixture")


def nothing(source: str) -> Raw | None:
    return None


def whole(manifest: Manifest) -> bool:
    """Whether all files of a version are as its manifest says."""
    return all(file_sha256(manifest.root / e.path) == e.sha256 for e in (*manifest.files, *manifest.side_files))


@pytest.fixture
def packed(store: Store) -> Store:
    """Gold of ten episodes in two parts, with shards and a mixture of all rows."""
    gold(store, count=10, parts=2)
    build_shards(store, ["toy"])
    build_mixture(store, duplicates=False)
    return store


def bytes_of(store: Store) -> bytes:
    """All that stands in the store, tables as rows."""
    found = []
    for path in sorted(store.home.rglob("*")):
        if path.is_file() and path.name != NAME:
            found.append(
                repr(pq.read_table(path).to_pylist()).encode() if path.suffix == ".parquet" else path.read_bytes()
            )
    return b"\n".join(found)


def test_one_step_takes_its_episode_out_of_every_table_and_shard(packed: Store) -> None:
    steps = packed.require("unified/toy").read("steps").to_pylist()
    mine = [row for row in steps if row["episode_id"] == "e0002"]
    before = {key: packed.require(key) for key in KEYS}
    others = before["mid_training/shards"].read("index").to_pylist()
    shas = {row["screenshot_sha256"] for row in mine}
    report, taken = take_down(packed, [WithdrawnEntry("step:toy/e0002/1", "a person asked")], nothing)
    assert report.screens == len(shas) == 3 and not report.unknown and set(report.rows) == set(before)
    held = bytes_of(packed)
    words = (b"'e0002'", b'"e0002"', b"toy/e0002", b"task 2 of toy", *(sha.encode() for sha in shas))
    assert not any(word in held for word in words)
    assert verify(packed.home, taken, {}) == []
    for key, old in before.items():
        now = packed.require(key)
        assert whole(now) and now.version == report.versions[f"{key}@{old.version}"]
        [told] = now.counts["takedown"]
        assert told["from"] == old.version and sum(told["rows"].values()) == report.rows[key] > 0
        assert read_history(now.root)[-1].action == "taken down"
        with pytest.raises(StoreError, match=f"taken down, {now.version} took its place"):
            packed.version(key, old.version)
        assert {name: packed.version(name, value).version for name, value in now.inputs.items()} == now.inputs
    # the index finds each row, and the mixture holds the others with their tokens
    shards, mixture = packed.require("mid_training/shards"), packed.require("mid_training/mixture")
    where = {path.name: pq.ParquetFile(path) for path in shards.paths("shard")}
    index = shards.read("index").to_pylist()
    assert {row["sample_id"] for row in index} == {row["sample_id"] for row in others} - taken.samples
    for row in index:
        table, group = (
            where[row["shard"]].read(columns=["sample_id"]),
            where[row["shard"]].read_row_group(row["row_group"]),
        )
        assert table["sample_id"][row["row"]].as_py() == row["sample_id"] in group["sample_id"].to_pylist()
    by_place = {(row["shard"], row["row"]): row for row in index}
    for shard in mixture.read("mixture").to_pylist():
        assert file_sha256(shards_of(packed, mixture, [shard["shard"]])[0]) == shard["sha256"]
        chosen = [by_place[shard["shard"], row] for row in shard["rows"]]
        assert [row["row_group"] for row in chosen] == shard["row_groups"]
        assert sum(r["tokens"] * n for r, n in zip(chosen, shard["repeats"], strict=True)) == shard["tokens"]
    assert survey(packed, 1).files == 0, "what took the place of a version is reachable"


def test_a_picture_takes_the_records_that_show_it_along(packed: Store) -> None:
    steps = packed.require("unified/toy").read("steps").to_pylist()
    shown = next(row["screenshot_sha256"] for row in steps if row["episode_id"] == "e0000")
    report, taken = take_down(packed, [WithdrawnEntry(f"screen:{shown}", "shows a face")], nothing)
    assert report.screens >= 1 and verify(packed.home, taken, {}) == []
    with pytest.raises(StoreError, match="is not in"):
        packed.screen_path(shown)
    left = packed.require("unified/toy").read("steps").to_pylist()
    assert {row["episode_id"] for row in steps} - {row["episode_id"] for row in left} == {"e0000"}


def test_a_generated_episode_takes_what_is_told_of_its_execution_along(store: Store) -> None:
    """Tables of executions and their lines have neither source nor episode; the attempts of a task may look alike, and
    the other one stays."""
    shown = screen_row(store, 0, "generated")
    names = ["ab12-0", "ab12-1"]
    spec = PartSpec("a", "1")

    def write(out: PartWriter) -> None:
        steps = [step_row(name, 0, shown["screenshot_sha256"], source="generated") for name in names]
        out.table("steps", Steps.table(steps))
        out.table("screens", Screens.table([shown]))
        told = {
            "policy": "p",
            "ended": "finished",
            "turns": 1,
            "outcome": "completed",
            "verified": True,
            "reason": "r",
            "votes": "[]",
        }
        out.table(
            "trajectories",
            Trajectories.table(
                {
                    **told,
                    "trajectory_id": name,
                    "task_id": "ab12",
                    "seed": seed,
                    "answer": f"it is {name}",
                    "end_state": canonical_json({"user": f"user {seed}"}),
                }
                for seed, name in enumerate(names)
            ),
        )
        run = {
            "device": "d",
            "seconds": 1.0,
            "resumed": 0,
            "anew": 0,
            "failures": [],
            "observe_s": [],
            "decide_s": [],
            "act_s": [],
            "prompt_tokens": 0,
            "completion_tokens": 0,
        }
        out.table("trajectory_runs", TrajectoryRuns.table({**run, "trajectory_id": name} for name in names))
        lines = ({"contract": {"task_id": "ab12"}, "seed": seed, "answer": f"user {seed}"} for seed in (0, 1))
        out.path("trajectories.jsonl").write_text("".join(canonical_json(line) + "\n" for line in lines))

    with store.build("generation/verified/round_001", code_version="1", parts=[spec]) as build:
        build.run_part(spec, write)
        round_1 = build.commit()
    tried = {
        "task_id": "ab12",
        "instruction": "look",
        "platform": "web",
        "target": "t",
        "capabilities": [],
        "initial_state": "{}",
        "evaluator": "{}",
        "expected_steps": 2,
        "stratum": "easy",
        "origin": "dynamic",
        "parents": [f"episode:generated/{name}" for name in names],
    }
    inputs = {round_1.asset: round_1.version}
    with store.build("task_pool/generated", code_version="1", inputs=inputs, parts=[spec]) as build:
        build.run_part(spec, lambda out: out.table("tasks", Tasks.table([tried])))
        build.commit()
    asked = WithdrawnEntry("episode:generated/ab12-1", "asked")
    expected = TakenDown()
    expected.add([asked])
    left = verify(store.home, expected, {})
    assert sorted(Path(one.place).suffix for one in left) == [".jsonl", *4 * [".parquet"]], "the proof sees all five"
    report, taken = take_down(store, [asked], nothing)
    assert report.unknown == [] and taken.samples == set()
    assert verify(store.home, taken, {}) == []
    now = store.require("generation/verified/round_001")
    for table, name in (
        ("steps", "episode_id"),
        ("trajectories", "trajectory_id"),
        ("trajectory_runs", "trajectory_id"),
    ):
        assert [row[name] for row in now.read(table).to_pylist()] == ["ab12-0"], table
    held = bytes_of(store)
    assert b"user 1" not in held and b"it is ab12-1" not in held and held.count(b"user 0") == 2


def test_what_the_store_never_had_is_remembered_and_the_proof_can_fail(packed: Store) -> None:
    unknown = WithdrawnEntry("record:toy/nobody", "asked early")
    report, taken = take_down(packed, [unknown], nothing)
    assert (
        report.unknown == [unknown.id]
        and not report.rows
        and TakenDown.load(packed.home).reasons == {unknown.id: "asked early"}
    )
    assert verify(packed.home, taken, {}) == []
    taken.add([WithdrawnEntry("episode:toy/e0001", "not done yet")])
    places = {left.place.split("/")[1] for left in verify(packed.home, taken, {})}
    assert {"unified", "gold"} <= places
    (packed.home / "notes.txt").write_text('about "episode:toy/e0001"')
    assert any(left.place == "notes.txt" for left in verify(packed.home, taken, {}))


KILLED = """
import sys, time
from pathlib import Path
from pipelines.takedown import assets as takedown_assets, takedown
from pipelines.store import Store
from pipelines.takedown.withdrawn import WithdrawnEntry
place = sys.argv[2]
def halt(*_, **__):
    print("here", flush=True); time.sleep(600)
if place == "two versions made":
    commit, count = takedown_assets.VersionRewriter._commit, []
    def counted(self, *given):
        count.append(1)
        halt() if len(count) == 3 else commit(self, *given)
    takedown_assets.VersionRewriter._commit = counted
elif place == "half removed":
    takedown_assets._remove_unnamed = halt
else:
    takedown._remove_screens = halt
takedown.take_down(Store(sys.argv[1]), [WithdrawnEntry("episode:toy/e0002", "asked")], lambda source: None)
"""


@pytest.mark.parametrize("place", ["two versions made", "half removed", "pictures"])
def test_killed_anywhere_a_run_without_a_list_ends_it(packed: Store, place: str) -> None:
    shas = {
        row["screenshot_sha256"]
        for row in packed.require("unified/toy").read("steps").to_pylist()
        if row["episode_id"] == "e0002"
    }
    child = subprocess.Popen([sys.executable, "-c", KILLED, str(packed.home), place], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "here\n"
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert all(packed.current(key) is not None for key in KEYS), "each pointer names a version that is there"
    _, taken = take_down(packed, [], nothing)
    assert verify(packed.home, taken, {}) == []
    assert not any(list((packed.home / "screens").glob(f"*/{sha}.*")) for sha in shas)
    assert all(whole(packed.require(key)) for key in KEYS)
    again, _ = take_down(packed, [], nothing)
    assert (again.rows, again.versions, again.screens) == ({}, {}, 0)


def test_lists_are_read_or_refused_by_line(tmp_path: Path) -> None:
    good = tmp_path / "a.csv"
    with good.open("w", newline="") as stream:
        csv.writer(stream).writerows([["id", "reason"], ["episode:aitw/x, y", "asked, twice"]])
    assert read_list(good) == [WithdrawnEntry("episode:aitw/x, y", "asked, twice")]
    lines = tmp_path / "a.jsonl"
    lines.write_text(json.dumps({"id": "sample:" + "0" * 32, "reason": "r"}) + "\n")
    assert read_list(lines)[0].kind == "sample"
    for text, said in (
        ('{"id": "x"}', "texts `id` and `reason`"),
        ('{"id": "screen:../x", "reason": "r"}', "expected sample:"),
        ('{"id": "record:aitw/1", "reason": " "}', "a reason of 1"),
        ("{", "row 1"),
        ("", "at least one"),
    ):
        lines.write_text(text)
        with pytest.raises(ValueError, match=said):
            read_list(lines)
    with pytest.raises(ValueError, match=r"\.csv or \.jsonl"):
        read_list(tmp_path / "a.txt")


@given(st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=8), max_size=4), st.text(min_size=1))
def test_what_is_remembered_comes_back_as_it_was(records: dict[str, str], name: str) -> None:
    taken = TakenDown(reasons={"episode:x/" + name: "r"}, records={"x": records}, episodes={"episode:x/" + name})
    plain = json.loads(taken.to_json())
    assert plain["records"] == {"x": records} and plain["episodes"] == ["episode:x/" + name]
    assert taken.stands_in(
        json.dumps({"item": f"episode:x/{name}"}, ensure_ascii=False).encode("utf-8", "surrogatepass")
    )


def test_what_an_older_version_remembered_is_read(tmp_path: Path) -> None:
    plain = json.loads(TakenDown(reasons={"sample:a": "r"}, samples={"a"}).to_json())
    (tmp_path / NAME).write_text(json.dumps({**plain, "judged": True}))
    assert TakenDown.load(tmp_path) == TakenDown(reasons={"sample:a": "r"}, samples={"a"})


def test_a_build_in_progress_is_waited_for(packed: Store) -> None:
    with (
        packed.build("gold/toy", code_version="9"),
        pytest.raises(StoreError, match="gold/toy is being built by process"),
    ):
        take_down(packed, [WithdrawnEntry("episode:toy/e0002", "asked")], nothing)
    assert not (packed.home / NAME).exists()
    assert isinstance(take_down(packed, [WithdrawnEntry("episode:toy/e0002", "asked")], nothing)[0], TakedownReport)
