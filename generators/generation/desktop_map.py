"""Tasks in the programs of a real desktop, each proven by its plan."""

from collections.abc import Collection, Iterator

from generators.tasks.world_interface import WorldError
from generators.worlds.desktop.desktop_task import DesktopTask
from generators.worlds.desktop.desktop_tasks import FAMILIES, make_task, programs_of
from generators.worlds.desktop.desktop_world import DesktopWorld
from generators.worlds.desktop.plan import prove
from generators.worlds.desktop.session import open_desktop


def tried_tasks(programs: Collection[str], only: Collection[str] = ()) -> Iterator[tuple[DesktopTask, str]]:
    """A task of each family (of those of `only`, if it names any) that these programs are enough for, with what is
    wrong with it on a desktop: "" proves it. Raises `DesktopMissing` where no session can start."""
    candidates = [make_task(name, 0) for name in FAMILIES if not only or name in only]
    # every program of a task: some copy from one into another
    tasks = [task for task in candidates if all(program.name in programs for program in programs_of(task))]
    if not tasks:
        return
    with open_desktop() as endpoint, DesktopWorld(endpoint) as world:
        for task in tasks:
            try:
                prove(task, world)
                yield task, ""
            except WorldError as error:
                yield task, str(error)
