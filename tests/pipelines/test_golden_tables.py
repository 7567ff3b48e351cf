"""What unify commits for each source's native records stays what it is, cell by cell, however fast it is made.

A mapping that changes on purpose goes with a higher `version` of its adapter and new lines in golden_tables.json:
`PYTHONPATH=.:tests/support python tests/pipelines/test_golden_tables.py` writes them.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from pathlib import Path

import native
import pytest

from bench.native import flat, nested
from pipelines.mapping.adapter import Raw
from pipelines.store import Store
from pipelines.unify.unify import unify_source
from schemas.ids import canonical_json

GOLDEN = Path(__file__).with_name("golden_tables.json")
MANY = ("aitw", "aitz")
"""Sources of which there are as many made-up records as a batch needs."""


def tables(source: str, raw: Raw, home: Path) -> dict[str, str]:
    """sha256 of each table's cells, in order of its files and rows."""
    manifest = unify_source(Store(home), source, raw)
    names = sorted({entry.table for entry in manifest.files if entry.table})
    cells = {name: canonical_json(manifest.read(name).to_pylist()) for name in names}
    return {name: hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest() for name, text in cells.items()}


def of_fixture(source: str, folder: Path) -> dict[str, str]:
    native.fixture(source).write(folder / "raw")
    return tables(source, native.raw_of(source, folder / "raw"), folder / "home")


def of_many(source: str, folder: Path) -> dict[str, str]:
    flat(folder / "raw" / "a.parquet", 4_096) if source == "aitw" else nested(folder / "raw", 64)
    return tables(source, Raw(folder / "raw"), folder / "home")


@pytest.mark.slow
@pytest.mark.parametrize("source", native.names())
def test_a_fixture_gives_the_cells_that_it_gave(source: str, tmp_path: Path) -> None:
    assert of_fixture(source, tmp_path) == json.loads(GOLDEN.read_text())[source]


@pytest.mark.parametrize("source", MANY)
def test_many_records_give_the_cells_that_they_gave(source: str, tmp_path: Path) -> None:
    assert of_many(source, tmp_path) == json.loads(GOLDEN.read_text())[f"many {source}"]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        found = {source: of_fixture(source, Path(made, source)) for source in native.names()}
        found |= {f"many {source}": of_many(source, Path(made, "many", source)) for source in MANY}
    GOLDEN.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
