"""`dumpsys` of the emulated phone: of each service the lines that clients look for, in the form of Android 13.

They stand in `dumpsys.txt`: adbutils reads its rotation from `display`, uiautomator2 and Appium the window in front and
the size from `window`, others whether the screen is on, and the battery.
"""

import re
from pathlib import Path
from string import Template

from generators.worlds.android.emulated_phone import EmulatedPhone
from generators.worlds.android.shell_output import CommandError, Output

_TEXT = Path(__file__).with_name("dumpsys.txt").read_text("utf-8")
SERVICES = {name: Template(lines) for name, lines in re.findall(r"^== (\w+)\n((?:(?!== ).*\n)*)", _TEXT, re.MULTILINE)}


async def dumpsys(phone: EmulatedPhone, args: list[str], stdin: bytes) -> Output:
    """The command: a service by name; `-l` lists them."""
    if args[:1] == ["-l"]:
        return Output("".join(f"  {name}\n" for name in ("Currently running services:", *SERVICES)).encode())
    if not args or args[0] not in SERVICES:
        # As `dumpsys` words it.
        raise CommandError(f"Can't find service: {args[0] if args else ''}")
    width, height = phone.backend.size_px
    package = args[1] if len(args) > 1 else ""
    if args[0] == "package" and package not in {app.package for app in phone.backend.apps}:
        return Output(f"Unable to find package: {package}\n".encode())
    more = {"density": phone.backend.density, "model": phone.model, "focused": await phone.backend.focused()}
    return Output(SERVICES[args[0]].substitute(width=width, height=height, package=package, **more).encode())
