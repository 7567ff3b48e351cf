"""Shell commands that touch or read the screen: input, screencap, am, ime, wm, pm, dumpsys, uiautomator, monkey.

They answer as Android 13 does: `input text` refuses what no key types, `%s` is a blank, a tap outside does nothing.
"""

import asyncio
import base64
import json
import math
import re
import struct
from collections.abc import Awaitable, Callable

from generators.devices.protocols.adb_harness import ADB_KEYBOARD, BAD_START, HARNESS_RESET, HARNESS_STATE
from generators.worlds.android.backend import App
from generators.worlds.android.device_services import raw_pixels
from generators.worlds.android.dumpsys import dumpsys
from generators.worlds.android.emulated_phone import INPUT_METHODS, LATIN_KEYBOARD, EmulatedPhone
from generators.worlds.android.keys import key_name
from generators.worlds.android.shell_output import CommandError, Output

MAX_GESTURE_MS = 60_000
SOURCES = ("dpad", "gamepad", "joystick", "keyboard", "mouse", "stylus", "touchpad", "touchscreen", "trackball")
LAUNCHER = "android.intent.category.LAUNCHER"


def _thrown(command: str, what: str) -> CommandError:
    """What `cmd` prints when a service throws."""
    return CommandError(f"Exception occurred while executing '{command}':\njava.lang.{what}", 255)


def _number(command: str, text: str) -> float:
    try:
        # Underscores and endless texts are numbers for Python and not for Android.
        value = float(text) if text.isascii() and "_" not in text and len(text) <= 32 else math.nan
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise _thrown(command, f'NumberFormatException: For input string: "{text[:64]}"')
    return value


def _argument(command: str, args: list[str], index: int) -> str:
    if index >= len(args):
        raise _thrown(command, f'IllegalArgumentException: Argument expected after "{args[-1] if args else ""}"')
    return args[index]


async def _input(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    # Which device the input seems to come from makes no difference here.
    if args and args[0] in SOURCES:
        args = args[1:]
    if args[:1] == ["-d"]:
        args = args[2:]
    if not args:
        raise CommandError("Error: No input command given", 255)
    command, rest = args[0], args[1:]
    if command in ("tap", "swipe", "draganddrop"):
        await _gesture(phone, command, rest)
    elif command == "motionevent":
        await _motion(phone, _argument(command, rest, 0).upper(), rest[1:3])
    elif command == "text":
        await _input_text(phone, _argument(command, rest, 0))
    # Options such as `--longpress` change nothing.
    elif command == "keyevent":
        names = [arg for arg in rest if not arg.startswith("--")]
        _argument(command, names, 0)
        for name in names:
            if known := key_name(name):  # as on a phone, an unknown key is no error: it does nothing
                await phone.backend.key(known)
    # Of the trackball, which this phone hasn't: they do nothing, as on a phone without one.
    elif command not in ("press", "roll"):
        raise CommandError(f"Unknown command: {command}", 255)
    return Output()


async def _motion(phone: EmulatedPhone, event: str, point: list[str]) -> None:
    """A finger in several commands: what lies between DOWN and UP is one straight stroke that takes as long."""
    now = asyncio.get_running_loop().time()
    if event not in ("DOWN", "MOVE", "UP", "CANCEL"):
        raise _thrown("motionevent", f"IllegalArgumentException: Unknown action: {event[:64]}")
    for index in range(0 if event == "CANCEL" else 2):
        _number("motionevent", _argument("motionevent", point, index))
    if event == "DOWN":
        phone.finger = point, now
    elif event in ("UP", "CANCEL"):
        down, phone.finger = phone.finger, None
        if down is not None and event == "UP":
            await _gesture(phone, "swipe", [*down[0], *point, str((now - down[1]) * 1000)])


async def _gesture(phone: EmulatedPhone, command: str, args: list[str]) -> None:
    numbers = [_number(command, _argument(command, args, index)) for index in range(2 if command == "tap" else 4)]
    width, height = phone.backend.size_px

    def inside(x: float, y: float) -> bool:
        return 0 <= x < width and 0 <= y < height

    # A touch outside of the screen reaches nothing.
    if not inside(numbers[0], numbers[1]):
        return
    if command == "tap":
        await phone.backend.tap(int(numbers[0]), int(numbers[1]))
        return
    ms = _number(command, args[4]) if len(args) > 4 else 300.0
    # The end is held inside, as a finger can't leave the screen.
    end_x, end_y = min(max(numbers[2], 0), width - 1), min(max(numbers[3], 0), height - 1)
    ms = int(min(max(ms, 0), MAX_GESTURE_MS))
    await phone.backend.swipe(int(numbers[0]), int(numbers[1]), int(end_x), int(end_y), ms)


async def _input_text(phone: EmulatedPhone, text: str) -> None:
    """`InputShellCommand.sendText`: `%s` is a blank, and a character that no key types throws before any is sent."""
    text = text.replace("%s", " ")
    # As on Android: one character without a key, and nothing at all is typed.
    if any(not (" " <= mark <= "~" or mark in "\n\t") for mark in text):
        raise _thrown("text", "NullPointerException: Attempt to get length of null array")
    for part in re.split("([\n\t])", text):
        if part in ("\n", "\t"):
            await phone.backend.key("KEYCODE_ENTER" if part == "\n" else "KEYCODE_TAB")
        elif part:
            await phone.backend.text(part.encode())


async def _screencap(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    """PNG with `-p` or for a name that ends so, else what Android calls raw: size, format and RGBA pixels."""
    # The file's name: neither a flag nor the display after `-d`.
    words = [arg for at, arg in enumerate(args) if arg not in ("-p", "-d") and (args[at - 1] != "-d" or not at)]
    if len(words) > 1 or any(word.startswith("-") for word in words):
        raise CommandError("usage: screencap [-p] [-d DISPLAY] [FILENAME]")
    picture = await phone.backend.screencap()
    # Header of raw screenshots: width, height, format 1 (RGBA_8888), colour space 1 (sRGB).
    if "-p" not in args and not (words and words[0].endswith(".png")):
        width, height, pixels = raw_pixels(picture)
        picture = struct.pack("<4I", width, height, 1, 1) + pixels  # RGBA_8888, sRGB
    if not words:
        return Output(picture)
    phone.files.write(words[0], picture)
    return Output()


async def _reboot(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    await phone.reboot()
    return Output()


async def _uiautomator(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    if args[:1] != ["dump"]:
        raise CommandError("Usage: uiautomator <subcommand> [options]")
    paths = [arg for arg in args[1:] if not arg.startswith("--")]
    path = paths[0] if paths else "/sdcard/window_dump.xml"
    xml = await phone.backend.dump()
    # On the terminal the tree itself is printed.
    if path != "/dev/tty":
        phone.files.write(path, xml)
    said = f"UI hierchary dumped to: {path}\n".encode()  # spelt as on every phone
    return Output(xml + said if path == "/dev/tty" else said)


class _Intent:
    """The words after `am start` and `am broadcast`."""

    WITH_VALUE = ("-a", "-d", "-n", "-p", "-t", "-c", "-f", "--user", "--display")
    EXTRAS = ("--es", "--ei", "--ez", "--el", "--ef")
    BARE = ("-W", "-S", "-D", "-N", "--activity-clear-task", "--activity-clear-top", "--activity-single-top")

    def __init__(self, args: list[str]) -> None:
        self.values: dict[str, str] = {}
        self.extras: dict[str, str] = {}
        self.bare: list[str] = []
        at = 0
        while at < len(args):
            word = args[at]
            # How many words an option takes with it.
            width = 2 if word in self.WITH_VALUE else 3 if word in self.EXTRAS else 1
            if at + width > len(args):
                raise CommandError(f'Error: Argument expected after "{args[-1]}"', 255)
            if width == 3:
                self.extras[args[at + 1]] = args[at + 2]
            elif width == 2:
                self.values[word] = args[at + 1]
            elif word.startswith("-") and word not in self.BARE:
                raise CommandError(f"Error: Unknown option: {word}", 255)
            else:
                self.bare.append(word)
            at += width

    def __str__(self) -> str:
        named = {"-a": "act", "-c": "cat", "-d": "dat", "-p": "pkg", "-n": "cmp"}
        parts = [f"{named[flag]}={value}" for flag, value in self.values.items() if flag in named]
        return "Intent { " + " ".join(parts) + (" (has extras)" if self.extras else "") + " }"


def _app_of(phone: EmulatedPhone, component: str) -> App | None:
    """The app of `package`, `package/.Activity` or `package/package.Activity`."""
    package, _, activity = component.partition("/")
    for app in phone.backend.apps:
        if app.package == package and activity in ("", app.activity, package + app.activity):
            return app
    return None


async def _am(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    command = args[0] if args else ""
    if command in ("start", "start-activity"):
        return await _am_start(phone, _Intent(args[1:]))
    if command == "broadcast":
        return await _broadcast(phone, _Intent(args[1:]))
    if command == "force-stop":
        app = _app_of(phone, _argument("force-stop", args, 1))
        # In front or not, an app that was stopped isn't there afterwards.
        if app is not None and (await phone.backend.focused()).split("/")[0] == app.package:
            await phone.backend.key("KEYCODE_HOME")
        return Output()
    raise CommandError(f"Error: Unknown command: {command}", 255)


async def _am_start(phone: EmulatedPhone, intent: _Intent) -> Output:
    # A bare word with a colon is a link, one without is a component.
    link = intent.values.get("-d", "") or next((word for word in intent.bare if ":" in word), "")
    wanted = intent.values.get("-n") or intent.values.get("-p") or next((w for w in intent.bare if ":" not in w), "")
    output = Output(f"Starting: {intent}\n".encode())
    if wanted:
        app = _app_of(phone, wanted)
        if app is None:
            return output.fail(f"Error type 3\nError: Activity class {{{wanted}}} does not exist.")
        started = await phone.backend.start(component=app.component, link=link)
    else:
        started = await phone.backend.start(link=link) if link else None
    if started is None:
        return output.fail(f"Error: Activity not started, unable to resolve {intent}")
    if "-W" in intent.bare:
        output.out += f"Status: ok\nActivity: {started}\nComplete\n".encode()
    return output


async def _broadcast(phone: EmulatedPhone, intent: _Intent) -> Output:
    action, message = intent.values.get("-a", ""), intent.extras.get("msg", "")
    result = "result=0"
    # Only the keyboard of the harness listens to these; on another it is a broadcast that nobody hears.
    if action in ("ADB_INPUT_B64", "ADB_INPUT_TEXT") and phone.input_method == ADB_KEYBOARD:
        await phone.backend.text(_decoded(message) if action == "ADB_INPUT_B64" else message.encode())
    elif action in (HARNESS_RESET, HARNESS_STATE) and phone.harness:
        result = await _harness(phone, action, intent.extras.get("start", ""))
    return Output(f"Broadcasting: {intent}\nBroadcast completed: {result}\n".encode())


def _decoded(message: str) -> bytes:
    """As ADBKeyboard does: base64, read as UTF-8; what is neither types nothing."""
    try:
        return base64.b64decode(message, validate=True).decode().encode()
    except ValueError:
        return b""


async def _harness(phone: EmulatedPhone, action: str, start: str) -> str:
    if action == HARNESS_STATE:
        state = json.dumps(await phone.backend.state(), ensure_ascii=True, sort_keys=True)
        return f'result=1, data="{base64.b64encode(state.encode()).decode()}"'
    try:
        wanted = json.loads(base64.b64decode(start, validate=True))
    # RecursionError: JSON that is nested too deeply is no start either.
    except (ValueError, RecursionError):
        wanted = None
    if not isinstance(wanted, dict):
        raise CommandError(f"{HARNESS_RESET}: expected --es start with the base64 of a JSON object", 255)
    try:
        await phone.backend.reset(wanted)
    except ValueError as error:
        raise CommandError(str(error)[:2000], BAD_START) from error
    # Files belong to the episode as well.
    phone.files.clear()
    return "result=1"


async def _monkey(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    """`monkey -p PACKAGE [-c android.intent.category.LAUNCHER] 1`, the usual way to open an app by package alone."""
    if len(args) < 3 or args[0] != "-p" or args[-1] != "1" or args[2:-1] not in ([], ["-c", LAUNCHER]):
        raise CommandError(f"usage: monkey -p PACKAGE [-c {LAUNCHER}] 1", 255)
    app = _app_of(phone, args[1])
    # By package only: monkey knows no activities.
    if app is None or "/" in args[1]:
        return Output(b"** No activities found to run, monkey aborted.\n", code=252)
    await phone.backend.start(component=app.component)
    return Output(b"Events injected: 1\n")


async def _ime(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    command = args[0] if args else ""
    if command == "list":
        brief = "-s" in args
        return Output("".join(f"{name}\n" if brief else f"{name}:\n  mId={name}\n" for name in INPUT_METHODS).encode())
    if command in ("set", "enable"):
        wanted = _argument(command, args, 1)
        if wanted not in INPUT_METHODS:
            return Output().fail(f"Unknown input method {wanted} cannot be selected for user #0", 255)
        if command == "set":
            phone.input_method = wanted
            return Output(f"Input method {wanted} selected for user #0\n".encode())
        return Output(f"Input method {wanted}: already enabled for user #0\n".encode())
    if command == "reset":
        phone.input_method = LATIN_KEYBOARD
        return Output(f"Input method {LATIN_KEYBOARD} selected for user #0\n".encode())
    raise CommandError(f"Unknown command: {command}", 255)


async def _settings(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    if len(args) == 3 and args[0] == "get":
        if args[1:] == ["secure", "default_input_method"]:
            return Output(f"{phone.input_method}\n".encode())
        return Output((phone.settings.get((args[1], args[2]), "null") + "\n").encode())
    # The picture would have another size than it says.
    if args[:3] == ["put", "system", "user_rotation"] and args[3:] != ["0"]:
        raise CommandError("user_rotation: this phone stands upright (0) only", 255)
    # Bounded: a client can't fill memory with settings.
    if len(args) == 4 and args[0] == "put" and len(phone.settings) < 256 and len(args[2] + args[3]) < 4096:
        phone.settings[(args[1], args[2])] = args[3]
        return Output()
    raise CommandError("Invalid arguments: expected get NAMESPACE KEY or put NAMESPACE KEY VALUE", 255)


async def _wm(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    if args == ["size"]:
        return Output("Physical size: {}x{}\n".format(*phone.backend.size_px).encode())
    if args == ["density"]:
        return Output(f"Physical density: {phone.backend.density}\n".encode())
    raise CommandError("Error: this phone only tells its size and density", 255)


async def _pm(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    packages = sorted({app.package for app in phone.backend.apps})
    if args[:2] == ["list", "packages"]:
        wanted = next((arg for arg in args[2:] if not arg.startswith("-")), "")
        return Output("".join(f"package:{name}\n" for name in packages if wanted in name).encode())
    if args[:1] == ["path"] and len(args) == 2:
        known = args[1] in packages
        return Output(f"package:/data/app/{args[1]}/base.apk\n".encode() if known else b"", code=0 if known else 1)
    raise CommandError(f"Unknown command: {' '.join(args[:2])}", 255)


SCREEN_COMMANDS: dict[str, Callable[[EmulatedPhone, list[str], bytes], Awaitable[Output]]] = {
    "am": _am,
    "dumpsys": dumpsys,
    "ime": _ime,
    "input": _input,
    "monkey": _monkey,
    "pm": _pm,
    "reboot": _reboot,
    "screencap": _screencap,
    "settings": _settings,
    "uiautomator": _uiautomator,
    "wm": _wm,
}
