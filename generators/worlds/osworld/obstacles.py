"""What keeps a task from being played here, found without playing it: so that none is left out in silence, or counted
as failed where nobody could have solved it.

A command is read as words only. What a shell would make of it (variables, substitutions) isn't known before it runs, so
a task may still fail for want of a program that only such a word names.
"""

import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from generators.worlds.desktop.program import PATH
from generators.worlds.desktop.programs import called

SCHEMAS = Path("/usr/share/glib-2.0/schemas")
MODULES = Path(__file__).parent / "modules"
_ROOT = frozenset({"sudo", "su", "pkexec", "apt-get", "apt", "snap", "useradd", "adduser"})
_SERVICES = frozenset({"systemctl", "timedatectl", "loginctl", "hostnamectl", "nmcli", "bluetoothctl", "pactl"})
_NETWORK = frozenset({"curl", "wget", "pip", "pip3", "npm", "socat", "ssh", "scp"})
_KEYWORDS = """
if then elif else fi for while until do done case esac in { } ! [[ time function select
"""
_BUILTINS = """
. : [ alias bg break builtin cd command continue declare dirs disown echo eval exec exit export false fg getopts hash
history jobs kill let local logout mapfile popd printf pushd pwd read readonly return set shift shopt source test times
trap true type typeset ulimit umask unalias unset wait
"""
_PROGRAM = re.compile(r"[A-Za-z][\w.+-]*", re.ASCII)
_IMPORT = re.compile(r"(?:^|[;\n])\s*(?:import|from)\s+([A-Za-z_]\w*)")
_SCHEMA = re.compile(r"\bgsettings\s+(?:get|set|reset)\s+([\w.-]+)")
_WHICH = re.compile(r"(?:^|[;&|\n])\s*which\s+([\w.-]+)")
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
APPS: Mapping[str, str] = {
    "libreoffice_calc": "soffice",
    "libreoffice_impress": "soffice",
    "libreoffice_writer": "soffice",
    "libreoffice": "soffice",
    "chrome": "google-chrome",
    "vs_code": "code",
    "vscode": "code",
    "gnome-terminal": "gnome-terminal",
}
"""What task files call programs → the program; other names are those of the desktop's descriptors, or of programs."""
SYSTEM = frozenset({"os", "terminal", "multi_apps", "pdf"})
"""Names of apps that are the desktop itself."""


@dataclass(frozen=True, order=True)
class TaskObstacle:
    """One thing that a task needs and this desktop hasn't: of which `kind`, and which."""

    kind: str
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


def app_obstacles(apps: Sequence[str]) -> Iterator[TaskObstacle]:
    """Programs of a task's `related_apps` that aren't installed."""
    for app in apps:
        name = app.strip().lower()
        known, plain = called(name), name.replace(" ", "_")
        if name in SYSTEM or (known is not None and known.installed()):
            continue
        program = known.command[0] if known else APPS.get(plain, name)
        if not installed(program):
            yield TaskObstacle("program", program[:60])


def command_obstacles(command: object, shell: bool) -> Iterator[TaskObstacle]:
    """What a command needs that the sealed desktop hasn't: programs, rights, a network, modules, settings."""
    if not isinstance(command, str) and not (
        isinstance(command, list) and command and all(isinstance(word, str) for word in command)
    ):
        yield TaskObstacle("task file", "a command that is neither a text nor a list of words")
        return
    text = command if isinstance(command, str) else shlex.join(command)
    for program in _programs(text if shell or isinstance(command, str) else shlex.join(command[:1])):
        if program in _ROOT:
            yield TaskObstacle("rights", f"{program}: the desktop's user has none beyond its home folder")
        elif program in _NETWORK:
            yield TaskObstacle("network", f"{program}: the desktop has none")
        elif program in _SERVICES:
            yield TaskObstacle("system service", f"{program}: the desktop runs none")
        elif not installed(program):
            yield TaskObstacle("program", program[:60])
    for wanted in _WHICH.findall(text):
        if not installed(wanted):  # whose being there is asked for: it would have to be installed
            yield TaskObstacle("network", f"{wanted[:60]}: nothing can be installed")
    source = command[2] if isinstance(command, list) and len(command) > 2 and command[1] == "-c" else ""
    if source and re.match(r"python[\d.]*$", command[0]):
        for module in _IMPORT.findall(source):
            if module not in sys.stdlib_module_names and not (MODULES / f"{module}.py").is_file():
                yield TaskObstacle("python module", module[:60])
    for schema in _SCHEMA.findall(" ".join(command) if isinstance(command, list) else command):
        if schema not in _schemas():
            yield TaskObstacle("settings schema", schema[:60])


def installed(program: str) -> bool:
    """Whether a program is here; `python` is, under that name, in a sealed session."""
    return program == "python" or shutil.which(program, path=PATH) is not None


def _programs(script: str) -> Iterator[str]:
    """The words of a shell script that name programs: the first of each command, but for what only a shell knows."""
    lexer = shlex.shlex(script, posix=True, punctuation_chars=";&|()\n")
    lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t\r", True, ""
    try:
        words = list(lexer)
    except ValueError:  # an open quote
        return
    first, function = True, False
    for word in words:
        if set(word) <= set(";&|()\n"):
            first = True
        elif first and not (word in _KEYWORDS.split() or _ASSIGNED.fullmatch(word)):
            first = word == "sudo"  # what stands behind it is another program
            function = word in ("for", "case")
            if word not in _BUILTINS.split() and not function and _PROGRAM.fullmatch(word):
                yield word
        elif word in ("for", "case", "in"):
            first = False


@cache
def _schemas() -> frozenset[str]:
    """Ids of the settings that programs here have under GSettings."""
    found: set[str] = set()
    for path in SCHEMAS.glob("*.xml"):
        found.update(re.findall(r"<schema\b[^>]*\bid=[\"']([\w.-]+)[\"']", path.read_text("utf-8", "replace")))
    return frozenset(found)
