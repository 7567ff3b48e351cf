"""Rounds over a store, with real Chromium: what is written, what later rounds learn from, what a rerun does."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from executing import FaultyWorld, pool

from generators.devices.browser import BrowserMissing, find_chromium
from generators.execution.device_pool import LocalPool
from generators.execution.limits import AttemptLimits
from generators.generation import rounds
from generators.generation.feedback import known_before, promote, promoted, rounds_of, rounds_to_make
from generators.generation.generated_pool import build_pool
from generators.generation.gold import build_generated
from generators.generation.learned import learned
from generators.generation.loop import LoopConfig, LoopParts
from generators.generation.records import from_plain, read_lines, to_plain
from generators.generation.round_names import BANK, CATALOGUE, TRAJECTORIES, VERIFIED, round_name, round_number
from generators.generation.rounds import build_bank, run_round
from generators.generation.static_task_pool import build_static
from generators.generation.verified_demonstrations import memory_before
from generators.policies.policy import Policy
from generators.policies.policy_maker import PolicyMaker
from generators.policies.registry import scripted
from generators.tasks.task_pool import build_shards
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import World
from generators.worlds.evaluators import holds
from pipelines.derivers.trajectories import TRAJECTORY_DERIVERS
from pipelines.derivers.trajectory_config import TrajectoryConfig
from pipelines.store import Check, Store, StoreError
from pipelines.store.frozen import freeze
from schemas.tables import Samples, Screens, Steps, Tasks, Trajectories

pytestmark = pytest.mark.slow

CONFIG = LoopConfig(targets=2, tasks=2, mix=(0.5, 0.5, 0.0))


def files_of(store: Store) -> dict[str, int]:
    found = (path for path in (store.home / "assets").rglob("*") if path.is_file() and path.name != "current.json")
    return {str(path): path.stat().st_mtime_ns for path in found}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Two rounds in a real browser."""
    try:
        find_chromium()
    except BrowserMissing as error:
        pytest.skip(str(error))
    made = Store(tmp_path_factory.mktemp("rounds"))
    for number in (1, 2):
        run_round(made, number, CONFIG, LoopParts(workers=1))
    return made


def test_a_round_leaves_tasks_trajectories_and_verdicts(store: Store) -> None:
    assert rounds_of(store, VERIFIED) == ["round_001", "round_002"]
    for name in ("round_001", "round_002"):
        bank, runs, verified = (store.require(f"{asset}/{name}") for asset in (BANK, TRAJECTORIES, VERIFIED))
        contracts = {row["task_id"]: TaskSpec.from_row(row) for row in bank.read("tasks", Tasks.schema).to_pylist()}
        trajectories = read_lines(runs.file("trajectories.jsonl"))
        assert {done.contract.task_id for done in trajectories} == set(contracts)
        assert [from_plain(to_plain(done)) for done in trajectories] == trajectories
        rows = {row["trajectory_id"]: row for row in verified.read("trajectories", Trajectories.schema).to_pylist()}
        for done in trajectories:
            row = rows[done.trajectory_id]
            assert not row["verified"] or holds(done.contract.evaluator, done.end_state), row
            assert row["end_state"] == "{}" or json.loads(row["end_state"]) == done.end_state
        shown = set(verified.read("screens", Screens.schema)["screenshot_sha256"].to_pylist())
        for sha256 in verified.read("steps", Steps.schema)["screenshot_sha256"].to_pylist():
            assert sha256 in shown and store.screen_bytes(sha256)[:4] == b"\x89PNG"
        assert verified.counts["executed"] == verified.counts["trajectories"] == len(contracts)
        assert verified.counts["yield"] <= verified.counts["feasible"]


def test_later_rounds_learn_from_promoted_ones_before_them_alone(store: Store) -> None:
    first, second = (store.require(f"{CATALOGUE}/round_00{n}") for n in (1, 2))
    assert first.inputs == {} and first.counts["coverage"] == 0
    assert second.inputs == {f"{VERIFIED}/round_001": store.require(f"{VERIFIED}/round_001").version}
    catalogue = learned(store, list(known_before(store, 2).values()))
    assert catalogue.names and catalogue.arms["static"].executed == CONFIG.tasks
    assert known_before(store, 1) == {} and not learned(store, []).names
    assert catalogue.explorations and all(e.screens for e in catalogue.explorations.values())


def test_without_feedback_a_round_keeps_its_demonstrations(store: Store) -> None:
    blind = replace(CONFIG, feedback=False)
    assert rounds.build_catalogue(store, 3, blind).inputs == {}
    before = memory_before(store, 3, feedback=False)
    build_bank(store, 3, blind)
    assert len(memory_before(store, 3, feedback=False)) == len(before) > 0
    for asset in (CATALOGUE, BANK):
        shutil.rmtree(store.root(f"{asset}/round_003"))


def test_a_round_whose_tasks_are_made_keeps_what_it_learned_from(store: Store) -> None:
    """As a backfill that is launched again finds more rounds promoted than its rounds began with."""
    whole = promoted(store)
    assert list(known_before(store, 3)) == ["round_001", "round_002"]
    freeze(store.home, "feedback/verified", {"digest": "0" * 16, "rounds": {"round_001": whole["rounds"]["round_001"]}})
    began = rounds.build_catalogue(store, 3, CONFIG)
    assert list(began.inputs) == [f"{VERIFIED}/round_001"]
    build_bank(store, 3, CONFIG)
    promote(store)
    assert promoted(store)["rounds"] == whole["rounds"] and list(known_before(store, 4)) == ["round_001", "round_002"]
    assert rounds.build_catalogue(store, 3, CONFIG).version == began.version
    assert list(known_before(store, 3)) == ["round_001"]
    shutil.rmtree(store.home / "feedback" / "verified" / ("0" * 16))


def test_a_rerun_does_no_work(store: Store) -> None:
    def never(contract: object, world: object) -> object:
        raise AssertionError("nothing is left to execute")

    before, again = (
        files_of(store),
        LoopParts(policies=lambda _: PolicyMaker("scripted-0.02", never), pool=LocalPool({})),
    )  # type: ignore[arg-type]
    made = run_round(store, 2, CONFIG, again)
    assert made.version == store.require(f"{VERIFIED}/round_002").version and files_of(store) == before


def test_the_words_that_a_model_is_asked_in_are_part_of_a_round(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*arguments: object, **options: object) -> object:
        raise LookupError("executed")

    monkeypatch.setattr(rounds, "run_all", never)
    made = store.require(f"{TRAJECTORIES}/round_002").version
    same, other = (
        LoopParts(policies=lambda _, wording=wording: PolicyMaker("scripted-0.02", never, wording), pool=LocalPool({}))
        for wording in ("", "v2 0123")
    )
    assert rounds.build_trajectories(store, 2, CONFIG, same).version == made
    with pytest.raises(LookupError, match="executed"):
        rounds.build_trajectories(store, 2, CONFIG, other)


def test_promoting_pins_versions_and_repeats_nothing(store: Store) -> None:
    now = promoted(store)
    assert set(now["rounds"]) == {"round_001", "round_002"} and promote(store) == now
    assert len(list((store.home / "feedback" / "verified").glob("*/manifest.json"))) == 2  # one a round


def test_verified_trajectories_become_gold_and_tasks(store: Store) -> None:
    gold, pool = build_generated(store), build_pool(store)
    verified = sum(store.require(f"{VERIFIED}/{name}").counts["verified"] for name in rounds_of(store, VERIFIED))
    steps, samples = gold.read("steps", Steps.schema), gold.read("samples", Samples.schema)
    assert gold.checks_passed and len(pc.unique(steps["episode_id"])) == verified == gold.counts["verified"]
    assert set(samples["source"].to_pylist()) == {"generated"} and all(samples["synthetic"].to_pylist())
    assert set(steps["episode_outcome"].to_pylist()) == {"success"}
    tasks = pool.read("tasks", Tasks.schema).to_pylist()
    assert len(tasks) == verified and {task["origin"] for task in tasks} == {"dynamic"}
    for task in tasks:
        runs = [item.partition("generated/")[2] for item in task["parents"]]
        acts = steps.filter(pc.is_in(steps["episode_id"], value_set=pc.cast(runs, steps["episode_id"].type)))
        assert len(runs) == 1 and task["expected_steps"] == acts.num_rows - 1  # Finished is no step of it
    shards = build_shards(store)
    assert shards.checks_passed and shards.counts["tasks"] == len(tasks)
    assert store.screens_of("generated") == gold


def test_whole_runs_give_samples_beside_those_of_gold(store: Store, tmp_path: Path) -> None:
    other = Store(tmp_path / "home")
    shutil.copytree(store.home, other.home)
    plain = build_generated(other)
    config = TrajectoryConfig(derivers=("step_data",), rough_from=5)
    made = build_generated(other, config)
    assert made.checks_passed and made.version != plain.version
    names = {"every sample has one destination", "no failure teaches its end"}
    assert names <= {check.name for check in made.checks} and not names & {check.name for check in plain.checks}
    before, after = (one.read("samples", Samples.schema).to_pylist() for one in (plain, made))
    of_runs = [row for row in after if "kind" in json.loads(row["provenance"])]
    assert [row for row in after if row not in of_runs] == before
    assert len(of_runs) == made.counts["of trajectories"] > 0
    judged = made.read("judge_samples", Samples.schema).to_pylist()
    assert len(judged) == made.counts["judge_samples"]
    runs = {
        f"episode:generated/{row['trajectory_id']}"
        for name in rounds_of(other, VERIFIED)
        for row in other.require(f"{VERIFIED}/{name}").read("trajectories", Trajectories.schema).to_pylist()
    }
    assert {row["parents"][0] for row in [*of_runs, *judged]} <= runs
    shown = {sha for row in [*of_runs, *judged] for sha in row["images"]}
    assert shown <= set(made.read("screens", Screens.schema)["screenshot_sha256"].to_pylist())
    assert build_generated(other, config).version == made.version
    with pytest.raises(ValueError, match="no_such"):
        build_generated(other, TrajectoryConfig(derivers=("no_such",)))
    replayed = build_generated(other, config.changed(derivers=tuple(TRAJECTORY_DERIVERS), replay=("fsm",)))
    counts = replayed.counts
    assert replayed.checks_passed and counts["replay:located"] == counts["trajectories"], "what Chromium recorded"
    assert counts["kind:reversal"] > 0 and counts["kind:opened_by"] > 0 and counts["kind:subgoals"] > 0


def test_what_is_done_to_the_worlds_is_a_setting_of_the_round(tmp_path: Path) -> None:
    store, config = Store(tmp_path), replace(CONFIG, faults=0.5, late=0.2)
    made = run_round(store, 1, config, LoopParts(workers=1, pool=pool()))
    runs = store.require(f"{TRAJECTORIES}/round_001")
    assert made.counts["executed"] == runs.counts["trajectories"] == 2 and runs.counts["faults"] > 0
    assert set(config.plain) - set(CONFIG.plain) == {"faults", "late"}, "older rounds still fit"
    with pytest.raises(ValueError, match=r"loop: late: expected a share in 0\.\.1"):
        replace(CONFIG, late=2)


def test_an_outage_commits_nothing_and_what_it_lost_is_executed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, asset = Store(tmp_path), f"{TRAJECTORIES}/round_001"
    down, opened, executed = [True], [], []

    def device() -> FaultyWorld:
        opened.append(1)
        if down and len(opened) > 1:
            raise OSError("gateway unreachable")
        return FaultyWorld()

    def make(contract: TaskSpec, world: World) -> Policy:
        executed.append(contract.task_id)
        return scripted().make(contract, world)

    parts = LoopParts(
        pool=pool(lambda: once(device())),
        workers=1,
        limits=AttemptLimits(device_s=0.05, retries=0, pause_s=0),
        policies=lambda config: PolicyMaker("scripted-0", make),
    )

    def once(world: FaultyWorld) -> FaultyWorld:
        """A device that breaks after its first task."""
        resets, reset = [0], world.reset

        def counted(start: Mapping[str, Any]) -> None:
            resets[0] += 1
            if down and resets[0] > 1:
                raise RuntimeError("the device has gone")
            reset(start)

        world.reset = counted  # type: ignore[method-assign]
        return world

    config = replace(CONFIG, tasks=3)
    rounds.build_catalogue(store, 1, config)
    build_bank(store, 1, config)
    for _ in range(2):
        with pytest.raises(StoreError, match=r"found 2 of 3.*nothing was committed\..*what was lost is executed anew"):
            rounds.build_trajectories(store, 1, config, parts)
        assert store.current(asset) is None
    done_first = executed[0]
    down.clear()
    made = rounds.build_trajectories(store, 1, config, parts)
    assert made.checks_passed and made.counts["infrastructure failures"] == 0
    assert executed.count(done_first) == 1 and len(set(executed)) == 3  # what had ended was kept
    store = Store(tmp_path / "again")
    rounds.build_catalogue(store, 1, config)
    build_bank(store, 1, config)
    down.append(True)
    opened[:] = [1]
    monkeypatch.setattr(rounds, "REOPENINGS", 1)
    for told in ("server right, and run it again", r"right, then delete .*\.journal and run it again"):
        with pytest.raises(StoreError, match=told):
            rounds.build_trajectories(store, 1, config, parts)


def test_a_bank_is_checked_for_this_rounds_tasks(tmp_path: Path) -> None:
    store, config = Store(tmp_path), replace(CONFIG, targets=8, tasks=24)
    rounds.build_catalogue(store, 1, config)
    task = build_bank(store, 1, config).read("tasks", Tasks.schema).to_pylist()[0]
    build_static(
        store,
        tasks=[
            {
                "instruction": f"{task['instruction']} Please.",
                "platform": "web",
                "target": "pages/x",
                "capabilities": [],
                "initial_state": {},
                "evaluator": {"rule": "page_state"},
                "expected_steps": 3,
                "parents": [],
            }
        ],
    )
    stricter = replace(config, epsilon=0.8)  # than what earlier rounds were held against
    for number, now in ((2, config), (3, stricter)):
        rounds.build_catalogue(store, number, now)
        made = build_bank(store, number, now)
        assert made.checks_passed and made.counts["closest"] < now.epsilon
        assert made.counts["bank"] > made.counts["tasks"] * number


def test_a_round_without_verdicts_is_made_before_later_ones(tmp_path: Path) -> None:
    store = Store(tmp_path)

    def verdicts(number: int, good: bool = True) -> None:
        with store.build(f"{VERIFIED}/{round_name(number)}", code_version="1", config={}, inputs={}) as build:
            build.commit(checks=[Check("every trajectory once", good, "1", "1")])

    assert list(islice(rounds_to_make(store), 2)) == [1, 2]
    verdicts(1)
    store.root(f"{VERIFIED}/round_002").mkdir(parents=True)  # killed: the folder and its lock come before any work
    verdicts(3, good=False)
    verdicts(4)
    numbers = rounds_to_make(store)
    assert [next(numbers), next(numbers)] == [2, 3]
    verdicts(3)
    assert next(numbers) == 5 and list(islice(rounds_to_make(store), 2)) == [2, 5]


def test_bad_rounds_are_named(tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(StoreError, match="generation/catalogue/round_001: nothing committed yet"):
        build_bank(store, 1, CONFIG)
    for build in (build_generated, build_pool):
        with pytest.raises(StoreError, match="no round has been verified yet"):
            build(store)
    with pytest.raises(ValueError, match="expected a name such as round_001, found 'round_1'"):
        round_number("round_1")
    with pytest.raises(ValueError, match="3 shares that sum to 1"):
        LoopConfig(mix=(0.5, 0.4, 0.3))
