"""A damaged file of a level that isn't read is refused; it doesn't stop the run."""

from __future__ import annotations

from pathlib import Path

import native

from pipelines.store import Store
from pipelines.unify.unify import unify_source


def test_a_damaged_file_of_another_level_is_refused(tmp_path: Path) -> None:
    pair = {"user": "Instruction: Find tea", "assistant": "<code>wait()</code>"}
    row = {"images": [], "texts": [pair], "source": "aitw"}
    native.write_parquet(tmp_path / "raw/aitw-l2/a.parquet", [row])
    cut = native.write_parquet(tmp_path / "raw/aitw-l1/a.parquet", [row])
    cut.write_bytes(cut.read_bytes()[:100])
    counts = unify_source(Store(tmp_path / "home"), "aguvis_stage2", native.raw_of("aguvis_stage2", tmp_path)).counts
    assert (counts["items_in"], counts["items_mapped"]) == (1, 1)
    assert counts["reasons"] == {"duplicate_level": 1}
