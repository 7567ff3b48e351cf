"""Shell commands that read text: cat, grep, head, tail, wc, base64, md5sum, and `test`.

Patterns from the wire never become regular expressions of their own making: `grep` knows `.`, `.*`, `^`, `$` and
alternatives, and looks for them in linear time.
"""

import base64
import hashlib
import re
from collections.abc import Awaitable, Callable, Iterator

from generators.worlds.android.emulated_phone import EmulatedPhone
from generators.worlds.android.shell_output import CommandError, Output
from generators.worlds.android.virtual_files import FileError


async def _cat(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    made = Output()
    for _, data in _each(phone, made, "cat", args, stdin):
        made.out += data
    return made


def _each(phone: EmulatedPhone, made: Output, name: str, paths: list[str], stdin: bytes) -> Iterator[tuple[str, bytes]]:
    """(path, bytes) of each file, or of standard input; what can't be read is reported to `made`."""
    for path in paths or ["-"]:
        try:
            yield path, stdin if path == "-" else phone.files.read(path)
        except FileError as error:
            made.fail(f"{name}: {path}: {error}")


class _Pattern:
    """One alternative of a pattern: texts that follow each other in a line, anything between them."""

    def __init__(self, text: str, flags: re.RegexFlag, *, fixed: bool) -> None:
        self._starts = not fixed and text.startswith("^")
        text = text[1:] if self._starts else text
        self._ends = not fixed and text.endswith("$")
        text = text[:-1] if self._ends else text
        # Refused and not escaped: a pattern that means something else
        # than asked would find nothing, silently.
        if not fixed and re.search(r"[][*+?{}()\\^$]", text.replace(".*", "")):
            raise CommandError(f"grep: this phone's patterns have '.', '.*', '^', '$' and '|' alone, found '{text}'", 2)
        pieces = [text] if fixed else text.split(".*")
        # A dot is any character; everything else is itself.
        escaped = [re.escape(piece) if fixed else ".".join(map(re.escape, piece.split("."))) for piece in pieces]
        last = len(escaped) - 1
        self._pieces = [
            re.compile(piece + (r"\Z" if self._ends and place == last else ""), flags | re.DOTALL)
            for place, piece in enumerate(escaped)
        ]

    def __call__(self, line: str) -> bool:
        at = 0
        # Pieces in order, each from where the one before ended: linear, whatever the pattern.
        for place, piece in enumerate(self._pieces):
            found = piece.match(line) if place == 0 and self._starts else piece.search(line, at)
            if found is None:
                return False
            at = found.end()
        return True


async def _grep(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    flags, texts, words, take = set[str](), list[str](), list[str](), False
    for arg in args:
        if take:
            texts.append(arg)
        elif arg.startswith("-") and len(arg) > 1:
            flags |= set(arg[1:])
        else:
            words.append(arg)
        # `-e` takes the next word as a pattern, whatever it begins with.
        take = not take and arg.startswith("-") and arg.endswith("e")
    texts = texts or words[:1]
    # Without -e the first word is the pattern.
    words = words[1:] if "e" not in flags else words
    if not texts or flags - set("ceEFinqv"):
        raise CommandError("usage: grep [-cEFinqv] [-e] PATTERN [FILE]...", 2)
    fixed, fold = "F" in flags, re.IGNORECASE if "i" in flags else re.NOFLAG
    if not fixed:
        # `\|` in the basic form, `|` with -E.
        texts = [part for text in texts for part in text.split("|" if "E" in flags else "\\|")]
    patterns = [_Pattern(text, fold, fixed=fixed) for text in texts]
    made, count = Output(code=1), 0
    for path, data in _each(phone, made, "grep", words, stdin):
        for number, line in enumerate(data.decode("utf-8", "replace").splitlines(), 1):
            # -v turns every line's answer around.
            if any(pattern(line) for pattern in patterns) != ("v" in flags):
                count += 1
                if not flags & set("cq"):
                    named = f"{path}:" if len(words) > 1 else ""
                    made.out += f"{named}{f'{number}:' if 'n' in flags else ''}{line}\n".encode()
    if "c" in flags:
        made.out += f"{count}\n".encode()
    # 2 where a file couldn't be read, 0 where something was found.
    made.code = 2 if made.err else 0 if count else 1
    return made


async def _head(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    return _end_of(phone, "head", args, stdin)


async def _tail(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    return _end_of(phone, "tail", args, stdin)


def _end_of(phone: EmulatedPhone, name: str, args: list[str], stdin: bytes) -> Output:
    """`-n LINES`, `-LINES` or `-c BYTES` of the beginning or the end; ten lines if nothing is said."""
    kind, many, paths = "n", "10", list(args)
    if found := re.fullmatch(r"-(?:([nc])(\d*)|(\d+))", paths[0] if paths else ""):
        kind, many = found[1] or "n", found[2] or found[3] or ""
        del paths[0]
        many = many or (paths.pop(0) if paths else "")
    # Nine digits are more than any file here has lines or bytes.
    if not (many.isascii() and many.isdigit() and len(many) < 10) or any(path[:1] == "-" != path for path in paths):
        raise CommandError(f"usage: {name} [-n LINES | -c BYTES] [FILE]...")
    made = Output()
    for _, data in _each(phone, made, name, paths, stdin):
        parts: list[bytes] | bytes = data if kind == "c" else data.splitlines(keepends=True)
        # From the end; more than there is gives everything.
        kept = parts[: int(many)] if name == "head" else parts[max(0, len(parts) - int(many)) :]
        made.out += kept if isinstance(kept, bytes) else b"".join(kept)
    return made


async def _wc(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    flags = {flag for arg in args if arg.startswith("-") for flag in arg[1:]} or set("lwc")
    if flags - set("lwc"):
        raise CommandError("usage: wc [-lwc] [FILE]...")
    made = Output()
    for path, data in _each(phone, made, "wc", [arg for arg in args if not arg.startswith("-")], stdin):
        counts = {"l": data.count(b"\n"), "w": len(data.split()), "c": len(data)}
        shown = " ".join(str(counts[flag]) for flag in "lwc" if flag in flags)
        made.out += f"{shown}{'' if path == '-' else f' {path}'}\n".encode()
    return made


async def _md5sum(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    made = Output()
    for path, data in _each(phone, made, "md5sum", args, stdin):
        # Two blanks, as md5sum separates digest and name.
        made.out += f"{hashlib.md5(data, usedforsecurity=False).hexdigest()}  {path}\n".encode()
    return made


async def _base64(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    if args == ["-d"]:
        try:
            return Output(base64.b64decode(stdin))
        except ValueError as error:
            raise CommandError("base64: bad input") from error
    # Lines of 76 characters, as Android's base64 writes.
    return Output(base64.encodebytes(stdin))


_NUMBERS: dict[str, Callable[[int, int], bool]] = {
    "-eq": int.__eq__,
    "-ne": int.__ne__,
    "-lt": int.__lt__,
    "-le": int.__le__,
    "-gt": int.__gt__,
    "-ge": int.__ge__,
}


async def _test(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    """`test` and `[ … ]`: files, texts, numbers, and `!` before them."""
    # A lone `!` is a text that isn't empty.
    negated = args[:1] == ["!"] and len(args) > 1
    words = args[1:] if negated else args
    found = phone.files.stat(words[1]) if len(words) == 2 and words[0] in ("-e", "-f", "-d", "-s") else None
    match words:
        case []:
            holds = False
        case [text]:
            holds = bool(text)
        case ["-n" | "-z" as kind, text]:
            holds = bool(text) == (kind == "-n")
        case ["-e" | "-f" | "-d" | "-s" as kind, _]:
            # -e takes folders too, -f and -s only files.
            holds = found is not None and (kind == "-e" or found.folder == (kind == "-d"))
            holds = holds and (kind != "-s" or bool(found and found.size))
        case [left, "=" | "==" | "!=" as kind, right]:
            holds = (left == right) == (kind != "!=")
        case [left, kind, right] if kind in _NUMBERS:
            try:
                # Forty digits: Python would turn endless ones into numbers of any size.
                holds = _NUMBERS[kind](int(left[:40]), int(right[:40]))
            except ValueError:
                raise CommandError(f"test: {left[:40]} {kind} {right[:40]}: expected numbers", 2) from None
        case _:
            raise CommandError(f"test: can't read '{' '.join(words)[:60]}'", 2)
    return Output(code=0 if holds != negated else 1)


async def _bracket(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    if args[-1:] != ["]"]:
        raise CommandError("[: missing ]", 2)
    return await _test(phone, args[:-1], stdin)


TEXT_COMMANDS: dict[str, Callable[[EmulatedPhone, list[str], bytes], Awaitable[Output]]] = {
    "[": _bracket,
    "base64": _base64,
    "cat": _cat,
    "grep": _grep,
    "head": _head,
    "md5sum": _md5sum,
    "tail": _tail,
    "test": _test,
    "wc": _wc,
}
