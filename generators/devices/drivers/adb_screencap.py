"""The picture in what `screencap -p` prints: foldables write a warning before it, and old shells end lines with CR LF
inside it."""

from generators.devices.device import DeviceError

_BEGIN, _END = b"\x89PNG\r\n\x1a\n", b"IEND\xaeB`\x82"
_LINE_ENDS = (b"\n", b"\r\n", b"\r\r\n")
"""As the picture's own, as a terminal writes them, and as adb on such a terminal does."""


def picture_in(printed: bytes, device: str) -> bytes:
    """The PNG, byte for byte as the phone took it, without what stands before and after it. Raises `DeviceError` that
    says what was printed instead."""
    if not printed:
        raise DeviceError(
            f"{device}: screencap printed nothing: the screen is off or its app forbids pictures; wake it"
        )
    # longest ending last: the plain one is a part of the others
    for line_end in _LINE_ENDS:
        begin = printed.find(_BEGIN.replace(b"\n", line_end))
        if begin >= 0:
            picture = printed[begin:].replace(line_end, b"\n")
            end = picture.rfind(_END)
            if end < 0:
                raise DeviceError(f"{device}: expected a whole PNG, found {len(picture)} bytes of one")
            return picture[: end + len(_END)]
    said = printed[:2000].decode("utf-8", "replace").strip()[:300]
    raise DeviceError(f"{device}: expected a PNG from screencap, found {len(printed)} bytes: {said!r}")
