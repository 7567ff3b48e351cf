"""All families of tasks on the desktop, and drawing rows for the task pool from them. No desktop is needed.

A new task: a function Random -> DesktopTask in its program's file, and its name in that file's list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

from generators.environments.desktop.plan import perform
from generators.environments.desktop.task import DesktopTask, failed_checks
from generators.environments.desktop.tasks_calculator import CALCULATOR
from generators.environments.desktop.tasks_editor import EDITOR
from generators.environments.desktop.tasks_files import FILES
from generators.environments.desktop.tasks_settings import SETTINGS

__all__ = ["FAMILIES", "TASKS", "DesktopTask", "desktop_tasks", "failed_checks", "make_task", "perform"]

Family = Callable[[Random], DesktopTask]

FAMILIES: dict[str, Family] = {
    **{family(Random(0)).name: family for family in (*CALCULATOR, *EDITOR, *FILES)}, **SETTINGS,
}  # fmt: skip


def make_task(family: str, seed: int) -> DesktopTask:
    """The family's task of a seed. Raises `ValueError` for a family that there isn't."""
    if family not in FAMILIES:
        raise ValueError(f"desktop: no family of tasks {family!r:.60}; known are {', '.join(FAMILIES)}")
    return FAMILIES[family](Random(f"desktop-task/{family}/{seed}"))


def desktop_tasks(seed: int, count: int) -> Iterator[DesktopTask]:
    """At most `count` tasks, families in turn, none twice: fewer where the families have no more to give."""
    given: set[str] = set()
    made = barren = number = 0
    while made < count and barren < 20:
        barren += 1
        for family in FAMILIES:
            task = make_task(family, seed * 1_000_003 + number)
            if made < count and (task_id := task.contract().task_id) not in given:
                given.add(task_id)
                made, barren = made + 1, 0
                yield task
        number += 1


TASKS: tuple[DesktopTask, ...] = tuple(make_task(family, 0) for family in FAMILIES)
"""One of every family."""
