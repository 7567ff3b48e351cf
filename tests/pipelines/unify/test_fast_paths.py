"""The short ways of unify give what the long ones do."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.mapping import columns
from pipelines.native import aitz_native, native_json
from pipelines.native.gesture_columns import Actions, Elements, target_boxes
from pipelines.raw import file_hashes
from pipelines.raw.file_hashes import RECENT, FileHashes
from pipelines.unify.tracked_raw import TrackedRaw
from schemas.coordinates import OffScreen, box_to_unit, contains

HOUR_NS = 3600 * 10**9
SIDE = st.one_of(
    st.floats(-0.25, 1.25, width=32), st.sampled_from([0.0, 0.5, 1.0, -1e10, 1e10, 1e10 + 1024, 3e38, -3e38, np.inf])
)


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.integers(0, 1000), st.integers(0, 1000), st.lists(st.tuples(SIDE, SIDE, SIDE, SIDE))),
        min_size=1,
        max_size=4,
    )
)
def test_the_smallest_box_is_found_among_any(
    rows: list[tuple[int, int, list[tuple[float, float, float, float]]]],
) -> None:
    points = np.array([(x, y) for x, y, _ in rows], np.int16)
    flat = np.array([box for *_, boxes in rows for box in boxes], np.float32).reshape(-1, 4)
    elements = Elements(np.array([len(boxes) for *_, boxes in rows]), flat, np.ones((len(rows), 2)))
    found, sides = target_boxes(Actions(np.zeros(len(rows), np.int8), points, points), elements)
    expected = {}
    ends = np.concatenate([[0], np.cumsum(elements.count)])
    for row, point in enumerate(points.tolist()):
        held = []
        for y, x, height, width in flat[ends[row] : ends[row + 1]].astype(np.float64).tolist():
            try:
                box = box_to_unit((x, y, x + width, y + height), (1.0, 1.0))
            except OffScreen:
                continue
            if box[0] < box[2] and box[1] < box[3] and contains(box, point):
                held.append(((box[2] - box[0]) * (box[3] - box[1]), box))
        if held:
            expected[row] = min(held, key=lambda pair: pair[0])[1]
    assert dict(zip(found.tolist(), sides.tolist(), strict=True)) == expected


@given(st.lists(st.tuples(st.sampled_from(["a", "b", "é", None]), st.sampled_from(["x", "", "y"])), min_size=1))
def test_pairs_of_texts_are_digested_alike_with_and_without_a_table(pairs: list[tuple[str | None, str]]) -> None:
    sides = [pa.array(side, pa.string()).dictionary_encode() for side in zip(*pairs, strict=True)]
    column = pa.StructArray.from_arrays(sides, ["0", "1"])
    starts = np.arange(len(pairs) + 1)
    quick = columns.record_digests([column], starts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "_PAIRS", 0)
        assert columns.record_digests([column], starts) == quick
    for left, digest in zip(pairs, quick, strict=True):
        assert [pair == left for pair in pairs] == [other == digest for other in quick]


def test_a_file_is_read_once_and_never_an_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = TrackedRaw(tmp_path, own=frozenset({"a.json"}))
    path = tmp_path / "a.json"
    path.write_bytes(b"old")
    first = FileHashes(tmp_path / "hashes.json")
    first.sha256(path)
    first.save()
    path.rename(tmp_path / "away")  # so what is read now was kept
    assert raw.read("a.json") == b"old"
    (tmp_path / "away").rename(path)
    assert raw.read("a.json") == b"old"
    monkeypatch.setattr(file_hashes, "_CLOCK_GRAIN_NS", -HOUR_NS)  # as if the file were an hour older
    first.sha256(path)
    first.save()
    FileHashes(tmp_path / "hashes.json").sha256(path)  # known: what was kept of it is let go
    assert RECENT.take(str(path)) is None
    RECENT.clear()


def test_a_file_is_hashed_anew_once_it_may_have_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book, read = tmp_path / "hashes.json", list[str]()
    hashed = file_hashes._hashed
    monkeypatch.setattr(file_hashes, "_hashed", lambda name, size: read.append(name) or hashed(name, size))
    paths = [tmp_path / "small", tmp_path / "large-1", tmp_path / "large-2"]

    def look() -> list[str]:
        read.clear()
        hashes = FileHashes(book)
        found = hashes.all([*paths, paths[0]])
        hashes.save()
        assert found == [hashlib.sha256(path.read_bytes()).hexdigest() for path in [*paths, paths[0]]]
        return [Path(name).name for name in sorted(read)]

    for number, path in enumerate(paths):
        path.write_bytes(bytes([number]) * (3 if number == 0 else 2 << 20))
    assert look() == ["large-1", "large-2", "small"]
    was = paths[0].stat()
    paths[0].write_bytes(b"new")  # of the same size, within the clock's grain, and with its old time
    os.utime(paths[0], ns=(was.st_atime_ns, was.st_mtime_ns))
    assert look() == ["large-1", "large-2", "small"], "a file that was just written isn't remembered"
    monkeypatch.setattr(file_hashes, "_CLOCK_GRAIN_NS", -HOUR_NS)
    look()
    assert look() == [], "an older one is"
    was = paths[1].stat()
    (tmp_path / "other").write_bytes(b"z" * was.st_size)
    os.utime(tmp_path / "other", ns=(was.st_atime_ns, was.st_mtime_ns))
    (tmp_path / "other").replace(paths[1])
    assert look() == ["large-1"], "another file of the same name, size and time"
    RECENT.clear()


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)
ODD = (
    b"",
    b"{'a': 1}",
    b'"\\ud800"',
    b'"\xed\xa0\x80"',
    b'"\xff"',
    b"\xef\xbb\xbf[1]",
    "[1]".encode("utf-16"),
    b"-0",
    b"01",
    b"NaN",
    b"-NaN",
    b"1e999",
    b"-Infinity",
    b"[1] x",
    b'{"a": 1, "a": 2}',
    b"1" * 30,
    b"9" * 5_000,
    b"[" * 300 + b"]" * 300,
    b"[" * 100_000,
    b'"\x01"',
    b'"\\u0000"',
    b"5e-324",
    b"0.1000000000000000055511151231257827",
)


@pytest.mark.slow
@given(VALUES, st.booleans(), st.integers(0, 80), st.binary(max_size=2))
def test_native_json_is_read_as_the_standard_library_reads_it(
    value: Any, escaped: bool, place: int, put: bytes
) -> None:
    whole = json.dumps(value, ensure_ascii=escaped).encode("utf-8", "surrogatepass")
    assert _told(native_json.parse, whole) == _told(json.loads, whole)
    hurt = whole[:place] + put + whole[place + 1 :]
    assert _told(native_json.parse, hurt) == _told(json.loads, hurt)


@pytest.mark.parametrize("data", ODD)
def test_odd_json_is_read_or_refused_as_the_standard_library_does(data: bytes) -> None:
    assert _told(native_json.parse, data) == _told(json.loads, data)


def _told(parse: Any, data: bytes) -> str:
    """What came of it: values as they are written tell 1 from 1.0 and True, 0.0 from -0.0."""
    try:
        return repr(parse(data))
    except (ValueError, RecursionError) as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("instruction", None),
        ("instruction", 1),
        ("instruction", ["a"]),
        ("instruction", "\ud800"),
        ("step_id", 1.0),
        ("step_id", True),
        ("step_id", "1"),
        ("step_id", None),
        ("step_id", 1 << 64),
    ],
)
def test_columns_hold_aitz_steps_of_the_right_types_only(name: str, value: Any) -> None:
    step = {column: 0 if column in aitz_native.INTEGERS else "" for column in aitz_native.COLUMNS.names}
    assert aitz_native._columns([step, step]) is not None
    assert aitz_native._columns([step, {**step, name: value}]) is None
