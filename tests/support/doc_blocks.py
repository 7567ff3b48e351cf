"""The fenced blocks of the documentation, and the commands that stand in them.

An HTML comment on the line before a block (a reader never sees it) says what is done with it:

    <!-- run -->                     each command is run in a store made for the tests, and must succeed
    <!-- run, same words -->         the same; the `text` block that follows must be what it printed, figures aside
    <!-- run but A, B: WHY -->       the same without the commands that begin with A or B (`vesper` aside): each of them
                                     must be one that its program understands
    <!-- not run: WHY -->            other programs are left alone; those of ours must understand what is said to them
    no comment                       each command must be one that its program understands
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

SHELLS = ("bash", "console", "sh", "shell")
_FENCE = re.compile(r"^( *)```(\S*)[^\n]*\n(.*?)^\1```[ \t]*$", re.MULTILINE | re.DOTALL)
_MARK = re.compile(r"<!-- (run(?:, same words)?|run but [^:]+: .*?|not run: .*?) -->\s*$")
_OPERATOR = re.compile(r"[;&|]+")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its page, the line of its fence, its language, its text, and its mark ("" if it has none)."""

    page: Path
    line: int
    language: str
    text: str
    mark: str
    follows: str = ""
    """The text of a `text` block right after it: what it prints."""

    @property
    def place(self) -> str:
        return f"{self.page.name}:{self.line}"

    @property
    def left_out(self) -> tuple[str, ...]:
        """How the commands of a block that is run begin that are only read."""
        names = self.mark.partition(":")[0].partition("run but ")[2]
        return tuple(name.strip() for name in names.split(",")) if names else ()

    def leaves_out(self, words: list[str]) -> bool:
        """Whether a command is one of those."""
        return any(f"{shlex.join(words)} ".removeprefix("vesper ").startswith(f"{name} ") for name in self.left_out)


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, in order."""
    text, found = page.read_text(encoding="utf-8"), []
    matches = list(_FENCE.finditer(text))
    for place, match in enumerate(matches):
        before = _MARK.search(text[: match.start()].rstrip(" "))
        after = matches[place + 1] if place + 1 < len(matches) else None
        printed = ""
        if after is not None and after[2] == "text" and not text[match.end() : after.start()].strip():
            printed = after[3]
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(page, line, match[2], match[3], before[1] if before else "", printed))
    return found


def command_lines(block: Block) -> list[str]:
    """The commands of a block as written, one a string; in a console block those after `$ `. A command goes on over
    lines that end with a backslash or stand within quotes."""
    found: list[str] = []
    pending = ""
    for line in block.text.splitlines():
        if block.language == "console" and not pending:
            if not line.startswith("$ "):
                continue
            line = line[2:]
        pending += line + "\n"
        if line.endswith("\\"):
            continue
        try:
            words = shlex.split(pending, comments=True)
        except ValueError:  # within quotes
            continue
        if words:
            found.append(pending.strip())
        pending = ""
    if pending.strip():
        raise ValueError(f"{block.place}: a quote is never closed: {pending.splitlines()[0]!r}")
    return found


def simple_commands(line: str) -> list[list[str]]:
    """A command line as its simple commands, each as words: `A && B | C` gives three. Redirections and assignments in
    front are taken off, as is a `&` at the end."""
    lexer = shlex.shlex(line.replace("\\\n", " "), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    found: list[list[str]] = [[]]
    skip = False
    for word in lexer:
        if skip:  # where a redirection goes
            skip = False
        elif _OPERATOR.fullmatch(word):
            found.append([])
        elif set(word) <= set("<>&"):
            skip = True
            if found[-1] and found[-1][-1].isdigit():  # 2> file
                found[-1].pop()
        else:
            found[-1].append(word)
    for words in found:
        while words and re.fullmatch(r"[A-Z_][A-Z0-9_]*=.*", words[0], re.DOTALL):
            words.pop(0)
    return [words for words in found if words]


def same_words(text: str) -> str:
    """A text without what differs from machine to machine: figures, digests, spaces."""
    return " ".join(re.sub(r"\b[0-9a-f]{8,}\b|\d[\d,.]*\d|\d", "#", text).split())
