"""What a program of a desktop session is: one descriptor says what installs and starts it, and what it tells.

A program of your own is a `DesktopProgram` in a file that may stand anywhere (docs/add-a-computer-program.md).
"""

import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from generators.worlds.desktop.desktop_task import DesktopTask

PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
"""Where a session looks for programs."""
VERSION_S = 20.0
Family = Callable[[Random], DesktopTask]


@dataclass(frozen=True)
class DesktopProgram:
    """A program that `Launch` and a task's start know by `name` or by one of `also`, all in lower case.

    `command` starts it, its first word is looked for on the PATH; `package` is the Debian package that holds it. It is
    ready when its window is active and, with `tree`, when its accessibility tree says so, too; one without a tree is
    used by keys and its picture alone. `settings` says where its settings lie, as a prefix of their keys in the state →
    a file of lines "key=value" in the home folder; `channels` are those that it keeps in Xfconf; `keeps` are files and
    folders of the home folder, beside .config and its like, that it keeps for itself and no check reads. `files` are
    what its starts have in the home folder beside a task's own, {path: text}. `families` are functions of a seed's
    `Random` that give its tasks, by the names of these tasks.
    """

    name: str
    package: str
    command: tuple[str, ...]
    also: tuple[str, ...] = ()
    tree: bool = True
    settings: Mapping[str, str] = field(default_factory=dict)
    channels: tuple[str, ...] = ()
    keeps: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    families: Mapping[str, Family] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        return self.name, *self.also

    def installed(self) -> bool:
        """Whether its program is here."""
        return shutil.which(self.command[0], path=PATH) is not None

    def version(self) -> str:
        """The version of its Debian package that is installed here; "" where there is none (it may have come another
        way). A program's own `--version` needs a display, and none says it in the same form."""
        query = ["dpkg-query", "-W", "-f=${Version}", self.package]
        try:
            # Asked of Debian, which answers without a display.
            said = subprocess.run(query, capture_output=True, text=True, timeout=VERSION_S, check=False)
        except (FileNotFoundError, subprocess.TimeoutExpired):
            return ""
        return said.stdout.strip() if said.returncode == 0 else ""
