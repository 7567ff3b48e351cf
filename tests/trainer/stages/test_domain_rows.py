"""Rows of computers train the specialist of the web, or one of their own where it is among the domains."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from goldmaker import gold
from tiny_training import SHAPE

from pipelines.store import Store
from pipelines.training_data.mixture import build_mixture
from pipelines.training_data.shards import build_shards
from trainer.stages.context import Context
from trainer.stages.rl_rows import rl_rows
from trainer.stages.run import opened, run_stage

THREE = ["grounding", "mobile", "web"]
MIDTRAIN = {"max_steps": 2, "batch_size": 4, "warmup_steps": 1, "eval_steps": 0, "threads": 1}
CONFIG: dict[str, Any] = {"shape": SHAPE, "midtrain": MIDTRAIN, "offline": {"updates": 50, "threads": 1}}
Platforms = list[dict[str, int]]


def _store(home: Path, platforms: tuple[str, ...]) -> Store:
    """A store with a mid-trained checkpoint, and steps on the platforms."""
    store = gold(home, count=15, platforms=platforms)
    build_shards(store, ["toy"])
    build_shards(store, ["toy"], "evaluations/heldout", splits=("test",))
    build_mixture(store)
    for stage in ("base", "mid_trained"):
        run_stage(stage, home, CONFIG, progress=False)
    return store


def test_rows_of_computers_ride_in_the_web_until_they_have_a_specialist(tmp_path: Path) -> None:
    store = _store(tmp_path, ("mobile", "web", "desktop"))

    def platforms(stage: str, domains: list[str]) -> Platforms:
        """Of a stage's rows, counted: those to train on, and those of the report."""
        inputs, settings = opened(store, stage, {**CONFIG, "domains": domains})
        context = Context(store, stage, settings, inputs, print, store.home, False)
        rows = rl_rows(context, settings.offline.of_domain(context.domain), settings.domains)
        return [dict(Counter(row["platform"] for row in some)) for some in (rows.train, rows.held_out)]

    alone, both = platforms("offline_web", [*THREE, "computer"]), platforms("offline_web", THREE)
    computer = platforms("offline_computer", [*THREE, "computer"])
    for web, desktop, together in zip(alone, computer, both, strict=True):
        assert set(web) == {"web"} and set(desktop) == {"desktop"} and together == {**web, **desktop}
    assert platforms("offline_computer", THREE) == computer, "beside the agent, on the same rows"
    assert platforms("offline_grounding", THREE) == platforms("offline_grounding", [*THREE, "computer"])


def test_a_domain_without_rows_is_told(tmp_path: Path) -> None:
    _store(tmp_path, ("web", "mobile"))
    with pytest.raises(ValueError, match="offline RL computer: no train task left of 0 rows .*is there data of this"):
        run_stage("offline_computer", tmp_path, CONFIG, progress=False)
