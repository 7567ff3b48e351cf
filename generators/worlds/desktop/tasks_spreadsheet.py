"""Families of tasks on the spreadsheet (gnumeric). A family is a function Random -> DesktopTask."""

from collections.abc import Sequence
from random import Random

from generators.worlds.desktop.desktop_task import DesktopTask, rest
from generators.worlds.desktop.documents import column_name
from generators.worlds.desktop.making import GOODS, PEOPLE, SAVE, Plan, answer, menu, open_in, task

BOOK = "prices.gnumeric"
_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<gnm:Workbook xmlns:gnm="http://www.gnumeric.org/v10.dtd">
<gnm:SheetNameIndex><gnm:SheetName>Sheet1</gnm:SheetName></gnm:SheetNameIndex>
<gnm:Sheets><gnm:Sheet><gnm:Name>Sheet1</gnm:Name><gnm:Cells>
"""
_TAIL = "</gnm:Cells></gnm:Sheet></gnm:Sheets></gnm:Workbook>\n"
_NUMBER, _TEXT = 40, 60
"""Kinds of values in Gnumeric's files."""
Rows = list[tuple[str, str]]


def book(rows: Sequence[Sequence[str]]) -> str:
    """A workbook of one sheet, as Gnumeric writes it unpacked."""
    cells = [
        # Digits are numbers, everything else is text, as Gnumeric marks them.
        f'<gnm:Cell Row="{r}" Col="{c}" ValueType="{_NUMBER if value.isdecimal() else _TEXT}">{value}</gnm:Cell>\n'
        for r, row in enumerate(rows)
        for c, value in enumerate(row)
    ]
    return f"{_HEAD}{''.join(cells)}{_TAIL}"


def cells(rows: Sequence[Sequence[str]], **more: str) -> dict[str, str]:
    """The cells of rows, by name, and some more."""
    return {f"{column_name(c)}{r + 1}": value for r, row in enumerate(rows) for c, value in enumerate(row)} | more


def rows_of(rng: Random) -> Rows:
    """A head, and goods with their prices, no two the same."""
    goods = rng.sample(GOODS, rng.randint(4, 6))
    return [("item", "price"), *zip(goods, map(str, rng.sample(range(2, 90), len(goods))), strict=True)]


def go(cell: str) -> Plan:
    """To a cell, by its name."""
    return (("key", "ctrl", "g"), ("type", cell), ("enter",), ("click", "push button", "Close"))


def put(cell: str, value: str) -> Plan:
    """Into a cell, in place of what it holds."""
    # Emptied first: F2 edits what is there.
    return (*go(cell), ("key", "delete"), ("key", "f2"), ("type", value), ("enter",))


def _sheet(name: str, rng_rows: Rows, goal: str, plan: Plan, after: dict[str, str], near: Plan = ()) -> DesktopTask:
    """A task on the open workbook, which is saved in the end."""
    files = {BOOK: book(rng_rows)}
    check = {"check": "cells", "path": BOOK, "cells": after}
    return task(
        f"spreadsheet.{name}",
        "gnumeric",
        f"{goal} Then save the workbook.",
        (*plan, SAVE),
        check,
        rest(files, BOOK),
        files=files,
        opened=BOOK,
        near=(*near, SAVE) if near else (),
    )


def enter(rng: Random) -> DesktopTask:
    rows = rows_of(rng)
    cell, word = f"{rng.choice('DEF')}{rng.randint(2, 8)}", rng.choice(PEOPLE)
    return _sheet("enter", rows, f"Write {word} into cell {cell}.", put(cell, word), cells(rows, **{cell: word}))


def correct(rng: Random) -> DesktopTask:
    rows = rows_of(rng)
    number, price = rng.randrange(1, len(rows)), str(rng.randint(100, 999))
    cell = f"B{number + 1}"
    return _sheet(
        "correct",
        rows,
        f"The price of {rows[number][0]} should be {price}. Correct it in the table.",
        put(cell, price),
        cells(rows, **{cell: price}),
    )


def formula(rng: Random) -> DesktopTask:
    rows = rows_of(rng)
    function, last = rng.choice(("SUM", "AVERAGE", "MAX")), len(rows)
    # One row short: a range that misses the last row.
    said, short = f"={function}(B2:B{last})", f"={function}(B2:B{last - 1})"
    cell = f"B{last + 1}"
    return _sheet(
        "formula",
        rows,
        f"Enter the formula {said} in cell {cell}.",
        put(cell, said),
        cells(rows, **{cell: said}),
        put(cell, short),
    )


def append(rng: Random) -> DesktopTask:
    rows = rows_of(rng)
    new = rng.choice([good for good in GOODS if good not in {row[0] for row in rows}])
    price, row = str(rng.randint(100, 999)), len(rows) + 1
    return _sheet(
        "append",
        rows,
        f"Add a row below the table: {new} at a price of {price}.",
        (*put(f"A{row}", new), *put(f"B{row}", price)),
        cells([*rows, (new, price)]),
    )


def _row_menu(verb: str, number: int) -> Plan:
    return (*go(f"A{number + 1}"), *menu(*(("Edit", "Delete") if verb == "delete" else ("Insert",)), "Rows"))


def delete_row(rng: Random) -> DesktopTask:
    rows = rows_of(rng)
    number = rng.randrange(1, len(rows))
    # The next row, and the first after the last.
    other = number % (len(rows) - 1) + 1
    return _sheet(
        "delete_row",
        rows,
        f"Delete the whole row of {rows[number][0]}, so that the rows below move up.",
        _row_menu("delete", number),
        cells([row for at, row in enumerate(rows) if at != number]),
        _row_menu("delete", other),
    )


def insert_row(rng: Random) -> DesktopTask:
    rows = rows_of(rng)
    # Not above the last row, so that the near miss has a row to go to.
    number = rng.randrange(1, len(rows) - 1)
    return _sheet(
        "insert_row",
        rows,
        f"Insert an empty row above {rows[number][0]}.",
        _row_menu("insert", number),
        cells([*rows[:number], (), *rows[number:]]),
        _row_menu("insert", number + 1),
    )


def sort(rng: Random) -> DesktopTask:
    rows = rows_of(rng)
    # Not in order already, or sorting would change nothing.
    while sorted(rows[1:]) == rows[1:]:
        rows = rows_of(rng)
    select = go(f"A2:B{len(rows)}")
    return _sheet(
        "sort",
        rows,
        "Sort the rows below the head by item, from A to Z.",
        (*select, ("click", "push button", "Sort Ascending")),
        cells([rows[0], *sorted(rows[1:])]),
        (*select, ("click", "push button", "Sort Descending")),
    )


def copy(rng: Random) -> DesktopTask:
    """To the target by arrow keys: text that is typed comes by the clipboard, where the copy lies."""
    rows = rows_of(rng)
    number, target = rng.randrange(1, len(rows)), rng.randint(2, 4)
    other = number % (len(rows) - 1) + 1

    def steps(row: int) -> Plan:
        right: Plan = (("key", "right"),) * target
        return (*go(f"B{row + 1}"), ("key", "ctrl", "c"), *right, ("key", "ctrl", "v"))

    column = column_name(1 + target)
    return _sheet(
        "copy",
        rows,
        f"Copy the price of {rows[number][0]} into column {column} of its row, too.",
        steps(number),
        cells(rows, **{f"{column}{number + 1}": rows[number][1]}),
        steps(other),
    )


def read(rng: Random) -> DesktopTask:
    rows = rows_of(rng)
    good, price = rng.choice(rows[1:])
    files = {BOOK: book(rows)}
    return task(
        "spreadsheet.read",
        "gnumeric",
        f"What is the price of {good} in the open table? Change nothing, just tell me.",
        (("answer", price),),
        answer(price),
        rest(files),
        files=files,
        opened=BOOK,
    )


def dearest(rng: Random) -> DesktopTask:
    rows = rows_of(rng)
    # Prices differ, so exactly one is the dearest.
    good, price = max(rows[1:], key=lambda row: int(row[1]))
    others = [row[0] for row in rows[1:] if row[0] != good]
    files = {BOOK: book(rows)}
    return task(
        "spreadsheet.dearest",
        "gnumeric",
        "Which item in the open table is the dearest? Sort or look, but save nothing; tell me its name.",
        (("answer", good),),
        answer(good, *others),
        rest(files),
        files=files,
        opened=BOOK,
        near=(("answer", others[0]),),
    )


def from_note(rng: Random) -> DesktopTask:
    """Over two programs: what a note in the editor says goes into the workbook."""
    rows = rows_of(rng)
    number, price = rng.randrange(1, len(rows)), str(rng.randint(100, 999))
    cell = f"B{number + 1}"
    files = {BOOK: book(rows), "note.txt": f"New price of {rows[number][0]}: {price}\n"}
    plan: Plan = (*open_in("spreadsheet", BOOK), *put(cell, price), SAVE)
    return task(
        "spreadsheet.from_note",
        "mousepad",
        f"The open note says a new price. Enter it in the workbook {BOOK} with the spreadsheet program, and save it.",
        plan,
        {"check": "cells", "path": BOOK, "cells": cells(rows, **{cell: price})},
        rest(files, BOOK),
        files=files,
        opened="note.txt",
    )


SPREADSHEET = (enter, correct, formula, append, delete_row, insert_row, sort, copy, read, dearest, from_note)
