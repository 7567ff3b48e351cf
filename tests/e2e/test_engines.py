"""Every stage whose parts an engine runs makes the same data version by the process alone and by two workers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from generators.proving.embedded.build import build_raw
from pipelines.engines.run_parts import Execution
from pipelines.engines.settings import IN_PROCESS, PROCESSES, EngineSettings
from pipelines.mapping.adapter import Raw
from pipelines.store import Manifest, Store
from pipelines.training_data.shards import build_shards
from pipelines.unify import buckets
from pipelines.unify.changes import ChangeBands
from pipelines.unify.unify import unify_source
from quality.contamination.contamination import find_contamination
from quality.contamination.shard_scan import scan_shards
from quality.contamination.split_fingerprints import build_split_fingerprints
from quality.judges.registry import JudgeConfig, build_judge
from quality.judges.verdicts import judge_source
from quality.refinement.gold import build_gold
from quality.refinement.rewriters import build_rewriter
from quality.safety.scan import scan_sources

pytestmark = [pytest.mark.slow(seconds=30), pytest.mark.real_parts]
SOURCE = "aitz"
"""Its embedded data has several parts, with pictures."""

Stages = dict[str, Callable[[Store, Execution], Manifest]]


def _judged(store: Store, execution: Execution) -> Manifest:
    config = JudgeConfig()
    return judge_source(store, SOURCE, build_judge(config), config=config, execution=execution)


def _gold(store: Store, execution: Execution) -> Manifest:
    config = JudgeConfig()
    judge, rewriter = build_judge(config), build_rewriter(config)
    return build_gold(store, SOURCE, judge, rewriter, judge_config=config, execution=execution)


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("raw")
    build_raw(Store(root / "home"), SOURCE, root / SOURCE, size="tiny")
    return root / SOURCE


def _stages(raw: Path) -> Stages:
    bands = ChangeBands(damaged_files=1)
    return {
        "unified": lambda store, execution: unify_source(store, SOURCE, Raw(raw), bands=bands, execution=execution),
        "verdicts": _judged,
        "gold": _gold,
        "prints": lambda store, execution: build_split_fingerprints(store, SOURCE, execution),
        "contamination": lambda store, execution: find_contamination(store, [SOURCE], [f"{SOURCE}_test"], execution),
        "safety": lambda store, execution: scan_sources(store, [SOURCE], execution=execution),
        "shards": lambda store, execution: build_shards(store, [SOURCE], execution=execution),
        "scan": lambda store, execution: scan_shards(store, [f"{SOURCE}_test"], execution),
    }


def _all(home: Path, raw: Path, execution: Execution) -> dict[str, tuple[str, str]]:
    store = Store(home)
    made = {name: run(store, execution) for name, run in _stages(raw).items()}
    return {name: (manifest.version, manifest.data_version) for name, manifest in made.items()}


def test_any_number_of_workers_makes_the_same(raw: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(buckets, "BUCKET_ROWS", 2)  # several parts of so few rows
    here = _all(tmp_path / "here", raw, Execution(EngineSettings(runner=IN_PROCESS, part_bytes=1)))
    told: list[object] = []
    by = Execution(EngineSettings(runner=PROCESSES, workers=2, part_bytes=1), told.append)
    assert _all(tmp_path / "by-two", raw, by) == here
    assert len(told) >= 2 * len(here), "each stage had several parts run"
