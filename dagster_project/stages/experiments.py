"""Experiments as stages: the judge on each source, the mixture, and every checkpoint of the trainer with its evaluation
once more, a partition an experiment; and the comparison of all of them with the mainline."""

import functools
from collections.abc import Callable

from dagster_project.settings.deployment import Deployment
from dagster_project.stages.client_options import client_options
from dagster_project.stages.sources import FUNCTIONS, enabled, judge_pool
from dagster_project.stages.stage import GraphStage, NamedFunction, StageWork
from dagster_project.stages.training import checks_of, title, trainer_config
from dagster_project.stages.worth import with_promoted
from pipelines.store.manifest import Manifest
from pipelines.training_data import mixture
from quality.judges import verdicts
from schemas.settings import merged
from schemas.tables import Verdicts
from trainer.settings import stage_checks
from trainer.stages.assets import CODE_VERSION, STAGES, asset_of, inputs_of
from trainer.stages.experiments import GROUP, JUDGED, read
from trainer.stages.run import run_stage

COMPARISON = f"{GROUP}/comparison"


def stages(deployment: Deployment) -> dict[str, GraphStage]:
    """By key, each after what it reads; the comparison comes last."""
    found = {f"{GROUP}/{JUDGED}{name}": _judged(name) for name in enabled(deployment)}
    found[f"{GROUP}/{mixture.ASSET}"] = _beside(
        mixture.ASSET,
        (mixture.SHARDS, mixture.DUPLICATES, mixture.SCAN),
        _mixture,
        "The mixture of an experiment: rows of the same shards by other settings.",
        kinds=("parquet",),
        table="mixture",
        columns=mixture.Mixture,
        code_version=mixture.CODE_VERSION,
        checks=mixture.CHECKS,
    )
    for name in STAGES:
        own = tuple(f"{GROUP}/{dep}" for dep in inputs_of(name) if f"{GROUP}/{dep}" in found)
        found[f"{GROUP}/{asset_of(name)}"] = _beside(
            asset_of(name),
            # Inputs that the experiment makes itself, else those of the mainline.
            (*inputs_of(name), *own),
            functools.partial(_run, name),
            f"{title(name)}, of an experiment: made with its settings, beside the mainline.",
            kinds=("pytorch",),
            code_version=CODE_VERSION,
            checks=checks_of(name),
            external=True,
            owners=("team:training",),
            pool="trainer",
            needs=("trainer",),
        )
    found[COMPARISON] = GraphStage(
        key=COMPARISON,
        deps=(),
        job="train",
        # No edges: it reads whatever experiments there are.
        run=_compared,
        description="Every experiment beside the mainline: figures with paired intervals, curves, samples where "
        "the two differ.\n\nOne begins by the job `new_experiment`, or by `vesper experiments new NAME --set "
        "midtrain.learning_rate=0.01 --stage mid_trained`; the sensor `start_experiments` starts its stages.",
        kinds=("html",),
        code_version="2",
        checks=stage_checks.COMPARISON,
        owners=("team:training",),
    )
    return found


def _beside(
    key: str, deps: tuple[str, ...], run: Callable[[StageWork], Manifest], description: str, **more: object
) -> GraphStage:
    """The stage of an experiment for what the mainline keeps as `key`."""
    given = {"job": "run_experiment", "by_experiment": True, "description": description, **more}
    return GraphStage(key=f"{GROUP}/{key}", deps=deps, run=run, **given)  # type: ignore[arg-type]


def _judged(name: str) -> GraphStage:
    return _beside(
        f"{JUDGED}{name}",
        (f"unified/{name}",),
        NamedFunction(f"{FUNCTIONS}:verdicts_of_experiment", (name,)),
        f"{name} by the judge of an experiment.",
        kinds=("parquet",),
        table="verdicts",
        columns=Verdicts,
        code_version=verdicts.CODE_VERSION,
        checks=verdicts.CHECKS,
        pool=judge_pool(),
        needs=("engine",),
    )


def _run(name: str, work: StageWork) -> Manifest:
    return run_stage(
        name,
        work.store.home,
        trainer_config(),
        lambda event: work.on_event(event),
        progress=work.progress,
        judge=client_options(work.deployment.judge),
        experiment=read(work.store, work.partition),
    )


def _mixture(work: StageWork) -> Manifest:
    experiment = read(work.store, work.partition)
    base = with_promoted(work.store, work.deployment.mixture)
    # Settings within settings one by one: a floor more leaves the others as they are.
    own = merged(base.given(), experiment.settings.get("mixture", {}))
    return mixture.build_mixture(work.store, config=type(base)(**own), asset=experiment.asset(mixture.ASSET))


def _compared(work: StageWork) -> Manifest:
    from trainer.stages.comparison import build_comparison  # with torch, which definitions load without

    return build_comparison(work.store)
