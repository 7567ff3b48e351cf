"""Services of the emulated phone's adbd beside its shell and files: `framebuffer:`, `reverse:…`, and those that ask for
another adbd or another start (`root:`, `remount:`, `reboot:`).

Sources: `framebuffer_service.cpp`, `restart_service.cpp` and `adb.cpp` of the Android Open Source Project.
"""

import re
import struct

from generators.devices.protocols.adb_wire import AdbStream
from generators.worlds.android.emulated_phone import EmulatedPhone

ANSWERS = {
    "root": "adbd cannot run as root in production builds\n",
    "unroot": "adbd not running as root\n",
    "remount": 'Not running as root. Try "adb root" first.\n',
    "disable-verity": "verity cannot be disabled/enabled - USER build\n",
    "enable-verity": "verity cannot be disabled/enabled - USER build\n",
}
"""What a phone as it is sold says to these, and stays as it is."""
NAMES = frozenset((*ANSWERS, "framebuffer", "reboot", "reverse"))
MAX_REVERSED = 64
_ADDRESS = re.compile(r"tcp:\d{1,5}|local(?:abstract|reserved|filesystem)?:[^;\s]{1,100}", re.ASCII)


async def serve_service(stream: AdbStream, phone: EmulatedPhone, name: str, argument: str) -> None:
    """Answer a service of NAMES on a stream that has been accepted. Raises `BackendError` where the screen fails."""
    # Layout as the service writes it, version 1, little endian.
    if name == "framebuffer":
        width, height, pixels = raw_pixels(await phone.backend.screencap())
        # version, bits a pixel, bytes, size, then offset and length in bits of red, blue, green, alpha
        head = struct.pack("<13I", 1, 32, len(pixels), width, height, 0, 8, 16, 8, 8, 8, 24, 8)
        await stream.write(head + pixels)
    elif name == "reverse":
        await stream.write(_reverse(phone, argument))
    elif name == "reboot":
        await phone.reboot()
    else:
        await stream.write(ANSWERS[name].encode())


def raw_pixels(png: bytes) -> tuple[int, int, bytes]:
    """Width, height, and four bytes a pixel: red, green, blue, alpha."""
    import io

    from PIL import Image

    with Image.open(io.BytesIO(png)) as picture:
        pixels = picture.convert("RGBA")
    return *pixels.size, pixels.tobytes()


# Length as four hexadecimal digits, then the text, as everywhere in ADB.
def _block(text: str) -> bytes:
    return f"{len(text.encode()):04x}{text}".encode()


def _reverse(phone: EmulatedPhone, argument: str) -> bytes:
    """`forward:[norebind:]REMOTE;LOCAL`, `killforward:REMOTE`, `killforward-all` or `list-forward`."""
    command, _, rest = argument.partition(":")
    if command == "list-forward":
        return _block("".join(f"host-1 {remote} {local}\n" for remote, local in phone.reversed.items()))
    if command == "killforward-all":
        phone.reversed.clear()
        return b"OKAY"
    if command == "killforward":
        if phone.reversed.pop(rest, None) is None:
            return b"FAIL" + _block(f"listener '{rest[:80]}' not found")
        return b"OKAY"
    # Without "norebind" an address that is taken is simply given anew.
    rebinds = not rest.startswith("norebind:")
    remote, _, local = rest.removeprefix("norebind:").partition(";")
    if command != "forward" or not _ADDRESS.fullmatch(remote) or not _ADDRESS.fullmatch(local):
        return b"FAIL" + _block(f"bad reverse forward: {argument[:80]}")
    if (remote in phone.reversed and not rebinds) or len(phone.reversed) >= MAX_REVERSED:
        return b"FAIL" + _block(f"cannot bind listener '{remote}'")
    resolved = b""
    if remote == "tcp:0":
        # A free one of a fixed range: no port is really opened.
        port = next(port for port in range(40_000, 41_000) if f"tcp:{port}" not in phone.reversed)
        remote, resolved = f"tcp:{port}", _block(str(port))
    phone.reversed[remote] = local
    return b"OKAY" + resolved
