"""Real user interfaces as task worlds: Datasette, Django admin, Dagster's own UI, desktop programs.

Their tasks come from families with a plan over roles and names that was carried out; each is found again by its id, so
that an oracle can follow it. Their evaluators hold everything else to be as it was.
"""

from functools import partial

from generators.generation.task_worlds.listed_task_world import ListedTaskWorld
from generators.tasks.task_spec import TaskSpec
from generators.worlds.app_tasks import APPS, SEEDS, desktop_works, snapshots, work_of, works
from generators.worlds.desktop.program import DesktopProgram


class _PlannedTaskWorld(ListedTaskWorld):
    def shortest(self, contract: TaskSpec) -> int | None:
        """Length of the plan that did it."""
        work = work_of(contract)
        return None if work is None else len(work.plan)


class AppTaskWorld(_PlannedTaskWorld):
    """One app; it is one target (the desktop: its programs, at most `count` of them)."""

    def __init__(self, name: str, count: int, seed: int = 0) -> None:
        if name not in APPS:
            raise ValueError(f"app task world: expected one of {', '.join(APPS)}, found {name!r:.60}")
        platform = "desktop" if name == "desktop" else "web"
        # Snapshots from here on, disjoint for every seed of a round's settings.
        first = seed * SEEDS
        super().__init__(name, platform, partial(works, name), count=count, seeds=snapshots(name), first=first)


class ProgramTaskWorld(_PlannedTaskWorld):
    """The tasks of one program of one's own, which was entered: a desktop has it beside all others. Raises `ValueError`
    for a program without tasks."""

    def __init__(self, program: DesktopProgram, count: int, seed: int = 0) -> None:
        if not program.families:
            raise ValueError(f"desktop program {program.name!r:.60}: expected families of tasks, found none")
        listed = partial(desktop_works, tuple(program.families))
        super().__init__("desktop", "desktop", listed, count=count, seeds=SEEDS, first=seed * SEEDS)
