"""What a source's fixture is: native files of its own making, and what must come of them, counted by hand.

`tests/fixtures/<id>.py` defines `FIXTURE`, and `tests/pipelines/test_fixtures.py` holds every adapter to its fixture.
A fixture writes below `root`: the native files to `root/raw`, those of a companion to `root/<companion>`.
"""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from pipelines import sources
from pipelines.mapping.adapter import Adapter, BatchAdapter, Mapped, Raw, Record, RecordBatch, RecordError
from pipelines.prompts import prompt_text

FOLDER = Path(__file__).parents[1] / "fixtures"
SAMPLES = Path(__file__).parents[2] / "../shared/sources/samples"
_POINT = re.compile(r"(?:box|start)=\((\d+),(\d+)\)")
_ANSWER = re.compile(r"\[(\d+),(\d+)\]")
_ASKED = re.compile(r"What is at \[(\d+),(\d+)\]\?")


@dataclass(frozen=True)
class Expected:
    """Set by hand from the source's page, never copied from a run.

    `items` in native units = `mapped` + the sum over quarantined ones. `reasons`: reason → count, as in report.json (a
    record or notice that costs no item counts 1; an image 1). `actions`: `action_text` of all steps, part by part in
    the order of (episode_id, step_index), null ones left out. `answers`: some prompts and answers. `losses`: word →
    {status: count} of some words.
    """

    items: int
    mapped: int
    reasons: Mapping[str, int] = field(default_factory=dict)
    steps: int = 0
    samples: int = 0
    actions: tuple[str, ...] = ()
    answers: Mapping[str, str] = field(default_factory=dict)
    losses: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


@dataclass(frozen=True)
class Fixture:
    """`write(root)` makes native files, sound and broken ones.

    `write_point(root, x, y)` makes one record with one sound action (or target) at about (x, y), fractions of the frame
    in 0..1; it returns the exact fractions that its native numbers say (a frame of whole pixels can't say all of them).
    None for a source without coordinates. `real(samples, root)` lays out the real records of the source in its native
    form (a copy, an unwrapped quotation); None if there are none in native form.
    """

    write: Callable[[Path], None]
    expected: Expected
    write_point: Callable[[Path, float, float], tuple[float, float]] | None
    real: Callable[[Path, Path], None] | None = None
    real_expected: Expected | None = None


def names() -> list[str]:
    """Ids that have a fixture."""
    return sorted(path.stem for path in FOLDER.glob("*.py"))


@cache
def fixture(source: str) -> Fixture:
    """The fixture of a source."""
    path = FOLDER / f"{source}.py"
    spec = importlib.util.spec_from_file_location(f"fixture_{source}", path)
    assert spec is not None and spec.loader is not None, path
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = module.FIXTURE
    assert isinstance(found, Fixture)
    return found


def raw_of(source: str, root: Path) -> Raw:
    """The raw folder that a fixture wrote, with its companions."""
    card = sources.get(source).descriptor
    return Raw(root / "raw", {name: root / name for name in card.companions if (root / name).is_dir()})


def mapped_points(adapter: Adapter, raw: Raw) -> list[tuple[int, int]]:
    """The points, in 0..1000, of all that an adapter makes of a raw folder: of steps, and of grounding answers (or, if
    there are none, of the points that perception samples ask at)."""
    steps: list[dict[str, Any]] = []
    samples: list[dict[str, Any]] = []
    for mapped in _mapped(adapter, raw):
        steps += mapped.steps
        samples += mapped.samples
    found = [match for row in steps if (match := _POINT.search(row["action_text"] or ""))]
    found += [m for row in samples if row["objective"] == "grounding" and (m := _ANSWER.fullmatch(row["answer"]))]
    if not found:
        found = [match for row in samples if (match := _ASKED.fullmatch(prompt_text(row["messages"])))]
    return [(int(match[1]), int(match[2])) for match in found]


def _mapped(adapter: Adapter, raw: Raw) -> Iterator[Any]:
    """What comes of sound records: of each alone and, if the adapter maps by column, of the batches too."""
    for files in adapter.parts(raw):
        if isinstance(adapter, BatchAdapter):
            for found in adapter.batches(raw, files):
                assert isinstance(found, RecordBatch), found
                mapped = adapter.map_batch(found, raw)
                assert not mapped.rejects, mapped.rejects
                rows = [table.to_pylist() if table is not None else [] for table in (mapped.steps, mapped.samples)]
                yield Mapped(mapped.items, mapped.mapped, *rows)
        for record in adapter.records(raw, files):
            assert isinstance(record, Record), record
            try:
                yield adapter.map(record, raw)
            except RecordError as error:
                raise AssertionError(f"a sound record was refused: {error}") from error


def write_json(path: Path, value: Any) -> Path:
    """Any plain value as a JSON file; folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
    return path


def write_lines(path: Path, rows: list[Any]) -> Path:
    """JSON lines; a `str` or `bytes` row is written as it is (for broken lines)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [
        row
        if isinstance(row, bytes)
        else row.encode()
        if isinstance(row, str)
        else json.dumps(row, ensure_ascii=False).encode()
        for row in rows
    ]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


def write_parquet(path: Path, rows: list[Mapping[str, Any]], schema: Any = None) -> Path:
    """Rows as a parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], schema=schema), path)
    return path


def write_bytes(path: Path, data: bytes) -> Path:
    """A file; folders are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
