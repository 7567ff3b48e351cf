"""torchrun on a real store: the first rank writes the checkpoint, the others train along and leave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from goldmaker import gold
from tiny_training import SETTINGS, short_replies
from two_ranks import torchrun

from pipelines.store import Store
from pipelines.training_data.mixture import build_mixture
from pipelines.training_data.shards import build_shards
from trainer.runtime.parallel import NotTrained, Ranks, following
from trainer.stages.assets import checkpoint_folder
from trainer.stages.launch import lead
from trainer.stages.run import run_stage

pytestmark = [pytest.mark.real_parts, pytest.mark.slow]


def test_two_ranks_make_checkpoints_and_only_one_writes_them(tmp_path: Path) -> None:
    from trainer.modeling.checkpoint import load_checkpoint

    store = gold(tmp_path / "home", count=20, parts=2)
    build_shards(store, ["toy"])
    build_shards(store, ["toy"], "evaluations/heldout", splits=("test",))
    build_mixture(store)
    with short_replies():
        run_stage("base", store.home, SETTINGS, progress=False)
    told = torchrun(
        "-m",
        "dagster_project.cli",
        "train",
        "mid_trained",
        "offline_grounding",
        "--events",
        "--config",
        json.dumps(SETTINGS),
        "--home",
        store.home,
    )
    events = [json.loads(line) for line in told.splitlines() if line.startswith("{")]
    kinds = [event["kind"] for event in events]
    cut = kinds.index("committed") + 1
    assert kinds[:cut] == ["stage", "validation", "step", "step", "validation", "trained", "committed"]
    manifest = Store(store.home).require("checkpoints/mid_trained")
    assert manifest.version == events[cut - 1]["version"]
    trained = load_checkpoint(checkpoint_folder(manifest))
    assert trained.lineage["metrics"]["tokens"] == sum(e["tokens"] for e in events if e["kind"] == "step")
    assert [kind for kind in kinds[cut:] if kind in ("stage", "update", "trained", "committed")] == [
        "stage",
        "update",
        "update",
        "trained",
        "committed",
    ]
    learned = Store(store.home).require("checkpoints/offline_grounding")
    assert learned.version == events[-1]["version"] and learned.counts["updates"] == 2
    assert load_checkpoint(checkpoint_folder(learned)).lineage["stage"] == "offline_grounding"
    assert not list((store.home / "cache" / "training").iterdir())


class Told(Ranks):
    """A group that records what the first rank says."""

    said: list[Any] = []

    def broadcast(self, value: Any) -> Any:
        self.said.append(value)
        return value


def test_others_are_called_to_shared_stages_only_and_off_when_there_is_nothing_to_train() -> None:
    group = Told(0, 2)
    group.said.clear()
    seen: list[str] = []
    event = lead(group, lambda found: seen.append(found["kind"]))
    for stage in ("base", "mid_trained"):
        event({"kind": "stage", "stage": stage})
        event({"kind": "committed", "stage": stage})
    event({"kind": "stage", "stage": "mid_trained"})
    event({"kind": "trained", "step": 3})
    event({"kind": "committed", "stage": "mid_trained"})
    assert group.said == [("stage", "mid_trained"), ("stop", None), ("stage", "mid_trained")]
    assert seen.count("committed") == 3
    assert following(group, 5) == 5


def test_a_rank_that_is_called_off_unwinds() -> None:
    class Stopped(Ranks):
        def broadcast(self, value: Any) -> Any:
            return ("stop", None)

    with pytest.raises(NotTrained):
        following(Stopped(1, 2), None)
