"""Short tasks first, and longer ones with time, whatever the success (after AgentGym-RL's ScalingInter-RL).

The horizon of update u is h(u) = `start` + `by` · ⌊u / `every`⌋ expected steps. AgentGym-RL bounds the interactions of
all tasks by such a schedule; here a task is drawn once it fits in: one that can't be done in time teaches nothing.
"""

from collections.abc import Sequence

from schemas.settings import Settings, Whole, setting
from trainer.online.curricula import TaskRecord


class GrowingHorizonOptions(Settings):
    """Options of `growing_horizon`."""

    start: Whole = setting(2, "Expected steps of the longest tasks at first.", ge=1)
    by: Whole = setting(1, "How many steps longer they become at a time.", ge=1)
    every: Whole = setting(10, "Updates until then.", ge=1)


def growing_horizon(records: Sequence[TaskRecord], updates: int, **options: object) -> list[float]:
    """1 for tasks within the horizon, 0 for longer ones; the shortest are always within. Raises `ValueError` for
    unknown options."""
    config = GrowingHorizonOptions.parsed(options, "curriculum growing_horizon")
    horizon = config.start + config.by * (updates // config.every)
    shortest = min((one.expected_steps for one in records), default=0)
    return [float(one.expected_steps <= max(horizon, shortest)) for one in records]
