"""Tasks at the edge of what the policy can do, on two axes: how long they are, and what they are about (MobileGen).

A cell is a number of steps and a subject. Its success p is its own record, shrunk towards the mean of both axes'
records, so that a cell that was never tried is judged by what was; it weighs exp(−(p − 0.5)²/2s²) (`frontier_weight`).
MobileGen publishes no formula; this one is ours.
"""

from collections import defaultdict
from collections.abc import Sequence

from generators.tasks.task_sampling import FRONTIER, PRIOR, frontier_weight
from schemas.settings import Number, Settings, setting
from trainer.online.curricula import TaskRecord


class FrontierOptions(Settings):
    """Options of `frontier`."""

    prior: Number = setting(PRIOR, "Tries that a record is shrunk by.", gt=0)


def frontier(records: Sequence[TaskRecord], updates: int, **options: object) -> list[float]:
    """The weight of each task's cell, cells of many tasks weighing no more than others. Raises `ValueError` for unknown
    options."""
    prior = FrontierOptions.parsed(options, "curriculum frontier").prior
    tallies: dict[object, list[float]] = defaultdict(lambda: [0.0, 0.0])
    sizes: dict[object, int] = defaultdict(int)
    for one in records:
        sizes[one.expected_steps, one.about] += 1
        for key in (("steps", one.expected_steps), ("about", one.about), (one.expected_steps, one.about)):
            tallies[key][0] += one.attempts
            tallies[key][1] += one.successes

    def rate(key: object, towards: float) -> float:
        attempts, successes = tallies[key]
        return (successes + prior * towards) / (attempts + prior)

    found = []
    for one in records:
        cell = (one.expected_steps, one.about)
        both = (rate(("steps", one.expected_steps), FRONTIER) + rate(("about", one.about), FRONTIER)) / 2
        found.append(frontier_weight(rate(cell, both)) / sizes[cell])
    return found
