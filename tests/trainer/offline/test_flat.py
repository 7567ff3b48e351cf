"""Where single steps stop paying: by hand, and on the ladders of `trainer.proving.methods.ladder`, where steps first,
then traces, go further than traces alone, on as many steps in the world."""

from __future__ import annotations

import pytest
import torch

from trainer.offline.flat import is_flat
from trainer.proving.methods import MethodCheck
from trainer.proving.methods.ladder import GROUP, GRPO, LADDERS, RUNGS, TASK_LIST, TASKS, _episode, success
from trainer.proving.methods.table_policy import TablePolicy
from trainer.rl.grpo import group_advantages


@pytest.mark.parametrize(
    ("rewards", "flat"),
    [
        ([], False),
        ([0.5, 0.5], False),  # nothing before the last two
        ([0.5, 0.5, 0.5], True),
        ([0.5, 0.4, 0.6], False),
        ([0.5, 0.6, 0.55, 0.61], True),  # a new peak, but hardly
        ([0.9, 0.1, 0.2], True),
    ],
)
def test_by_hand(rewards: list[float], flat: bool) -> None:
    assert is_flat(rewards, 2, 0.05) is flat
    assert not is_flat(rewards, 2, 0.0)


BUDGET = 8_000
"""Steps in the world."""


def reached(steps_first: bool, seed: int, budget: int = BUDGET) -> tuple[float, bool]:
    """Success of all tasks after `budget` steps in the world, and whether it learned from traces by then. A single step
    is one rung, its right action rewarded."""
    generator = torch.Generator().manual_seed(seed)
    table = 0.3 * torch.randn(LADDERS * RUNGS, 5, generator=generator)
    policy, by_steps, taken, looks = TablePolicy(table, 0.05), steps_first, 0, [0.0]
    while taken < budget:
        states: list[int] = []
        actions: list[int] = []
        owners: list[int] = []
        rewards: list[list[float]] = []
        for place in range(TASKS):
            rung = int(torch.randint(LADDERS * RUNGS, (1,), generator=generator))
            ladder, steps = TASK_LIST[int(torch.randint(len(TASK_LIST), (1,), generator=generator))]
            first, length = (rung, 1) if by_steps else (ladder * RUNGS, steps)
            tried = [
                policy.sample([rung], generator) if by_steps else _episode(policy, ladder, steps, generator)
                for _ in range(GROUP)
            ]
            for at, found in enumerate(tried):
                states += range(first, first + len(found))
                actions += found
                owners += [place * GROUP + at] * len(found)
            rewards.append([float(len(found) == length and found[-1] == 0) for found in tried])
        advantages = group_advantages(rewards, GRPO)
        if advantages.used:
            policy.step(states, actions, advantages, GRPO, owners)
        taken += len(states)
        looks.append(float(policy.log_softmax().detach().exp()[:, 0].mean()))
        by_steps = by_steps and not is_flat(looks[::5], 2, 0.02)
    return success(policy)[0], not by_steps


def run(member: str, seed: int, share: float = 1.0) -> dict[str, float]:
    """Success of all tasks, percent."""
    return {"success": 100 * reached(member == "steps, then traces", seed, round(BUDGET * share))[0]}


CHECK = MethodCheck(
    name="steps_then_traces",
    system="UItron",
    asks="success of all tasks, percent, on equal steps in the world (wanted: more in four of five seeds)",
    members=("traces alone", "steps, then traces"),
    reference="traces alone",
    figures=("success",),
    run=run,
)


@pytest.mark.slow
def test_steps_first_go_further() -> None:
    steps_first, changed = reached(True, 0)
    assert changed and steps_first > 0.1 + reached(False, 0)[0]
