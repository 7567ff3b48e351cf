"""Row types made from the tables: a `TypedDict` each of `TYPED`, so that a type checker knows each column of a row.

python -m schemas.row_types     # writes schemas/rows.py; a test fails where it is old

A table's class is the only list of its columns. Type checkers read files and run no code, so the types have to stand in
a file; it is written from the classes alone.
"""

from collections.abc import Iterable
from pathlib import Path

import pyarrow as pa

from schemas.tables import ELEMENT, Samples, Steps

TYPED = (Steps, Samples)
"""Tables whose rows are passed about as dicts; those of the others are written and read in one place."""
FILE = Path(__file__).with_name("rows.py")
ABOUT = '''\
"""The rows of the tables in `schemas.tables`, as type checkers know them. A column that allows null may be left out.

Written by `python -m schemas.row_types`: change the tables, not this file.
"""

from typing import NotRequired, TypedDict
'''


def python_type(kind: pa.DataType) -> str:
    """The Python type that pyarrow gives a value of a column. Raises `ValueError` for a type that no table has yet."""
    if pa.types.is_list(kind):
        return f"list[{python_type(kind.value_type)}]"
    for name, holds in (
        ("str", pa.types.is_string),
        ("bool", pa.types.is_boolean),
        ("int", pa.types.is_integer),
        ("float", pa.types.is_floating),
    ):
        if holds(kind):
            return name
    raise ValueError(f"row types: expected a text, a number, a flag or a list of them, found {kind}")


def text() -> str:
    """What `schemas/rows.py` has to hold."""
    classes = [_row_class("ElementRow", "One element of a screen.", ELEMENT)]
    for table in TYPED:
        name = table.__name__
        classes.append(_row_class(f"{name.removesuffix('s')}Row", f"A row of `{name}`.", table.schema))
    return "\n\n".join([ABOUT, *classes])


# Fields in the order of the schema, which is that of the columns.
def _row_class(name: str, about: str, fields: Iterable[pa.Field]) -> str:
    lines = [f"class {name}(TypedDict):", f'    """{about}"""', ""]
    for field in fields:
        held = python_type(field.type)
        # a struct's fields are nullable unless it says otherwise, and no source leaves an element's out
        null = field.nullable and name != "ElementRow"
        lines.append(f"    {field.name}: {f'NotRequired[{held} | None]' if null else held}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    FILE.write_text(text(), encoding="utf-8")
