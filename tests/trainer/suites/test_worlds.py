"""Success in worlds: the world decides, infrastructure is out of the count, intervals over tasks and training seeds."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from executing import Faults, FaultyWorld, fsm_contracts, fsm_tasks, path_policies, pool
from hypothesis import given
from hypothesis import strategies as st

from generators.execution.limits import AttemptLimits
from generators.policies.policy import Decision, PolicyError, PolicyView
from generators.policies.policy_maker import PolicyMaker
from generators.tasks.task_spec import TaskSpec
from schemas.action_types import Finished
from schemas.actions import format
from trainer.modeling.tensors import parameters_digest
from trainer.statistics import crossed_interval, interval, pass_at_k
from trainer.suites.batched_worlds import why_lost
from trainer.suites.worlds import summarise, task_cluster, world_success


class Boaster:
    """Says at once that all is done."""

    name, needs_tree = "boaster", False

    def begin(self, goal: str, platform: str, seed: int) -> None: ...

    def decide(self, view: PolicyView) -> Decision:
        return Decision(format(Finished()), Finished())


class Broken(Boaster):
    """Its server fails on every task but the first."""

    name = "broken"

    def decide(self, view: PolicyView) -> Decision:
        if view.goal != fsm_tasks()[0].instruction:
            raise PolicyError("the server is gone")
        return super().decide(view)


def test_the_world_decides_not_the_policy() -> None:
    right = world_success(path_policies(), fsm_contracts(4), pool())
    assert right["summary"]["success"]["mean"] == right["summary"]["finished"]["mean"] == 1.0
    assert {r["ended"] for r in right["records"]} == {"finished"} and right["summary"]["attempts"] == 4
    boast = world_success(PolicyMaker("boaster", lambda c, w: Boaster()), fsm_contracts(4), pool())["summary"]
    assert boast["claimed"]["mean"] == 1.0 and boast["success"]["mean"] == 0.0
    assert boast["success"]["high"] > 0  # four tasks prove little


def test_attempts_give_sampled_success_and_pass_at_k(tmp_path: Path) -> None:
    told: list[dict[str, Any]] = []
    given_ = {"seeds": (0, 7), "attempts": 3, "workers": 2, "folder": tmp_path}
    report = world_success(path_policies(0.35), fsm_contracts(6), pool(), on_event=told.append, **given_)  # type: ignore[arg-type]
    records, summary = report["records"], report["summary"]
    assert len({(r["task_id"], r["seed"], r["attempt"]) for r in records}) == len(records) == 36 == len(told)
    assert [event["done"] for event in told] == list(range(1, 37))
    by_task = {t: [r["success"] for r in records if r["task_id"] == t] for t in {r["task_id"] for r in records}}
    assert summary["pass_at_k"]["1"]["mean"] == pytest.approx(summary["success"]["mean"])
    assert summary["pass_at_k"]["6"]["mean"] == sum(max(v) for v in by_task.values()) / 6
    assert summary["success"]["mean"] < summary["pass_at_k"]["6"]["mean"]
    assert summary["pass_at_k"]["6"]["contracts_short"] == 0
    assert summarise(records[1:])["pass_at_k"]["6"]["contracts_short"] == 1  # one contract has five attempts left
    again = world_success(path_policies(0.35), fsm_contracts(6), pool(never), **given_)  # type: ignore[arg-type]
    assert again == report  # nothing was run again: the journal had it all


def never() -> Any:
    raise ValueError("a device was needed")


def test_infrastructure_is_told_and_not_counted() -> None:
    hasty = AttemptLimits(retries=1, pause_s=0.001)
    report = world_success(PolicyMaker("broken", lambda c, w: Broken()), fsm_contracts(3), pool(), limits=hasty)
    summary = report["summary"]
    assert summary["attempts"] == 1 and summary["not_counted"] == {"attempts": 2, "infrastructure": 2}
    assert all("the server is gone" in why for why in summary["not_counted_why"])
    assert sum(r["success"] is None for r in report["records"]) == 2 and summary["success"]["n"] == 1


def test_failing_devices_change_no_figure() -> None:
    faults = Faults(rate=0.02, seed=3)
    limits = AttemptLimits(retries=100, pause_s=0.001)
    failing = world_success(path_policies(0.2), fsm_contracts(6), pool(lambda: FaultyWorld(faults)), limits=limits)
    assert faults.calls > 100
    assert failing == world_success(path_policies(0.2), fsm_contracts(6), pool(), limits=limits)


def test_a_state_that_its_rule_cant_read_decides_nothing() -> None:
    odd = [replace(c, evaluator={"rule": "miniwob_raw_reward", "at_least": 1}) for c in fsm_contracts(2)]
    summary = world_success(path_policies(), odd, pool())["summary"]
    assert summary["not_counted"] == {"attempts": 2, "undecided": 2} and summary["success"]["mean"] is None


def test_several_checkpoints_are_training_seeds() -> None:
    report = world_success([path_policies(0.1), path_policies(0.6)], fsm_contracts(6), pool(), seeds=(1, 2))
    summary = report["summary"]
    assert summary["runs"] == 2 and "2 training seeds" in summary["success"]["method"]
    one = summarise([r for r in report["records"] if r["run"] == 0])
    assert summary["success"]["high"] - summary["success"]["low"] > one["success"]["high"] - one["success"]["low"]


@pytest.fixture
def tiny(model: Any, processor: Any, tiny_preset: Any) -> Any:
    from dataclasses import asdict

    from trainer.modeling.checkpoint import Checkpoint, lineage

    return Checkpoint(model.eval(), processor, asdict(lineage("tiny", tiny_preset)))


def test_a_checkpoint_acts_and_resumes_only_with_the_same_weights(tiny: Any, tmp_path: Path) -> None:
    import torch

    given_: dict[str, Any] = {"max_new_tokens": 4, "folder": tmp_path}
    greedy = world_success(tiny, fsm_contracts(2), pool(), **given_)
    assert greedy["summary"]["success"]["mean"] == 0.0 and {r["ended"] for r in greedy["records"]} == {"unreadable"}
    sampled = world_success(tiny, fsm_contracts(1), pool(), attempts=2, temperature=1.0, **given_)
    assert sampled["summary"]["attempts"] == 2
    before = parameters_digest(tiny.model)
    with torch.no_grad():
        next(iter(tiny.model.parameters()))[0] += 1.0
    assert parameters_digest(tiny.model) != before
    with pytest.raises(ValueError, match="a device was needed"):  # other weights: their own journal
        world_success(tiny, fsm_contracts(1), pool(never), **given_)


def test_batched_episodes_are_the_same_again_and_go_on_after_a_kill(
    tiny: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import trainer.suites.batched_worlds as batched

    monkeypatch.setattr(batched, "CHUNK", 2)
    given_: dict[str, Any] = {"attempts": 3, "temperature": 1.0, "max_new_tokens": 4, "workers": 2}
    told: list[dict[str, Any]] = []
    first = world_success(tiny, fsm_contracts(3), pool(), folder=tmp_path, on_event=told.append, **given_)
    assert [event["done"] for event in told] == list(range(1, 10))
    assert first == world_success(tiny, fsm_contracts(3), pool(), **given_)  # another run: the same replies
    alone = world_success(tiny, fsm_contracts(3), pool(), batched=False, **given_)
    keys = [
        [(r["task_id"], r["seed"], r["attempt"], r["cluster"], r["policy"]) for r in report["records"]]
        for report in (first, alone)
    ]
    assert keys[0] == keys[1]
    [file] = tmp_path.glob("*.jsonl")
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(lines[0] + lines[1][:40])  # killed while the second chunk was written
    assert world_success(tiny, fsm_contracts(3), pool(), folder=tmp_path, **given_) == first
    assert world_success(tiny, fsm_contracts(3), pool(never), folder=tmp_path, **given_) == first


def test_four_workers_are_two_pools_whose_replies_are_the_same_again(tiny: Any) -> None:
    given_: dict[str, Any] = {"attempts": 2, "temperature": 1.0, "max_new_tokens": 4, "workers": 4}
    first = world_success(tiny, fsm_contracts(5), pool(), **given_)
    assert first == world_success(tiny, fsm_contracts(5), pool(), **given_)
    assert len(first["records"]) == 10 == len({(r["task_id"], r["attempt"]) for r in first["records"]})
    assert [r["task_id"] for r in first["records"]] == sorted(r["task_id"] for r in first["records"])


def test_a_crew_that_fails_ends_the_run(tiny: Any) -> None:
    with pytest.raises(ValueError, match="a device was needed"):
        world_success(tiny, fsm_contracts(5), pool(never), workers=4, max_new_tokens=4)


def test_batched_episodes_know_infrastructure_too(tiny: Any) -> None:
    class Gone(FaultyWorld):
        def reset(self, start: Any) -> None:
            raise RuntimeError("the emulator is gone")

    limits = AttemptLimits(retries=1, pause_s=0.001)
    summary = world_success(tiny, fsm_contracts(2), pool(Gone), workers=2, limits=limits)["summary"]
    assert summary["not_counted"] == {"attempts": 2, "infrastructure": 2} and summary["attempts"] == 0
    assert all("the emulator is gone" in why for why in summary["not_counted_why"])
    assert why_lost("reset: no such task").startswith("refused start: ")
    assert why_lost("evaluator: no reward").startswith("undecided: ")


def test_bad_requests_say_what_is_wrong(tiny: Any) -> None:
    with pytest.raises(ValueError, match="greedy attempts are all the same"):
        world_success(tiny, fsm_contracts(1), pool(), attempts=8)
    for given_ in ({"attempts": 0}, {"temperature": -1.0}, {"seeds": ()}):
        with pytest.raises(ValueError, match="world success: expected"):
            world_success(path_policies(), fsm_contracts(1), pool(), **given_)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="found 1, 0 and 1"):
        world_success(path_policies(), [], pool())


def test_a_page_with_all_its_seeds_is_one_task() -> None:
    def contract(task: str, seed: int) -> TaskSpec:
        start = {"world": "miniwob", "task": task, "seed": seed}
        return TaskSpec("x", "web", "miniwob", start, {"rule": "miniwob_raw_reward", "at_least": 0.99}, 1)

    assert task_cluster(contract("login-user", 1)) == task_cluster(contract("login-user", 2)) == "miniwob/login-user"
    assert len({task_cluster(c) for c in fsm_contracts(4)}) == 4


# --- the formulas ---


@given(st.lists(st.booleans(), min_size=1, max_size=9), st.integers(1, 9))
def test_pass_at_k_is_the_mean_over_all_choices_of_k_attempts(attempts: list[bool], k: int) -> None:
    if k > len(attempts):
        with pytest.raises(ValueError, match="k <= n"):
            pass_at_k(len(attempts), sum(attempts), k)
        return
    choices = [any(chosen) for chosen in combinations(attempts, k)]
    assert pass_at_k(len(attempts), sum(attempts), k) == pytest.approx(sum(choices) / len(choices))


def test_crossed_intervals_by_closed_form() -> None:
    # clusters all alike within a run: only the runs vary; two runs of mean 0.2 and 0.6, drawn with replacement
    values = [0.2, 0.6] * 10
    clusters, runs = [str(i // 2) for i in range(20)], ["a", "b"] * 10
    found = crossed_interval(values, clusters, runs)
    assert (found.mean, found.low, found.high) == (pytest.approx(0.4), pytest.approx(0.2), pytest.approx(0.6))
    assert crossed_interval(values, clusters, ["a"] * 20) == interval(values, clusters)
    assert math.isnan(crossed_interval([], [], []).mean)
    with pytest.raises(ValueError, match="a run for each value"):
        crossed_interval([1.0], ["a"], [])
