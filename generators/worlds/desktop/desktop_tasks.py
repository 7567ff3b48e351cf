"""All families of tasks on the desktop. No desktop is needed.

A new task: a function Random -> DesktopTask in its program's file, and its name in that file's list.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from generators.worlds.desktop.desktop_task import DesktopTask, failed_checks
from generators.worlds.desktop.plan import perform
from generators.worlds.desktop.tasks_calculator import CALCULATOR
from generators.worlds.desktop.tasks_editor import EDITOR
from generators.worlds.desktop.tasks_files import FILES
from generators.worlds.desktop.tasks_settings import SETTINGS

__all__ = ["FAMILIES", "TASKS", "DesktopTask", "failed_checks", "make_task", "perform"]

Family = Callable[[Random], DesktopTask]

FAMILIES: dict[str, Family] = {
    **{family(Random(0)).name: family for family in (*CALCULATOR, *EDITOR, *FILES)},
    **SETTINGS,
}


def make_task(family: str, seed: int) -> DesktopTask:
    """The family's task of a seed. Raises `ValueError` for a family that there isn't."""
    if family not in FAMILIES:
        raise ValueError(f"desktop: no family of tasks {family!r:.60}; known are {', '.join(FAMILIES)}")
    return FAMILIES[family](Random(f"desktop-task/{family}/{seed}"))


TASKS: tuple[DesktopTask, ...] = tuple(make_task(family, 0) for family in FAMILIES)
"""One of every family."""
