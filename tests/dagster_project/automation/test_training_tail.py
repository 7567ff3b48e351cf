"""The shipped condition of the training tail on a toy graph, tick by tick, as Dagster evaluates it."""

from __future__ import annotations

from collections.abc import Sequence

import dagster as dg
import pytest
from dagster._core.events import DagsterEvent, DagsterEventType, StepMaterializationData
from toy_stage import toy_stage

from dagster_project.assets import checks
from dagster_project.assets.tail_condition import TAIL

MADE = dg.AssetKey("checkpoint")


def _requests(script: str, checked: bool = False) -> list[int]:
    """How many runs each look (`look`) of a script asks for.

    `=b`, `!b`: the input has the data version b, whose checks passed or failed; `start`, `queue`: a run of the asset
    begins or waits; `end`, `fail`: it ends.
    """

    @dg.asset(check_specs=checks.specs(toy_stage("corpus")) if checked else None)
    def corpus():  # type: ignore[no-untyped-def]
        """Never made: the script tells of it."""

    @dg.asset(deps=[corpus], automation_condition=TAIL)
    def checkpoint() -> None: ...

    toy = dg.Definitions([corpus, checkpoint])
    job = toy.resolve_implicit_global_asset_job_def()
    instance, cursor, asked = dg.DagsterInstance.ephemeral(), None, []
    runs: list[dg.DagsterRun] = []

    def tell(kind: DagsterEventType, data: object = None) -> None:
        event = DagsterEvent(kind.value, job.name, event_specific_data=data)  # type: ignore[arg-type]
        instance.report_dagster_event(event, runs[-1].run_id)

    for word in script.split():
        if word == "look":
            seen = dg.evaluate_automation_conditions(toy, instance=instance, cursor=cursor)
            cursor = seen.cursor
            asked.append(seen.total_requested)
        elif word[0] in "=!":
            made = dg.AssetMaterialization("corpus", tags={"dagster/data_version": word[1:]})
            instance.report_runless_asset_event(made)
            if checked:
                instance.report_runless_asset_event(
                    dg.AssetCheckEvaluation(dg.AssetKey("corpus"), checks.ALL.name, passed=word[0] == "=", metadata={})
                )
        elif word in ("start", "queue"):
            status = dg.DagsterRunStatus.STARTED if word == "start" else dg.DagsterRunStatus.NOT_STARTED
            runs.append(instance.create_run_for_job(job, asset_selection=frozenset({MADE}), status=status))
        elif word == "end":
            tell(DagsterEventType.ASSET_MATERIALIZATION, StepMaterializationData(dg.AssetMaterialization(MADE)))
            tell(DagsterEventType.RUN_SUCCESS)
        elif word == "fail":
            instance.report_run_failed(runs[-1])
        else:
            raise AssertionError(f"unknown word {word}")
    return asked


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("=a look =b look start look end look look", [0, 1, 0, 0, 0]),
        ("=a look =b look start look =c look look end look start look end look look", [0, 1, 0, 0, 0, 1, 0, 0, 0]),
        ("=a look =b look start =c look end look start look end look look", [0, 1, 0, 1, 0, 0, 0]),
        ("=a look =b look queue look =c look look end queue end look look", [0, 1, 0, 1, 0, 0, 0]),
        ("=a look start look =b look look end look start look end look", [0, 0, 0, 0, 1, 0, 0]),
    ],
    ids=[
        "an input that stays",
        "a change while the asset is made",
        "a change between the request and the next look",
        "a change while the run is queued",
        "a change during a run by hand",
    ],
)
def test_each_change_is_trained_on_and_none_twice(script: str, expected: Sequence[int]) -> None:
    assert _requests(script) == expected


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("=a look =b look start look fail look look look", [0, 1, 0, 0, 0, 0]),
        ("=a look =b look start fail look look look", [0, 1, 0, 0, 0]),
        ("=a look =b look start =c look fail look start look fail look look", [0, 1, 0, 1, 0, 0, 0]),
    ],
    ids=["while somebody looks", "at once", "with a change in between"],
)
def test_a_run_that_failed_is_not_asked_for_again_without_a_change(script: str, expected: Sequence[int]) -> None:
    assert _requests(script) == expected


def test_the_first_look_starts_nothing_and_a_long_pause_of_the_daemon_one_run() -> None:
    assert _requests("=a =b look look") == [0, 0], "what was there before the sensor was"
    assert _requests("=a look =b =c =d look start look end look") == [0, 1, 0, 0]


def test_a_change_waits_for_its_checks_and_is_not_forgotten_by_a_run_by_hand_meanwhile() -> None:
    script = "=a look !b look start look end look =c look start look end look look"
    assert _requests(script, checked=True) == [0, 0, 0, 0, 1, 0, 0, 0]
    assert _requests("=a look !b look start look end look =b look look", checked=True) == [0, 0, 0, 0, 1, 0]


def test_a_run_by_hand_costs_one_run_more_than_needed() -> None:
    """It finds its parts made: `run_part` skips them."""
    assert _requests("=a look start =b look end look start look end look look") == [0, 0, 1, 0, 0, 0]
