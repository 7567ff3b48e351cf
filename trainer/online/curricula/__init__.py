"""Curricula: which tasks an update draws, by a pure function of what was tried so far, chosen by name.

A curriculum is one function: the record of every task, the number of updates so far, and its own options by name → a
weight of 0 or more for each task. `trainer.online.curricula.assign` makes them sum to 1 and lays a floor under them, so
that no task is given up for good.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskRecord:
    """A task as a curriculum sees it: how many steps it is expected to take, what it is about, and how often it was
    tried and done lately (older tries count less, so both are fractions)."""

    expected_steps: int
    about: str
    attempts: float = 0.0
    successes: float = 0.0


MEMBERS = {
    "uniform": "trainer.online.curricula.uniform:uniform",
    "staged": "trainer.online.curricula.staged:staged",
    "growing_horizon": "trainer.online.curricula.growing_horizon:growing_horizon",
    "frontier": "trainer.online.curricula.frontier:frontier",
}
