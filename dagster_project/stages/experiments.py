"""Experiments as stages: every checkpoint of the trainer and its evaluation once more, a partition an experiment; and
the comparison of all of them with the mainline."""

from __future__ import annotations

import functools

from dagster_project.stages.client_options import client_options
from dagster_project.stages.stage import GraphStage, StageWork
from dagster_project.stages.training import checks_of, title, trainer_config
from pipelines.store.manifest import Manifest
from trainer.settings import stage_checks
from trainer.stages.assets import CODE_VERSION, STAGES, asset_of, inputs_of
from trainer.stages.experiments import GROUP, read
from trainer.stages.run import run_stage

COMPARISON = f"{GROUP}/comparison"
MADE = {f"{GROUP}/{asset_of(name)}": name for name in STAGES}
"""Asset key of an experiment's stage → the trainer's name of it."""


def stages() -> dict[str, GraphStage]:
    """By key, in the trainer's order; the comparison comes last."""
    mirrored = {
        key: GraphStage(
            key=key,
            # Inputs that the experiment makes itself, else those of the mainline.
            deps=(*inputs_of(name), *(f"{GROUP}/{dep}" for dep in inputs_of(name) if f"{GROUP}/{dep}" in MADE)),
            job="run_experiment",
            run=functools.partial(_run, name),
            description=f"{title(name)}, of an experiment: made with its settings, beside the mainline.",
            kinds=("pytorch",),
            code_version=CODE_VERSION,
            checks=checks_of(name),
            external=True,
            by_experiment=True,
            owners=("team:training",),
            pool="trainer",
            needs=("trainer",),
        )
        for key, name in MADE.items()
    }
    compared = GraphStage(
        key=COMPARISON,
        deps=(),
        job="train",
        # No edges: it reads whatever experiments there are.
        run=_compared,
        description="Every experiment beside the mainline: figures with paired intervals, curves, samples where "
        "the two differ.",
        kinds=("html",),
        code_version=CODE_VERSION,
        checks=stage_checks.COMPARISON,
        owners=("team:training",),
    )
    return {**mirrored, COMPARISON: compared}


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


def _compared(work: StageWork) -> Manifest:
    from trainer.stages.comparison import build_comparison  # with torch, which definitions load without

    return build_comparison(work.store)
