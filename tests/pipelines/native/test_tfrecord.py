"""TFRecord and tf.train.Example without TensorFlow: checksums hold, damage is named, nothing is lost after it."""

from __future__ import annotations

import gzip
import io
import struct
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.native import tf_example, tfrecord
from pipelines.native.wire import ProtoError


def slow_crc32c(data: bytes) -> int:
    """The definition, bit by bit: reflected polynomial 0x82F63B78."""
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = (state >> 1) ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


def frames(data: bytes) -> list[tfrecord.Frame]:
    return list(tfrecord.scan_stream(io.BytesIO(data)))


def test_crc32c_has_the_published_check_values() -> None:
    # "123456789" is the check value of every CRC catalogue; the other three are from RFC 3720, B.4.
    assert tfrecord.crc32c(b"123456789") == 0xE3069283
    assert tfrecord.crc32c(bytes(32)) == 0x8A9136AA
    assert tfrecord.crc32c(b"\xff" * 32) == 0x62A8AB43
    assert tfrecord.crc32c(bytes(range(32))) == 0x46DD794E


@pytest.mark.parametrize("size", [0, 1, 3, 4, 1023, 1024, 1025, 1087, 1088, 1089, 4096, 20_011])
def test_vectorised_crc_equals_the_definition(size: int) -> None:
    data = bytes((7 * place * place + 3 * place) % 251 for place in range(size))
    assert tfrecord.crc32c(data) == slow_crc32c(data)


@settings(max_examples=30, deadline=None)
@given(st.binary(min_size=1024, max_size=4000))
def test_vectorised_crc_equals_the_definition_on_any_bytes(data: bytes) -> None:
    assert tfrecord.crc32c(data) == slow_crc32c(data)


@given(st.lists(st.binary(max_size=200), max_size=8), st.booleans())
@settings(deadline=None)
def test_what_is_written_is_read_back(payloads: list[bytes], compress: bool) -> None:
    found = frames(tfrecord.dumps(payloads, compress=compress))
    assert [frame.data for frame in found] == payloads
    assert [frame.index for frame in found] == list(range(len(payloads)))


def test_files_are_written_the_same_twice(tmp_path: Path) -> None:
    for compress in (True, False):
        payloads = [b"one", b"", b"three" * 1000]
        assert tfrecord.write(tmp_path / "a", payloads, compress=compress) == 3
        tfrecord.write(tmp_path / "b", payloads, compress=compress)
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
        assert [frame.data for frame in tfrecord.scan(tmp_path / "a")] == payloads


def test_offsets_count_uncompressed_bytes() -> None:
    # 16 bytes of framing a record: 8 length, 4 + 4 checksums.
    assert [frame.offset for frame in frames(tfrecord.dumps([b"12345", b"1", b""]))] == [0, 21, 38]


def test_damaged_payload_costs_one_record_only() -> None:
    data = bytearray(tfrecord.dumps([b"first", b"second", b"third"], compress=False))
    data[21 + 12] ^= 1  # first byte of the second payload
    first, second, third = frames(bytes(data))
    assert (first.data, third.data) == (b"first", b"third")
    assert (second.data, second.reason, second.offset, second.partial) == (None, "bad_crc", 21, True)
    assert "6 bytes" in second.detail


def test_damaged_length_ends_the_file_and_says_so() -> None:
    data = bytearray(tfrecord.dumps([b"first", b"second", b"third"], compress=False))
    data[21] ^= 1
    found = frames(bytes(data))
    assert [frame.data for frame in found] == [b"first", None]
    assert found[1].reason == "bad_crc" and "nothing after it" in found[1].detail


@pytest.mark.parametrize("keep", [1, 11, 12, 20, 21 + 5, 21 + 21])
def test_plain_file_cut_anywhere_is_reported(keep: int) -> None:
    data = tfrecord.dumps([b"first", b"second"], compress=False)[:keep]
    found = frames(data)
    assert [frame.data for frame in found[:-1]] == [b"first"] * (len(found) - 1)
    cut_at_boundary = keep == 21
    assert found[-1].reason == (None if cut_at_boundary else "truncated_record")
    assert found[-1].partial


def test_gzip_stream_cut_short_is_reported_after_the_records_that_are_whole() -> None:
    payloads = [bytes((place * 37 + k) % 256 for place in range(3000)) for k in range(5)]
    whole = tfrecord.dumps(payloads)
    for keep in (len(whole) - 1, len(whole) - 8, len(whole) // 2, 30):
        found = frames(whole[:keep])
        assert found[-1].reason == "truncated_record" and "GZIP" in found[-1].detail
        assert [frame.data for frame in found[:-1]] == payloads[: len(found) - 1]
    # only the 8 bytes of the trailer are gone: all records are there, and none was lost
    end = frames(whole[:-8])
    assert len(end) == 6 and not end[-1].partial


def test_gzip_cut_inside_a_header_counts_the_record_as_begun() -> None:
    plain = tfrecord.dumps([b"first", b"second"], compress=False)[: 21 + 5]
    packer = zlib.compressobj(wbits=31)
    data = packer.compress(plain) + packer.flush(zlib.Z_SYNC_FLUSH)  # all 26 bytes are there, the end is not
    first, cut = frames(data)
    assert first.data == b"first"
    assert (cut.reason, cut.partial) == ("truncated_record", True) and "after 5 of 12 header bytes" in cut.detail


def test_damaged_gzip_is_reported() -> None:
    data = bytearray(tfrecord.dumps([bytes(range(256)) * 20]))
    data[-5] ^= 0xFF  # stored CRC-32 of the gzip trailer
    assert frames(bytes(data))[-1].reason == "bad_gzip"
    data = bytearray(tfrecord.dumps([b"x" * 1000]))
    data[10] = 0xFF  # reserved block type
    assert [frame.reason for frame in frames(bytes(data))] == ["bad_gzip"]


def test_a_length_that_lies_is_not_believed() -> None:
    length = struct.pack("<Q", 1 << 50)
    data = length + struct.pack("<I", tfrecord.masked_crc32c(length)) + b"abc"
    assert [frame.reason for frame in frames(data)] == ["record_too_large"]
    length = struct.pack("<Q", 1 << 29)  # accepted, but the file holds three bytes: nothing is allocated for it
    data = length + struct.pack("<I", tfrecord.masked_crc32c(length)) + b"abc"
    (found,) = frames(data)
    assert found.reason == "truncated_record" and "after 3 of" in found.detail


def test_a_plain_record_of_8b1f_bytes_is_not_taken_for_gzip() -> None:
    payload = bytes(0x8B1F)  # its length starts with the bytes 1f 8b
    assert frames(tfrecord.dumps([payload], compress=False))[0].data == payload


def test_text_file_is_no_tfrecord_and_empty_file_holds_none() -> None:
    assert [frame.reason for frame in frames(b"this is plain text")] == ["bad_crc"]
    assert frames(b"") == [] and frames(gzip.compress(b"")) == []


def test_a_file_that_ends_too_early_tells_where(tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecord"
    path.write_bytes(tfrecord.dumps([b"first", b"second"], compress=False)[:-1])
    *_, last = tfrecord.scan(path)
    assert (last.index, last.reason) == (1, "truncated_record") and "after 9 of 10" in last.detail


# --- tf.train.Example

FLOAT = st.floats(width=32, allow_nan=False)
FEATURE = st.one_of(
    st.lists(st.binary(max_size=20), max_size=4),
    st.lists(FLOAT, max_size=4),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4),
)


@given(
    st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), FEATURE, max_size=5), st.booleans()
)
@settings(deadline=None)
def test_example_parse_is_the_inverse_of_serialise(features: dict[str, list], packed: bool) -> None:
    assert tf_example.parse(tf_example.serialise(features, packed=packed)) == features


def test_example_bytes_written_by_hand_are_read() -> None:
    # Example{features{feature{key "i" value{int64_list{value: 3, -1}}}}}, ints one by one (unpacked);
    # -1 is ten bytes of varint: ff x 9, 01.
    minus_one = b"\xff" * 9 + b"\x01"
    int_list = b"\x08\x03" + b"\x08" + minus_one
    feature = b"\x1a" + bytes([len(int_list)]) + int_list
    entry = b"\x0a\x01i" + b"\x12" + bytes([len(feature)]) + feature
    features = b"\x0a" + bytes([len(entry)]) + entry
    assert tf_example.parse(b"\x0a" + bytes([len(features)]) + features) == {"i": [3, -1]}


def test_example_floats_are_float32() -> None:
    assert tf_example.parse(tf_example.serialise({"f": [0.1]}))["f"] == [struct.unpack("<f", struct.pack("<f", 0.1))[0]]


def test_real_records_survive_a_round_trip(samples_dir) -> None:
    path = samples_dir("ui_refexp") / "dev_head40.tfrecord"
    payloads = [frame.data for frame in tfrecord.scan(path) if frame.data is not None]
    assert len(payloads) == 40
    assert tfrecord.dumps(payloads, compress=False) == path.read_bytes()
    for payload in payloads:
        example = tf_example.parse(payload)
        assert tf_example.parse(tf_example.serialise(example)) == example


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x0a\x05abc", "field 1 wants 5 bytes, 3 are left"),
        (b"\x0a", "ends inside a varint"),
        (b"\x0b", "wire type 3"),
        (b"\x08\x01", "expected length-delimited, found varint"),
        (b"\xff" * 11, "longer than 10 bytes"),
    ],
)
def test_broken_example_says_what_is_wrong(data: bytes, message: str) -> None:
    with pytest.raises(ProtoError, match=message):
        tf_example.parse(data)


def test_broken_feature_is_named() -> None:
    float_list = b"\x0a\x03abc"  # three bytes are no float32
    feature = b"\x12" + bytes([len(float_list)]) + float_list
    entry = b"\x0a\x03num" + b"\x12" + bytes([len(feature)]) + feature
    features = b"\x0a" + bytes([len(entry)]) + entry
    with pytest.raises(ProtoError, match="feature 'num': .*4 bytes each, found 3"):
        tf_example.parse(b"\x0a" + bytes([len(features)]) + features)


@given(st.binary(max_size=60))
@settings(deadline=None)
def test_any_bytes_parse_or_raise_proto_error(data: bytes) -> None:
    try:
        tf_example.parse(data)
    except ProtoError:
        pass


def test_mixed_feature_types_are_refused() -> None:
    with pytest.raises(ValueError, match=r"feature 'x'.*\['float', 'int'\]"):
        tf_example.serialise({"x": [1, 2.0]})
