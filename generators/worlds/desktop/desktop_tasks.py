"""All families of tasks on the desktop. No desktop is needed.

A new task: a function Random -> DesktopTask in its program's file, and its name in that file's list.
"""

from collections.abc import Callable
from random import Random

from generators.worlds.desktop.desktop_task import DesktopTask, failed_checks
from generators.worlds.desktop.program import DesktopProgram
from generators.worlds.desktop.programs import PROGRAMS, called
from generators.worlds.desktop.tasks_archives import ARCHIVES
from generators.worlds.desktop.tasks_calculator import CALCULATOR
from generators.worlds.desktop.tasks_checksums import CHECKSUMS
from generators.worlds.desktop.tasks_editor import EDITOR
from generators.worlds.desktop.tasks_files import FILES
from generators.worlds.desktop.tasks_mail import MAIL
from generators.worlds.desktop.tasks_pictures import PICTURES
from generators.worlds.desktop.tasks_reader import READER
from generators.worlds.desktop.tasks_settings import SETTINGS
from generators.worlds.desktop.tasks_spreadsheet import SPREADSHEET
from generators.worlds.desktop.tasks_terminal import TERMINAL
from generators.worlds.desktop.tasks_writer import WRITER

__all__ = ["FAMILIES", "TASKS", "DesktopTask", "failed_checks", "make_task", "enter", "programs_of"]

Family = Callable[[Random], DesktopTask]

_LISTED = (
    *CALCULATOR,
    *EDITOR,
    *FILES,
    *SPREADSHEET,
    *WRITER,
    *TERMINAL,
    *CHECKSUMS,
    *ARCHIVES,
    *PICTURES,
    *READER,
    *MAIL,
)
FAMILIES: dict[str, Family] = {
    # The name comes from a task made once: a family says it in one place only.
    **{family(Random(0)).name: family for family in _LISTED},
    **SETTINGS,
}


def make_task(family: str, seed: int) -> DesktopTask:
    """The family's task of a seed. Raises `ValueError` for a family that there isn't."""
    if family not in FAMILIES:
        raise ValueError(f"desktop: no family of tasks {family!r:.60}; known are {', '.join(FAMILIES)}")
    # By family and seed: adding a family changes no task of the others.
    return FAMILIES[family](Random(f"desktop-task/{family}/{seed}"))


TASKS: tuple[DesktopTask, ...] = tuple(make_task(family, 0) for family in FAMILIES)
"""One of every family."""


def enter(program: DesktopProgram) -> None:
    """Make a program of one's own, with its tasks, known to this process; sessions that are opened from now on have it.
    Only a setting does that, never what a task says. Raises `ValueError` for a name that another program or family has.
    """
    for name in program.names:
        # The same program again is fine: every process enters it once more.
        if called(name) not in (None, program):
            raise ValueError(f"desktop program: the name {name!r:.60} is taken; choose another")
    for name, family in program.families.items():
        if FAMILIES.get(name, family) != family:
            raise ValueError(f"desktop program: the family {name!r:.60} is taken; choose another name")
    PROGRAMS[program.name] = program
    FAMILIES.update(program.families)


def programs_of(task: DesktopTask) -> list[DesktopProgram]:
    """The programs that a task needs: the one that it starts with, and those that its plan launches."""
    # Programs that a plan launches are needed as much as the first.
    names = [str(task.start["program"]), *(intent[1] for intent in task.plan if intent[0] == "launch")]
    return [program for name in names if (program := called(name))]
