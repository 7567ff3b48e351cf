"""A row whose `extra_info` isn't an object is quarantined; it doesn't stop the run."""

from __future__ import annotations

from pathlib import Path

import native

from pipelines.store import Store
from pipelines.unify.unify import unify_source


def test_a_row_of_another_shape_is_quarantined(tmp_path: Path) -> None:
    row = {"data_source": "aitw", "extra_info": "hello", "answer": "Click", "context": "Instruction: Find tea"}
    native.write_parquet(tmp_path / "raw/a.parquet", [row])
    counts = unify_source(Store(tmp_path / "home"), "gui_libra", native.raw_of("gui_libra", tmp_path)).counts
    assert (counts["items_in"], counts["items_mapped"]) == (1, 0)
    assert counts["reasons"] == {"missing_field": 1}
