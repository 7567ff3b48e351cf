"""Experiments from the launchpad: the job `new_experiment` keeps one, and the sensor `start_experiments` gives it a
partition and starts its stages.

Without `from __future__ import annotations`: Dagster reads the parameters' types as they are.
"""

from collections.abc import Mapping
from typing import Any

import dagster as dg
from pydantic import Field, create_model

from dagster_project.assets import launch_config
from dagster_project.assets.factory import EXPERIMENTS
from dagster_project.assets.keys import asset_key
from dagster_project.assets.resources import StoreResource
from dagster_project.settings.deployment import Deployment
from dagster_project.stages.stage import GraphStage
from trainer.settings.stages import settings_of
from trainer.stages.assets import CHECKPOINTS
from trainer.stages.experiments import GROUP, JUDGED, MIXED, Experiment, JudgeChoice, define, names, read

OP = "define_experiment"
SETTINGS = (*dict.fromkeys(f"trainer.{word}" for stage in CHECKPOINTS for word in settings_of(stage)), "mixture")


def new_experiment(deployment: Deployment) -> dg.JobDefinition:
    """The job, whose form shows what the deployment gives."""
    shown = launch_config.defaults(deployment)
    # Which judge the mainline asks is the environment's to say, so an experiment's has a form of its own.
    judges = launch_config.Shown({"judge": JudgeChoice()})
    makes = f"What it makes: {', '.join((*CHECKPOINTS, MIXED))}, or {JUDGED}<source> by its judge."
    fields: dict[str, Any] = {
        "name": (str, Field(description="What it is called: a-z, 0-9 and _.")),
        "stages": (list[str], Field(default=["mid_trained"], description=makes)),
        "why": (str, Field(default="", description="What it is to find out.")),
        **{path.rpartition(".")[2]: shown.field(path) for path in SETTINGS},
        "judge": judges.field("judge"),
    }
    form = create_model("NewExperiment", __base__=dg.Config, **fields)
    # No stage of the graph: it has the settings that an experiment may set, for the form's sake.
    asked = GraphStage(OP, (), "run_experiment", lambda work: work.store.require(""), "", (), "1", settings=SETTINGS)

    @dg.op(
        name=OP,
        config_schema=form.to_config_schema().as_field(),
        description="Keeps what is wanted; the sensor start_experiments starts it within half a minute.",
    )
    def keep(context: dg.OpExecutionContext, store: StoreResource) -> None:
        said = context.op_config
        try:
            given = launch_config.given_to(asked, context.run.run_config, shown)
            # The trainer's lie at the top, as they did before there were others.
            settings = given.pop("trainer", {}) | given
            if judge := {key: value for key, value in said["judge"].items() if value not in ("", None)}:
                settings["judge"] = judge
            definition = define(store.open(), Experiment(said["name"], tuple(said["stages"]), settings, said["why"]))
        except ValueError as error:
            raise dg.Failure(str(error), allow_retries=False) from None
        # The partition at once, so that it shows before the sensor's next look.
        context.instance.add_dynamic_partitions(str(EXPERIMENTS.name), [said["name"]])
        context.add_output_metadata({"version": definition.version, "settings": dg.MetadataValue.json(settings)})

    @dg.job(name="new_experiment", description="A training with other settings, beside the mainline.")
    def job() -> None:
        keep()

    return job


def run_job(stages: Mapping[str, GraphStage]) -> Any:
    """The job that makes an experiment's stages."""
    made = (key for key, stage in stages.items() if stage.by_experiment)
    return dg.define_asset_job(
        "run_experiment",
        dg.AssetSelection.assets(*map(asset_key, made)),
        partitions_def=EXPERIMENTS,
        description="The stages of one experiment, its partition.",
    )


def start_experiments(job: Any, stages: Mapping[str, GraphStage]) -> dg.SensorDefinition:
    """Starts each definition once: also those that `vesper experiments new` keeps."""

    @dg.sensor(
        job=job,
        name="start_experiments",
        minimum_interval_seconds=20,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Gives a new experiment its partition and starts its stages.",
    )
    def sensor(context: dg.SensorEvaluationContext, store: StoreResource) -> dg.SensorResult:
        opened = store.open()
        requests = []
        for name in names(opened):
            # What the experiment wants made, not all that an experiment could make.
            wanted = [f"{GROUP}/{key}" for key in read(opened, name).wanted]
            if unknown := [key for key in wanted if key not in stages]:
                # One that names a source that is off must not keep the others from starting.
                context.log.warning(f"experiment {name}: expected sources that are on, found {', '.join(unknown)}")
                continue
            chosen = [asset_key(key) for key in wanted]
            version = opened.require(f"{GROUP}/{name}/definition").version
            # a run key is started once, so a definition that changes runs again, and one that failed waits for a person
            key = f"experiment-{name}-{version}"
            requests.append(dg.RunRequest(run_key=key, partition_key=name, asset_selection=chosen))
        # All names, as adding one that is there changes nothing.
        adding = [EXPERIMENTS.build_add_request(names(opened))] if requests else []
        return dg.SensorResult(run_requests=requests, dynamic_partitions_requests=adding)

    return sensor
