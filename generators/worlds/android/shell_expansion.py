"""The emulated phone's shell: words with their variables, outputs and sums put in, on 32 bits as Android's mksh."""

import operator
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from generators.worlds.android.shell_line import LineError, Part, Word

MAX_TEXT = 1 << 17
"""Characters that an expanded word may have, as on Linux."""
MAX_VARIABLES = 256
VARIABLES = {
    "?": "0",
    "$": "4242",
    "#": "0",
    "0": "/system/bin/sh",
    "ANDROID_DATA": "/data",
    "ANDROID_ROOT": "/system",
    "EXTERNAL_STORAGE": "/sdcard",
    "HOME": "/",
    "PATH": "/system/bin",
    "SHELL": "/system/bin/sh",
    "TMPDIR": "/data/local/tmp",
    "USER": "shell",
}


@dataclass
class ShellSession:
    """What a shell remembers from one line to the next; `depth` = how many shells it stands in."""

    variables: dict[str, str] = field(default_factory=lambda: dict(VARIABLES))
    depth: int = 0

    def inner(self) -> "ShellSession":
        """The shell of a `$(…)`: what it sets, it sets for itself."""
        return ShellSession(dict(self.variables), self.depth + 1)


RunInner = Callable[[str], Awaitable[str]]
"""Runs the line of a `$(…)`; gives its output."""


async def expand_text(word: Word, session: ShellSession, run: RunInner) -> str:
    """A word as one text, as an assignment or a redirection takes it. Raises `LineError`."""
    parts = [await _value(part, session, run) for part in word]
    # Only what was expanded counts: the line itself is bounded elsewhere.
    if sum(len(text) for part, text in zip(word, parts, strict=True) if part.kind != "text") > MAX_TEXT:
        raise LineError(f"expected a word of at most {MAX_TEXT} characters once it is expanded")
    return "".join(parts)


async def expand_fields(word: Word, session: ShellSession, run: RunInner) -> list[str]:
    """A word as the words that it becomes: what stood unquoted is cut at blanks, and may leave none."""
    fields: list[str] = []
    open_text: str | None = None
    for part in word:
        value = await expand_text((part,), session, run)
        if part.quoted or part.kind == "text":
            open_text = (open_text or "") + value
            continue
        # The first piece joins what stood before, the others begin new words.
        for number, piece in enumerate(re.split(r"[ \t\n]+", value)):
            if number and open_text is not None:
                fields.append(open_text)
                open_text = None
            if piece:
                open_text = (open_text or "") + piece
    return fields if open_text is None else [*fields, open_text]


async def _value(part: Part, session: ShellSession, run: RunInner) -> str:
    if part.kind == "command":
        # Ends of lines at the end of an output are dropped, as in any shell.
        return (await run(part.text)).replace("\0", "").rstrip("\n")
    if part.kind == "arithmetic":
        return str(arithmetic(await expand_text(part.inner, session, run), session.variables))
    if part.kind == "text":
        return part.text
    value = session.variables.get(part.text, "")
    if part.kind == "length":
        return str(len(value))
    return value or part.default or ""


_TOKEN = re.compile(r"\s*(0[xX][0-9a-fA-F]+|\d+|[A-Za-z_]\w*|\|\||&&|<<|>>|[<>=!]=|[-+*/%<>&|^!~()])", re.ASCII)
_LEVELS = ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", "<=", ">", ">="), ("<<", ">>"), "+-", "*/%"
_LEVEL = {mark: level for level, marks in enumerate(_LEVELS) for mark in marks}


def _divided(left: int, right: int) -> int:
    if right == 0:
        raise LineError("arithmetic: division by zero")
    return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)  # towards zero, as in C


_WORK: dict[str, Callable[[int, int], int]] = {
    "||": lambda left, right: int(bool(left or right)),
    "&&": lambda left, right: int(bool(left and right)),
    "|": operator.or_,
    "^": operator.xor,
    "&": operator.and_,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "<<": lambda left, right: left << right % 32,
    ">>": lambda left, right: left >> right % 32,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divided,
    "%": lambda left, right: left - right * _divided(left, right),
}


def arithmetic(expression: str, variables: Mapping[str, str]) -> int:
    """The value of `$((expression))`, 32 bits with a sign. Raises `LineError` for what isn't one, assignments and `?:`
    included."""
    text, at, depth = expression.strip(), 0, 0
    tokens: list[str] = []
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None or len(tokens) > 1000:
            raise LineError(f"arithmetic: can't read '{text[:60]}'")
        tokens.append(found[1])
        at = found.end()
    # Taken from the end: `pop` is cheap there.
    tokens.reverse()

    def one() -> int:
        nonlocal depth
        depth += 1
        # 40 levels of brackets and signs: a bound on recursion.
        mark = tokens.pop() if tokens and depth < 40 else ""
        if mark in ("-", "+", "!", "~"):
            value = one()
            value = -value if mark == "-" else int(not value) if mark == "!" else ~value if mark == "~" else value
        elif mark == "(":
            value = several(0)
            if not tokens or tokens.pop() != ")":
                raise LineError(f"arithmetic: no closing ')' in '{text[:60]}'")
        else:
            # A variable's value, 0 if it is unset; anything else is an error.
            mark = mark if mark[:1].isdigit() else variables.get(mark, "0") or "0" if mark.isidentifier() else ""
            try:
                value = int(mark[:40], 16 if mark[1:2] in ("x", "X") else 10)
            except ValueError:
                raise LineError(f"arithmetic: can't read '{text[:60]}'") from None
        depth -= 1
        return value

    def several(least: int) -> int:
        value = one()
        while tokens and _LEVEL.get(tokens[-1], -1) >= least:
            mark = tokens.pop()
            # Wrapped to 32 bits with a sign after every operation.
            value = (int(_WORK[mark](value, several(_LEVEL[mark] + 1))) + (1 << 31)) % (1 << 32) - (1 << 31)
        return value

    value = several(0) if tokens else 0
    if tokens:
        raise LineError(f"arithmetic: can't read '{text[:60]}'")
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)
