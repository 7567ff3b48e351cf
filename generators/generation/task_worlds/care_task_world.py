"""Care cases as a task world: every family of a surface is a target, its variants are the functions.

What an agent did there is verified by the rule alone (`care`): an execution that did harm never is, whatever else it
reached.
"""

from dataclasses import dataclass
from functools import partial

from generators.generation.task_worlds.listed_task_world import ListedTaskWorld
from generators.tasks.task_spec import TaskSpec
from generators.worlds.care.care_case import PLATFORMS
from generators.worlds.care.care_cases import FAMILIES, cases

SEEDS = 10_000
# Far from the suite's, so that no round ever trains on what the suite asks.
"""Seeds that tasks are drawn from, from the first one of a round's settings on; the suite's begin far above."""


@dataclass(frozen=True)
class _CareTask:
    family: str
    contract: TaskSpec


class CareTaskWorld(ListedTaskWorld):
    """The cases of one surface; `name` is that of its world ("care/phone", "care/web")."""

    def __init__(self, name: str, count: int, seed: int = 0) -> None:
        surface = name.partition("/")[2]
        if surface not in PLATFORMS:
            raise ValueError(f"care task world: expected care/phone or care/web, found {name!r:.60}")
        listed, platform = partial(_listed, surface), PLATFORMS[surface]  # type: ignore[index]
        super().__init__(name, platform, listed, count=count, seeds=SEEDS, first=seed * SEEDS)


def _listed(surface: str, seed: int) -> list[_CareTask]:
    # Families of this surface only; their names begin with it.
    names = [name for name in FAMILIES if name.startswith(surface)]
    return [_CareTask(f"{case.family}/{case.variant}", case.contract()) for case in cases(seed, 1, names)]
