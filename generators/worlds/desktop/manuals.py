"""What programs of the terminal can do, as their own man pages say it: an option of a filter is a capability.

Read are the pages of Debian packages of the base system, of programs that take options and then files by their synopsis
and print what they make of them. What a page says is a stranger's text: of an option only a plain flag is taken, of its
description one printable sentence that is quoted in a goal and never carried out.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from generators.worlds.desktop.program import PATH
from generators.worlds.desktop.programs import called

PACKAGES = ("coreutils", "bsdextrautils", "util-linux")
READ_S = 20.0
LONGEST = 110
"""Characters of a description; longer ones are told up to the end of a clause before."""
PASSAGES, LONGEST_PASSAGE = 40, 200
"""Lines of a page that a model reads, and the most characters of one."""
INDENT = 7
"""Blanks before an option where a page is rendered; its description stands deeper."""
_FILTER = re.compile(r"(?P<program>\S+) \[options?\](\.\.\.)? \[(file|input)\b.*", re.IGNORECASE)
_FLAG = re.compile(r"(?:-[A-Za-z0-9], )?(?P<flag>--[a-z][a-z0-9-]*)(?P<argument>=[A-Z]+)?(?=$|,| )")
_NUMBERS = ("N", "NUM", "NUMBER", "WIDTH", "COLS", "LINES", "BYTES")
"""What pages write where a flag takes a number. No other argument is made up: its form is the program's own affair."""
_ABOUT_ITSELF = ("--help", "--version")


@dataclass(frozen=True)
class Capability:
    """What one flag makes a program do with a file. `argument` is what its page calls the number that it takes, "" for
    none; `words` is the page's sentence."""

    program: str
    flag: str
    words: str
    argument: str = ""

    @property
    def key(self) -> str:
        """Its name among all capabilities: "manual.sort.reverse"."""
        return f"manual.{self.program}.{self.flag.removeprefix('--')}"


def man_page(program: str) -> str:
    """A program's page as plain text, lines unbroken; "" where there is none."""
    env = {"PATH": PATH, "LC_ALL": "C.UTF-8", "MANWIDTH": "1000"}
    command = ["man", "--no-hyphenation", "--no-justification", "-P", "cat", "1", program]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=READ_S, check=False, env=env)
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return ""
    return found.stdout if found.returncode == 0 else ""


def documented_programs(package: str) -> list[str]:
    """The programs of an installed Debian package that have a man page of their own, sorted; none of one that isn't
    installed."""
    try:
        found = subprocess.run(["dpkg-query", "-L", package], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return []
    # Links are pages of other names for the same program, so files alone count.
    pages = {path for path in found.stdout.split() if re.fullmatch(r"/usr/share/man/man1/[a-z0-9]+\.1\.gz", path)}
    names = {os.path.basename(path).removesuffix(".1.gz") for path in pages if not os.path.islink(path)}
    return sorted(name for name in names if shutil.which(name, path=PATH))


def capabilities_of(program: str, page: str) -> Iterator[Capability]:
    """What a page says of the program's flags; nothing of a program that is no filter of files by its synopsis. A flag
    that it lists twice counts the first time."""
    lines = page.split("\n")
    synopsis = _FILTER.match(lines[lines.index("SYNOPSIS") + 1].strip()) if "SYNOPSIS" in lines[:-1] else None
    if synopsis is None or synopsis["program"] != program:
        return
    known = set(_ABOUT_ITSELF)
    for number, line in enumerate(lines[:-1]):
        # At the options' indent exactly: deeper lines are descriptions, which may begin with a flag, too.
        flag = _FLAG.match(line.strip()) if len(line) - len(line.lstrip()) == INDENT else None
        argument = (flag["argument"] or "").removeprefix("=") if flag else ""
        if flag is None or flag["flag"] in known or (argument and argument not in _NUMBERS):
            continue
        known.add(flag["flag"])
        if words := sentence_of(lines[number + 1]):
            yield Capability(program, flag["flag"], words, argument)


def sentence_of(line: str) -> str:
    """A line of a page as a short printable clause without quotation marks; "" where nothing is left that says, by
    itself, what the flag does."""
    text = " ".join("".join(sign for sign in line if sign.isprintable() and sign not in '"“”`\\').split())
    clause = re.split(r"(?<=\w)[;.](?: |$)", text, maxsplit=1)[0].strip()
    # What is said by way of other flags ("with -c, …", "same as --all") says nothing to a reader of the goal.
    alone = not re.search(r"(?:^|[\s'(])-{1,2}\w", clause)
    return clause if alone and len(clause) <= LONGEST and any(map(str.isalpha, clause)) else ""


@lru_cache(maxsize=1)
def filters() -> tuple[str, ...]:
    """Programs that may be documented filters here, sorted: those of `PACKAGES` with a page of their own."""
    return tuple(sorted({program for package in PACKAGES for program in documented_programs(package)}))


@lru_cache(maxsize=256)
def documented(program: str) -> tuple[Capability, ...]:
    """What the page of a program that is installed here says; read once in a process."""
    return tuple(capabilities_of(program, man_page(program)))


def passages(target: str) -> list[str]:
    """Lines of the man page of the program that is a target ("desktop/mousepad"), for a model to read; none for a
    target that is no program, or has no page."""
    program = called(target.removeprefix("desktop/"))
    text = man_page(program.command[0]) if program is not None else ""
    said = [" ".join(line.split())[:LONGEST_PASSAGE] for line in text.splitlines()]
    return [line for line in said if line][:PASSAGES]
