"""What all drivers share: points in pixels, pictures checked before use, time limits, text in parts."""

import asyncio
import dataclasses
import struct
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TypeVar

from generators.devices.device import DeviceError

_PNG = b"\x89PNG\r\n\x1a\n"
_PNG_END = b"IEND\xaeB`\x82"
# pixels; larger pictures take the memory of a machine to decode
MAX_SIDE = 32_767

T = TypeVar("T")


def png_size(png: bytes, device: str) -> tuple[int, int]:
    """Width and height of a whole PNG. Raises `DeviceError` for what is none, or was cut off."""
    # the chunk at the end shows that nothing was cut off
    if png[:8] != _PNG or len(png) < 33 or not png.endswith(_PNG_END):
        raise DeviceError(f"{device}: expected a whole PNG, found {len(png)} bytes that begin with {png[:8]!r}")
    width, height = struct.unpack(">II", png[16:24])
    if not (0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE):
        raise DeviceError(f"{device}: expected a picture of 1 to {MAX_SIDE} pixels a side, found {width} x {height}")
    return width, height


def to_px(point: tuple[int, int], size: tuple[float, float]) -> tuple[float, float]:
    """A point in 0..1000 → pixels, inside the screen: 1000 is the last pixel."""
    return min(point[0] * size[0] / 1000, size[0] - 1), min(point[1] * size[1] / 1000, size[1] - 1)


def utf8_parts(text: str, limit: int) -> Iterator[bytes]:
    """Text as UTF-8 in parts of at most `limit` bytes, cut between characters."""
    data = text.encode()
    at = 0
    while at < len(data):
        end = min(at + limit, len(data))
        # 10xxxxxx is a byte in the middle of a character
        while end < len(data) and data[end] & 0xC0 == 0x80:
            end -= 1
        yield data[at:end]
        at = end


@asynccontextmanager
async def limited(seconds: float, device: str, what: str) -> AsyncIterator[None]:
    """A block with a time limit: `DeviceError` when it has passed, and for every error of the connection."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        raise DeviceError(f"{device}: {what} took longer than {seconds:g} s") from error
    except OSError as error:
        raise DeviceError(f"{device}: {what} failed: {error}") from error


def read_options(kind: type[T], options: Mapping[str, object] | None, driver: str) -> T:
    """`Endpoint.options` as a driver's dataclass of options, whose defaults say the types. Raises `ValueError` on an
    unknown name or a value of another type."""
    default = kind()
    known = {item.name: getattr(default, item.name) for item in dataclasses.fields(default)}  # type: ignore[arg-type]
    values = {}
    for name, value in (options or {}).items():
        if name not in known:
            raise ValueError(f"{driver} options: expected names of {', '.join(sorted(known))}, found {name!r}")
        wanted = type(known[name])
        # JSON has no tuples
        if wanted is tuple and isinstance(value, list):
            value = tuple(value)
        # True is an int to Python, and 1 is no flag
        fits = isinstance(value, wanted) and (wanted is bool) == isinstance(value, bool)
        if not (fits or (wanted is float and type(value) is int)):
            raise ValueError(f"{driver} option {name}: expected {wanted.__name__}, found {value!r:.60}")
        values[name] = value
    return kind(**values)
