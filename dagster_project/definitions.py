"""Vesper's Dagster definitions: what `vesper web` serves."""

from collections.abc import Collection

import dagster as dg

from dagster_project import run_launcher
from dagster_project.assets import factory, upstream
from dagster_project.assets.resources import JudgeResource, StoreResource
from dagster_project.automation import (
    alerts,
    asset_jobs,
    choose_version,
    corpus_after_refresh,
    feedback,
    new_files,
    schedules,
    training_tail,
    verify_store,
)
from dagster_project.automation import experiments as experiment_jobs
from dagster_project.lineage import openlineage_client
from dagster_project.settings import deployment
from dagster_project.settings.environment import Environment
from dagster_project.stages import experiments, graph, hygiene, sources


def build(settings: deployment.Deployment, here: Collection[str] = ()) -> dg.Definitions:
    """Definitions of a deployment. `here`: see `factory.build`."""
    # One list of stages for assets, jobs and sensors, so that none of them knows an asset that isn't there.
    stages = graph.stages(settings)
    jobs = asset_jobs.jobs(stages)
    promotions, promoting = feedback.trainers()
    environment = Environment.read()
    beside = experiments.stages(settings)
    run_experiment = experiment_jobs.run_job(beside)
    return dg.Definitions(
        assets=[
            *upstream.assets(stages, settings),
            *factory.build(stages, settings.freshness, here, settings),
            *factory.build(beside, here=here, settings=settings),
            *factory.external({**sources.outside(settings), **hygiene.absent(settings)}, settings),
            *feedback.assets(),
        ],
        jobs=[
            *jobs.values(),
            feedback.promote_human_verdicts,
            feedback.promote_verified,
            *promotions,
            verify_store.verify_store,
            *choose_version.JOBS,
            experiment_jobs.new_experiment(settings),
            run_experiment,
        ],
        schedules=[
            schedules.nightly(jobs["refresh_sources"]),
            schedules.hourly(jobs["observe_upstream"]),
            schedules.worth(jobs["measure_worth"]),
        ],
        sensors=[
            new_files.new_files_sensor(upstream.names_of(stages), stages, jobs["refresh_sources"]),
            corpus_after_refresh.corpus_sensor(jobs["refresh_sources"], jobs["build_corpus"]),
            training_tail.tail_sensor(stages),
            training_tail.suites_sensor(stages),
            experiment_jobs.start_experiments(run_experiment, beside),
            alerts.alert_failures,
            alerts.alert_warnings,
            feedback.new_human_verdicts,
            *promoting,
            feedback.after_round(jobs["collect_rounds"]),
            feedback.next_round(jobs["generate_round"], factory.ROUNDS),
        ],
        resources={
            "store": StoreResource(home=str(deployment.home())),
            "judge": JudgeResource(
                name=environment.judge, base_url=environment.judge_base_url, model=environment.judge_model
            ),
        },
        executor=executor(settings),
    )


def executor(settings: deployment.Deployment) -> dg.ExecutorDefinition:
    """In-process by default: a run has a process of its own anyway, and a step costs no start-up."""
    if settings.executor == "in_process":
        return dg.in_process_executor
    preload = ["dagster_project.definitions"]
    return dg.multiprocess_executor.configured({"start_method": {"forkserver": {"preload_modules": preload}}})


@dg.definitions
def defs() -> dg.Definitions:
    """Loaded when Dagster asks, so that importing this module costs nothing."""
    run_launcher.keep_watching_runs()
    openlineage_client.follow()
    return build(deployment.load())
