"""What a materialisation shows: how old its inputs are, which sources it does without, and numbers that plot."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster._core.definitions.freshness import TimeWindowFreshnessPolicy

from dagster_project import definitions
from dagster_project.assets import factory, metadata
from dagster_project.assets.keys import asset_key
from dagster_project.assets.metadata import Confirmed
from dagster_project.assets.plotted_metrics import figures_of, plotted, tonight
from dagster_project.settings import deployment
from dagster_project.stages import graph
from dagster_project.stages.stage import GraphStage, StageWork
from pipelines.store import Check, PartSpec, Store
from pipelines.store.manifest import Manifest
from quality.model_client.prices import Prices
from quality.model_client.questions import Usage
from quality.model_client.spending import AnswerBook, Ceiling

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def _commit(store: Store, key: str, content: str, *inputs: str, passed: bool = True) -> Manifest:
    pinned = {name: store.require(name).version for name in inputs}
    spec = PartSpec("a", content)
    with store.build(key, code_version="1", inputs=pinned, parts=[spec]) as build:
        build.run_part(spec, lambda out: out.bytes("a.txt", content.encode()))
        return build.commit(checks=[Check("good", passed, content, "something good")])


def _age(manifest: Manifest, hours: float) -> None:
    then = time.time() - hours * 3600
    os.utime(manifest.directory / "manifest.json", (then, then))


def test_an_inputs_age_is_that_of_its_last_good_version(tmp_path: Path) -> None:
    store = Store(tmp_path)
    old, failed, same = (_commit(store, f"gold/{name}", "v1") for name in ("old", "failed", "same"))
    for manifest in (old, failed, same):
        _age(manifest, 50)
    corpus = _commit(store, "mid_training/shards", "c", "gold/old", "gold/failed", "gold/same")
    now = time.time()
    confirmed = {"gold/failed": Confirmed(now - 3600, "other"), "gold/same": Confirmed(now - 7200, same.data_version)}
    rows = {row["asset"]: row for row in metadata.input_rows(corpus, store, confirmed)}
    ages = {name: row["age_h"] for name, row in rows.items()}
    assert ages == {"gold/old": 50.0, "gold/failed": 50.0, "gold/same": 2.0}
    assert [name for name, row in rows.items() if row["note"]] == ["gold/failed"]
    assert "the newest (1.0 h old) isn't used" in rows["gold/failed"]["note"]
    (old.directory / "manifest.json").unlink()
    [gone] = [row for row in metadata.input_rows(corpus, store, {}) if row["asset"] == "gold/old"]
    assert gone["age_h"] is None and gone["note"] == "its files are gone"


def test_the_corpus_says_which_source_is_on_its_last_good_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two nights with the real factory: on the second a source's check fails, and the corpus takes its first."""
    monkeypatch.setenv("VESPER_HOME", str(tmp_path))
    night = {"content": "first", "passed": True}

    def gold(name: str, work: StageWork) -> Manifest:
        good = night["passed"] or name != "b"
        return _commit(work.store, f"gold/{name}", f"{name} {night['content']}", passed=bool(good))

    def corpus(work: StageWork) -> Manifest:
        return _commit(work.store, "mid_training/shards", str(night["content"]), "gold/a", "gold/b")

    keys = ("gold/a", "gold/b")

    def stage(key: str, deps: tuple[str, ...], run: Callable[[StageWork], Manifest]) -> GraphStage:
        return GraphStage(key, deps, "build_corpus", run, "a toy", ("file",), "1")

    stages = {key: stage(key, (), functools.partial(gold, key[-1])) for key in keys}
    stages["mid_training/shards"] = stage("mid_training/shards", (*keys, "gold/c"), corpus)
    loaded = dg.Definitions(
        assets=[*factory.build(stages), dg.AssetSpec("c").replace_attributes(key=dg.AssetKey(["gold", "c"]))],
        jobs=[
            dg.define_asset_job("refresh", dg.AssetSelection.groups("gold")),
            dg.define_asset_job("build", dg.AssetSelection.groups("mid_training")),
        ],
        resources={"store": definitions.StoreResource(home=str(tmp_path)), "judge": definitions.JudgeResource()},
    )
    instance = dg.DagsterInstance.ephemeral()

    def shown() -> dict[str, Any]:
        for job in ("refresh", "build"):
            done = loaded.resolve_job_def(job).execute_in_process(QUIET, instance, raise_on_error=job == "build")
        assert done.success
        event = instance.get_latest_materialization_event(asset_key("mid_training/shards"))
        assert event is not None and event.asset_materialization is not None
        found = event.asset_materialization.metadata
        return {name: value if name == "inputs" else value.value for name, value in found.items()}

    first = shown()
    assert first["sources on their last good version"] == 0 and first["sources without gold"] == 1
    assert first["not fresh"] == "gold/c" and type(first["oldest input (h)"]) is float
    night.update(content="second", passed=False)
    second = shown()
    assert second["sources on their last good version"] == 1 and second["not fresh"] == "gold/b, gold/c"
    notes = {row.data["asset"]: row.data["note"] for row in second["inputs"].records}
    assert not notes["gold/a"] and "isn't used" in str(notes["gold/b"])


def test_what_only_waits_for_gold_misses_none_of_it(tmp_path: Path) -> None:
    store = Store(tmp_path)
    _commit(store, "unified/a", "x")
    scan = _commit(store, "hygiene/scan", "y", "unified/a")
    reader = GraphStage("hygiene/scan", ("gold/a",), "build_corpus", lambda work: scan, "a toy", ("file",), "1")
    assert metadata.describe(reader, scan, store)["not fresh"].value == "gold/a"
    shown = metadata.describe(replace(reader, reads_gold=False), scan, store)
    assert "not fresh" not in shown and "sources without gold" not in shown


def test_what_is_late_is_said_by_the_deployment(tmp_path: Path) -> None:
    shipped = deployment.load()
    loaded = definitions.build(shipped)
    found = {
        spec.key.to_user_string(): spec.freshness_policy
        for spec in loaded.resolve_all_asset_specs()
        if spec.freshness_policy is not None
    }
    stages = graph.stages(shipped)
    wanted = {key for key, s in stages.items() if s.group in ("raw", "gold", "checkpoints", "evaluations")}
    assert set(found) == wanted | {"mid_training/mixture"}
    policy = found["gold/aitw"]
    assert isinstance(policy, TimeWindowFreshnessPolicy)
    assert policy.fail_window.to_timedelta() == timedelta(hours=36)
    for said in ("{raw: soon}", "{raw: 0}", "[raw]", "{1: 5}"):
        (tmp_path / "d.yaml").write_text(f"freshness: {said}\n")
        with pytest.raises(deployment.DeploymentError, match="freshness.*: expected"):
            deployment.load(tmp_path / "d.yaml")
        deployment._load.cache_clear()
    (tmp_path / "d.yaml").write_text("freshness: {raw: null, gold/aitw: 0.5}\n")
    assert deployment.load(tmp_path / "d.yaml").freshness == {"gold/aitw": 0.5}


# --- numbers that plot ------------------------------------------------------------------------------------------------
COUNTS: dict[str, dict[str, Any]] = {
    "raw/a": {"files": 3, "bytes": 1200, "oracle_success": 0.5},
    "cards/a": {"items": 4, "mapped": 3, "quarantined": 1, "samples": 9},
    "fingerprints/aitz_test": {"read": 8, "items": 6, "rejected": 2, "pictures": 5, "reasons": {"torn": 2}},
    "hygiene/screens": {"screens": 8, "shared": 2, "near_pairs": 1},
    "hygiene/shard_scan": {"leaks": 1, "rows": 9, "unreadable": 0, "leaked_texts": 1},
    "hygiene/human_verdicts": {"settled": 4, "refused": 1, "quarantined": 3, "feedback/human_verdicts": "v1"},
    "leaderboard/standings": {"policies": 2, "suites": 3, "rows": 6},
    "unified/a": {"items_in": 4, "items_mapped": 3},
    "verdicts/a": {
        "items": 4,
        "pending": 1,
        "share_keep": 0.5,
        "scores": {"2": 1, "8": 2},
        "bill": {"answers": 3, "prompt_tokens": 300, "completion_tokens": 30, "cost": 0.25},
    },
    "gold/a": {"share_before": 0.5, "share_after": 0.75, "yield": 0.75, "gold": 3, "samples": 9},
    "gold/generated": {"verified": 3, "trajectories": 4, "samples": 7, "rounds": 1},
    "generation/verified/round_001": {
        "yield": 0.75,
        "verified": 3,
        "policy success": 1.0,
        "true yield": 0.75,
        "false positives": 0,
        "device hours": 0.3,
    },
    "mid_training/mixture": {"reached": {"vqa": 0.5, "grounding": 0.5}, "short": ["vqa"], "tokens": 9, "rows": 2},
    "mid_training/shards": {"packed": 3, "gold_samples": 4, "tokens_total": 9},
    "checkpoints/mid_trained": {"steps": 3, "last_loss": 1.5, "validation_loss": 2.5, "validation_rows": 8},
    "evaluations/unified": {"grounding hit": 0.25, "navigation/web step": 0.5, "samples": 8, "unreadable": 0},
    "evaluations/judge_nano": {
        "macro recall, with elements": 0.75,
        "macro AUROC, with elements": 0.875,
        "kappa, without elements": 0.5,
        "items": 120,
    },
    "hygiene/contamination": {"samples": 8, "removed_samples": 2, "hit_items": 3, "pictures": 5, "hits": 4},
    "hygiene/safety": {
        "items": 8,
        "screens": 5,
        "unreadable": 0,
        "triggers": 1,
        "items_personal": 2,
        "items_credential": 1,
        "personal: email": 2,
        "triggers_by_source": {"a": 1},
    },
    "task_pool/static": {"easy": 3, "medium": 1, "tasks": 4, "tried": 8, "failed": 2},
    "task_pool/dynamic": {
        "easy": 3,
        "tasks": 3,
        "proposed": 4,
        "episodes": 4,
        "nearest_kept": 0.75,
        "unopened": {"no app named": 1},
    },
    "task_pool/shards": {"easy": 6, "medium": 1, "hard": 0, "tasks": 7},
    "generation/catalogue/round_001": {
        "functions": 8,
        "shown": 2,
        "coverage": 0.25,
        "targets seen": 1,
        "yield of explore": 0.5,
    },
    "generation/task_bank/round_001": {
        "tasks": 3,
        "refused": 1,
        "short": 2,
        "easy": 2,
        "medium": 1,
        "hard": 0,
        "of explore": 3,
        "refused: duplicate": 1,
        "closest": 0.5,
        "bank": 9,
    },
    "generation/trajectories/round_001": {
        "trajectories": 4,
        "infrastructure failures": 1,
        "turns": 20,
        "device hours": 0.5,
        "ended: done": 3,
        "hostile: planted": 2,
        "hostile: obeyed": 1,
    },
    "review/queue": {"opened": 6, "queued": 6, "candidates": 40, "strata": 4, "strata_drawn": 3, "bands": {"low": 6}},
    "bench/judge": {
        "traces:pages": 4,
        "traces:phone": 3,
        "screens:pages": 2,
        "dropped:phone": 1,
        "benign": 2,
        "planted:wrong_target": 5,
        "planted": 5,
    },
    "suites/fsm": {
        "suite": "fsm",
        "policy": "vesper-unified",
        "records": 4,
        "n": 3,
        "lost": 1,
        "success": 0.25,
        "low": 0.125,
        "high": 0.5,
        "control": None,
        "actions": 12,
    },
    "episodes/unified": {"records": 3, "solved": 1, "failed": 2, "not counted": 0, "actions": 9},
    "staircase/web": {"base greedy": 0.25, "base pass_at_k": 0.5, "more_offline greedy": 0.125, "ties greedy": None},
}
WANTED: dict[str, dict[str, float]] = {
    "raw/a": {"quality: oracle success": 0.5, "yield: files": 3, "yield: bytes": 1200},
    "cards/a": {"quality: share mapped": 0.75, "yield: items": 4, "yield: samples": 9},
    "fingerprints/aitz_test": {"quality: share rejected": 0.25, "yield: items": 6, "yield: pictures": 5},
    "hygiene/screens": {"quality: share in several sources": 0.25, "yield: near pairs": 1},
    "hygiene/shard_scan": {"quality: leaks": 1, "yield: rows": 9},
    "hygiene/human_verdicts": {"quality: share refused": 0.25, "yield: items settled": 4, "yield: rows taken out": 3},
    "leaderboard/standings": {"yield: policies": 2, "yield: suites": 3},
    "unified/a": {"quality: share mapped": 0.75, "yield: items": 3},
    "verdicts/a": {
        "quality: share to keep": 0.5,
        "quality: mean score": 6.0,
        "yield: items judged": 3,
        "cost: answers": 3,
        "cost: money": 0.25,
    },
    "gold/a": {"quality: high-fidelity share after": 0.75, "yield: share": 0.75, "yield: samples": 9},
    "gold/generated": {"yield: share": 0.75, "yield: trajectories": 3},
    "generation/verified/round_001": {"yield: share": 0.75, "cost: device hours a trajectory": 0.1},
    "mid_training/mixture": {"quality: share of vqa": 0.5, "quality: objectives short of data": 1, "yield: tokens": 9},
    "mid_training/shards": {"yield: share packed": 0.75, "yield: tokens": 9},
    "checkpoints/mid_trained": {"quality: last loss": 1.5, "quality: validation loss": 2.5, "yield: steps": 3},
    "evaluations/unified": {"quality: grounding hit": 0.25, "quality: navigation/web step": 0.5, "yield: samples": 8},
    "evaluations/judge_nano": {
        "quality: macro recall, with elements": 0.75,
        "quality: kappa, without elements": 0.5,
        "quality: macro AUROC, with elements": 0.875,
        "yield: items": 120,
    },
    "hygiene/contamination": {"quality: share removed": 0.25, "quality: items hit": 3, "yield: samples": 6},
    "hygiene/safety": {
        "quality: share with personal data": 0.25,
        "quality: share with credentials": 0.125,
        "quality: triggers": 1,
        "yield: items": 8,
    },
    "task_pool/static": {
        "quality: share of failed oracles": 0.25,
        "yield: tasks": 4,
        "yield: easy tasks": 3,
        "yield: hard tasks": 0,
    },
    "task_pool/dynamic": {
        "quality: nearest similarity": 0.75,
        "quality: share without a world": 1 / 3,
        "yield: share": 0.75,
        "yield: medium tasks": 0,
    },
    "task_pool/shards": {"yield: tasks": 7, "yield: easy tasks": 6},
    "generation/catalogue/round_001": {"quality: coverage": 0.25, "yield: functions": 8, "yield: functions shown": 2},
    "generation/task_bank/round_001": {
        "quality: closest pair": 0.5,
        "quality: tasks short of their stratum": 2,
        "yield: share": 0.75,
        "yield: tasks": 3,
        "yield: easy tasks": 2,
    },
    "generation/trajectories/round_001": {
        "quality: share lost": 0.25,
        "quality: share of attacks obeyed": 0.5,
        "yield: trajectories": 4,
        "cost: device hours": 0.5,
    },
    "review/queue": {"quality: share of strata drawn from": 0.75, "yield: items queued": 6, "yield: candidates": 40},
    "bench/judge": {
        "yield: traces": 7,
        "yield: screens": 2,
        "yield: planted defects": 5,
        "quality: recordings dropped": 1,
    },
    "suites/fsm": {
        "quality: success": 0.25,
        "quality: lower end": 0.125,
        "quality: share lost": 0.25,
        "yield: counted": 3,
        "cost: actions": 12,
    },
    "episodes/unified": {"yield: solved": 1, "yield: failed": 2, "cost: episodes": 3, "cost: actions": 9},
    "staircase/web": {
        "quality: base greedy": 0.25,
        "quality: base pass at k": 0.5,
        "quality: more offline greedy": 0.125,
    },
}


@pytest.mark.parametrize("asset", COUNTS)
def test_quality_yield_and_cost_have_names_that_stay(asset: str, tmp_path: Path) -> None:
    with Store(tmp_path).build(asset, code_version="1") as build:
        manifest = build.commit(counts=COUNTS[asset], checks=[Check("a", True, "1", "1")])
    found = plotted(manifest)
    assert {name: found[name] for name in WANTED[asset]} == pytest.approx(WANTED[asset])
    assert all(type(value) in (int, float) for value in found.values())
    assert all(name.partition(": ")[0] in ("quality", "yield", "cost") for name in found)
    empty = {name: None if value is None else type(value)() for name, value in COUNTS[asset].items()}
    for version, counts in (("2", empty), ("3", {})):
        with Store(tmp_path).build(asset, code_version=version) as build:
            manifest = build.commit(counts=counts, checks=[Check("a", True, "1", "1")])
        plotted(manifest)  # a night without anything fails nothing


def test_every_asset_has_figures_that_plot() -> None:
    stages = graph.stages(deployment.load())
    assert [key for key in stages if figures_of(key) is None] == []


def test_what_the_judge_cost_tonight_is_shown(tmp_path: Path) -> None:
    store = Store(tmp_path)
    assert tonight(store, Prices()) == {} and not (tmp_path / "cache").exists()
    book = AnswerBook(tmp_path / "cache" / "judge")
    call = book.open(Ceiling(), "m", 10)
    assert call is not None
    book.book(call, "answers", Usage(1000, 100))
    book.close()
    assert tonight(store, Prices(2.0, 10.0)) == {
        "cost: requests tonight": 1,
        "cost: tokens tonight": 1100,
        "cost: money tonight": 0.003,
    }
