"""The ADB driver: an emulated or a real phone, straight to its adbd by TCP, through a gateway, or by serial.

    async with connect(Endpoint("adb", "127.0.0.1", 5555)) as phone: ...
    async with connect(Endpoint("adb", "127.0.0.1", 5037, options={"serial": "R58M123ABC"})) as phone: ...

Text is typed by ADBKeyboard's base64 broadcast, the only way on Android that is byte-exact; a phone without it is typed
on by keys, and text that no key types is an error. The former keyboard comes back at the end.
"""

import asyncio
import base64
import contextlib
import json
import re
import shlex
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from generators.devices.device import DeviceEndpoint, DeviceError
from generators.devices.drivers.adb_apps import PACKAGES, pick_package
from generators.devices.drivers.adb_screencap import picture_in
from generators.devices.drivers.adb_tree import screen_elements_of
from generators.devices.drivers.frames import limited, png_size, read_options, to_px, utf8_parts
from generators.devices.protocols.adb_auth import BadKey
from generators.devices.protocols.adb_harness import (
    ADB_KEYBOARD,
    BAD_START,
    HARNESS_PROPERTY,
    HARNESS_RESET,
    HARNESS_STATE,
)
from generators.devices.protocols.adb_transport import AdbTransport, Ran, ServerTransport, greet, run
from generators.devices.protocols.tunnel import open_tunnel
from generators.tasks.world_interface import Observation, ScreenElement, UnsupportedAction, WorldError
from pipelines.native.android_xml import TreeError
from schemas import action_types
from schemas.actions import SYNTHESISED_PATHS

# bytes; a screenshot of 8K is below it
MAX_PNG = 64 << 20
MAX_TEXT = 16 << 20
KEYS: dict[type, str] = {
    action_types.PressBack: "KEYCODE_BACK",
    action_types.PressHome: "KEYCODE_HOME",
    action_types.PressEnter: "KEYCODE_ENTER",
    action_types.PressRecent: "KEYCODE_APP_SWITCH",
}
_COMPONENT = re.compile(r"[A-Za-z]\w*(\.\w+)+(/[\w.$]+)?", re.ASCII)
_SIZE = re.compile(rb"(Physical|Override) size: (\d{1,5})x(\d{1,5})")
_DATA = re.compile(rb'data="([A-Za-z0-9+/=]*)"')


@dataclass(frozen=True)
class AdbOptions:
    """`DeviceEndpoint.options` of this driver. Times in seconds, `..._ms` in milliseconds."""

    serial: str = ""  # by an adb server at host and port; empty: the phone itself is there
    key_file: str = ""  # private key for phones that ask for a signature
    apps: Mapping[str, str] = field(default_factory=dict)  # name of an app → package or component
    tree: bool = True  # read the UI tree with every observation
    keyboard: str = "auto"  # "adb": ADBKeyboard or an error; "keys": never; "auto": where it is installed
    call_s: float = 20.0
    wait_s: float = 2.0  # by the phone's clock
    settle_s: float = 0.0  # after an action, for animations of a real phone
    press_ms: int = 800
    scroll_ms: int = 300
    drag_ms: int = 1000

    def __post_init__(self) -> None:
        if self.keyboard not in ("auto", "adb", "keys"):
            raise ValueError(f"adb option keyboard: expected auto, adb or keys, found {self.keyboard!r}")


class AdbDevice:
    """An open phone (`AsyncDevice`). `trees_missed` counts observations whose UI tree the phone did not give."""

    platform = "mobile"

    def __init__(self, transport: AdbTransport, name: str, options: AdbOptions) -> None:
        self._transport, self._name, self._options = transport, name, options
        self.size_px = (0, 0)
        self.trees_missed = 0
        self.harness = False
        self._typing = ""  # how text is typed, known after the first
        self._keyboard_before = ""

    async def begin(self) -> None:
        """Ask for the screen's size, and whether the phone has a harness."""
        # one call for both, since each costs a round trip to the phone
        printed = await self.shell(f"wm size; getprop {HARNESS_PROPERTY}")
        sizes = {kind: (int(width), int(height)) for kind, width, height in _SIZE.findall(printed.out)}
        if not sizes:
            raise DeviceError(f"{self._name}: expected its screen size from `wm size`, found {printed.said!r}")
        # what `wm size` was set to is what apps see; the panel's own size may be another
        self.size_px = sizes.get(b"Override") or sizes[b"Physical"]
        # the property is the last line
        self.harness = printed.out.rstrip().endswith(b"\n1")

    async def shell(self, command: str, *, limit_bytes: int = MAX_TEXT, extra_s: float = 0.0) -> Ran:
        """A line for the phone's shell; the caller quotes what isn't its own. Raises `DeviceError`."""
        async with limited(self._options.call_s + extra_s, self._name, command.split(" ", 1)[0]):
            return await run(self._transport, command, limit_bytes=limit_bytes)

    async def _do(self, command: str, extra_s: float = 0.0) -> Ran:
        """The same for a command that must succeed."""
        ran = await self.shell(command, extra_s=extra_s)
        if ran.code:
            raise DeviceError(f"{self._name}: {command[:60]!r} ended with code {ran.code}: {ran.said}")
        return ran

    async def observe(self) -> Observation:
        """PNG and elements. The tree is read right after the picture: a moving screen may have moved in between."""
        ran = await self.shell("screencap -p", limit_bytes=MAX_PNG)
        if ran.code:
            raise DeviceError(f"{self._name}: screencap ended with code {ran.code}: {ran.said}")
        png = picture_in(ran.out, self._name)
        self.size_px = png_size(png, self._name)
        return Observation(png, await self._tree() if self._options.tree else ())

    async def _tree(self) -> tuple[ScreenElement, ...]:
        """Elements, () where the phone gives no tree (an animation that does not end, a screen it keeps secret)."""
        # an animation that doesn't end makes the first dump fail: once more, then without
        for _ in range(2):
            ran = await self.shell("uiautomator dump /dev/tty")
            start, end = ran.out.find(b"<?xml"), ran.out.rfind(b"</hierarchy>")
            if 0 <= start < end:
                try:
                    return screen_elements_of(ran.out[start : end + len(b"</hierarchy>")], self.size_px)
                except TreeError as error:
                    raise DeviceError(f"{self._name}: its UI tree can't be read: {error}") from error
        self.trees_missed += 1
        return ()

    async def act(self, action: action_types.Action) -> None:
        """See `AsyncDevice.act`."""
        if isinstance(action, action_types.Finished | action_types.CallUser | action_types.TakeNote):
            return
        if isinstance(action, action_types.Wait):
            await self._do(f"sleep {self._options.wait_s:g}", extra_s=self._options.wait_s)
            return
        if isinstance(action, action_types.Click):
            x, y = self._px(action.box)
            await self._do(f"input tap {x} {y}")
        elif isinstance(action, action_types.LongPress):
            await self._swipe(action.box, action.box, self._options.press_ms)
        elif isinstance(action, action_types.Drag):
            await self._swipe(action.start, action.end, self._options.drag_ms)
        elif isinstance(action, action_types.Scroll):
            start, end = action.start, action.end
            # a direction alone becomes the finger's path that moves the view so
            if start is None or end is None:
                start, end = SYNTHESISED_PATHS[action.direction]
            await self._swipe(start, end, self._options.scroll_ms)
        elif isinstance(action, action_types.Type):
            await self._type(action.content)
        elif isinstance(action, action_types.Launch):
            await (self._open_app(action.app) if action.app else self._open_link(action.url))
        elif key := KEYS.get(type(action)):
            await self._do(f"input keyevent {key}")
        else:
            raise UnsupportedAction(f"{type(action).__name__}: a phone on ADB has no such action")
        await asyncio.sleep(self._options.settle_s)

    def _px(self, point: action_types.Point) -> tuple[int, int]:
        x, y = to_px(point, self.size_px)
        return int(x), int(y)

    async def _swipe(self, start: action_types.Point, end: action_types.Point, ms: int) -> None:
        (x1, y1), (x2, y2) = self._px(start), self._px(end)
        await self._do(f"input swipe {x1} {y1} {x2} {y2} {int(ms)}", extra_s=ms / 1000)

    # -- text -------------------------------------------------------------------------------------------------------

    async def _type(self, text: str) -> None:
        if not text:
            return
        if not self._typing:
            self._typing = await self._choose_typing()
        if self._typing == "keys":
            await self._type_by_keys(text)
            return
        # base64 makes 4 bytes of 3, and the command's own words need some room
        room = min(self._transport.max_service, 32 << 10) - 256
        for part in utf8_parts(text, room * 3 // 4 - 4):
            await self._do(f"am broadcast -a ADB_INPUT_B64 --es msg {base64.b64encode(part).decode()}")

    async def _choose_typing(self) -> str:
        """`adb` after its keyboard was made the current one and says so, or `keys`."""
        wanted = self._options.keyboard
        installed = wanted != "keys" and ADB_KEYBOARD.encode() in (await self._do("ime list -s -a")).out.split()
        if not installed:
            if wanted == "adb":
                raise DeviceError(f"{self._name}: {ADB_KEYBOARD} is not installed; install ADBKeyboard on the phone")
            return "keys"
        get = "settings get secure default_input_method"
        before = (await self._do(get)).out.decode("utf-8", "replace").strip()
        if before != ADB_KEYBOARD:
            await self._do(f"ime enable {ADB_KEYBOARD}; ime set {ADB_KEYBOARD}")
            if (await self._do(get)).out.strip() != ADB_KEYBOARD.encode():
                raise DeviceError(f"{self._name}: {ADB_KEYBOARD} did not become its keyboard")
            # what is put back later goes into a command line: only a plain component does
            self._keyboard_before = before if _COMPONENT.fullmatch(before) else ""
        return "adb"

    async def _type_by_keys(self, text: str) -> None:
        """`input text` types printable ASCII; in it `%s` means a blank, so a `%` before an `s` ends its part."""
        if any(not " " <= mark <= "~" for mark in text):
            raise DeviceError(
                f"{self._name}: no key types this text: install ADBKeyboard ({ADB_KEYBOARD}) on the phone"
            )
        # cut behind each % that stands before an s, which would read as a blank
        for part in re.findall(r"(?:%(?!s)|[^%])*%?", text):
            # an argument has a largest length on Android
            for at in range(0, len(part), 1000):
                await self._do(f"input text {shlex.quote(part[at : at + 1000])}")

    # -- apps -------------------------------------------------------------------------------------------------------

    async def _open_app(self, name: str) -> None:
        target = self._options.apps.get(name, "")
        if not target:
            listed = (await self._do("pm list packages")).out.decode("utf-8", "replace").split()
            target = pick_package(name, [word.removeprefix("package:") for word in listed], PACKAGES)
        # what goes into the command line is a name of packages, whatever the task said
        if not _COMPONENT.fullmatch(target):
            raise WorldError(f"Launch: no app named {name!r} on {self._name}; name it in the option apps")
        if "/" in target:
            ran = await self.shell(f"am start -n {shlex.quote(target)}")
        else:
            ran = await self.shell(f"monkey -p {shlex.quote(target)} -c android.intent.category.LAUNCHER 1")
        self._check_start(ran, f"app {name!r} ({target})")

    async def _open_link(self, url: str) -> None:
        if "\0" in url or len(url.encode()) > 8192:
            raise WorldError("Launch: expected a link without NUL of at most 8192 bytes")
        ran = await self.shell(f"am start -a android.intent.action.VIEW -d {shlex.quote(url)}")
        self._check_start(ran, f"link {url[:80]!r}")

    def _check_start(self, ran: Ran, what: str) -> None:
        """Old phones end with code 0 and say Error."""
        if ran.code or b"Error:" in ran.out + ran.err or b"No activities found" in ran.out + ran.err:
            raise WorldError(f"Launch: {self._name} could not start {what}: {ran.said}")

    # -- snapshot and truth -----------------------------------------------------------------------------------------

    async def reset(self, start: Mapping[str, Any]) -> None:
        """With a harness: its own reset. On any other phone: Home, the apps in `stop` ended, then `app` or `url`."""
        if self.harness:
            message = base64.b64encode(json.dumps(dict(start)).encode()).decode()
            command = f"am broadcast -a {HARNESS_RESET} --es start {message}"
            ran = await self.shell(command)
            if ran.code == BAD_START:
                raise WorldError(f"{self._name}: reset: {ran.said}")
            if ran.code:
                raise DeviceError(f"{self._name}: reset ended with code {ran.code}: {ran.said}")
            return
        if unknown := set(start) - {"app", "url", "stop"}:
            raise WorldError(
                f"{self._name}: a phone without a harness has no snapshot {sorted(unknown)}; "
                "expected app, url or stop (a list of packages)"
            )
        for package in start.get("stop", ()):
            # a package is quoted nowhere below, so it must be one
            if not _COMPONENT.fullmatch(package) or "/" in package:
                raise WorldError(f"{self._name}: reset: expected a package, found {package!r}")
            await self._do(f"am force-stop {package}")
        await self._do("input keyevent KEYCODE_HOME")
        if start.get("app"):
            await self._open_app(start["app"])
        elif start.get("url"):
            await self._open_link(start["url"])

    async def state(self) -> dict[str, Any]:
        """The harness's truth; {} on a phone without one."""
        if not self.harness:
            return {}
        found = _DATA.search((await self._do(f"am broadcast -a {HARNESS_STATE}")).out)
        try:
            # strict: what isn't base64 didn't come from the harness
            state = json.loads(base64.b64decode(found[1], validate=True)) if found else None
        except (ValueError, RecursionError):
            state = None
        if not isinstance(state, dict):
            raise DeviceError(f"{self._name}: expected its state as a JSON object, found none")
        return state

    async def close(self) -> None:
        """Give the former keyboard back, as far as the phone still answers, and let go of the connection."""
        if self._keyboard_before:
            with contextlib.suppress(DeviceError):
                await self._do(f"ime set {self._keyboard_before}")
            self._keyboard_before = ""
        await self._transport.close()


async def _open_transport(endpoint: DeviceEndpoint, options: AdbOptions, name: str) -> AdbTransport:
    if options.serial:
        server = ServerTransport(endpoint.host, endpoint.port, options.serial)
        await server.begin()
        return server
    reader, writer = await open_tunnel(endpoint, options.call_s)
    try:
        return await greet(reader, writer, options.key_file or None)
    except BaseException as error:
        # the socket isn't the transport's yet, so nobody else would close it
        writer.close()
        if isinstance(error, BadKey):
            raise DeviceError(f"{name}: {error}") from error
        raise


@asynccontextmanager
async def connect(endpoint: DeviceEndpoint) -> AsyncIterator[AdbDevice]:
    """An open phone (`AsyncDevice`); see `AdbOptions`. Raises `DeviceError`, `LeaseLost`, and `ValueError` on options
    that are none."""
    options = read_options(AdbOptions, endpoint.options, "adb")
    name = f"phone {endpoint.device or options.serial or f'{endpoint.host}:{endpoint.port}'}"
    async with limited(options.call_s, name, "the ADB handshake"):
        transport = await _open_transport(endpoint, options, name)
    device = AdbDevice(transport, name, options)
    try:
        await device.begin()
        yield device
    finally:
        await device.close()
