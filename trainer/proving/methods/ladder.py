"""Tasks of two to eight steps in one app: a task goes the first steps of a ladder, and longer ones need all of them.

Three ladders of eight rungs; at each rung one of five actions leads on, any other ends the episode as failed. The
policy learns from whole trajectories whose only reward is success, so a task is hopeless until the rungs below are
learned. Each update draws four tasks of all 21; a member is told what became of them and nothing else. The start is
better on the first ladder.
"""

from collections.abc import Mapping

import torch

from trainer.online.curricula import TaskRecord
from trainer.online.curricula.assign import MEMORY, drawn, task_weights
from trainer.proving.methods import MethodCheck
from trainer.proving.methods.table_policy import TablePolicy
from trainer.rl.grpo import group_advantages
from trainer.settings.grpo import GrpoConfig
from trainer.settings.online import CurriculumConfig

LADDERS, RUNGS, ACTIONS, GROUP, TASKS = 3, 8, 5, 8, 4
MOST_STEPS = 30_000
"""Steps in the world, the budget of every member."""
WANTED = 0.7
TASK_LIST = [(ladder, steps) for ladder in range(LADDERS) for steps in range(2, RUNGS + 1)]
GRPO = GrpoConfig(std_floor=0.1)
CONFIGS: dict[str, dict[str, object]] = {
    "uniform": {"name": "uniform"},
    "staged": {"name": "staged", "options": {"stages": 7}},
    "growing_horizon": {"name": "growing_horizon", "options": {"start": 2, "by": 1, "every": 15}},
    "frontier": {"name": "frontier"},
}


def run(member: str, seed: int, share: float = 1.0) -> Mapping[str, float]:
    """Steps in the world, in thousands, until the tasks' mean success reaches 70 % (the budget where it never does);
    success (percent) of all tasks and of the hardest third at the end of half the budget."""
    generator = torch.Generator().manual_seed(seed)
    table = 0.3 * torch.randn(LADDERS * RUNGS, ACTIONS, generator=generator)
    table[:RUNGS, 0] += 2.0
    policy, config = TablePolicy(table, 0.05), CurriculumConfig.parsed(CONFIGS[member])
    names = [f"{ladder}/{steps}" for ladder, steps in TASK_LIST]
    tallies = dict.fromkeys(names, (0.0, 0.0))
    taken, update, reached, half = 0, 0, MOST_STEPS * share, (0.0, 0.0)
    while taken < MOST_STEPS * share:
        records = [
            TaskRecord(steps, str(ladder), *tallies[name])
            for name, (ladder, steps) in zip(names, TASK_LIST, strict=True)
        ]
        chosen = drawn(names, task_weights(records, update, config), TASKS, seed, update)
        states: list[int] = []
        actions: list[int] = []
        owners: list[int] = []
        rewards: list[list[float]] = []
        for place, name in enumerate(chosen):
            ladder, steps = TASK_LIST[names.index(name)]
            episodes = [_episode(policy, ladder, steps, generator) for _ in range(GROUP)]
            gains = [float(len(one) == steps and one[-1] == 0) for one in episodes]
            for member_at, one in enumerate(episodes):
                states += [ladder * RUNGS + rung for rung in range(len(one))]
                actions += one
                owners += [place * GROUP + member_at] * len(one)
            attempts, done = tallies[name]
            tallies[name] = (MEMORY * attempts + GROUP, MEMORY * done + sum(gains))
            rewards.append(gains)
        advantages = group_advantages(rewards, GRPO)
        if advantages.used:
            policy.step(states, actions, advantages, GRPO, owners)
        before, taken, update = taken, taken + len(states), update + 1
        every, hardest = success(policy)
        if every >= WANTED:
            reached = min(reached, taken)
        if before < MOST_STEPS * share / 2:
            half = every, hardest
    return {"thousand_steps": reached / 1000, "all_at_half": 100 * half[0], "hardest_at_half": 100 * half[1]}


def _episode(policy: TablePolicy, ladder: int, steps: int, generator: torch.Generator) -> list[int]:
    """The actions of an episode, up to its end or first wrong one; action 0 is right everywhere."""
    # all rungs at once: what comes after a wrong action was never asked for
    drawn_actions = policy.sample([ladder * RUNGS + rung for rung in range(steps)], generator)
    ended = next((rung for rung, one in enumerate(drawn_actions) if one), steps - 1)
    return drawn_actions[: ended + 1]


def success(policy: TablePolicy) -> tuple[float, float]:
    """Mean chance of success over all tasks, and over the longest third."""
    right = policy.log_softmax().detach()[:, 0].reshape(LADDERS, RUNGS).cumsum(1).exp()
    return float(right[:, 1:].mean()), float(right[:, -2:].mean())


CHECK = MethodCheck(
    name="ladder",
    system="CRAFT-GUI; AgentGym-RL; MobileGen",
    asks="thousand steps in the world until 70 % success (wanted: at most 0.8 of uniform's in four of five seeds)",
    members=tuple(CONFIGS),
    reference="uniform",
    figures=("thousand_steps", "all_at_half", "hardest_at_half"),
    run=run,
)
