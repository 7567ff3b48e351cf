"""The emulated phone's reading of a command line: words, quotes, `;`, `&&`, `||`, pipes and redirections.

Nothing is expanded: a line that asks for expansion (`$x`, backquotes), a background job or a subshell is refused, so
that no difference from a real shell passes silently. Patterns such as `*.png` stand for themselves.
"""

from __future__ import annotations

from dataclasses import dataclass, field

MAX_WORDS = 4096
_OPERATORS = ("&&", "||", "2>&1", "2>>", "2>", "1>>", "1>", ">>", ">", "<", "|", ";", "\n")
_BLANKS = " \t\r"


class LineError(ValueError):
    """A line this shell can't read; the message is what it prints."""


@dataclass
class ShellCommand:
    """One command: its words, and where its output goes (None: onwards)."""

    words: list[str] = field(default_factory=list)
    stdin: str | None = None
    stdout: str | None = None
    append: bool = False
    stderr: str | None = None
    merged: bool = False  # 2>&1


@dataclass
class Pipeline:
    """Commands joined by `|`; `when` is the operator before them: `;`, `&&` or `||`."""

    when: str
    calls: list[ShellCommand]


@dataclass(frozen=True)
class _Token:
    text: str
    operator: bool


def parse_line(line: str) -> list[Pipeline]:
    """Text → pipelines in order. Raises `LineError`."""
    pipelines: list[Pipeline] = []
    when, calls, call = ";", [], ShellCommand()
    redirect = ""
    for token in [*_tokens(line), _Token(";", True)]:
        if redirect:
            if token.operator:
                raise LineError(f"syntax error: unexpected '{_shown(token.text)}'")
            _redirect(call, redirect, token.text)
            redirect = ""
        elif not token.operator:
            call.words.append(token.text)
        elif token.text == "2>&1":
            call.merged = True
        elif token.text[-1] in "<>":
            redirect = token.text
        elif token.text == "|":
            if not call.words:
                raise LineError("syntax error: unexpected '|'")
            calls.append(call)
            call = ShellCommand()
        else:
            if call.words:
                pipelines.append(Pipeline(when, [*calls, call]))
            elif calls or call != ShellCommand() or (token.text in ("&&", "||")) or when != ";":
                raise LineError(f"syntax error: unexpected '{_shown(token.text)}'")
            when, calls, call = ";" if token.text == "\n" else token.text, [], ShellCommand()
    return pipelines


def _shown(operator: str) -> str:
    return "newline" if operator in ("\n", ";") else operator


def _redirect(call: ShellCommand, operator: str, path: str) -> None:
    if operator == "<":
        call.stdin = path
    elif operator.startswith("2"):
        call.stderr = path
    else:
        call.stdout, call.append = path, operator.endswith(">>")


def _tokens(line: str) -> list[_Token]:
    found: list[_Token] = []
    word: list[str] = []
    started = False
    at = 0

    def end_word() -> None:
        nonlocal started
        if started:
            found.append(_Token("".join(word), False))
            word.clear()
            started = False
        if len(found) > MAX_WORDS:
            raise LineError("argument list too long")

    while at < len(line):
        mark = line[at]
        if mark in _BLANKS:
            end_word()
            at += 1
        elif mark == "#" and not started:
            newline = line.find("\n", at)
            at = len(line) if newline < 0 else newline
        elif operator := _operator(line, at, started):
            end_word()
            found.append(_Token(operator, True))
            at += len(operator)
        elif mark in "$`&()":
            raise LineError(f"syntax error: unexpected '{mark}' (this phone's shell expands nothing)")
        else:
            started = True
            at = _word_part(line, at, word)
    end_word()
    return found


def _operator(line: str, at: int, started: bool) -> str:
    """The operator at a position; `2>` and `1>` only where no word is under way (`a2>b` is `a2 >b`)."""
    for operator in _OPERATORS:
        if line.startswith(operator, at) and not (started and operator[0] in "12"):
            return operator
    return ""


def _word_part(line: str, at: int, word: list[str]) -> int:
    """Reads one character, escape or quoted run into `word`; the position after it."""
    mark = line[at]
    if mark == "\\":
        if line[at + 1 : at + 2] != "\n":
            word.append(line[at + 1 : at + 2])
        return at + 2
    if mark == "'":
        end = line.find("'", at + 1)
        if end < 0:
            raise LineError("no closing quote")
        word.append(line[at + 1 : end])
        return end + 1
    if mark != '"':
        word.append(mark)
        return at + 1
    at += 1
    while at < len(line) and line[at] != '"':
        if line[at] in "$`":
            raise LineError(f"syntax error: unexpected '{line[at]}' (this phone's shell expands nothing)")
        if line[at] == "\\" and line[at + 1 : at + 2] in ("$", "`", '"', "\\", "\n"):
            at += 1
            if line[at] == "\n":
                at += 1
                continue
        word.append(line[at])
        at += 1
    if at >= len(line):
        raise LineError("no closing quote")
    return at + 1
