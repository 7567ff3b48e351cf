"""The emulated phone's reading of a command line: words, quotes, `;`, `&&`, `||`, pipes, redirections, and what is
expanded: `$x`, `${x}`, `${x:-y}`, `$(…)`, backquotes and `$((…))`.

A line that asks for more (a background job, a subshell, control flow) is refused, so that no difference from a real
shell passes silently. Patterns such as `*.png` stand for themselves.
"""

import re
from dataclasses import dataclass, field
from typing import Literal

MAX_WORDS = 4096
MAX_DEPTH = 16
"""Levels of `$(…)` inside each other."""
_OPERATORS = ("&&", "||", "2>&1", "1>&2", ">&2", "2>>", "2>", "1>>", "1>", ">>", ">", "<", "|", ";", "\n")
_BLANKS = " \t\r"
_PLAIN = re.compile(r"[^\s'\"\\$`&()|;<>]+")
_IN_QUOTES = re.compile(r'[^"\\$`]+')
_NAME = re.compile(r"\$([A-Za-z_]\w*|[?$#!@*0-9-])", re.ASCII)
_BRACES = re.compile(r"\$\{(#?)([A-Za-z_]\w*|[?$#@*0-9])(?:(:?-)([^}'\"`$\\]*))?\}", re.ASCII)
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)=(.*)", re.ASCII | re.DOTALL)
_CONTROL = frozenset(("case", "do", "done", "elif", "else", "esac", "fi", "for", "if", "then", "until", "while", "{"))


class LineError(ValueError):
    """A line this shell can't read; the message is what it prints."""


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a word: text as it is, a variable by its name, a command line whose output stands here, or an
    arithmetic expression (`inner`). What isn't `quoted` is cut at blanks once it is expanded."""

    kind: Literal["text", "variable", "length", "command", "arithmetic"]
    text: str
    quoted: bool = True
    default: str | None = None  # of ${x:-default}
    inner: "tuple[Part, ...]" = ()


Word = tuple[Part, ...]


@dataclass
class ShellCommand:
    """One command: variables that it sets, its words, and where its output goes (None: onwards)."""

    assigned: list[tuple[str, Word]] = field(default_factory=list)
    words: list[Word] = field(default_factory=list)
    stdin: Word | None = None
    stdout: Word | None = None
    append: bool = False
    stderr: Word | None = None
    merged: bool = False  # 2>&1
    to_stderr: bool = False  # >&2

    def add(self, word: Word) -> None:
        """The next word: before the command's name it may set a variable."""
        first = word[0] if word else None
        # Only unquoted text before the command's name: `"a"=b` is a command.
        if not self.words and first and first.kind == "text" and not first.quoted:
            if found := _ASSIGNED.fullmatch(first.text):
                self.assigned.append((found[1], (Part("text", found[2]), *word[1:])))
                return
            # Said outright: executing `if` as a program would report a missing file instead.
            if len(word) == 1 and first.text in _CONTROL:
                raise LineError(f"syntax error: unexpected '{first.text}' (this phone's shell has no control flow)")
        self.words.append(word)


@dataclass
class Pipeline:
    """Commands joined by `|`; `when` is the operator before them: `;`, `&&` or `||`."""

    when: str
    calls: list[ShellCommand]


def parse_line(line: str) -> list[Pipeline]:
    """Text → pipelines in order. Raises `LineError`."""
    pipelines: list[Pipeline] = []
    when, calls, call = ";", [], ShellCommand()
    redirect = ""
    # A closing semicolon, so that the last pipeline ends like all others.
    for token in [*_tokens(line), ";"]:
        if redirect:
            if isinstance(token, str):
                raise LineError(f"syntax error: unexpected '{_shown(token)}'")
            _redirect(call, redirect, token)
            redirect = ""
        elif not isinstance(token, str):
            call.add(token)
        elif token == "2>&1":
            call.merged = True
        elif token in (">&2", "1>&2"):
            call.to_stderr = True
        elif token[-1] in "<>":
            redirect = token
        elif token == "|":
            if not call.words:
                raise LineError("syntax error: unexpected '|'")
            calls.append(call)
            call = ShellCommand()
        else:
            if call.words or call.assigned:
                pipelines.append(Pipeline(when, [*calls, call]))
            # An operator with nothing before it; empty lines and a lone `;` at the end are fine.
            elif calls or call != ShellCommand() or (token in ("&&", "||")) or when != ";":
                raise LineError(f"syntax error: unexpected '{_shown(token)}'")
            # `2>&1` and redirections belong to the command they stand in.
            when, calls, call = ";" if token == "\n" else token, [], ShellCommand()
    return pipelines


def _shown(operator: str) -> str:
    return "newline" if operator in ("\n", ";") else operator


def _redirect(call: ShellCommand, operator: str, path: Word) -> None:
    if operator == "<":
        call.stdin = path
    elif operator.startswith("2"):
        call.stderr = path
    else:
        call.stdout, call.append = path, operator.endswith(">>")


def _tokens(line: str) -> list[str | Word]:
    """Operators as text, words as their parts."""
    found: list[str | Word] = []
    word: list[Part] | None = None
    at = 0
    while at <= len(line):
        mark = line[at : at + 1]
        # Operators are looked for first: `2>` would else be read as the word "2".
        operator = _operator(line, at, word is not None) if mark else ""
        if not mark or mark in _BLANKS or operator:
            if word:
                found.append(tuple(word))
            word = None
            if operator:
                found.append(operator)
            at += len(operator) or 1
            if len(found) > MAX_WORDS:
                raise LineError("argument list too long")
        # A comment only at the beginning of a word: `a#b` is a word.
        elif mark == "#" and word is None:
            newline = line.find("\n", at)
            at = len(line) if newline < 0 else newline
        elif mark in "&()":
            raise LineError(f"syntax error: unexpected '{mark}' (this phone's shell has no jobs and no subshells)")
        else:
            word = [] if word is None else word
            at = _read_part(line, at, word)
    return found


def _operator(line: str, at: int, started: bool) -> str:
    """The operator at a position; `2>` and `1>` only where no word is under way (`a2>b` is `a2 >b`)."""
    if line[at] in "&|12><;\n":
        for operator in _OPERATORS:
            # In the order of `_OPERATORS`: longer ones first.
            if line.startswith(operator, at) and not (started and operator[0] in "12"):
                return operator
    return ""


def _read_part(line: str, at: int, word: list[Part]) -> int:
    """Reads one run of plain text, escape, quoted text or expansion into `word`; the position after it."""
    mark = line[at]
    if mark == "\\":
        # A backslash before the end of a line joins both.
        if line[at + 1 : at + 2] != "\n":
            word.append(Part("text", line[at + 1 : at + 2]))
        return at + 2
    if mark == "'":
        # Between single quotes nothing is special.
        end = line.find("'", at + 1)
        if end < 0:
            raise LineError("no closing quote")
        word.append(Part("text", line[at + 1 : end]))
        return end + 1
    if mark == '"':
        word.append(Part("text", ""))  # even with nothing in it there is a word
        end = _read_quoted(line, at + 1, word)
        if end >= len(line):
            raise LineError("no closing quote")
        return end + 1
    # Expansion outside of quotes is cut at blanks later.
    if mark in "$`":
        return _read_expansion(line, at, word, quoted=False)
    plain = _PLAIN.match(line, at)
    end = plain.end() if plain else at + 1
    # Text is "quoted" once something stands before it: only a word's beginning may set a variable.
    word.append(Part("text", line[at:end], quoted=bool(word)))
    return end


def _read_quoted(line: str, at: int, word: list[Part]) -> int:
    """Reads what stands between double quotes; the position of the closing one, or the line's end."""
    while at < len(line) and line[at] != '"':
        if line[at] in "$`":
            at = _read_expansion(line, at, word, quoted=True)
        elif line[at] == "\\":
            escaped = line[at + 1 : at + 2]
            # In double quotes a backslash escapes four characters and is itself before all others.
            word.append(Part("text", "" if escaped == "\n" else escaped if escaped in '$`"\\' else f"\\{escaped}"))
            at += 2
        else:
            plain = _IN_QUOTES.match(line, at)
            assert plain is not None
            word.append(Part("text", plain[0]))
            at = plain.end()
    return at


def _read_expansion(line: str, at: int, word: list[Part], *, quoted: bool) -> int:
    if line[at] == "`":
        end = _closing(line, at + 1, "`")
        # Inside backquotes these three are escaped once more.
        word.append(Part("command", re.sub(r"\\([\\`$])", r"\1", line[at + 1 : end]), quoted))
    elif line.startswith("$((", at):
        end = _closing(line, at + 3, ")") + 1
        if line[end : end + 1] != ")":
            raise LineError("no closing '))'")
        inner: list[Part] = []
        # Variables and `$(…)` are expanded inside sums, as between double quotes.
        _read_quoted(line[at + 3 : end - 1].replace('"', ""), 0, inner)
        word.append(Part("arithmetic", "", quoted, inner=tuple(inner)))
    elif line.startswith("$(", at):
        end = _closing(line, at + 2, ")")
        word.append(Part("command", line[at + 2 : end], quoted))
    elif braces := _BRACES.match(line, at):
        end = braces.end() - 1
        default = braces[4] if braces[3] else None
        word.append(Part("length" if braces[1] else "variable", braces[2], quoted, default))
    elif line.startswith(("${", "$'"), at):
        # What isn't supported is refused, or it would be taken literally.
        raise LineError(f"{line[at : at + 20]}: bad substitution")
    elif name := _NAME.match(line, at):
        end = name.end() - 1
        word.append(Part("variable", name[1], quoted))
    else:
        end = at
        # A dollar sign that begins nothing stands for itself.
        word.append(Part("text", "$"))
    return end + 1


def _closing(line: str, at: int, mark: str, depth: int = 0) -> int:
    """Where the `)` or backquote stands that ends what begins at a position; what is quoted doesn't count."""
    if depth > MAX_DEPTH:
        raise LineError(f"expected at most {MAX_DEPTH} levels of $( )")
    quoted = False
    while at < len(line):
        found = line[at]
        if found == mark and not quoted:
            return at
        if found == "\\":
            at += 1
        elif found == "'" and not quoted and mark == ")":
            # A quote without its end makes the loop run to the line's end and fail there.
            at = line.find("'", at + 1) % (len(line) + 1)  # -1, none, is the line's end
        elif found == '"' and mark == ")":
            quoted = not quoted
        # Brackets nest, also inside quotes where they belong to a `$(`.
        elif mark == ")" and ((found == "(" and not quoted) or line.startswith("$(", at)):
            at = _closing(line, at + 1 + (found == "$"), ")", depth + 1)
        at += 1
    raise LineError(f"no closing '{mark}'")
