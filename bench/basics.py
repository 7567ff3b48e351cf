"""Figures of the small things: canonical action text by column, and how long the definitions take to load."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.timing import best, cpu, result

ROOT = Path(__file__).parents[1]


def rows(small: int = 1) -> Iterator[dict[str, Any]]:
    yield action_text(200_000 // small)
    yield definitions()


def action_text(count: int) -> dict[str, Any]:
    """Rows of actions → canonical text: Arrow columns against one Python object a row."""
    import pyarrow as pa

    from schemas import action_columns
    from schemas.actions import Click, Drag, Type, format, parse

    makers: list[Callable[[int], Any]] = [
        lambda i: Click((i % 1001, 7 * i % 1001)),
        lambda i: Type(f"item {i}"),
        lambda i: Drag((i % 1001, 3), (9, i % 1001)),
    ]
    texts = [format(makers[i % 3](i)) for i in range(count)]
    column = pa.array(texts)

    def vectorised() -> Any:
        return action_columns.format_columns(action_columns.parse_columns(column))

    def row_wise() -> list[str]:
        return [format(parse(text)) for text in texts]

    assert vectorised().to_pylist() == row_wise() == texts
    return result(
        "action text, parse and format",
        count / cpu(vectorised),
        "rows/s per core",
        "one Python object a row",
        count / cpu(row_wise, 1),
        digits=0,
    )


def definitions() -> dict[str, Any]:
    """Dagster definitions of all sources, assets and checks: seconds to load, beside importing Dagster alone."""

    def seconds(code: str) -> float:
        return best(lambda: subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True))

    ours = seconds("from dagster_project.definitions import defs; defs().get_repository_def()")
    peer = seconds("import dagster")
    return result("start with all definitions", ours, "s", "import dagster alone", peer, digits=2)
