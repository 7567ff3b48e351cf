"""Where an evaluator's results, and what is expected, come from: the getters by name. Add one here."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from generators.worlds.osworld.accessibility_xml import window_nodes
from generators.worlds.osworld.obstacles import TaskObstacle, command_obstacles
from generators.worlds.osworld.task_file import JsonObject, NamedCall
from generators.worlds.osworld.task_machine import FetchedFile, TaskMachine

Get = Callable[[TaskMachine, JsonObject], object]
_MISSING = "isn't implemented"
ELSEWHERE: Mapping[str, str] = {
    name: why
    for why, names in json.loads(Path(__file__).with_name("elsewhere.json").read_text("utf-8")).items()
    for name in names
}
"""Getters of OSWorld that this desktop can't have, and why."""


class ResultMissing(Exception):
    """A file that the result is to come from isn't there: its function counts as 0."""


def obstacles_of(getter: NamedCall | None) -> Iterator[TaskObstacle]:
    """What stands against a getter here."""
    if getter is None:
        return
    if getter.name not in GETTERS:
        why = ELSEWHERE.get(getter.name, _MISSING)
        yield TaskObstacle("getter", f"{getter.name[:60]} {why}")
    elif getter.name in ("vm_command_line", "vm_command_error"):
        yield from command_obstacles(getter.parameters.get("command"), bool(getter.parameters.get("shell")))


def get(machine: TaskMachine, getter: NamedCall) -> object:
    """What a getter gives. Raises `ResultMissing` for a file that isn't there, `WorldError` where the machine can't."""
    return GETTERS[getter.name](machine, getter.parameters)


def _output(machine: TaskMachine, given: JsonObject) -> str:
    return machine.run(*_command(given)).output


def _error(machine: TaskMachine, given: JsonObject) -> str:
    return machine.run(*_command(given)).error


def _command(given: JsonObject) -> tuple[str | list[str], bool]:
    command, shell = given.get("command", ""), bool(given.get("shell"))
    if isinstance(command, list):
        words = [str(word) for word in command]
        return (" ".join(words), True) if shell else (words, False)
    return (str(command), True) if shell else (str(command).split(), False)


def _names(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else [str(value)]


def _given(files: Sequence[FetchedFile | None], given: JsonObject) -> object:
    """Of several files those that `gives` names, by number from 0; one alone isn't a list."""
    numbers = given.get("gives", [0])
    wanted = [files[at] for at in range(len(files)) if isinstance(numbers, list) and at in numbers]
    return wanted[0] if len(wanted) == 1 else wanted


def _machine_file(machine: TaskMachine, given: JsonObject) -> object:
    """Files of the machine; each is put aside under its `dest` for `cache_file`. None in the place of a missing one."""
    files = [machine.read(path) for path in _names(given.get("path"))]
    for name, file in zip(_names(given.get("dest", "")), files, strict=False):
        if file is not None:
            machine.cache[name] = file
    return _given(files, given)


def _folder_file(machine: TaskMachine, given: JsonObject) -> object:
    """Files of the tasks' folder, by their addresses."""
    return _given([machine.files.get(address) for address in _names(given.get("path"))], given)


def _cached(machine: TaskMachine, given: JsonObject) -> object:
    name = str(given.get("path", ""))
    if name not in machine.cache:
        raise ResultMissing(f"nothing was put aside as {name[:60]!r}")
    return machine.cache[name]


def _terminal(machine: TaskMachine, given: JsonObject) -> object:
    """What the terminal in front shows; None without one."""
    texts = [
        str(item.get("text", ""))
        for window in machine.windows()
        for item in window["items"]
        if item.get("role") == "terminal"
    ]
    return texts[-1].strip() if texts else None


GETTERS: dict[str, Get] = {
    "rule": lambda machine, given: given.get("rules"),
    "vm_command_line": _output,
    "vm_command_error": _error,
    "vm_terminal_output": _terminal,
    "vm_file": _machine_file,
    "cloud_file": _folder_file,
    "cache_file": _cached,
    "accessibility_tree": lambda machine, given: window_nodes(machine.windows()),
    "list_directory": lambda machine, given: machine.listing(str(given.get("path", ""))),
    "vm_screen_size": lambda machine, given: machine.screen_size(),
    "vm_window_size": lambda machine, given: machine.window_size(str(given.get("app_class_name", ""))),
}
