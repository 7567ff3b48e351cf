"""The emulated phone's shell: a strict table of commands over virtual files; nothing reaches a real shell or path.

`run_line` reads a line (see `shell_line`), runs its commands and gives output and exit code. A newcomer adds a command
as one coroutine and one entry in COMMANDS. What touches the screen is in `screen_commands`.
"""

from __future__ import annotations

import stat as modes
from collections.abc import Awaitable, Callable

from generators.worlds.android.backend import BackendError
from generators.worlds.android.emulated_phone import EmulatedPhone
from generators.worlds.android.screen_commands import SCREEN_COMMANDS
from generators.worlds.android.shell_line import LineError, ShellCommand, parse_line
from generators.worlds.android.shell_output import CommandError, Output
from generators.worlds.android.virtual_files import FileError

MAX_SLEEP_S = 60.0
Command = Callable[[EmulatedPhone, list[str], bytes], Awaitable[Output]]


async def _echo(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    bare = args[:1] == ["-n"]
    return Output((" ".join(args[1:] if bare else args) + ("" if bare else "\n")).encode())


async def _cat(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    made = Output()
    for path in args or ["-"]:
        try:
            made.out += stdin if path == "-" else phone.files.read(path)
        except FileError as error:
            made.fail(f"cat: {path}: {error}")
    return made


async def _ls(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    flags = "".join(arg[1:] for arg in args if arg.startswith("-") and len(arg) > 1)
    paths = [arg for arg in args if not arg.startswith("-")] or ["/"]
    if unknown := set(flags) - set("1adlR"):
        raise CommandError(f"ls: Unknown option '{min(unknown)}' (see \"ls --help\")")
    made = Output()
    for path in paths:
        try:
            found = phone.files.stat(path)
            entries = [found] if found and "d" in flags else phone.files.list(path)
        except FileError as error:
            made.fail(f"ls: {path}: {error}")
            continue
        listed = found is not None and found.folder and "d" not in flags
        if listed and len(paths) > 1:
            made.out += f"{path}:\n".encode()
        for entry in entries:
            name = entry.name if listed else path
            if "l" in flags:
                name = f"{modes.filemode(entry.mode)} 1 shell shell {entry.size:>8} 1970-01-01 00:00 {name}"
            made.out += f"{name}\n".encode()
    return made


async def _rm(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    flags = "".join(arg[1:] for arg in args if arg.startswith("-"))
    if unknown := set(flags) - set("rRf"):
        raise CommandError(f"rm: Unknown option '{min(unknown)}' (see \"rm --help\")")
    made, paths = Output(), [arg for arg in args if not arg.startswith("-")]
    if not paths and "f" not in flags:
        raise CommandError("rm: Needs 1 argument")
    for path in paths:
        try:
            phone.files.remove(path, recursive=bool(set(flags) & set("rR")))
        except FileError as error:
            if "f" not in flags or str(error) != "No such file or directory":
                made.fail(f"rm: {path}: {error}")
    return made


async def _mkdir(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    made = Output()
    parents = "-p" in args
    for path in (arg for arg in args if not arg.startswith("-")):
        try:
            if not parents and phone.files.stat(path) is not None:
                raise FileError("File exists")
            if not parents and phone.files.stat(path.rstrip("/").rpartition("/")[0] or "/") is None:
                raise FileError("No such file or directory")
            phone.files.mkdir(path)
        except FileError as error:
            made.fail(f"mkdir: '{path}': {error}")
    return made


async def _grep(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    """Fixed text only: a pattern from the wire never becomes a regular expression."""
    flags = {flag for arg in args if arg.startswith("-") for flag in arg[1:]}
    words = [arg for arg in args if not arg.startswith("-")]
    if not words or flags - set("iEFvq"):
        raise CommandError("usage: grep [-iFvq] TEXT [FILE]", 2)
    if set(words[0]) & set("[]*+?^${}|()\\"):
        raise CommandError(f"grep: this phone looks for fixed text only, found the pattern '{words[0]}'", 2)
    wanted = words[0].lower() if "i" in flags else words[0]
    data = b"".join(phone.files.read(path) for path in words[1:]) if len(words) > 1 else stdin
    lines = data.decode("utf-8", "replace").splitlines(keepends=True)
    kept = [ln for ln in lines if (wanted in (ln.lower() if "i" in flags else ln)) != ("v" in flags)]
    return Output(b"" if "q" in flags else "".join(kept).encode(), code=0 if kept else 1)


async def _base64(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    import base64

    if args == ["-d"]:
        try:
            return Output(base64.b64decode(stdin))
        except ValueError as error:
            raise CommandError("base64: bad input") from error
    return Output(base64.encodebytes(stdin))


async def _getprop(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    known = phone.properties()
    if args:
        return Output((known.get(args[0], args[1] if len(args) > 1 else "") + "\n").encode())
    return Output("".join(f"[{name}]: [{value}]\n" for name, value in sorted(known.items())).encode())


async def _sleep(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    try:
        seconds = float(args[0]) if len(args) == 1 else -1.0
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MAX_SLEEP_S:
        raise CommandError(f"sleep: expected 0 to {MAX_SLEEP_S:g} seconds")
    await phone.backend.wait(seconds)
    return Output()


async def _true(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    return Output()


async def _false(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    return Output(code=1)


async def _id(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    return Output(b"uid=2000(shell) gid=2000(shell) groups=2000(shell) context=u:r:shell:s0\n")


async def _whoami(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    return Output(b"shell\n")


async def _pwd(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    return Output(b"/\n")


COMMANDS: dict[str, Command] = {
    "base64": _base64,
    "cat": _cat,
    "echo": _echo,
    "false": _false,
    "getprop": _getprop,
    "grep": _grep,
    "id": _id,
    "ls": _ls,
    "mkdir": _mkdir,
    "pwd": _pwd,
    "rm": _rm,
    "sleep": _sleep,
    "true": _true,
    "whoami": _whoami,
    **SCREEN_COMMANDS,
}


async def run_line(phone: EmulatedPhone, line: str) -> Output:
    """A command line → its output and the exit code of the last command that ran. Never raises on text."""
    made = Output()
    try:
        pipelines = parse_line(line)
    except LineError as error:
        return made.fail(f"/system/bin/sh: {error}", 1)
    for pipeline in pipelines:
        if (pipeline.when == "&&" and made.code) or (pipeline.when == "||" and not made.code):
            continue
        data = b""
        for call in pipeline.calls:
            if call.words[0] == "exit":
                code = call.words[1] if len(call.words) > 1 else ""
                made.code = int(code) & 0xFF if code.isascii() and code.isdigit() and len(code) < 10 else made.code
                made.exits = True
                return made
            step = await _run_call(phone, call, data)
            data = bytes(step.out)
            made.err += step.err
            made.code = step.code
        made.out += data
    return made


async def _run_call(phone: EmulatedPhone, call: ShellCommand, stdin: bytes) -> Output:
    name = call.words[0]
    try:
        if call.stdin is not None:
            stdin = phone.files.read(call.stdin)
        command = COMMANDS.get(name.removeprefix("/system/bin/"))
        if command is None:
            step = Output().fail(f"/system/bin/sh: {name}: inaccessible or not found", 127)
        else:
            step = await command(phone, call.words[1:], stdin)
    except FileError as error:
        step = Output().fail(f"/system/bin/sh: can't open {call.stdin}: {error}" if call.stdin else f"{name}: {error}")
    except CommandError as error:
        step = Output().fail(str(error), error.code)
    except BackendError as error:
        step = Output().fail(f"{name}: the screen failed: {error}", 255)
    return _redirected(phone, call, step)


def _redirected(phone: EmulatedPhone, call: ShellCommand, step: Output) -> Output:
    if call.merged:
        step.out += step.err
        step.err = bytearray()
    for path, stream, append in ((call.stderr, step.err, False), (call.stdout, step.out, call.append)):
        if path is None:
            continue
        kept = bytes(stream)
        stream.clear()
        if path == "/dev/null":
            continue
        try:
            before = phone.files.read(path) if append and phone.files.stat(path) else b""
            phone.files.write(path, before + kept)
        except FileError as error:
            step.fail(f"/system/bin/sh: can't create {path}: {error}")
    return step
