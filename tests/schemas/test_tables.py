"""The tables: rows are checked, a column's meaning is no part of what is written, versions stand in the files."""

from __future__ import annotations

from typing import NotRequired, get_type_hints

import pyarrow as pa
import pytest

from schemas import row_types, rows, tables
from schemas.tables import BOX, Column, Steps, Table


class Seen(Table, version=3):
    """A table of its own."""

    name = Column(pa.string(), "what it is called")
    version = Column(pa.string(), "a column may be called so too", null=True)
    box = Column(BOX, "where it stands", null=True)


def test_a_table_lists_its_columns_in_order_with_types_meanings_and_its_version() -> None:
    assert Seen.schema.names == ["name", "version", "box"] == list(Seen.meanings)
    assert [field.nullable for field in Seen.schema] == [False, True, True]
    assert Seen.schema.metadata[b"vesper.table"] == b"seen" and Seen.schema.metadata[b"vesper.version"] == b"3"
    assert Seen.meanings["name"] == "what it is called" and "called" not in str(Seen.schema)


def test_a_table_that_extends_another_has_its_columns_first() -> None:
    class More(Seen, version=1):
        extra = Column(pa.int32(), "one more")

    assert More.schema.names == ["name", "version", "box", "extra"] == list(More.meanings)
    assert Seen.schema.names == ["name", "version", "box"]


def test_rows_make_a_checked_table() -> None:
    table = Seen.table([{"name": "a", "box": [0, 1, 2, 3]}, {"name": "b"}])
    Seen.check(table)
    assert table.to_pylist() == [
        {"name": "a", "version": None, "box": [0.0, 1.0, 2.0, 3.0]},
        {"name": "b", "version": None, "box": None},
    ]


@pytest.mark.parametrize("count", [0, 1, 6, 7])
def test_rows_that_come_in_pieces_make_one_table(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"name": str(number), "version": "v" if number % 2 else None} for number in range(count)]
    whole = Seen.table(rows)
    monkeypatch.setattr(tables, "PIECE_ROWS", 3)
    pieces = Seen.table(iter(rows))
    assert pieces.equals(whole) and pieces.to_pylist() == [{"box": None, **row} for row in rows]
    assert all(column.num_chunks <= 1 for column in pieces.columns), "files would be cut otherwise"
    with pytest.raises(ValueError, match=r"unknown column \['other'\]"):
        Seen.table([*rows, {"name": "a", "other": 1}])


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"version": "1"}, "Seen.name: null found"),
        ({"name": "a", "other": 1}, "unknown column \\['other'\\]"),
        ({"name": 3}, "Seen.name: expected string"),
        ({"name": "a", "box": [0, 1, 2]}, "Seen.box: expected boxes of 4 numbers"),
    ],
)
def test_a_row_that_does_not_fit_is_named(row: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Seen.table([row])


def test_a_table_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="Seen: expected columns"):
        Seen.check(Steps.schema.empty_table())


def test_the_row_types_are_those_of_the_tables() -> None:
    assert row_types.FILE.read_text(encoding="utf-8") == row_types.text(), "run python -m schemas.row_types"


def test_a_row_type_says_what_may_be_null_and_what_a_list_holds() -> None:
    hints = get_type_hints(rows.StepRow, include_extras=True)
    assert list(hints) == Steps.schema.names
    assert (hints["step_index"], hints["target_box"]) == (int, NotRequired[list[float] | None])
