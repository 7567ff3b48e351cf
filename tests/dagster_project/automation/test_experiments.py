"""An experiment from the launchpad: the form keeps it, the sensor gives it a partition and starts its stages once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from dagster_project import definitions
from dagster_project.assets.resources import StoreResource
from dagster_project.settings import deployment
from pipelines.store import Store
from trainer.stages.experiments import Experiment, define, read


@pytest.fixture
def loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dg.Definitions:
    monkeypatch.setenv("VESPER_HOME", str(tmp_path))
    return definitions.build(deployment.load())


def start(loaded: dg.Definitions, instance: dg.DagsterInstance, **config: Any) -> dg.ExecuteInProcessResult:
    return loaded.resolve_job_def("new_experiment").execute_in_process(
        run_config={"ops": {"define_experiment": {"config": config}}}, instance=instance, raise_on_error=False
    )


def test_the_form_keeps_what_was_changed_and_the_sensor_starts_it_once(loaded: dg.Definitions, tmp_path: Path) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        assert start(loaded, instance, name="lr_high", midtrain={"learning_rate": 0.02, "seed": 0}).success
        assert instance.get_dynamic_partitions("experiment") == ["lr_high"]
        store = Store(tmp_path)
        made = read(store, "lr_high")
        assert made.settings == {"midtrain": {"learning_rate": 0.02}} and made.stages == ("mid_trained",)
        mixed = {"stages": ["mixture", "verdicts/aitz"], "mixture": {"max_repeats": 2}, "judge": {"name": "nano"}}
        assert start(loaded, instance, name="mixed", **mixed).success
        assert read(store, "mixed").settings == {"mixture": {"max_repeats": 2}, "judge": {"name": "nano"}}
        define(store, Experiment("off", ("verdicts/nosuch",)))  # a source that isn't on keeps no other from starting
        define(store, Experiment("two", ("base", "mid_trained"), {"seed": 2}))  # as `vesper experiments new` does
        sensor = next(one for one in loaded.sensors or [] if one.name == "start_experiments")
        resources = {"store": StoreResource(home=str(tmp_path))}

        def requested() -> dict[str | None, dg.RunRequest]:
            with dg.build_sensor_context(instance=instance, resources=resources) as context:
                found = sensor(context)
            assert isinstance(found, dg.SensorResult)
            return {request.partition_key: request for request in found.run_requests or []}

        requests = requested()
        keys = {key.to_user_string() for key in requests["two"].asset_selection or []}
        assert keys == {
            f"experiments/{group}/{stage}"
            for group in ("checkpoints", "evaluations")
            for stage in ("base", "mid_trained")
        }
        keys = {key.to_user_string() for key in requests["mixed"].asset_selection or []}
        assert keys == {"experiments/mid_training/mixture", "experiments/verdicts/aitz"} and "off" not in requests
        keys_of_runs = {request.run_key for request in requested().values()}
        assert keys_of_runs == {request.run_key for request in requests.values()}, "asked twice, started once"


def test_a_wrong_setting_or_name_is_refused_and_nothing_is_kept(loaded: dg.Definitions, tmp_path: Path) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        done = start(loaded, instance, name="bad", midtrain={"learning_rate": -1})
        [failure] = [event for event in done.all_events if event.is_step_failure]
        assert "ops.define_experiment.config: midtrain.learning_rate: expected a number" in str(failure)
        assert not start(loaded, instance, name="Bad name").success
        assert instance.get_dynamic_partitions("experiment") == []
    assert not (tmp_path / "assets/experiments").exists()
