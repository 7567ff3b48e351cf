"""tf.train.Example without TensorFlow: feature name → list of bytes, of floats or of ints.

Wire form (tensorflow/core/example/{example,feature}.proto): Example{1: Features}, Features{1: map entries},
entry{1: name, 2: Feature}, Feature{1: BytesList | 2: FloatList | 3: Int64List}, each list field 1 repeated; floats
and ints come packed or one by one.
"""

import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pipelines.mapping.adapter import Broken, Raw, RecordError
from pipelines.mapping.items import whole_number
from pipelines.native import tfrecord, wire

Feature = list[bytes] | list[float] | list[int]
Example = dict[str, Feature]
_BYTES_LIST, _FLOAT_LIST, _INT64_LIST = 1, 2, 3


def examples(raw: Raw, file: str, *, lost_items: int) -> Iterator[tuple[int, Example] | Broken]:
    """The Examples of a TFRecord file with their numbers. One that can't be read counts `lost_items`, if any byte of it
    was there; where the next one can't be found, the file ends."""
    for frame in tfrecord.scan(raw.path(file)):
        where = f"record {frame.index}"
        if frame.data is None:
            # A record that wasn't there at all loses nothing.
            items, native = lost_items * frame.partial, {"offset": frame.offset}
            yield Broken(file, where, str(frame.reason), frame.detail, items, native, ends=frame.size is None)
            continue
        try:
            yield frame.index, parse(frame.data)
        except wire.ProtoError as error:
            yield Broken(file, where, "bad_proto", str(error), lost_items, {"bytes": len(frame.data)})


def parse(data: bytes) -> Example:
    """Serialised Example → {feature: values}. A feature without a list is an empty list; a name that stands twice
    keeps its last value, as in any proto map. Floats are float32 values, exact in Python's double.

    Raises `ProtoError` naming the feature or the byte that is wrong.
    """
    found: Example = {}
    for number, kind, value in wire.fields(data):
        if number != 1:
            continue  # proto: unknown fields are skipped
        # Field 1 of an Example is its map of features.
        for entry_number, entry_kind, entry in wire.fields(wire.as_bytes(number, kind, value)):
            if entry_number == 1:
                name, feature = _entry(wire.as_bytes(entry_number, entry_kind, entry))
                found[name] = feature
    return found


def _entry(data: memoryview) -> tuple[str, Feature]:
    name, feature = "", memoryview(b"")
    for number, kind, value in wire.fields(data):
        if number == 1:
            name = wire.as_text(number, kind, value)
        elif number == 2:
            feature = wire.as_bytes(number, kind, value)
    try:
        return name, _feature(feature)
    except wire.ProtoError as error:
        raise wire.ProtoError(f"feature {name[:60]!r}: {error}") from error


def _feature(data: memoryview) -> Feature:
    values: Feature = []
    for number, kind, value in wire.fields(data):
        if number == _BYTES_LIST:
            # The last list wins, as in any proto message.
            values = [
                bytes(wire.as_bytes(n, k, v)) for n, k, v in wire.fields(wire.as_bytes(number, kind, value)) if n == 1
            ]
        elif number == _FLOAT_LIST:
            values = _floats(wire.as_bytes(number, kind, value))
        elif number == _INT64_LIST:
            values = _ints(wire.as_bytes(number, kind, value))
    return values


def _floats(data: memoryview) -> list[float]:
    values: list[float] = []
    for number, kind, value in wire.fields(data):
        if number != 1:
            continue
        # Old writers write numbers one by one.
        if kind == wire.BYTES:
            values += wire.packed_floats(wire.as_bytes(number, kind, value), number)
        else:
            wire.expect(number, kind, wire.FIXED32)
            values += struct.unpack("<f", value)  # type: ignore[arg-type]
    return values


def _ints(data: memoryview) -> list[int]:
    values: list[int] = []
    for number, kind, value in wire.fields(data):
        if number != 1:
            continue
        if kind == wire.BYTES:
            values += wire.packed_varints(wire.as_bytes(number, kind, value))
        else:
            values.append(wire.as_int(number, kind, value))
    return values


def serialise(features: Mapping[str, Sequence[bytes | str | float | int]], *, packed: bool = True) -> bytes:
    """{feature: values} → serialised Example, features sorted by name, so equal content gives equal bytes.

    All values of a feature have one type: bytes or text (BytesList), float (FloatList, rounded to float32) or int
    (Int64List). An empty list is written as a feature without a kind. `packed=False` writes floats and ints one by
    one, as old writers do. Raises `ValueError` naming a feature of mixed or other types.
    """
    entries = []
    for name in sorted(features):
        feature = _serialise_feature(name, list(features[name]), packed)
        entries.append(wire.bytes_field(1, wire.bytes_field(1, name.encode()) + wire.bytes_field(2, feature)))
    return wire.bytes_field(1, b"".join(entries))


def _serialise_feature(name: str, values: list[bytes | str | float | int], packed: bool) -> bytes:
    if not values:
        return b""
    if all(isinstance(value, bytes | str) for value in values):
        encoded = [value.encode() if isinstance(value, str) else value for value in values]
        return wire.bytes_field(_BYTES_LIST, b"".join(wire.bytes_field(1, value) for value in encoded))  # type: ignore[arg-type]
    if all(isinstance(value, float) for value in values):
        raw = [struct.pack("<f", value) for value in values]
        body = (
            wire.bytes_field(1, b"".join(raw))
            if packed
            else b"".join(wire.varint(1 << 3 | wire.FIXED32) + item for item in raw)
        )
        return wire.bytes_field(_FLOAT_LIST, body)
    # `bool` is an int, but no value of a feature.
    if all(type(value) is int for value in values):
        ints = [value for value in values if isinstance(value, int)]
        body = (
            wire.bytes_field(1, wire.pack_varints(ints))
            if packed
            else b"".join(wire.varint(1 << 3) + wire.varint(v) for v in ints)
        )
        return wire.bytes_field(_INT64_LIST, body)
    kinds = sorted({type(value).__name__ for value in values})
    raise ValueError(f"feature {name!r}: expected only bytes or text, only floats or only ints, found {kinds}")


def one(features: Mapping[str, Any], name: str, kind: type) -> Any:
    """The only value of an Example feature, as int, float or text, of `readable` features.

    Raises `RecordError`: missing_field (absent or empty), bad_value (several values, another type, no UTF-8).
    """
    values = features.get(name)
    if not values:
        raise RecordError("missing_field", f"expected a feature {name!r}")
    value = whole_number(values[0]) if kind is int and isinstance(values[0], float) else values[0]
    if len(values) != 1 or not isinstance(value, kind):
        shown = values if len(values) < 5 else f"{len(values)} values"
        wanted = "UTF-8 text" if kind is str else kind.__name__
        raise RecordError("bad_value", f"{name}: expected one {wanted}, found {str(shown)[:120]}")
    return value


def texts(features: Mapping[str, Any], name: str) -> list[str]:
    """All values of a text feature (absent: none). Raises `RecordError("bad_value")` if one isn't UTF-8 text."""
    values = list(features.get(name, []))
    if not all(isinstance(value, str) for value in values):
        raise RecordError("bad_value", f"{name}: expected UTF-8 text, found {str(values)[:120]}")
    return values


def readable(features: Mapping[str, Sequence[object]], binary: frozenset[str] = frozenset()) -> dict[str, list[object]]:
    """Example features with bytes decoded to text, except those named `binary` and values that aren't UTF-8 (they
    stay bytes), so that a quarantined record can be read."""
    return {
        name: list(values) if name in binary else [_text(value) for value in values]
        for name, values in features.items()
    }


def _text(value: object) -> Any:
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value
