"""Checks of a manifest in Dagster's own runs: by name, with their severity, their numbers, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import dagster as dg
import pytest
from toy_stage import toy_stage

from dagster_project.assets import checks, factory
from dagster_project.assets.resources import JudgeResource, StoreResource
from dagster_project.stages.stage import GraphStage, StageWork
from pipelines.store import Check, CheckSpec, Manifest, PartSpec, Store

LOST = CheckSpec("nothing_lost", "Items are gone")
KNOWN = CheckSpec("vocabulary_known", "A word that nobody knows", blocking=False)
MOVED = CheckSpec("items_against_current", "More are gone than may be", sometimes=True)


def made(store: Store, found: Sequence[Check]) -> Manifest:
    with store.build("reports/x", code_version="1") as build:
        build.run_part(PartSpec("a", str(found)), lambda out: out.bytes("a.txt", b"x"))
        return build.commit(checks=found)


def graph_of(found: Sequence[Check], *specs: CheckSpec) -> tuple[list[dg.AssetsDefinition], list[str]]:
    """The asset that the factory makes of a stage that finds this, what depends on it, and whether that has run."""
    ran: list[str] = []

    def run(work: StageWork) -> Manifest:
        return made(work.store, found)

    @dg.asset(deps=[["reports", "x"]])
    def after() -> None:
        ran.append("after")

    stage: GraphStage = toy_stage("reports/x", *specs, run=run)
    return [*factory.build({stage.key: stage}), after], ran


def materialised(home: Path, assets: Sequence[dg.AssetsDefinition]) -> dg.ExecuteInProcessResult:
    resources = {"store": StoreResource(home=str(home)), "judge": JudgeResource()}
    return dg.materialize(assets, resources=resources, instance=dg.DagsterInstance.ephemeral(), raise_on_error=False)


def by_name(result: dg.ExecuteInProcessResult) -> dict[str, dg.AssetCheckEvaluation]:
    return {one.check_name: one for one in result.get_asset_check_evaluations()}


def test_each_check_is_one_of_the_asset_and_only_those_that_block_stop_what_comes_after(tmp_path: Path) -> None:
    found = [LOST.check(True, "3 in, 3 mapped", "in = mapped", 3, 3), KNOWN.check(False, '{"dance": 2}', "none", 2, 0)]
    assets, ran = graph_of(found, LOST, KNOWN, MOVED)
    shown = {spec.name: spec for spec in assets[0].check_specs}
    assert {name: spec.blocking for name, spec in shown.items()} == {
        "nothing_lost": True,
        "vocabulary_known": False,
        "items_against_current": True,
    }
    assert "If it fails: Items are gone" in (shown["nothing_lost"].description or "")
    warned = materialised(tmp_path, assets)
    seen = by_name(warned)
    assert warned.success and ran == ["after"] and Store(tmp_path).current("reports/x") is not None
    assert seen["nothing_lost"].passed and not seen["vocabulary_known"].passed
    assert seen["vocabulary_known"].severity == dg.AssetCheckSeverity.WARN
    assert seen["vocabulary_known"].description == 'found {"dance": 2}, expected none'
    assert [seen["vocabulary_known"].metadata[name].value for name in ("found", "expected")] == [2.0, 0.0]
    assert isinstance(seen["vocabulary_known"].metadata["found"], dg.FloatMetadataValue), "which is what plots"
    assert "Map the word" in str(seen["vocabulary_known"].metadata["then do"].value)
    absent = seen["items_against_current"]
    assert absent.passed and "not applicable now" in (absent.description or "")

    assets, ran = graph_of([LOST.check(False, "3 in, 2 mapped", "in = mapped"), found[1]], LOST, KNOWN, MOVED)
    stopped = materialised(tmp_path / "other", assets)
    seen = by_name(stopped)
    assert not stopped.success and ran == [] and Store(tmp_path / "other").current("reports/x") is None
    assert seen["nothing_lost"].severity == dg.AssetCheckSeverity.ERROR
    assert seen["nothing_lost"].metadata["found"].value == "3 in, 2 mapped"


def test_a_check_that_nobody_declared_fails_the_step_by_its_name(tmp_path: Path) -> None:
    assets, ran = graph_of([LOST.check(True, 1, 1), Check("new one", True, "1", "1")], LOST)
    result = materialised(tmp_path, assets)
    [failure] = [event for event in result.all_events if event.is_step_failure]
    assert not result.success and ran == []
    assert "found also 'new one'" in str(failure.step_failure_data.error)


def test_a_check_that_should_be_there_and_is_not_fails(tmp_path: Path) -> None:
    assets, ran = graph_of([LOST.check(True, 1, 1)], LOST, CheckSpec("is whole", "Half of it is gone"))
    result = materialised(tmp_path, assets)
    assert not result.success and ran == [] and by_name(result)["nothing_lost"].passed
    assert "no such check in the manifest" in (by_name(result)["is_whole"].description or "")


def test_a_manifest_without_checks_does_not_pass(tmp_path: Path) -> None:
    for specs in ((), (MOVED,)):
        assets, ran = graph_of([], *specs)
        result = materialised(tmp_path / str(len(specs)), assets)
        assert not result.success and ran == []


@pytest.mark.parametrize("blocking", [True, False])
def test_a_stage_that_declares_none_has_one_check_that_names_what_failed(tmp_path: Path, blocking: bool) -> None:
    found = [Check("there are samples", False, "0", "at least 1", blocking), Check("other", True, "1", "1")]
    assets, ran = graph_of(found)
    result = materialised(tmp_path, assets)
    [one] = result.get_asset_check_evaluations()
    assert (one.check_name, result.success, ran) == (checks.ALL.name, not blocking, [] if blocking else ["after"])
    assert "there are samples: found 0, expected at least 1" in (one.description or "")


def test_a_manifest_of_before_there_were_numbers_is_read_and_written_as_it_was(tmp_path: Path) -> None:
    old = made(Store(tmp_path), [Check("rows", True, "3", "at least 1")])
    text = old.to_json()
    assert '"value"' not in text and Manifest.from_json(text, old.folder, "old").to_json() == text
    new = made(Store(tmp_path), [LOST.check(True, 3, "at least 1", limit=1)])
    assert Manifest.from_json(new.to_json(), new.folder, "new").checks == new.checks
    assert (new.checks[0].found, new.checks[0].value, new.checks[0].limit) == ("3", 3, 1)
    assert LOST.check(True, float("nan"), "finite").value is None
