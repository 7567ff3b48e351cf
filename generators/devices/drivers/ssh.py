"""The SSH driver: a real X desktop by sshd, straight or through a gateway.

    async with connect(Endpoint("ssh", "10.0.0.7", 22, options={"user": "me", "display": ":0"})) as desktop: ...

The desktop needs xdotool, xclip, imagemagick, coreutils, and python3 with the AT-SPI binding for its tree. What comes
from outside (text to type, tasks, scripts' input) goes by stdin; a command line holds only fixed words, numbers, and
the operator's options, each quoted.
"""

import asyncio
import base64
import json
import re
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncssh

from generators.devices.desktop import accessibility_tree as tree
from generators.devices.desktop import home_folder as home
from generators.devices.desktop.home_folder import HIDDEN
from generators.devices.device import DeviceEndpoint, DeviceError
from generators.devices.drivers.frames import limited, png_size, read_options
from generators.devices.drivers.ssh_keys import PROGRAMS, keysym
from generators.devices.drivers.ssh_pointer import pointer_words
from generators.devices.drivers.ssh_transport import Tunnel
from generators.tasks.world_interface import Observation, ScreenElement, UnsupportedAction, WorldError
from schemas.actions import Action, CallUser, Finished, Hotkey, Launch, PressBack, PressEnter, TakeNote, Type, Wait

# bytes
MAX_OUT = 64 << 20
SETTLED_S, SETTLED_LOOKS = 2.0, 3
"""How long at most, and how often at least, a new window is watched until nothing in it changes any more."""
_BOOT = "import sys;n=int(sys.stdin.buffer.readline());exec(compile(sys.stdin.buffer.read(n),'desktop','exec'))"
_WORD = re.compile(r"[\w./:=,@+-]+", re.ASCII)
# little compression: the picture goes a short way, and time is what counts
_SHOT = ("import", "-silent", "-window", "root", "-depth", "8", "-define", "png:compression-level=1", "png:-")


@dataclass(frozen=True)
class SshOptions:
    """`DeviceEndpoint.options` of this driver. Times in seconds."""

    user: str = ""
    key_file: str = ""  # private key; empty: the usual ones in ~/.ssh
    host_key: str = ""  # "type base64": the only key the host may have
    known_hosts: str = ""  # without host_key: a file of known hosts; empty: ~/.ssh/known_hosts
    host_alias: str = ""  # its name there; empty: the device's name behind a gateway, else the host
    trust_unknown_host: bool = False  # accept any host key
    display: str = ":0"
    xauthority: str = ""
    bus: str = ""  # address of the D-Bus session; empty: the one of the login
    home: str = ""  # home folder that programs see; empty: the login's
    runtime_dir: str = ""
    programs: Mapping[str, Any] = field(default_factory=dict)  # name → list of words that start it, beside PROGRAMS
    packages: Mapping[str, str] = field(default_factory=dict)  # program → its Debian package, named where it lacks
    treeless: tuple[str, ...] = ()  # programs without accessibility: ready as soon as their window is active
    settings: Mapping[str, str] = field(default_factory=dict)  # prefix of keys in the state → file of the home folder
    hidden: tuple[str, ...] = HIDDEN
    channels: tuple[str, ...] = ("accessibility", "keyboards", "keyboard-layout", "pointers", "thunar", "xsettings")
    tree: bool = True
    paste_keys: tuple[str, ...] = ("ctrl", "v")
    call_s: float = 20.0
    paste_s: float = 3.0  # how long a program may take to ask for what is pasted
    launch_s: float = 8.0  # how long a program may take to show its window
    wait_s: float = 1.0
    settle_s: float = 0.45  # after an action, until it is drawn; to GTK two clicks within 0.4 s are a double click
    press_s: float = 0.8
    drag_s: float = 0.3

    def environment(self) -> list[str]:
        """NAME=value words. Raises `ValueError` on a value with characters that none of them has."""
        named = {
            "DISPLAY": self.display,
            "XAUTHORITY": self.xauthority,
            "DBUS_SESSION_BUS_ADDRESS": self.bus,
            "HOME": self.home,
            "XDG_RUNTIME_DIR": self.runtime_dir,
        }
        if self.home:  # settings in files of that folder, not in the user's dconf
            named["GSETTINGS_BACKEND"] = "keyfile"
        for name, value in named.items():
            if value and not _WORD.fullmatch(value):
                raise ValueError(f"ssh option {name}: expected letters, digits and ./:=,@+-, found {value!r:.60}")
        return [f"{name}={value}" for name, value in named.items() if value]


class SshDevice:
    """An open desktop (`AsyncDevice`)."""

    platform = "desktop"

    def __init__(self, connection: asyncssh.SSHClientConnection, name: str, options: SshOptions) -> None:
        self._connection, self._name, self._options = connection, name, options
        # a fixed locale, so that programs' words don't depend on the desktop's
        self._env = ["env", "LANG=C.UTF-8", *options.environment()]
        self.size_px = (0, 0)

    async def begin(self) -> None:
        """Ask for the screen's size."""
        printed = (await self.do("xdotool", "getdisplaygeometry")).split()
        if len(printed) != 2 or not all(word.isdigit() for word in printed):
            raise DeviceError(f"{self._name}: expected its screen size from xdotool, found {printed!r:.80}")
        self.size_px = int(printed[0]), int(printed[1])

    # -- commands ---------------------------------------------------------------------------------------------------

    def _line(self, words: Sequence[str], seconds: float) -> str:
        """`timeout` ends the command on the far side even when nobody here waits any more."""
        # one second more than is waited here, so that this side's message is the one that is read
        return shlex.join(["timeout", "-k", "1", f"{seconds + 1:.0f}", *self._env, *words])

    @asynccontextmanager
    async def _process(self, words: Sequence[str], seconds: float) -> AsyncIterator[asyncssh.SSHClientProcess[bytes]]:
        """A running command; errors of SSH become `DeviceError`."""
        process = None
        try:
            async with limited(seconds, self._name, words[0]):
                process = await self._connection.create_process(self._line(words, seconds), encoding=None)
                yield process
        except asyncssh.Error as error:
            raise DeviceError(f"{self._name}: {words[0]}: the SSH connection failed: {error}") from error
        finally:
            if process is not None:
                process.close()

    async def do(self, *words: str, given: bytes = b"", extra_s: float = 0.0) -> bytes:
        """Output of a command that must succeed; `given` is its stdin. Raises `DeviceError`."""
        async with self._process(words, self._options.call_s + extra_s) as process:
            with suppress(BrokenPipeError):  # one that reads nothing may have ended by now
                process.stdin.write(given)
                process.stdin.write_eof()
            out, err = await asyncio.gather(self._read(process.stdout), self._read(process.stderr))
            await process.wait_closed()
            code = process.returncode
        # neither code nor signal: the channel ended before the command did
        if code is None or (code == -1 and process.exit_signal is None and process.exit_status is None):
            raise DeviceError(f"{self._name}: {words[0]}: the SSH connection was lost")
        if code:
            why = err.decode("utf-8", "replace").strip()[-300:]
            hint = "; install it on the desktop" if code == 127 else ""
            raise DeviceError(f"{self._name}: {words[0]} ended with code {code}: {why}{hint}")
        return out

    async def _read(self, stream: asyncssh.SSHReader[bytes]) -> bytes:
        parts, size = [], 0
        while part := await stream.read(1 << 16):
            parts.append(part)
            size += len(part)
            if size > MAX_OUT:
                raise DeviceError(f"{self._name}: expected at most {MAX_OUT} bytes of output, found more")
        return b"".join(parts)

    async def script(self, source: bytes, given: object = None) -> dict[str, Any]:
        """JSON object that a Python script of ours writes there; script and input go by stdin."""
        # the length first, so that the script's end and the beginning of its input are known
        stdin = b"%d\n%s%s" % (len(source), source, json.dumps(given).encode())
        out = await self.do("/usr/bin/python3", "-c", _BOOT, given=stdin)
        try:
            answer = json.loads(out)
        except (ValueError, RecursionError) as error:
            raise DeviceError(f"{self._name}: expected JSON from a script, found {out[:80]!r}") from error
        if not isinstance(answer, dict):
            raise DeviceError(f"{self._name}: expected a JSON object from a script, found {out[:80]!r}")
        return answer

    async def _home(self, what: str, **given: object) -> Any:
        answer = await self.script(home.SCRIPT, {"do": what, **given})
        if "refused" in answer:
            raise WorldError(f"{self._name}: {what}: {str(answer['refused'])[:300]}")
        return answer.get("ok")

    # -- AsyncDevice ------------------------------------------------------------------------------------------------

    async def observe(self) -> Observation:
        """PNG of the whole screen, and the AT-SPI tree, read right after it."""
        png = await self.do(*_SHOT)
        self.size_px = png_size(png, self._name)
        return Observation(png, await self.elements() if self._options.tree else ())

    async def elements(self) -> tuple[ScreenElement, ...]:
        """The elements alone."""
        raw = await self.script(tree.SCRIPT)
        try:
            return tree.screen_elements_of(raw, self.size_px)
        except ValueError as error:
            raise DeviceError(f"{self._name}: {error}") from error

    async def act(self, action: Action) -> None:
        """See `AsyncDevice.act`."""
        if isinstance(action, Finished | CallUser | TakeNote):
            return
        if isinstance(action, Wait):
            await asyncio.sleep(self._options.wait_s)
            return
        if isinstance(action, Type):
            await self._type(action.content)
        elif isinstance(action, Launch):
            await self._launch(action)
        elif isinstance(action, PressEnter):
            await self._keys(("enter",))
        elif isinstance(action, PressBack):
            await self._keys(("alt", "left"))
        elif isinstance(action, Hotkey):
            await self._keys(action.keys)
        else:
            await self._mouse(action)
        await asyncio.sleep(self._options.settle_s)

    async def reset(self, start: Mapping[str, object]) -> None:
        """Programs that were launched end, the home folder is emptied and gets `files` ({path: text}), then `program`
        (a name as Launch has it) starts, with `open`, a path in the home folder, if given. Only in a home folder with
        the file `.disposable-home` in it."""
        if unknown := set(start) - {"files", "program", "open"}:
            raise WorldError(f"{self._name}: reset: expected files, program and open, found {sorted(unknown)}")
        files, opened = start.get("files", {}), start.get("open", "")
        if not isinstance(files, Mapping) or not all(isinstance(text, str) for text in files.values()):
            raise WorldError(f"{self._name}: reset: expected files as paths with their text")
        # a file that isn't in the start would open whatever lay there before
        if opened and opened not in files:
            raise WorldError(f"{self._name}: reset: expected open to be one of files, found {opened!r:.80}")
        # in base64: files may hold any bytes, JSON only text
        coded = {name: base64.b64encode(text.encode()).decode() for name, text in files.items()}
        await self._home("reset", files=coded)
        await self.do("xdotool", "mousemove", "99999", "99999")  # the far corner, so that nothing is hovered at a start
        if start.get("program"):
            await self._start([*self._program(str(start["program"])), *([f"./{opened}"] if opened else [])])

    async def state(self) -> dict[str, Any]:
        """{"files": [{path, bytes, sha256, text of small ones}], "window": {app, title, texts} of the active window}"""
        options = self._options
        asked = {"settings": dict(options.settings), "channels": options.channels, "hidden": options.hidden}
        files = await self._home("state", **asked)
        raw = await self.script(tree.SCRIPT)
        try:
            active = [window for window in tree.windows_of(raw) if window.get("active")]
        except ValueError as error:
            raise DeviceError(f"{self._name}: {error}") from error
        # the last is on top
        shown = active[-1] if active else None
        window = {"app": shown.get("app"), "title": shown.get("title"), "texts": tree.texts_of(shown)} if shown else {}
        return {**files, "window": window}

    async def close(self) -> None:
        self._connection.close()
        try:
            async with asyncio.timeout(2):
                await self._connection.wait_closed()
        except TimeoutError:
            # a desktop that is gone doesn't end the connection in good order
            self._connection.abort()

    # -- input ------------------------------------------------------------------------------------------------------

    async def _mouse(self, action: Action) -> None:
        options = self._options
        words = pointer_words(action, self.size_px, options.press_s, options.drag_s)
        await self.do("xdotool", *words, extra_s=options.press_s + options.drag_s)

    async def _keys(self, names: Sequence[str]) -> None:
        await self.do("xdotool", "key", self._chord(names))

    @staticmethod
    def _chord(names: Sequence[str]) -> str:
        syms = [keysym(name) for name in names]
        for name, sym in zip(names, syms, strict=True):
            if sym is None:
                raise WorldError(f"Hotkey: expected names of keys, found {name[:40]!r}")
        return "+".join(sym for sym in syms if sym)

    async def _type(self, text: str) -> None:
        """By the clipboard: xclip holds the text and reports each request for it."""
        if not text:
            return
        if "\0" in text:
            raise WorldError("Type: no clipboard holds text with NUL in it")
        words = ("xclip", "-verbose", "-selection", "clipboard", "-in")
        async with self._process(words, self._options.call_s) as process:
            process.stdin.write(text.encode())
            process.stdin.write_eof()
            said = b""
            while b"request number" not in said:  # it owns the clipboard from here on
                more = await process.stderr.readline()
                said += more
                if not more:
                    why = said.decode("utf-8", "replace").strip()[-200:]
                    raise DeviceError(f"{self._name}: xclip did not take the text: {why}")
            await self._keys(self._options.paste_keys)
            quiet = self._options.paste_s
            while True:  # a program asks for the kinds of data first, then for the text, a part at a time
                try:
                    async with asyncio.timeout(quiet):
                        if not await process.stderr.readline():
                            break
                    # after the first request the rest follows at once
                    quiet = 0.3
                except TimeoutError:
                    break
            process.terminate()

    def _program(self, name: str) -> list[str]:
        table = {**PROGRAMS, **{key.lower(): value for key, value in self._options.programs.items()}}
        words = table.get(name.strip().lower())
        known = ", ".join(sorted(table))
        if words is None:
            raise WorldError(f"Launch: no program named {name[:60]!r} on {self._name}; known are {known}")
        return [str(word) for word in words]

    async def _launch(self, action: Launch) -> None:
        if action.url:
            raise UnsupportedAction("Launch(url): a desktop starts programs only")
        await self._start(self._program(action.app))

    async def _start(self, argv: list[str]) -> None:
        """Start a program and wait for its window, which is active then."""
        last = await self._active()
        await self._home("launch", argv=argv, package=self._options.packages.get(argv[0], ""))
        loop = asyncio.get_running_loop()
        end = loop.time() + self._options.launch_s
        # the id of the process with it: X gives a window's number away again
        while (now := await self._active()) in ("", last):
            if loop.time() >= end:
                raise WorldError(f"Launch: {argv[0]} on {self._name} showed no window in {self._options.launch_s:g} s")
            await asyncio.sleep(0.1)
        if argv[0] in self._options.treeless:
            return
        before = await self.script(tree.SCRIPT)
        while not any(window.get("active") for window in before.get("windows", ())):
            if now != await self._active() or loop.time() >= end:
                break  # a program without accessibility
            await asyncio.sleep(0.1)
            before = await self.script(tree.SCRIPT)
        # A window that is still filling itself loses the first keys: until two looks see the same.
        end, looks = min(end, loop.time() + SETTLED_S), 1
        while (seen := await self.script(tree.SCRIPT)) != before and (looks < SETTLED_LOOKS or loop.time() < end):
            before, looks = seen, looks + 1
            await asyncio.sleep(0.1)

    async def _active(self) -> str:
        """Id of the active window and of its process (X gives a dead window's id to the next); empty: none."""
        out = await self.do("sh", "-c", "xdotool getactivewindow getactivewindow getwindowpid 2>/dev/null || :")
        return out.decode("ascii", "replace").strip()


def _known_hosts(options: SshOptions, name: str) -> Any:
    """asyncssh's idea of which hosts are known. Raises `ValueError` on a key that is none."""
    if options.trust_unknown_host:
        return None
    if options.host_key:
        try:
            return [asyncssh.import_public_key(options.host_key)], [], []
        except asyncssh.KeyImportError as error:
            raise ValueError(f"ssh option host_key: expected 'type base64', found {options.host_key[:40]!r}") from error
    path = Path(options.known_hosts or "~/.ssh/known_hosts").expanduser()
    if not path.is_file():
        raise DeviceError(f"{name}: no file of known hosts at {path}; give the option host_key or known_hosts")
    return str(path)


@asynccontextmanager
async def connect(endpoint: DeviceEndpoint) -> AsyncIterator[SshDevice]:
    """An open desktop (`AsyncDevice`); see `SshOptions`. Raises `DeviceError`, `LeaseLost`, and `ValueError` on options
    that are none."""
    options = read_options(SshOptions, endpoint.options, "ssh")
    options.environment()
    name = f"desktop {endpoint.device or f'{endpoint.host}:{endpoint.port}'}"
    more: dict[str, Any] = {"client_keys": [options.key_file], "agent_path": None} if options.key_file else {}
    if options.user:
        more["username"] = options.user
    # a key is known by the device's name: all devices behind a gateway share its address
    alias = options.host_alias or (endpoint.device if endpoint.token is not None else "")
    try:
        async with limited(options.call_s, name, "the SSH handshake"):
            connection = await asyncssh.connect(
                endpoint.host,
                endpoint.port,
                tunnel=Tunnel(endpoint, options.call_s),
                # none of this user's own SSH configuration: what a device is reached by stands in its options
                config=[],
                known_hosts=_known_hosts(options, name),
                host_key_alias=alias or None,
                password=None,
                preferred_auth="publickey",
                compression_algs=None,
                **more,
            )
    except asyncssh.HostKeyNotVerifiable as error:
        raise DeviceError(f"{name}: its host key is not the known one ({error}); it is not trusted") from error
    except asyncssh.Error as error:
        raise DeviceError(f"{name}: the SSH handshake failed: {error}") from error
    device = SshDevice(connection, name, options)
    try:
        await device.begin()
        yield device
    finally:
        await device.close()
