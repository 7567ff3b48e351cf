"""What starts when data has changed: the training tail, and suites where somebody switched them on."""

from collections.abc import Mapping

import dagster as dg

from dagster_project.assets.keys import asset_key
from dagster_project.automation.asset_jobs import tags_of
from dagster_project.stages.stage import GraphStage


def tail_sensor(stages: Mapping[str, GraphStage]) -> dg.AutomationConditionSensorDefinition:
    """Evaluates the training tail's condition. Its runs are of no job, so they are given the tags of `train` here."""
    keys = [asset_key(s.key) for s in stages.values() if s.job == "train"]
    return dg.AutomationConditionSensorDefinition(
        "training_tail",
        target=dg.AssetSelection.assets(*keys),
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=60,
        description="Trains and evaluates when an input's data has changed.",
        run_tags=tags_of("train"),
    )


def suites_sensor(stages: Mapping[str, GraphStage]) -> dg.AutomationConditionSensorDefinition:
    """The same condition for the suites, which take longer than anybody may want after each training: off until it is
    switched on."""
    keys = [asset_key(s.key) for s in stages.values() if s.job == "evaluate_suites"]
    return dg.AutomationConditionSensorDefinition(
        "suites_after_training",
        target=dg.AssetSelection.assets(*keys),
        default_status=dg.DefaultSensorStatus.STOPPED,
        minimum_interval_seconds=60,
        description="Runs suites of evaluation when the merged agent, or a benchmark's files, have changed.",
        run_tags=tags_of("evaluate_suites"),
    )
