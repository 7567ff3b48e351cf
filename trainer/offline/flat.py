"""When single steps have stopped paying, so that whole traces are next (after UItron, which doesn't say when)."""

from collections.abc import Sequence


def is_flat(rewards: Sequence[float], looks: int, gain: float) -> bool:
    """Whether the best of the last `looks` validation rewards is less than `gain` above the best before them; never
    with a gain of 0, or before there is anything to compare with."""
    if gain <= 0 or looks < 1 or len(rewards) <= looks:
        return False
    return max(rewards[-looks:]) - max(rewards[:-looks]) < gain
