"""The emulated phone's shell: a strict table of commands over virtual files; nothing reaches a real shell or path.

`run_line` reads a line (see `shell_line`), runs its commands and gives output and exit code. A newcomer adds a command
as one coroutine and one entry in COMMANDS. What touches the screen is in `screen_commands`, what reads text in
`text_commands`.
"""

import asyncio
import stat as modes
from collections.abc import Awaitable, Callable

from generators.worlds.android.backend import BackendError
from generators.worlds.android.emulated_phone import EmulatedPhone
from generators.worlds.android.screen_commands import SCREEN_COMMANDS
from generators.worlds.android.shell_expansion import MAX_VARIABLES, ShellSession, expand_fields, expand_text
from generators.worlds.android.shell_line import MAX_DEPTH, MAX_WORDS, LineError, ShellCommand, parse_line
from generators.worlds.android.shell_output import CommandError, Output
from generators.worlds.android.text_commands import TEXT_COMMANDS
from generators.worlds.android.virtual_files import FileError

MAX_SLEEP_S = 60.0
MAX_OUTPUT = 64 << 20
"""Bytes that a line may print."""
Command = Callable[[EmulatedPhone, list[str], bytes], Awaitable[Output]]


async def _echo(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    bare = args[:1] == ["-n"]
    return Output((" ".join(args[1:] if bare else args) + ("" if bare else "\n")).encode())


async def _ls(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    # Flags may stand together, "-la".
    flags = "".join(arg[1:] for arg in args if arg.startswith("-") and len(arg) > 1)
    paths = [arg for arg in args if not arg.startswith("-")] or ["/"]
    # Strict: an option that isn't known would silently list something else.
    if unknown := set(flags) - set("1adlR"):
        raise CommandError(f"ls: Unknown option '{min(unknown)}' (see \"ls --help\")")
    output = Output()
    for path in paths:
        try:
            found = phone.files.stat(path)
            entries = [found] if found and "d" in flags else phone.files.list(path)
        except FileError as error:
            output.fail(f"ls: {path}: {error}")
            continue
        listed = found is not None and found.folder and "d" not in flags
        if listed and len(paths) > 1:
            output.out += f"{path}:\n".encode()
        for entry in entries:
            name = entry.name if listed else path
            if "l" in flags:
                # All files of one time: the same listing on every run.
                name = f"{modes.filemode(entry.mode)} 1 shell shell {entry.size:>8} 1970-01-01 00:00 {name}"
            output.out += f"{name}\n".encode()
    return output


async def _rm(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    flags = "".join(arg[1:] for arg in args if arg.startswith("-"))
    if unknown := set(flags) - set("rRf"):
        raise CommandError(f"rm: Unknown option '{min(unknown)}' (see \"rm --help\")")
    output, paths = Output(), [arg for arg in args if not arg.startswith("-")]
    if not paths and "f" not in flags:
        raise CommandError("rm: Needs 1 argument")
    for path in paths:
        try:
            phone.files.remove(path, recursive=bool(set(flags) & set("rR")))
        except FileError as error:
            # `-f` hides only what isn't there.
            if "f" not in flags or str(error) != "No such file or directory":
                output.fail(f"rm: {path}: {error}")
    return output


async def _mkdir(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    output = Output()
    parents = "-p" in args
    for path in (arg for arg in args if not arg.startswith("-")):
        try:
            if not parents and phone.files.stat(path) is not None:
                raise FileError("File exists")
            # Without -p the parent must be there.
            if not parents and phone.files.stat(path.rstrip("/").rpartition("/")[0] or "/") is None:
                raise FileError("No such file or directory")
            phone.files.mkdir(path)
        except FileError as error:
            output.fail(f"mkdir: '{path}': {error}")
    return output


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
    # The phone's clock runs; nobody waits unless the backend does.
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


NO_JAVA = "this phone is emulated and runs no Java; `input`, `uiautomator dump` and `screencap` work without it"
COMMANDS: dict[str, Command] = {
    "echo": _echo,
    "false": _false,
    "getprop": _getprop,
    "id": _id,
    "ls": _ls,
    "mkdir": _mkdir,
    "pwd": _pwd,
    "rm": _rm,
    "sleep": _sleep,
    "true": _true,
    "whoami": _whoami,
    **SCREEN_COMMANDS,
    **TEXT_COMMANDS,
}


async def run_line(phone: EmulatedPhone, line: str, session: ShellSession | None = None) -> Output:
    """A command line → its output and the exit code of the last command that ran. Never raises on text. `session`: of
    a shell that has read lines before."""
    session = session or ShellSession()
    output = Output()
    try:
        pipelines = parse_line(line)
        for pipeline in pipelines:
            # By the last command that ran, as in a shell.
            if (pipeline.when == "&&" and output.code) or (pipeline.when == "||" and not output.code):
                continue
            step = Output()
            for call in pipeline.calls:
                # Output of a command is the input of the next.
                step = await _run_call(phone, call, bytes(step.out), session)
                output.err += step.err
                if step.exits:
                    break
            output.out += step.out
            output.code, output.exits = step.code, step.exits
            # `$?` for the next command.
            session.variables["?"] = str(step.code)
            if len(output.out) + len(output.err) > MAX_OUTPUT:
                return output.fail(f"/system/bin/sh: killed after {MAX_OUTPUT} bytes of output", 137)
            if output.exits:
                break
    except LineError as error:
        session.variables["?"] = "1"
        return output.fail(f"/system/bin/sh: {error}", 1)
    return output


async def _run_call(phone: EmulatedPhone, call: ShellCommand, stdin: bytes, session: ShellSession) -> Output:
    """Expand a command's words and run it. Raises `LineError`."""
    inner_code, errors = 0, bytearray()

    async def run_inner(line: str) -> str:
        nonlocal inner_code
        # Each level runs a shell inside: unbounded nesting would exhaust the stack.
        if session.depth >= MAX_DEPTH:
            raise LineError(f"expected at most {MAX_DEPTH} levels of $( )")
        ran = await run_line(phone, line, session.inner())
        # An assignment has the exit code of its last `$(…)`.
        inner_code = ran.code
        errors.extend(ran.err)
        return ran.out.decode("utf-8", "replace")

    # Assignments first, then words, as POSIX has it; both are expanded in the session's own variables.
    assigned = {name: await expand_text(word, session, run_inner) for name, word in call.assigned}
    words = [field for word in call.words for field in await expand_fields(word, session, run_inner)]
    if len(words) > MAX_WORDS or len(session.variables | assigned) > MAX_VARIABLES:
        raise LineError("argument list too long")
    await asyncio.sleep(0)  # other connections, and the time limit of this one
    targets = [
        None if word is None else await expand_text(word, session, run_inner)
        for word in (call.stdin, call.stdout, call.stderr)
    ]
    try:
        if targets[0] is not None:
            stdin = b"" if targets[0] == "/dev/null" else phone.files.read(targets[0])
        if not words:
            session.variables |= assigned
            step = Output(code=inner_code)
        else:
            step = await _run_words(phone, words, stdin, session)
    except FileError as error:
        step = Output().fail(f"/system/bin/sh: can't open {targets[0]}: {error}")
    step.err[:0] = errors
    return _redirected(phone, call, step, targets[1], targets[2])


async def _run_words(phone: EmulatedPhone, words: list[str], stdin: bytes, session: ShellSession) -> Output:
    name = words[0].removeprefix("/system/bin/")
    # toybox is one program with many names.
    if name in ("toybox", "toolbox") and len(words) > 1:
        return await _run_words(phone, words[1:], stdin, session)
    if name == "exit":
        code = words[1] if len(words) > 1 else session.variables["?"]
        # Anything that isn't a number exits with 0, and codes have one byte.
        ended = Output(code=int(code) & 0xFF if code.isascii() and code.isdigit() and len(code) < 10 else 0)
        ended.exits = True
        return ended
    if name == "sh" and words[1:2] == ["-c"] and len(words) > 2 and session.depth < MAX_DEPTH:
        # A shell of its own: what it sets is gone with it.
        step = await run_line(phone, words[2], ShellSession(depth=session.depth + 1))
        step.exits = False
        return step
    command = COMMANDS.get(name)
    if command is None and name.startswith("app_process"):
        # So do clients that bring a server of their own: uiautomator2, Appium, scrcpy.
        return Output().fail(f"{name}: {NO_JAVA}", 1)
    if command is None:
        return Output().fail(f"/system/bin/sh: {words[0]}: inaccessible or not found", 127)
    try:
        return await command(phone, words[1:], stdin)
    # What a program prints for its own errors; the shell goes on.
    except FileError as error:
        return Output().fail(f"{name}: {error}")
    except CommandError as error:
        return Output().fail(str(error), error.code)
    except BackendError as error:
        return Output().fail(f"{name}: the screen failed: {error}", 255)


def _redirected(phone: EmulatedPhone, call: ShellCommand, step: Output, out: str | None, err: str | None) -> Output:
    if call.to_stderr:
        step.err, step.out = step.out + step.err, bytearray()
    elif call.merged:
        step.out, step.err = step.out + step.err, bytearray()
    for path, stream, append in ((err, step.err, False), (out, step.out, call.append)):
        if path is None:
            continue
        kept = bytes(stream)
        stream.clear()
        if path == "/dev/null":
            continue
        try:
            # Appending to a file that isn't there makes it.
            before = phone.files.read(path) if append and phone.files.stat(path) else b""
            phone.files.write(path, before + kept)
        except FileError as error:
            step.fail(f"/system/bin/sh: can't create {path}: {error}")
    return step
