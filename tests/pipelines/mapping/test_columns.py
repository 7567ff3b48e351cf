"""The column kit agrees with its scalar twins, value by value: JSON, provenance, digests, gestures, whole episodes."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tfrecords import small_aitw

from pipelines import sources
from pipelines.mapping import column_json, columns
from pipelines.mapping.adapter import Raw, Record, RecordBatch
from pipelines.mapping.builders import EpisodeBuilder
from pipelines.mapping.items import ItemError, smallest_box
from pipelines.native import aitw_native, gesture_columns
from pipelines.native.aitw_codes import gesture, ocr_elements
from schemas.actions import Click, format
from schemas.coordinates import OffScreen, to_unit, to_unit_array
from schemas.ids import canonical_json
from schemas.tables import Steps

pytestmark = pytest.mark.slow

TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
FLOATS = st.one_of(
    st.floats(width=64),
    st.floats(width=32),
    st.floats(-2, 2),
    st.integers(-2000, 2000).map(float),
    st.sampled_from([1e-4, 9.9999e-5, 1e9, 999999999.9, 1e15, 1e16, 1e22, 5e-324, 0.0, -0.0, 6.8e-7, 1e-05]),
)


@settings(max_examples=200)
@given(st.lists(st.one_of(st.none(), FLOATS), max_size=30))
def test_floats_are_written_as_python_writes_them(values: list[float | None]) -> None:
    found = column_json.floats(pa.array(values, pa.float64(), from_pandas=False)).to_pylist()
    assert found == [None if value is None else canonical_json(value) for value in values]


@given(st.lists(st.one_of(st.none(), TEXT), max_size=20), st.integers(0, 5))
def test_strings_are_written_as_python_writes_them(values: list[str | None], cut: int) -> None:
    expected = [None if value is None else canonical_json(value) for value in values]
    assert column_json.strings(pa.array(values, pa.string())).to_pylist() == expected
    assert column_json.strings(pa.array(values, pa.string())[cut:]).to_pylist() == expected[cut:]
    encoded = pa.array(values, pa.string()).dictionary_encode()
    assert column_json.strings(encoded).to_pylist() == expected


@given(st.lists(st.tuples(FLOATS, FLOATS) | st.just((-1.0, -1.0)), min_size=1, max_size=20))
def test_pairs_and_objects(values: list[tuple[float, float]]) -> None:
    pairs, again = column_json.pairs(np.array(values, np.float64), np.array(values[:1] + values[:-1], np.float64))
    assert again.to_pylist() == [canonical_json(list(pair)) for pair in values[:1] + values[:-1]]
    assert pairs.to_pylist() == [canonical_json(list(pair)) for pair in values]
    whole = column_json.object_of({"z": pairs, "a b": "7", 'q"': column_json.integers(pa.array(range(len(values))))})
    assert whole.to_pylist() == [canonical_json({"z": list(pair), "a b": 7, 'q"': n}) for n, pair in enumerate(values)]


FEW = st.lists(st.sampled_from([None, "", "a", 'é"']), min_size=6, max_size=6)


@given(
    st.lists(st.tuples(st.sampled_from(["plain", "few", "literal", "sliced"]), FEW), min_size=1, max_size=6),
    st.sampled_from([2, 2_048]),
)
def test_columns_with_a_dictionary_are_joined_as_any(parts: list[tuple[str, list[str | None]]], few: int) -> None:
    parts.append(("plain", ["x"] * 6))
    given_parts: list[pa.Array | str] = []
    for kind, values in parts:
        column = pa.array(values, pa.string())
        encoded = pa.array([None, *values], pa.string()).dictionary_encode()[1:] if kind == "sliced" else column
        given_parts.append("[,]" if kind == "literal" else column.dictionary_encode() if kind == "few" else encoded)
    expected = []
    for row in range(6):
        words = ["[,]" if kind == "literal" else values[row] for kind, values in parts]
        expected.append(None if None in words else "".join(map(str, words)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_json, "FEW", few)
        assert column_json.join(*given_parts).to_pylist() == expected


SIX = st.lists(TEXT, min_size=6, max_size=6)


@given(
    st.lists(st.tuples(st.sampled_from(["plain", "few", "literal", "sliced"]), SIX), min_size=1, max_size=6),
    st.lists(st.integers(0, 5), max_size=9),
    st.sampled_from([2, column_json.LARGEST]),
)
def test_some_rows_of_columns_are_joined_as_any(
    parts: list[tuple[str, list[str]]], rows: list[int], largest: int
) -> None:
    parts.append(("plain", ["x", "", "y", "z", "z", "ü"]))
    given_parts: list[pa.Array | str] = []
    for kind, values in parts:
        column = pa.array(["before", *values], pa.string())
        encoded = column.dictionary_encode() if kind in ("few", "sliced") else column
        whole = encoded[1:] if kind != "few" else pa.array(values, pa.string()).dictionary_encode()
        given_parts.append('"' if kind == "literal" else whole)
    expected = ["".join('"' if kind == "literal" else values[row] for kind, values in parts) for row in range(6)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_json, "LARGEST", largest)  # 2: too many bytes for one pass
        made = column_json.JoinedText.of(*given_parts)
        assert column_json.plain(made.whole()).to_pylist() == expected
        taken = column_json.plain(made.take(pa.array(rows, pa.int64())))
        taken.validate(full=True)
        assert taken.to_pylist() == [expected[row] for row in rows]


def test_many_integers_and_optional_pieces_are_written_alike_with_a_dictionary() -> None:
    values = [None if number % 7 == 0 else number % 90 - 40 for number in range(3_000)]
    written = column_json.integers(pa.array(values, pa.int64()))
    assert pa.types.is_dictionary(written.type)
    assert written.to_pylist() == [None if value is None else str(value) for value in values]
    pieces = column_json.optional("n", written).to_pylist()
    assert pieces == ["" if value is None else f',"n":{value}' for value in values]
    wide = [number * 10**15 for number in range(3_000)]
    assert column_json.integers(pa.array(wide)).to_pylist() == [str(value) for value in wide]


@given(st.lists(st.floats(), max_size=20), st.floats(min_value=0.5, max_value=5000))
def test_units_of_arrays(values: list[float], size: float) -> None:
    def scalar(value: float) -> int:
        try:
            return to_unit(value, size)
        except OffScreen:
            return -1

    assert to_unit_array(np.array(values, np.float64), size).tolist() == [scalar(value) for value in values]


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 2), TEXT, st.lists(FLOATS, max_size=3)), min_size=1, max_size=3),
        min_size=1,
        max_size=5,
    )
)
def test_digests_are_equal_iff_the_rows_are(records: list[list[tuple[int, str, list[float]]]]) -> None:
    def digests(records: list[list[tuple[int, str, list[float]]]]) -> list[bytes]:
        rows = [row for record in records for row in record]
        made = [
            pa.array([row[0] for row in rows]),
            pa.array([row[1] for row in rows]),
            pa.array([row[1] for row in rows]).dictionary_encode(),
            pa.array([row[2] for row in rows], pa.list_(pa.float64())),
            pa.array([[row[1], "x"] for row in rows], pa.list_(pa.string())),
        ]
        starts = np.concatenate([[0], np.cumsum([len(record) for record in records])])
        return columns.record_digests(made, starts)

    together = digests(records)
    assert together == [digests([record])[0] for record in records], "what stands beside a record changes nothing"
    bits = [
        [(number, text, [struct.pack("<d", value) for value in values]) for number, text, values in r] for r in records
    ]
    for left in range(len(records)):
        for right in range(left):
            assert (together[left] == together[right]) == (bits[left] == bits[right])


def test_a_digest_does_not_depend_on_nulls_of_other_records() -> None:
    def pixels(*values: bytes | None) -> list[bytes]:
        columns_ = [
            pa.array(range(len(values))) if len(values) < 2 else pa.array([0] * len(values)),
            pa.array(values, pa.large_binary()),
        ]
        return columns.record_digests(columns_, np.arange(len(values) + 1))

    [alone], [left, _, empty] = pixels(b"abc"), pixels(b"abc", None, b"")
    assert alone == left and len({left, _, empty}) == 3


def test_large_records_are_digested_as_small_ones_are(monkeypatch: pytest.MonkeyPatch) -> None:
    made = [pa.array(["a", "bc", "d"]), pa.array([[1.0], [], [2.0]], pa.list_(pa.float64()))]
    small = columns.record_digests(made, np.array([0, 1, 3]))
    monkeypatch.setattr(columns, "_LARGE", 0)
    assert columns.record_digests(made, np.array([0, 1, 3])) == small


def test_rows_are_ordered_by_the_name_of_their_record() -> None:
    order = columns.by_name(pa.array(["b", "é", "a"]), np.array([0, 0, 2, 2, 2]))
    assert order is not None and order.tolist() == [2, 3, 4, 0, 1]
    assert columns.by_name(pa.array(["a", "b"]), np.array([0, 1, 1])) is None


POINT = st.one_of(st.floats(-0.01, 1.01), st.sampled_from([0.0, 1.0, 0.5, 0.54, -1.0, math.nan, math.inf, 1.0009]))
GESTURE = st.tuples(st.sampled_from([3, 4, 4, 4, 5, 6, 7, 10, 11, 0, 9]), POINT, POINT, POINT, POINT, TEXT)


@settings(max_examples=150)
@given(st.lists(GESTURE, min_size=1, max_size=20))
def test_gestures_by_column_are_what_they_are_one_by_one(
    found: list[tuple[int, float, float, float, float, str]],
) -> None:
    touch, lift = ([[row[at], row[at + 1]] for row in found] for at in (1, 3))
    table = gesture_columns.Gestures(
        np.array([row[0] for row in found]),
        np.array(touch),
        np.array(lift),
        pa.array([row[5] for row in found]),
        np.arange(len(found)),
        pa.nulls(len(found), pa.string()),
    )
    made = gesture_columns.actions(table)
    sizes = pa.nulls(len(found), pa.int32())
    texts = gesture_columns.texts(table, made, gesture_columns.BatchPictures.none(sizes, sizes)).to_pylist()
    for row, (code, *_, text) in enumerate(found):
        try:
            action, word, rules = gesture(code, touch[row], lift[row], text)
        except ItemError:
            assert made.kind[row] == -1 and texts[row] is None
            continue
        kind = gesture_columns._KINDS[made.kind[row]]
        assert (kind[0], kind[1], list(kind[2])) == (word, type(action).__name__, rules)
        assert texts[row] == format(action)


BOX = st.tuples(*[st.floats(-0.2, 1.2)] * 2, *[st.floats(-0.1, 0.9)] * 2) | st.just((0.1, 0.1, 0.5, 0.5))


@settings(max_examples=150)
@given(
    st.lists(st.tuples(*[st.integers(0, 1000)] * 2, st.lists(BOX, max_size=6)), min_size=1, max_size=6),
    st.sampled_from([(1.0, 1.0), (270.0, 600.0)]),
)
def test_target_boxes_are_the_smallest_that_hold_the_tap(rows: list[Any], frame: tuple[float, float]) -> None:
    width, height = frame
    lists = [[(y * height, x * width, h * height, w * width) for y, x, h, w in row[2]] for row in rows]
    flat = np.array([box for boxes in lists for box in boxes], np.float64).reshape(-1, 4)
    points = np.array([row[:2] for row in rows], np.int16)
    made = gesture_columns.Actions(np.zeros(len(rows), np.int8), points, points)
    elements = gesture_columns.Elements(np.array([len(boxes) for boxes in lists]), flat, np.tile(frame, (len(rows), 1)))
    got = dict(zip(*(array.tolist() for array in gesture_columns.target_boxes(made, elements)), strict=True))
    for place, (x, y, _) in enumerate(rows):
        known = ocr_elements(lists[place], [""] * len(lists[place]), ["TEXT"] * len(lists[place]), frame)
        assert got.get(place) == smallest_box(known, Click((x, y)))


ACTIVITIES = ("com.a/.x", "com.a/.y", "com.b", "", "com.google.android.apps.nexuslauncher/.Home")
STEP = st.fixed_dictionaries(
    {
        "code": st.sampled_from([3, 4, 4, 4, 5, 7, 10, 11, 9]),
        "results__yx_touch": st.tuples(*[st.floats(0, 1.125, width=32)] * 2).map(list),
        "results__yx_lift": st.tuples(*[st.floats(0, 1, width=32)] * 2).map(list),
        "results__type_action": st.sampled_from(["", "it's", 'a "b"\n', "é"]).map(lambda text: [text]),
        "current_activity": st.sampled_from(ACTIVITIES).map(lambda text: [text]),
        "image__encoded": st.sampled_from([[], [b"abc"], None]),
    }
)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.lists(STEP, min_size=1, max_size=4), min_size=1, max_size=4))
def test_an_episode_in_a_batch_gives_the_rows_that_it_gives_alone(
    tmp_path_factory: pytest.TempPathFactory, episodes: list[list[dict[str, Any]]]
) -> None:
    records = []
    for number, steps in enumerate(episodes):
        made = [
            small_aitw(place, len(steps), **{**step, "episode_id": [f"e{number}"]}) for place, step in enumerate(steps)
        ]
        for step, given_step in zip(made, steps, strict=True):
            step["image/encoded"] = given_step["image__encoded"] or []
        records.append(Record("f", f"record {number}", {"steps": made}, f"e{number}"))
    assert all(aitw_native.is_regular(record.payload["steps"]) for record in records)
    adapter, raw = sources.get("aitw"), Raw(tmp_path_factory.getbasetemp())
    batch = aitw_native.columnised("f", records)
    found = adapter.map_batch(batch, raw)  # type: ignore[attr-defined]
    alone = [adapter.map(adapter.record(batch, index), raw) for index in range(len(batch))]  # type: ignore[attr-defined]
    assert [adapter.record(batch, index).payload for index in range(len(batch))] == [r.payload for r in records]  # type: ignore[attr-defined]
    expected = Steps.table(row for mapped in alone for row in mapped.steps)
    assert (found.steps.to_pylist() if found.steps else []) == expected.to_pylist()
    assert found.losses == sum((mapped.losses for mapped in alone), start=type(found.losses)())
    assert (found.items, found.mapped) == (sum(m.items for m in alone), sum(m.mapped for m in alone))
    rejects = [(index, reject) for index, mapped in enumerate(alone) for reject in mapped.rejects]
    assert sorted(map(repr, found.rejects)) == sorted(map(repr, rejects))


def test_provenance_is_that_of_the_builders() -> None:
    record = Record('f"é', "row 1", {}, "id\n")
    builder = EpisodeBuilder(sources.get("aitw").descriptor, record, episode_id="e", instruction="i")
    builder.reject("off_screen", native={}, native_index=0, word="step")
    builder.add(Click((1, 2)), native={}, native_index=1, word="w", screen=None, lossy=True, rules=["a", "b"])
    builder.add(Click((1, 2)), native={}, native_index=2, word="w", screen=None)
    rows, index, gaps = columns.step_places(np.array([False, True, True]), np.array([0, 3]))
    assert (rows.tolist(), index.tolist(), gaps.tolist()) == ([1, 2], [0, 1], [0, -1])
    found = columns.provenance(
        canonical_json(record.file),
        pa.array([canonical_json(record.locator)] * 2),
        pa.array([canonical_json(record.native_id)] * 2),
        pa.array([1, 2]),
        gap_at=gaps,
        image_missing=pa.array(["image_missing"] * 2),
        rules=pa.array(['["a","b"]', None]),
        lossy=np.array([True, False]),
    )
    assert found.to_pylist() == [row["provenance"] for row in builder.finish().steps]


def test_steps_are_sorted_by_episode_and_index() -> None:
    rows = [
        {
            "source": "s",
            "episode_id": name,
            "step_index": index,
            "split": "train",
            "platform": "web",
            "instruction": "i",
            "native_action": "{}",
            "provenance": "{}",
        }
        for name, index in (("b", 1), ("b", 0), ("a", 10), ("é", 0), ("a", 9))
    ]
    table = columns.sorted_steps(Steps.table(rows))
    keys = list(zip(table["episode_id"].to_pylist(), table["step_index"].to_pylist(), strict=True))
    assert keys == [("a", 9), ("a", 10), ("b", 0), ("b", 1), ("é", 0)]
    assert columns.sorted_steps(table) is table


def test_selected_records_keep_their_rows() -> None:
    table = pa.table({"n": list(range(6)), "t": [[i] * i for i in range(6)]})
    batch = RecordBatch(
        "f", table, np.array([0, 2, 3, 6]), pa.array(["a", "b", "c"]), pa.array(["1", "2", "3"]), [b"1", b"2", b"3"]
    )
    chosen = batch.select(np.array([2, 0]))
    assert chosen.table["n"].to_pylist() == [3, 4, 5, 0, 1] and chosen.starts.tolist() == [0, 3, 5]
    assert chosen.native_ids.to_pylist() == ["c", "a"] and chosen.contents == [b"3", b"1"]
    assert json.dumps(chosen.where(0)) == '["f", "3"]'
