"""A desktop on which tasks in OSWorld's form are played: sealed off, set up as a task's file says, and evaluated so.

with open_osworld(folder) as world:
    world.reset({"task": {...}, "domain": "os"})
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from generators.tasks.world_interface import Observation, ScreenElement, WorldError
from generators.worlds.desktop.desktop_world import DesktopWorld
from generators.worlds.desktop.programs import PROGRAMS
from generators.worlds.desktop.session import open_desktop
from generators.worlds.desktop.tasks_files import LIST_VIEW, VIEW_FILE
from generators.worlds.osworld import setup_steps
from generators.worlds.osworld.evaluation import evaluate
from generators.worlds.osworld.file_cache import file_of
from generators.worlds.osworld.task_file import OsworldTask, TaskFileError, read_task
from generators.worlds.osworld.task_machine import COMMAND_S, FetchedFile, TaskMachine
from generators.worlds.phone.refusals import says_it_cant_be_done
from generators.worlds.start_checks import check_start
from schemas.actions import Action, CallUser, Finished
from schemas.ids import digest

SIZE = (1920, 1080)
"""As OSWorld's screen."""
MODULES = Path(__file__).parent / "modules"
FOLDERS = ("Desktop", "Documents", "Downloads", "Music", "Pictures", "Videos")
"""What the home folder of OSWorld's machine holds."""
REFUSED = ("failure", "fail", "infeasible")
"""What `Finished` says of a task that can't be done, in published models' words."""


class OsworldWorld:
    """See `World`. `state` evaluates the task, which carries out its `postconfig`, so it is for the end of an episode:
    asked again before the next action it says the same. `folder` holds the files that tasks name."""

    name = "osworld"
    platform = "desktop"

    def __init__(self, desktop: DesktopWorld, folder: Path | None = None) -> None:
        self._desktop, self._folder = desktop, folder
        self.size_px = desktop.size_px
        self._task: OsworldTask | None = None
        self._machine = TaskMachine(desktop)
        self._refused = False
        self._evaluated: dict[str, Any] | None = None

    @property
    def answer(self) -> str:
        """The text of the last CallUser since the reset ("" before one)."""
        return self._desktop.answer

    def reset(self, start: Mapping[str, object]) -> None:
        """`start` = {"task": a task file's object, "domain": the folder it lay in}: programs end, the home folder is
        fresh, and the steps of its `config` are carried out."""
        check_start(start, self.name, ("task",), ("domain", "files"))
        native, domain = start["task"], str(start.get("domain", ""))
        try:
            self._task = read_task(native if isinstance(native, dict) else {}, domain)
        except TaskFileError as error:
            raise WorldError(f"osworld: reset: {error}") from error
        self._refused, self._evaluated = False, None
        self._machine = TaskMachine(self._desktop, self._files(self._task))
        settings = {path: text for program in PROGRAMS.values() for path, text in program.files.items()}
        settings[VIEW_FILE] = LIST_VIEW
        self._desktop.begin(settings)
        self._machine.run(["mkdir", "-p", *FOLDERS])
        for step in self._task.config:
            setup_steps.perform(self._machine, step)

    def _files(self, task: OsworldTask) -> dict[str, FetchedFile]:
        """The files of the tasks' folder that a task names, by address."""
        found = {}
        for address in addresses_of(task):
            file = file_of(self._folder, address, task.domain, task.id) if self._folder else None
            if file is not None:
                found[address] = file
        return found

    def observe(self) -> Observation:
        """The digest is of the desktop's files and windows: the task isn't evaluated for it."""
        seen = self._desktop.look()
        self.size_px = self._desktop.size_px
        return replace(seen, state=digest(self._desktop.state()))

    def elements(self) -> tuple[ScreenElement, ...]:
        """The elements of `observe` alone: no picture is taken."""
        return self._desktop.elements()

    def act(self, action: Action) -> None:
        """See `World.act`. A refusal is the last word alone: whoever acts after it has taken it back."""
        self._evaluated = None
        self._refused = refuses(action)
        self._desktop.act(action)

    def state(self) -> dict[str, Any]:
        """{"score", "parts", "undecided", "refused"}, see `TaskScore`."""
        if self._task is None:
            raise WorldError("osworld: state: expected a reset to a task before it")
        found = self._evaluated
        if found is None:
            score = evaluate(self._task, self._machine, self._refused)
            found = self._evaluated = {**score.plain(), "refused": self._refused}
        return found


def refuses(action: Action) -> bool:
    """Whether an action says that the task can't be done: OSWorld's FAIL."""
    if isinstance(action, Finished):
        return action.content.strip().lower() in REFUSED or says_it_cant_be_done(action.content)
    return isinstance(action, CallUser) and (
        action.content.strip().lower() in REFUSED or says_it_cant_be_done(action.content)
    )


def addresses_of(task: OsworldTask) -> list[str]:
    """The files that a task names, in order, each once."""
    found: dict[str, None] = {}
    for step in task.calls:
        listed = step.parameters.get("files")
        for row in listed if step.name in ("download", "upload_file") and isinstance(listed, list) else ():
            if isinstance(row, dict):
                found[str(row.get("url") or row.get("local_path") or "")] = None
    for part in task.parts:
        for getter in (part.result, part.expected):
            if getter is not None and getter.name == "cloud_file":
                paths = getter.parameters.get("path")
                found.update(dict.fromkeys(map(str, paths if isinstance(paths, list) else [paths])))
    return [address for address in found if address]


@contextmanager
def open_osworld(folder: Path | None = None, size: tuple[int, int] = SIZE) -> Iterator[OsworldWorld]:
    """A sealed desktop for tasks whose files lie in `folder`. Raises as `open_desktop`."""
    with open_desktop(size, sealed=True, modules=MODULES) as endpoint:
        patient = replace(endpoint, options={**(endpoint.options or {}), "call_s": COMMAND_S + 10})
        with DesktopWorld(patient) as desktop:
            yield OsworldWorld(desktop, folder)
