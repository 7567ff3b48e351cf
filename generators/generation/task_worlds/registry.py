"""All task worlds by name. A new one is one file and an entry in `TASK_WORLDS`; one outside this tree is named by where
it stands (`pipelines.extensions`)."""

from collections.abc import Callable

from generators.generation.task_worlds.app_task_world import ProgramTaskWorld
from generators.generation.task_worlds.own_world import OwnWorld
from generators.generation.task_worlds.task_world import TaskWorld
from generators.worlds.desktop.desktop_tasks import enter
from generators.worlds.desktop.program import DesktopProgram
from pipelines.extensions import find_named_path

TASK_WORLDS: dict[str, str] = {
    "fsm": "generators.generation.task_worlds.fsm_task_world:FsmTaskWorld",
    "phone": "generators.generation.task_worlds.phone_task_world:PhoneTaskWorld",
    "graph": "generators.generation.task_worlds.graph_task_world:GraphTaskWorld",
    "datasette": "generators.generation.task_worlds.app_task_world:AppTaskWorld",
    "django_admin": "generators.generation.task_worlds.app_task_world:AppTaskWorld",
    "dagster_ui": "generators.generation.task_worlds.app_task_world:AppTaskWorld",
    "care/phone": "generators.generation.task_worlds.care_task_world:CareTaskWorld",
    "care/web": "generators.generation.task_worlds.care_task_world:CareTaskWorld",
    "desktop": "generators.generation.task_worlds.app_task_world:AppTaskWorld",
}
"""Name → where its class stands, imported when it is opened; made with (name, count of targets, first seed)."""


def load_task_world(name: str) -> Callable[[str, int, int], TaskWorld]:
    """What makes the task world of that name, or of that path; a world or a computer program of one's own is then known
    by its name as well. Raises `ValueError` for an unknown name, or a path that leads nowhere."""
    path = find_named_path("task world", name, TASK_WORLDS)
    if isinstance(path, DesktopProgram):
        return _of_program(path)
    if isinstance(path, OwnWorld):
        path.enter()
    found: Callable[[str, int, int], TaskWorld] = path
    return found


def _of_program(program: DesktopProgram) -> Callable[[str, int, int], TaskWorld]:
    enter(program)
    # Entered now: its tasks must be found by `work_of` in every process.
    return lambda name, count, seed: ProgramTaskWorld(program, count, seed)


def open_task_world(name: str, count: int, seed: int = 0) -> TaskWorld:
    """The task world with `count` targets, from the `seed`-th seeds on. Raises as `load_task_world`."""
    return load_task_world(name)(name, count, seed)
