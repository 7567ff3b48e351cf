"""Experiments that train nothing: another mixture of the same shards, another judge on the same items."""

from __future__ import annotations

from pathlib import Path

import pytest
from goldmaker import gold

from dagster_project.lineage.manifests import Manifests
from dagster_project.lineage.subjects import find_subject
from dagster_project.lineage.touched import forward
from dagster_project.settings.deployment import Deployment
from dagster_project.stage_functions import sources
from dagster_project.stages.experiments import stages
from dagster_project.stages.stage import StageWork
from pipelines.store import PartSpec, Store
from pipelines.store.manifest import mainline_key
from pipelines.training_data.mixture import build_mixture
from pipelines.training_data.shards import build_shards
from trainer.stages.comparison import build_comparison, compare_sides
from trainer.stages.experiments import MAINLINE, Experiment, define

MIX = "mid_training/mixture"
MILD = '''
from quality.judges.rules import RulesJudge


class Mild(RulesJudge):
    """The rules, but for steps that type."""

    name = "mild"

    def judge(self, items, round_number=0, habits=None):
        from dataclasses import replace

        typed = {step.item_id for item in items for step in getattr(item, "steps", ()) if "Type(" in str(step.row)}
        found = super().judge(items, round_number, habits)
        high = {"alignment": 9, "reachability": 9, "reason": "it types"}
        return [replace(one, **high) if one.item_id in typed else one for one in found]


def mild(config):
    return Mild()
'''


@pytest.fixture
def store(store: Store) -> Store:
    gold(store, count=10)
    build_shards(store, ["toy"])
    build_mixture(store)
    return store


def work_of(store: Store, name: str) -> StageWork:
    return StageWork(store, Deployment(raw_root=store.home / "none"), partition=name)


def test_another_mixture_stands_beside_the_mainlines(store: Store) -> None:
    before = store.require(MIX)
    more = {"mixture": {"shares": {"grounding": 1.0}, "max_repeats": 1}}
    experiment = Experiment("grounded", ("mixture",), more)
    define(store, experiment)
    work = work_of(store, "grounded")
    made = stages(work.deployment)[f"experiments/{MIX}"].run(work)
    assert made.asset == f"experiments/grounded/{MIX}" and mainline_key(made.asset) == MIX
    assert store.require(MIX).version == before.version and made.inputs == before.inputs
    found = compare_sides(store, MAINLINE, "grounded")
    shares = {(one.domain, one.measure): one for one in found.figures}
    navigation = shares["objective", "navigation"]
    assert navigation.first["mean"] > 0 == navigation.second["mean"] and navigation.difference["mean"] < 0
    assert found.differing > 0 and all(sample.right[0] != sample.right[1] for sample in found.samples)
    assert all(sample.question and sample.picture.startswith("data:image/jpeg") for sample in found.samples)
    # What trains on it reads it in the mainline's place, and is found by whoever has to take a record back.
    both = Experiment("grounded", ("mixture", "mid_trained"), more)
    assert both.reads(MIX) == made.asset and experiment.reads("mid_training/shards") == "mid_training/shards"
    spec = PartSpec("all", "1")
    with store.build(
        "experiments/grounded/checkpoints/mid_trained",
        code_version="1",
        parts=[spec],
        inputs={made.asset: made.version},
    ) as build:
        build.run_part(spec, lambda out: out.bytes("weights", b"1"))
        trained = build.commit(counts={})
    manifests = Manifests(store)
    touched = forward(manifests, find_subject(manifests, "mid_training/shards"))
    assert [touch.asset for touch in touched.checkpoints] == [trained.asset]


def test_another_judge_stands_beside_the_mainlines(store: Store, tmp_path: Path) -> None:
    (tmp_path / "mild.py").write_text(MILD)
    before = sources.verdicts("toy", work_of(store, ""))
    define(store, Experiment("mild", ("verdicts/toy",), {"judge": {"name": f"{tmp_path}/mild.py:mild"}}))
    made = sources.verdicts_of_experiment("toy", work_of(store, "mild"))
    assert made.asset == "experiments/mild/verdicts/toy" and made.inputs == before.inputs
    assert store.require("verdicts/toy").version == before.version
    found = compare_sides(store, MAINLINE, "mild")
    kept = next(one for one in found.figures if (one.domain, one.measure) == ("step", "kept"))
    assert kept.difference["mean"] > 0 and kept.first["n"] == kept.second["n"] == kept.difference["n"]
    assert found.differing == 10, "a step that types in each episode"
    assert {sample.right for sample in found.samples} == {(False, True)}
    for sample in found.samples:
        assert sample.truth.startswith("Type(") and "9 keep: it types" in sample.replies[1] and sample.picture
    whole = build_comparison(store)
    page = whole.file("page.html").read_text()
    assert whole.checks_passed and "kept on one side alone" in page and "it types" in page
    assert "verdicts/toy: mild beside mainline" in whole.file("comparison.md").read_text()


def test_settings_that_no_stage_reads_are_refused(store: Store) -> None:
    for stage, given, said in (
        ("mid_trained", {"mixture": {"seed": 1}}, "mixture: expected the stage mixture, which reads it"),
        ("mixture", {"judge": {"name": "nano"}}, "judge: expected the stage verdicts/<source>, which reads it"),
        ("mixture", {"mixture": {"shares": {"grounding": 0.5}}}, "experiment x: mixture: shares: expected shares of"),
        ("mixture", {"mixture": {"seeds": 1}}, "experiment x: mixture: unknown 'seeds'; did you mean seed"),
        ("verdicts/../raw", {}, "expected stages of base"),
    ):
        with pytest.raises(ValueError, match=said):
            Experiment("x", (stage,), given)
    settings = Deployment(raw_root=store.home / "none")
    assert Experiment("x", ("verdicts/aitz",)).wanted == ("verdicts/aitz",)
    assert "experiments/verdicts/aitz" in stages(settings)
