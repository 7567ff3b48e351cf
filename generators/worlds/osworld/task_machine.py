"""The machine that a task is set up and evaluated on: a sealed desktop session, by a script of ours that runs in it."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from generators.devices.desktop import accessibility_tree as tree
from generators.tasks.world_interface import WorldError

SCRIPT = Path(__file__).with_name("on_desktop_machine.py").read_bytes()
COMMAND_S, WINDOW_S = 60.0, 8.0
"""How long a command may take, and how long a program or a window to come."""
Command = str | Sequence[str]


@dataclass(frozen=True)
class CommandOutput:
    """What a command wrote, cut to 1 MiB each; `code` is 127 for one that there isn't."""

    output: str
    error: str
    code: int


@dataclass(frozen=True)
class FetchedFile:
    """A file of the machine or of the tasks' folder, by its base name."""

    name: str
    data: bytes

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


class ScriptedDesktop(Protocol):
    """What the machine needs of `DesktopWorld`."""

    size_px: tuple[int, int]

    def script(self, source: bytes, given: object = None) -> dict[str, Any]:
        """JSON object that a Python script of ours writes on the desktop; `given` is its input."""
        ...


@dataclass
class TaskMachine:
    """`files` are those of the tasks' folder that this task may have, by address (`file_cache.file_of`); `cache` holds
    what setup and getters put aside under a name, as the outputs of commands."""

    desktop: ScriptedDesktop
    files: Mapping[str, FetchedFile] = field(default_factory=dict)
    cache: dict[str, FetchedFile] = field(default_factory=dict)

    def run(self, command: Command, shell: bool = False) -> CommandOutput:
        """Carry out a command in the session, in its home folder, to its end. Raises `WorldError` where it takes
        longer than `COMMAND_S`."""
        words = command if isinstance(command, str) or shell else [*command]
        said = self._ask("run", command=self._filled(words), shell=shell, timeout_s=COMMAND_S)
        return CommandOutput(str(said["output"]), str(said["error"]), int(said["returncode"]))

    def launch(self, command: Command, shell: bool = False) -> bool:
        """Start a program; whether a window of its own came. Raises `WorldError` for one that isn't installed."""
        return bool(self._ask("launch", command=self._filled(command), shell=shell, window_s=WINDOW_S))

    def read(self, path: str) -> FetchedFile | None:
        """A file; None where there is none."""
        said = self._ask("read", path=path)
        return None if said is None else FetchedFile(path.rpartition("/")[2], base64.b64decode(said["data"]))

    def write(self, path: str, data: bytes) -> None:
        """Write a file, with the folders above it."""
        self._ask("write", path=path, data=base64.b64encode(data).decode())

    def listing(self, path: str) -> dict[str, Any] | None:
        """A folder as {"type", "name", "children"}; None where there is none."""
        found: dict[str, Any] | None = self._ask("list", path=path)
        return found

    def window(self, name: str, *, strict: bool, by_class: bool, close: bool = False) -> None:
        """Bring a window to the front, or close it. Raises `WorldError` where none of that name comes."""
        self._ask("window", name=name, strict=strict, by_class=by_class, close=close, wait_s=WINDOW_S)

    def window_size(self, class_name: str) -> dict[str, int] | None:
        """{"width", "height"} in pixels; None where there is no such window."""
        found: dict[str, int] | None = self._ask("window_size", name=class_name, strict=False, by_class=True)
        return found

    def windows(self) -> list[dict[str, Any]]:
        """The windows with their items, as their programs tell them; the active one last."""
        return tree.windows_of(self.desktop.script(tree.SCRIPT))

    def screen_size(self) -> dict[str, int]:
        """{"width", "height"} in pixels."""
        width, height = self.desktop.size_px
        return {"width": width, "height": height}

    def _filled(self, command: Command) -> Command:
        """A command with OSWorld's placeholders filled in."""
        width, height = self.desktop.size_px
        values = {
            "{CLIENT_PASSWORD}": "password",
            "{SCREEN_WIDTH_HALF}": str(width // 2),
            "{SCREEN_HEIGHT_HALF}": str(height // 2),
            "{SCREEN_WIDTH}": str(width),
            "{SCREEN_HEIGHT}": str(height),
        }
        words = [command] if isinstance(command, str) else list(command)
        for name, value in values.items():
            words = [word.replace(name, value) for word in words]
        return words[0] if isinstance(command, str) else words

    def _ask(self, what: str, **given: object) -> Any:
        said = self.desktop.script(SCRIPT, {"do": what, **given})
        if "refused" in said:
            raise WorldError(f"osworld: {what}: {str(said['refused'])[:300]}")
        return said.get("ok")
