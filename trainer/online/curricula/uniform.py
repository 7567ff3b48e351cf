"""Every task weighs the same: the reference of the other members.

The default of a run is something else: no curriculum at all, every task getting its turn (`trainer.online.strata`).
"""

from collections.abc import Sequence

from trainer.online.curricula import TaskRecord


def uniform(records: Sequence[TaskRecord], updates: int) -> list[float]:
    """1 for each task."""
    return [1.0] * len(records)
