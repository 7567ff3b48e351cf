"""Promote, roll back and compare from the launchpad: what the commands do, and what Dagster knows afterwards."""

from __future__ import annotations

from typing import Any

import corpusmaker
import dagster as dg
import pytest
from goldmaker import gold

from dagster_project.assets.resources import StoreResource
from dagster_project.automation.choose_version import compare_versions, promote_version, roll_back_version
from pipelines.store import PartSpec, Store
from pipelines.store.choose_version import named_version
from pipelines.training_data.shards import build_shards

ASSET = "checkpoints/unified"


def commit(store: Store, content: str) -> str:
    spec = PartSpec("one", content)
    with store.build(ASSET, code_version="1", parts=[spec]) as build:
        build.run_part(spec, lambda out: out.bytes("model/config.json", content.encode()))
        return build.commit().version


def run(
    job: dg.JobDefinition, op: str, store: Store, instance: dg.DagsterInstance, **config: Any
) -> dg.ExecuteInProcessResult:
    return job.execute_in_process(
        run_config={"ops": {op: {"config": config}}},
        resources={"store": StoreResource(home=str(store.home))},
        instance=instance,
        raise_on_error=False,
    )


@pytest.fixture
def instance() -> dg.DagsterInstance:
    return dg.DagsterInstance.ephemeral()


def test_a_rollback_in_the_ui_changes_the_store_and_the_version_that_the_asset_shows(
    store: Store, instance: dg.DagsterInstance
) -> None:
    a, b = commit(store, "a"), commit(store, "b")
    assert run(roll_back_version, "roll_back_one", store, instance, asset=ASSET, why="b is slow").success
    assert store.require(ASSET).version == a
    event = instance.get_latest_materialization_event(dg.AssetKey(["checkpoints", "unified"]))
    assert event is not None and event.asset_materialization is not None
    built = event.asset_materialization
    assert built.tags == {"dagster/data_version": store.require(ASSET).data_version}
    assert built.metadata["version"].value == a and built.metadata["why"].value == "b is slow"
    assert run(promote_version, "promote_one", store, instance, asset=ASSET, version=b[:6]).success
    assert store.require(ASSET).version == b


def test_an_alias_is_observed_and_what_is_current_stays(store: Store, instance: dg.DagsterInstance) -> None:
    a, b = commit(store, "a"), commit(store, "b")
    done = run(promote_version, "promote_one", store, instance, asset=ASSET, version=a, alias="production", why="won")
    assert done.success and named_version(store, f"{ASSET}@production").version == a
    assert store.require(ASSET).version == b
    key = dg.AssetKey(["checkpoints", "unified"])
    assert instance.get_latest_materialization_event(key) is None
    [record] = instance.fetch_observations(key, limit=5).records
    assert record.asset_observation is not None and record.asset_observation.metadata["named"].value == "production"


def test_what_can_t_be_chosen_fails_in_one_line(store: Store, instance: dg.DagsterInstance) -> None:
    commit(store, "a")
    done = run(roll_back_version, "roll_back_one", store, instance, asset=ASSET)
    [failure] = [event for event in done.all_events if event.is_step_failure]
    assert "the journal knows no earlier version" in str(failure.event_specific_data)
    with pytest.raises(dg.DagsterInvalidConfigError, match="alias"):
        promote_version.execute_in_process(
            run_config={"ops": {"promote_one": {"config": {"asset": ASSET, "alias": "prodution"}}}},
            resources={"store": StoreResource(home=str(store.home))},
            instance=instance,
        )


def test_a_difference_stands_on_the_run_and_on_the_asset(store: Store, instance: dg.DagsterInstance) -> None:
    before, after = (gold(store, count=count).require("gold/toy") for count in (3, 5))
    words = {"before": f"gold/toy@{before.version}", "after": "gold/toy"}
    assert before.version != after.version
    assert run(compare_versions, "compare_two", store, instance, **words).success
    [record] = instance.fetch_observations(dg.AssetKey(["gold", "toy"]), limit=5).records
    assert record.asset_observation is not None
    page = record.asset_observation.metadata["difference"].value
    assert f"**gold/toy@{before.version} → gold/toy@{after.version}**" in str(page) and "| entered |" in str(page)


def test_two_checkpoints_are_compared_on_their_own_page_by_their_data_and_settings(
    store: Store, instance: dg.DagsterInstance
) -> None:
    gold(store, count=3)
    shards = build_shards(store, ["toy"])
    told = [b'{"midtrain":{"learning_rate":%s},"seed":1}' % rate for rate in (b"0.1", b"0.2")]
    inputs = {shards.asset: shards.version}
    before, after = (corpusmaker.commit(store, ASSET, inputs, files={"settings.json": one}).version for one in told)
    words = {"before": f"{ASSET}@{before}", "after": "unified"}
    assert run(compare_versions, "compare_two", store, instance, **words).success and after != before
    [record] = instance.fetch_observations(dg.AssetKey(["checkpoints", "unified"]), limit=5).records
    assert record.asset_observation is not None
    page = str(record.asset_observation.metadata["difference"].value)
    assert "0 left, 0 entered, 0 changed" in page and "seed" not in page
    assert "| midtrain.learning_rate | 0.1 | 0.2 |" in page
