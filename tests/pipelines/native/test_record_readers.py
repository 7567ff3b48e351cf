"""Files that are damaged within their compression cost what stands in them, never the run."""

from __future__ import annotations

import datetime
import gzip
import json
from pathlib import Path

import native
import numpy as np
import pyarrow as pa
import pytest

from pipelines.mapping.adapter import Broken, Raw, Record
from pipelines.mapping.raw_files import Piece
from pipelines.native.record_readers import (
    count_of,
    csv_rows,
    field_id,
    json_document,
    json_lines,
    json_list,
    python_rows,
)
from pipelines.store import Store
from pipelines.takedown.check import verify
from pipelines.takedown.withdrawn import TakenDown
from pipelines.unify.tracked_raw import TrackedRaw
from pipelines.unify.unify import unify_source
from schemas.ids import canonical_json


def damaged(data: bytes) -> bytes:
    """The same gzip file, its first deflate block of a type that there isn't."""
    plain = bytearray(gzip.compress(gzip.decompress(data), mtime=0))
    plain[10] = 7
    return bytes(plain)


def test_lines_in_damaged_deflate_data_are_one_broken_record(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl.gz").write_bytes(damaged(gzip.compress(b'{"a": 1}\n')))
    [found] = json_lines(Raw(tmp_path), "x.jsonl.gz")
    assert isinstance(found, Broken) and found.reason == "truncated_record" and "invalid block type" in found.detail


@pytest.mark.parametrize("kind", ["axtree", "bb"])
def test_a_page_of_webui_in_damaged_deflate_data_costs_that_page(kind: str, tmp_path: Path) -> None:
    native.fixture("webui_350k").write(tmp_path)
    raw = native.raw_of("webui_350k", tmp_path)
    before = unify_source(Store(tmp_path / "before"), "webui_350k", raw)
    [path] = (tmp_path / "raw").rglob(f"iPhone-SE-{kind}.json.gz")
    path.write_bytes(damaged(path.read_bytes()))
    after = unify_source(Store(tmp_path / "after"), "webui_350k", raw)
    assert after.counts["reasons"]["truncated_record"] == before.counts["reasons"].get("truncated_record", 0) + 1
    assert 0 < after.read("samples").num_rows < before.read("samples").num_rows


def test_the_proof_of_a_takedown_names_a_file_that_it_can_t_unpack(tmp_path: Path) -> None:
    (tmp_path / "old.json.gz").write_bytes(damaged(gzip.compress(b"{}")))
    [left] = verify(tmp_path, TakenDown(reasons={"sample:a": "r"}), {})
    assert left.place == "old.json.gz" and "can't be read" in left.what


def test_an_array_that_ends_within_a_letter_gives_what_stands_before_it(tmp_path: Path) -> None:
    whole = json.dumps([{"text": "café"}, {"text": "olé"}], ensure_ascii=False).encode()
    (tmp_path / "a.json").write_bytes(whole[: whole.rindex("é".encode()) + 1])
    (tmp_path / "b.json").write_bytes(whole.replace("é".encode(), b"\xe9", 1))
    (tmp_path / "c.json").write_bytes(whole + b"\xff")
    count = count_of('"text"')
    first, end = json_list(Raw(tmp_path), "a.json", count=count)
    assert isinstance(first, Record) and first.payload == {"text": "café"}
    assert isinstance(end, Broken) and (end.reason, end.items, end.ends) == ("truncated_record", 1, True)
    [odd] = json_list(Raw(tmp_path), "b.json", count=count)
    assert isinstance(odd, Broken) and odd.ends and (odd.reason, odd.detail[:9]) == ("bad_json", "not UTF-8")
    *rows, behind = json_list(Raw(tmp_path), "c.json", count=count)
    assert len(rows) == 2 and isinstance(behind, Broken) and "text after the array" in behind.detail


ROWS = [{"n": 1}, {"n": [{"m": 2}]}, {"n": 3}]
PRETTY = json.dumps(ROWS, indent=1).encode()


@pytest.mark.parametrize(
    ("data", "read"),
    [
        (json.dumps(ROWS).encode(), ROWS),
        (b"\xef\xbb\xbf\n" + PRETTY + b"\n", ROWS),
        (PRETTY[:-4], [*ROWS[:2], "truncated_record"]),
        (b'[log] begin\n{"n": 1}\n', ["bad_json", ROWS[0]]),
        (b'[{"n": 1}]\n[{"n": 3}]\n', [[ROWS[0]], [ROWS[2]]]),
        (b"\n\n" + b"\n".join(json.dumps(row).encode() for row in ROWS), ROWS),
    ],
)
def test_an_array_under_the_ending_of_lines_is_read(data: bytes, read: list[object], tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(data)
    whole = list(json_lines(Raw(tmp_path), "a.jsonl"))
    assert [one.payload if isinstance(one, Record) else one.reason for one in whole] == read
    if data.startswith((b"[{", b"\xef")) and b"]\n[" not in data:
        halves = [
            list(
                json_lines(
                    TrackedRaw(tmp_path, {}, frozenset(["a.jsonl"]), {"a.jsonl": Piece(first, past, 0)}), "a.jsonl"
                )
            )
            for first, past in ((0, 9), (9, len(data)))
        ]
        assert halves == [whole, []]


def test_lines_behind_a_blank_one_under_the_ending_of_documents_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("\n \n" + "\n".join(map(json.dumps, ROWS)))
    assert [one.payload for one in json_list(Raw(tmp_path), "a.json") if isinstance(one, Record)] == ROWS


def test_one_object_or_lines_of_them_are_read_where_an_array_or_a_document_was_expected(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text('\n{"n": 1,\n "m": 2}\n')
    (tmp_path / "lines.json").write_text('\ufeff{"n": "\u2028"}\n\n{"n": 2}')
    raw = Raw(tmp_path)
    one = [found.payload for found in json_list(raw, "one.json") if isinstance(found, Record)]
    lines = [found.payload for found in json_document(raw, "lines.json") if isinstance(found, Record)]
    assert one == [{"n": 1, "m": 2}] and lines == [[{"n": "\u2028"}, {"n": 2}]]


def test_files_put_behind_each_other_have_a_byte_order_mark_before_each(tmp_path: Path) -> None:
    one = b'\xef\xbb\xbf{"a": 1}\n'
    (tmp_path / "x.jsonl").write_bytes(one + b"\xef\xbb\xbf\n" + one)
    found = list(json_lines(Raw(tmp_path), "x.jsonl"))
    assert [isinstance(record, Record) and record.payload for record in found] == [{"a": 1}] * 2


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
        (b"<!DOCTYPE html>\n", "a web page"),
        (b"  <HTML lang=en>\n", "a web page"),
        (bytes(100), "zeros"),
        ('{"a": 1}\n'.encode("utf-16"), "UTF-16"),
        (b"{'a': 1}\n", ""),
    ],
)
def test_what_stands_in_place_of_json_is_named(data: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_bytes(data)
    found = next(iter(json_lines(Raw(tmp_path), "x.jsonl")))
    assert isinstance(found, Broken) and said in found.detail and (";" in found.detail) is bool(said)


def test_a_bad_row_of_csv_costs_itself_and_a_long_cell_nothing(tmp_path: Path) -> None:
    long, stray = "x" * 200_000, '"a\\"b"'
    (tmp_path / "a.csv").write_text(f'id,text,new\n1,"{long}",\n\n2,{stray},\n3,c,\n4,"open,\n5,e,\n6,f,\n')
    found = list(csv_rows(Raw(tmp_path), "a.csv", ("id", "text"), of_id=field_id("id")))
    assert [one.native_id for one in found if isinstance(one, Record)] == ["1", "3"]
    said = [(one.reason, one.items, one.ends) for one in found if isinstance(one, Broken)]
    assert said == [("unknown_field:new", 0, False), ("truncated_record", 1, False), ("truncated_record", 3, True)]


def test_a_cell_that_python_cannot_hold_costs_neither_its_row_nor_the_others() -> None:
    odd = pa.StringArray.from_buffers(2, pa.py_buffer(np.array([0, 1, 2], "int32")), pa.py_buffer(b"\xffa"))
    table = pa.table(
        {
            "box": [7, 8],
            "day": pa.array([2**30, 1], pa.date32()),
            "time": pa.array([2**62, None], pa.timestamp("us", "Asia/Tokyo")),
            "word": odd.dictionary_encode(),
            "part": pa.StructArray.from_arrays([odd, pa.array([1, 2])], ["text", "number"]),
            "list": pa.LargeListArray.from_arrays([0, 1, 2], odd),
            "map": pa.MapArray.from_arrays([0, 1, 2], pa.array(["k", "j"]), odd),
        }
    )
    first, second = python_rows(table)
    assert (first["box"], first["day"], first["time"], first["word"]) == (7, 2**30, 2**62, "\udcff")
    assert (first["part"], first["list"]) == ({"text": "\udcff", "number": 1}, ["\udcff"])
    assert first["map"] == [["k", "\udcff"]] and canonical_json(first)
    assert (second["day"], second["time"], second["word"]) == (datetime.date(1970, 1, 2), None, "a")
