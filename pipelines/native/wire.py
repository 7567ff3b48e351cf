"""Protocol-buffer wire format: the few primitives that the codecs here need (proto3, no groups)."""

import struct
from collections.abc import Iterable, Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_KINDS = {VARINT: "varint", FIXED64: "64-bit", BYTES: "length-delimited", FIXED32: "32-bit"}


class ProtoError(ValueError):
    """Bytes that are no message of the expected type."""


def read_varint(data: memoryview, at: int) -> tuple[int, int]:
    """Unsigned varint at `at` → (value below 2**64, next position). Raises `ProtoError`."""
    value = shift = 0
    start = at
    while True:
        if at >= len(data):
            raise ProtoError(f"byte {start}: the message ends inside a varint")
        byte = data[at]
        at += 1
        # 7 bits a byte, the lowest first; the highest bit says that more follow.
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
        # 64 bits take ten bytes at most.
        if shift >= 70:
            raise ProtoError(f"byte {start}: varint longer than 10 bytes")


def fields(data: bytes | memoryview) -> Iterator[tuple[int, int, int | memoryview]]:
    """(field number, wire type, value) in the order of the message; value is an int (varint) or the raw bytes.

    Raises `ProtoError` naming the byte where the message breaks.
    """
    view = memoryview(data)
    at = 0
    while at < len(view):
        start = at
        key, at = read_varint(view, at)
        number, kind = key >> 3, key & 7
        if number == 0 or kind not in _KINDS:
            raise ProtoError(f"byte {start}: field number {number}, wire type {kind}: no such field")
        if kind == VARINT:
            value, at = read_varint(view, at)
            # Numbers are the value itself; all else has a size.
            yield number, kind, value
            continue
        size = {FIXED64: 8, FIXED32: 4}.get(kind)
        if size is None:
            size, at = read_varint(view, at)
        if size > len(view) - at:
            raise ProtoError(f"byte {start}: field {number} wants {size} bytes, {len(view) - at} are left")
        # A view, not a copy: messages hold pictures.
        yield number, kind, view[at : at + size]
        at += size


def expect(number: int, kind: int, wanted: int) -> None:
    """Raise `ProtoError` unless a field has the wire type that its definition says."""
    if kind != wanted:
        raise ProtoError(f"field {number}: expected {_KINDS[wanted]}, found {_KINDS[kind]}")


def as_bytes(number: int, kind: int, value: int | memoryview) -> memoryview:
    """The payload of a length-delimited field."""
    expect(number, kind, BYTES)
    assert isinstance(value, memoryview)
    return value


def as_int(number: int, kind: int, value: int | memoryview) -> int:
    """A varint field as a signed 64-bit int (int32 and int64 share the form; negative numbers take ten bytes)."""
    expect(number, kind, VARINT)
    assert isinstance(value, int)
    return signed(value)


def as_text(number: int, kind: int, value: int | memoryview) -> str:
    """A string field. Raises `ProtoError` if it is no UTF-8."""
    try:
        return bytes(as_bytes(number, kind, value)).decode()
    except UnicodeDecodeError as error:
        raise ProtoError(f"field {number}: a string that is no UTF-8: {error}") from error


def signed(value: int) -> int:
    """Two's complement of 64 bits."""
    return value - (1 << 64) if value >= 1 << 63 else value


def varint(value: int) -> bytes:
    """An int (negative ones as 64-bit two's complement) → varint bytes."""
    if not -(1 << 63) <= value < 1 << 64:
        raise ValueError(f"varint: expected a 64-bit int, found {value!r}")
    # As 64 bits without a sign, which is how negative numbers are written.
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def int_field(number: int, value: int) -> bytes:
    """A varint field; proto3 leaves a zero out, and so does this."""
    return varint(number << 3 | VARINT) + varint(value) if value else b""


def bytes_field(number: int, value: bytes) -> bytes:
    """A length-delimited field, written even if it is empty."""
    return varint(number << 3 | BYTES) + varint(len(value)) + value


def text_field(number: int, value: str) -> bytes:
    """A string field; empty is left out."""
    return bytes_field(number, value.encode()) if value else b""


def packed_varints(data: memoryview) -> list[int]:
    """A packed list of int64."""
    values, at = [], 0
    while at < len(data):
        value, at = read_varint(data, at)
        values.append(signed(value))
    return values


def packed_floats(data: memoryview, number: int) -> list[float]:
    """A packed list of float32, as Python floats (exact)."""
    if len(data) % 4:
        raise ProtoError(f"field {number}: packed floats take 4 bytes each, found {len(data)}")
    return list(struct.unpack(f"<{len(data) // 4}f", data))


def pack_varints(values: Iterable[int]) -> bytes:
    """The inverse of `packed_varints`."""
    return b"".join(varint(value) for value in values)
