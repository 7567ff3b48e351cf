"""Success replay: who stands in for whom, and that the buffer comes back from JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import torch

from trainer.online.replay import ReplayBuffer
from trainer.online.rollouts import ReplySample, Rollout
from trainer.proving.methods import MethodCheck
from trainer.proving.methods.table_policy import TablePolicy
from trainer.rl.grpo import group_advantages
from trainer.settings.grpo import GrpoConfig


def rollout(key: str, success: bool | None, task_id: str = "t", **values: Any) -> Rollout:
    sample = ReplySample("[]", b"\x89PNG\x00", "web", (5, 6), (-0.5, -1e-9), 3)
    return Rollout(key, task_id, (sample,), success, 1, 0, "finished", **values)


def test_a_group_without_a_live_success_gets_a_past_one() -> None:
    buffer = ReplayBuffer(2)
    failed = [rollout("a", False), rollout("b", False), rollout("c", None)]
    assert buffer.fill(failed, "s") == failed
    buffer.add([rollout("x", True), rollout("y", False), rollout("z", True, task_id="other")])
    filled = buffer.fill(failed, "s")
    assert [one.key for one in filled] == ["a", "x", "c"]  # the last live one gave way, the lost one stays lost
    assert [one.replayed for one in filled] == [False, True, False]
    assert filled[1].samples == rollout("x", True).samples  # its log-probabilities are the behaviour's
    live = [rollout("a", False), rollout("b", True)]
    assert buffer.fill(live, "s") == live
    lost = [rollout("a", None), rollout("b", None)]
    assert buffer.fill(lost, "s") == lost


TASKS, ACTIONS, GROUP = 12, 24, 4


def learned(replay: ReplayBuffer, seed: int, updates: int = 150) -> tuple[float, float]:
    """(share of groups without a comparison, success at the end) of a table of tasks with one right action of 24, which
    the start draws about once in twenty-four times; each update has three tasks."""
    generator = torch.Generator().manual_seed(seed)
    policy, config = TablePolicy(0.3 * torch.randn(TASKS, ACTIONS, generator=generator), 0.03), GrpoConfig()
    skipped = 0
    for update in range(updates):
        tasks = torch.randperm(TASKS, generator=generator)[:3].tolist()
        states = [task for task in tasks for _ in range(GROUP)]
        actions = policy.sample(states, generator)
        said = policy.log_softmax().detach()
        made = [
            replace(
                rollout(f"{update}/{at}", action == 0, str(state)),
                samples=(ReplySample("[]", b"", "web", (action,), (float(said[state, action]),), update),),
            )
            for at, (state, action) in enumerate(zip(states, actions, strict=True))
        ]
        groups = [replay.fill(made[at : at + GROUP], f"{seed}/{update}") for at in range(0, len(made), GROUP)]
        replay.add(made)
        shown = [one for group in groups for one in group]
        advantages = group_advantages([[float(bool(one.success)) for one in group] for group in groups], config)
        skipped += advantages.zero_variance
        behaviour = torch.tensor([one.samples[0].logprobs for one in shown])
        policy.step(states, [one.samples[0].token_ids[0] for one in shown], advantages, config, behaviour=behaviour)
    return skipped / (3 * updates), float(policy.log_softmax().detach().exp()[:, 0].mean())


HELD = {"no replay": 0, "success replay": 2}


def run(member: str, seed: int, share: float = 1.0) -> dict[str, float]:
    """In percent: success at the end, and groups without a comparison."""
    skipped, success = learned(ReplayBuffer(HELD[member]), seed, max(1, round(150 * share)))
    return {"success": 100 * success, "without_comparison": 100 * skipped}


CHECK = MethodCheck(
    name="rare_successes",
    system="ARPO",
    asks="success, percent (wanted: above plain GRPO in four of five seeds, half the groups without a comparison)",
    members=tuple(HELD),
    reference="no replay",
    figures=("success", "without_comparison"),
    run=run,
)


def test_where_successes_are_rare_replay_halves_the_groups_without_a_comparison() -> None:
    """ARPO's check; and more is learned, in four of five seeds."""
    plain, replayed = ([learned(ReplayBuffer(held), seed) for seed in range(5)] for held in (0, 2))
    assert sum(one[0] <= 0.5 * two[0] for one, two in zip(replayed, plain, strict=True)) >= 4, (plain, replayed)
    assert sum(one[1] > two[1] for one, two in zip(replayed, plain, strict=True)) >= 4, (plain, replayed)


def test_only_the_last_live_successes_are_kept() -> None:
    buffer = ReplayBuffer(2)
    buffer.add([rollout(name, True) for name in "abc"])
    buffer.add([rollout("d", True, replayed=True)])
    assert len(buffer) == 2
    drawn = {buffer.fill([rollout("f", False)], str(seed))[0].key for seed in range(20)}
    assert drawn == {"b", "c"}
    again = ReplayBuffer(2)
    again.load(json.loads(json.dumps(buffer.to_plain())))
    assert again.to_plain() == buffer.to_plain() and again.fill([rollout("f", False)], "1") == buffer.fill(
        [rollout("f", False)], "1"
    )
    again.add([replace(rollout("used", True), samples=())])  # nothing could be learned from it
    assert again.to_plain() == buffer.to_plain()
    nothing = ReplayBuffer(0)
    nothing.add([rollout("a", True)])
    assert len(nothing) == 0
