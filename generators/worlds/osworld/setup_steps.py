"""The setup steps of task files by name: what each needs, and what it does on the machine. Add a step here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from generators.tasks.world_interface import WorldError
from generators.worlds.desktop.programs import called
from generators.worlds.osworld.obstacles import TaskObstacle, command_obstacles
from generators.worlds.osworld.task_machine import FetchedFile, TaskMachine

if TYPE_CHECKING:
    from generators.worlds.osworld.task_file import JsonObject, NamedCall

MOST_SLEEP_S = 10.0
"""Published tasks wait up to half a minute for programs on a slow virtual machine; here they are there sooner."""
OPENED_WITH: Mapping[str, str] = {
    **dict.fromkeys((".txt", ".md", ".log", ".csv.txt", ".py", ".sh", ".json", ".conf", ".ini"), "mousepad"),
    **dict.fromkeys((".gnumeric", ".csv", ".xlsx", ".xls", ".ods"), "gnumeric"),
    **dict.fromkeys((".abw", ".rtf", ".doc", ".docx", ".odt"), "abiword"),
    **dict.fromkeys((".png", ".jpg", ".jpeg", ".gif", ".bmp", ".webp"), "ristretto"),
    **dict.fromkeys((".zip", ".tar", ".gz", ".tgz", ".xz"), "engrampa"),
    ".pdf": "atril",
}
"""Ending of a file → the desktop's program that opens it; what has none of them is opened as a folder."""
_BROWSER = "steers a browser on the network"
ELSEWHERE: Mapping[str, str] = {
    **dict.fromkeys(("chrome_open_tabs", "chrome_close_tabs", "update_browse_history"), _BROWSER),
    "login": "needs an account of a website",
    "googledrive": "needs an account of Google Drive",
    "proxy": "sets up the network",
    "change_wallpaper": "needs GNOME",
    "replay": "isn't implemented by its authors either",
    "act": "isn't implemented by its authors either",
    "tidy_desktop": "isn't implemented by its authors either",
}
"""Steps of OSWorld that this desktop can't do, and why."""
Run = Callable[[TaskMachine, "JsonObject"], None]
Against = Callable[["JsonObject"], Iterator[TaskObstacle]]


@dataclass(frozen=True)
class SetupStep:
    """A step: what it does, and what stands against it. Both raise `WorldError` for parameters it can't read."""

    run: Run
    against: Against


def obstacles_of(step: NamedCall) -> Iterator[TaskObstacle]:
    """What stands against a step here."""
    if step.name in STEPS:
        yield from STEPS[step.name].against(step.parameters)
    elif step.name in ELSEWHERE:
        yield TaskObstacle("setup step", f"{step.name} {ELSEWHERE[step.name]}")
    else:
        yield TaskObstacle("setup step", f"{step.name[:60]} isn't known")


def perform(machine: TaskMachine, step: NamedCall) -> None:
    """Carry out a step. Raises `WorldError` for one that isn't known, and where it can't be done."""
    if step.name not in STEPS:
        raise WorldError(f"osworld: unknown setup step {step.name[:60]!r}; known are {', '.join(STEPS)}")
    STEPS[step.name].run(machine, step.parameters)


def _text(parameters: JsonObject, key: str) -> str:
    value = parameters.get(key)
    if not isinstance(value, str) or not value:
        raise WorldError(f"osworld: setup: expected a text as {key}, found {value!r:.60}")
    return value


def _command(parameters: JsonObject) -> tuple[str | list[str], bool]:
    """The command, and whether a shell is to read it. OSWorld cuts a text without a shell at its blanks."""
    command, shell = parameters.get("command"), bool(parameters.get("shell", False))
    if isinstance(command, str) and command.strip():
        return (command, True) if shell else (command.split(), False)
    if isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        return ([str(word) for word in command], False) if not shell else (" ".join(map(str, command)), True)
    raise WorldError(f"osworld: setup: expected a command, a text or a list of words, found {command!r:.60}")


def _against_command(parameters: JsonObject) -> Iterator[TaskObstacle]:
    try:
        command, shell = _command(parameters)
    except WorldError:
        yield TaskObstacle("task file", "a command that is neither a text nor a list of words")
        return
    yield from command_obstacles(command, shell)
    if parameters.get("until"):
        yield TaskObstacle("setup step", "execute with until isn't implemented")


def _execute(machine: TaskMachine, parameters: JsonObject) -> None:
    """A command whose failing is none of the setup's, as in OSWorld; its outputs are put aside where they are named."""
    done = machine.run(*_command(parameters))
    for key, text in (("stdout", done.output), ("stderr", done.error)):
        name = parameters.get(key)
        if isinstance(name, str) and name:
            machine.cache[name] = FetchedFile(name, text.encode())


def _launch(machine: TaskMachine, parameters: JsonObject) -> None:
    machine.launch(*_command(parameters))


def _files(parameters: JsonObject, *keys: str) -> list[tuple[str, ...]]:
    given = parameters.get("files")
    rows = given if isinstance(given, list) else []
    found = [tuple(str(row.get(key) or "") for key in keys) for row in rows if isinstance(row, dict)]
    if not found or len(found) != len(rows) or not all(all(row) for row in found):
        raise WorldError(f"osworld: setup: expected files with {' and '.join(keys)}, found {given!r:.80}")
    return found


def _bring(source: str, machine: TaskMachine, parameters: JsonObject) -> None:
    """Out of the tasks' folder, by the field `source`. Raises `WorldError` for a file that isn't there."""
    for address, path in _files(parameters, source, "path"):
        if address not in machine.files:
            raise WorldError(f"osworld: {source}: {address[:200]} isn't in the tasks' folder")
        machine.write(path, machine.files[address].data)


def _open(machine: TaskMachine, parameters: JsonObject) -> None:
    """A file in the desktop's program for its kind, a folder in the file manager."""
    path = _text(parameters, "path")
    program = called(program_for(path))
    if program is None:
        raise WorldError(f"osworld: open: no program for {path[:80]}")
    for name, text in program.files.items():  # settings that its starts have
        if machine.read(name) is None:
            machine.write(name, text.encode())
    if not machine.launch([*program.command, path]):
        raise WorldError(f"osworld: open: {program.name} showed no window for {path[:80]}")


def program_for(path: str) -> str:
    """The name of the desktop's program that opens a path."""
    return next((name for ending, name in OPENED_WITH.items() if path.lower().endswith(ending)), "thunar")


def _against_open(parameters: JsonObject) -> Iterator[TaskObstacle]:
    program = called(program_for(str(parameters.get("path", ""))))
    if program is None or not program.installed():
        yield TaskObstacle("program", program.command[0] if program else "none opens such a file")


def _sleep(machine: TaskMachine, parameters: JsonObject) -> None:
    seconds = parameters.get("seconds")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds < 1e6:
        raise WorldError(f"osworld: sleep: expected seconds, found {seconds!r:.60}")
    time.sleep(min(seconds, MOST_SLEEP_S))


def _window(close: bool) -> Run:
    def run(machine: TaskMachine, parameters: JsonObject) -> None:
        strict, by_class = bool(parameters.get("strict")), bool(parameters.get("by_class"))
        machine.window(_text(parameters, "window_name"), strict=strict, by_class=by_class, close=close)

    return run


def _nothing(parameters: JsonObject) -> Iterator[TaskObstacle]:
    yield from ()


STEPS: dict[str, SetupStep] = {
    "execute": SetupStep(_execute, _against_command),
    "command": SetupStep(_execute, _against_command),
    "launch": SetupStep(_launch, _against_command),
    # Files that lack are found by `osworld_tasks`, which has the folder.
    "download": SetupStep(partial(_bring, "url"), _nothing),
    "upload_file": SetupStep(partial(_bring, "local_path"), _nothing),
    "open": SetupStep(_open, _against_open),
    "sleep": SetupStep(_sleep, _nothing),
    "activate_window": SetupStep(_window(False), _nothing),
    "close_window": SetupStep(_window(True), _nothing),
}
