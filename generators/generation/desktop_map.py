"""Tasks in the programs of a real desktop, each carried out by its plan."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from time import monotonic, sleep

from generators.tasks.world_interface import WorldError
from generators.worlds.desktop.desktop_task import DesktopTask, failed_checks
from generators.worlds.desktop.desktop_tasks import FAMILIES, make_task
from generators.worlds.desktop.desktop_world import DesktopWorld
from generators.worlds.desktop.plan import PATIENCE_S, perform
from generators.worlds.desktop.session import open_desktop


def tried_tasks(seeds: int, only: Collection[str] = ()) -> Iterator[tuple[DesktopTask, str]]:
    """A task a seed of each family (of those of `only`, if it names any), with what its plan left undone on a desktop:
    "" proves it. Raises `DesktopMissing` where the desktop's packages lack."""
    families = [name for name in FAMILIES if not only or name in only]
    if not families:
        return
    with open_desktop() as endpoint, DesktopWorld(endpoint) as world:
        for seed in range(seeds):
            for name in families:
                task = make_task(name, seed)
                yield task, _undone(task, world)


def _undone(task: DesktopTask, world: DesktopWorld) -> str:
    try:
        perform(task, world)
    except WorldError as error:
        return str(error)
    end = monotonic() + PATIENCE_S
    while (undone := failed_checks(task.evaluator(), world.state(), world.answer)) and monotonic() < end:
        sleep(0.1)
    return "; ".join(undone)
