"""Checkpoints, their evaluations, and the staircase: what the trainer makes, each in a process of its own."""

import functools
from collections.abc import Iterator, Mapping
from typing import Any

from dagster_project.settings import deployment as deployments
from dagster_project.settings.environment import Environment
from dagster_project.stages.client_options import client_options
from dagster_project.stages.stage import GraphStage, StageWork
from pipelines.store.manifest import CheckSpec, Manifest
from schemas.action_types import ACTION_SPACE
from trainer.evaluation.records import Records
from trainer.proving.staircase import stage as staircase
from trainer.settings import stage_checks
from trainer.settings.domains import USUAL
from trainer.settings.presets import configured
from trainer.settings.stages import STAGES as ENTRIES
from trainer.settings.stages import settings_of
from trainer.settings.tree import over
from trainer.stages.assets import CODE_VERSION, STAGES, asset_of, beside_the_agent, inputs_of, worlds_of
from trainer.stages.run import run_stage
from trainer.stages.settings import ranks_of, stage_settings


def title(name: str) -> str:
    """A checkpoint's title in the demo's report; its own name where it has none."""
    return ENTRIES[name].title if name in ENTRIES else name


def checks_of(name: str) -> tuple[CheckSpec, ...]:
    """What a stage of the trainer is checked for, by its name there."""
    return stage_checks.EVALUATION if name.startswith("evaluations/") else ENTRIES[name].checks


def stages() -> Iterator[GraphStage]:
    """All stages of the trainer, in its order, and the staircase."""
    # Settings that nobody can read keep no graph from loading: preflight refuses them before a run.
    try:
        config: Mapping[str, object] | None = trainer_config()
    except (ValueError, TypeError):
        config = None
    aside = _beside(config)
    for name in STAGES:
        asset = asset_of(name)
        evaluation = name.startswith("evaluations/")
        description = (
            f"checkpoints/{name.partition('/')[2]} on held-out screens and steps, beside the blind table, the random "
            "element and the swapped screens."
            if evaluation
            else ENTRIES[name].description
        )
        yield GraphStage(
            key=asset,
            deps=_deps(name, config),
            # What doesn't lead to the agent has a job of its own, so that `train` doesn't wait for it.
            job="train_others" if name in aside else "train",
            run=functools.partial(_run, name),
            description=description,
            kinds=("pytorch",) if evaluation else ("pytorch", "huggingface"),
            code_version=CODE_VERSION,
            checks=checks_of(name),
            external=True,
            owners=("team:training",),
            # An evaluation's rows are its records; a checkpoint is files.
            table="records" if evaluation else None,
            columns=Records if evaluation else None,
            pool="trainer",
            needs=("trainer", *(() if evaluation else ENTRIES[name].needs)),
            ranks=functools.partial(_ranks, name),
            settings=tuple(f"trainer.{word}" for word in settings_of(name)),
        )
    yield GraphStage(
        key=staircase.ASSET,
        deps=(),
        job="train",
        run=_staircase,
        kinds=("pytorch",),
        external=True,
        code_version=staircase.CODE_VERSION,
        checks=staircase.CHECKS,
        owners=("team:training",),
        pool="bench",
        needs=("trainer", "browser"),
        settings=("trainer.staircase",),
        description="Random, base, mid-training, offline RL, online RL and merge, tried on whole held-out episodes of "
        "MiniWoB++ and web sites, from the base that can see; by default in its short form, which shows that every "
        "part works and not how high it goes.",
    )


def trainer_config(given: Mapping[str, object] | None = None) -> dict[str, object]:
    """What is set of the trainer's settings: the deployment's `action_space` and `history`, its `trainer`,
    $VESPER_TRAINER over these, and over all what a command is given, settings within settings one by one. Raises
    `SettingsError` that names the file, the variable or the flag."""
    # Each layer checked by itself, so that the error names where the wrong setting stands.
    over(configured(), Environment.read().trainer, where="VESPER_TRAINER")
    over(configured(), given or {}, where="--config")
    deployment = deployments.load(trainer=given) if given else deployments.load()
    # Said only where it isn't the default, so that versions from before there was a choice stay.
    spoken = {} if deployment.action_space == ACTION_SPACE else {"action_space": deployment.action_space}
    config = {**spoken, **deployment.history.said(), **deployment.trainer}
    over(configured(), config, where="deployment: trainer")
    return dict(config)


def trainer_worlds(key: str) -> tuple[str, ...]:
    """The worlds that online RL opens in a stage, by its key."""
    name = key.partition("/")[2]
    named = over(configured(), trainer_config(), name).online.worlds
    return worlds_of(ENTRIES[name].domain if name in ENTRIES else "", named)


def domains() -> tuple[str, ...]:
    """The domains whose specialists are trained; those by default where nobody could train with the settings."""
    try:
        return over(configured(), trainer_config()).domains
    except (ValueError, TypeError):
        return USUAL


def success_judge() -> str:
    """The model that decides online RL's rollouts where no rule does; "" for none."""
    return over(configured(), trainer_config()).online.success_judge


def given_config(work: StageWork) -> dict[str, object]:
    """`trainer_config` with what the run of a stage sets over it."""
    return trainer_config(work.given.get("trainer"))


def inputs(key: str, given: Mapping[str, object] | None = None) -> tuple[str, ...]:
    """Asset keys that a stage of the trainer reads as $VESPER_TRAINER has it, and `given` over it, by its own key; none
    for other assets.
    Raises `ValueError` if that names specialists, or settings, that there aren't."""
    name = next((name for name in STAGES if asset_of(name) == key), None)
    return () if name is None else inputs_of(name, stage_settings(name, trainer_config(given)))


def _deps(name: str, config: Mapping[str, object] | None) -> tuple[str, ...]:
    """A stage's edges. Settings that nobody could train with (None: that nobody could read) keep no graph from loading,
    with the edges that it has without them: `preflight.trainer` refuses them before anything trains."""
    if config is None:
        return inputs_of(name)
    try:
        return tuple(dict.fromkeys(inputs_of(name, stage_settings(name, config))))
    except (ValueError, TypeError):
        return inputs_of(name)


def _beside(config: Mapping[str, object] | None) -> frozenset[str]:
    """Stages that only their own job starts; see `_deps` for settings that nobody could train with."""
    try:
        return beside_the_agent(over(configured(), config or {}))
    except (ValueError, TypeError):
        return beside_the_agent()


def _ranks(name: str, given: Mapping[str, Any]) -> int:
    return ranks_of(name, trainer_config(given.get("trainer")))


def _run(name: str, work: StageWork) -> Manifest:
    return run_stage(
        name,
        work.store.home,
        given_config(work),
        lambda event: work.on_event(event),
        progress=work.progress,
        judge=client_options(work.deployment.judge),
    )


def _staircase(work: StageWork) -> Manifest:
    def report(event: Mapping[str, object]) -> None:
        # Of its many events those that change something on the page.
        if event.get("kind") in ("stage_done", "evaluated"):
            work.on_event(event)

    config = staircase.config_of(stage_settings(staircase.ASSET, given_config(work)).staircase)
    return staircase.build_staircase(work.store, config, report)
