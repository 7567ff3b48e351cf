"""What the stages of `stages.sources` run, and which judge they ask."""

from dataclasses import replace
from typing import Any

from dagster_project.stages.client_options import client_options
from dagster_project.stages.sources import embedded_version, follow, raw_folder
from dagster_project.stages.stage import StageWork
from generators.proving.embedded.build import build_raw
from generators.proving.embedded.sizes import PLANTED_WORDS
from pipelines.mapping.adapter import Raw
from pipelines.mapping.card import Descriptor
from pipelines.raw.pull import pull_source
from pipelines.raw.rawdata import register_raw
from pipelines.store.manifest import Manifest
from pipelines.unify.origin import NATIVE
from pipelines.unify.unify import unify_source
from quality.judges.registry import JudgeConfig, asks_a_model, build_judge
from quality.judges.verdicts import judge_source
from quality.refinement.gold import build_gold
from quality.refinement.rewriters import build_rewriter
from quality.review import promote
from trainer.stages.experiments import JudgeChoice, read


def raw(name: str, work: StageWork) -> Manifest:
    """Register the native files of a source, companion or suite: pulled first where they follow the hub, made where
    there are none and embedded data is allowed."""
    # Before it is registered, so that a version is what was just pulled.
    if (followed := follow(work.deployment, name)) is not None:
        stated = pull_source(
            followed.download, followed.folder, revision=followed.revision, update=True, endpoint=followed.endpoint
        )
        work.on_event({"event": "pulled", "told": stated})
    folder = work.deployment.native_folder(name)
    if folder is not None:
        revision = work.deployment.source(name).revision
        # A revision that nobody pinned isn't stated.
        return register_raw(work.store, name, folder, {"revision": revision} if revision else None)
    if not work.deployment.embedded.enabled:
        raise ValueError(
            f"raw/{name}: expected native files in {work.deployment.raw_root / name}, found none; put them there, "
            "or allow embedded data in deployment.yaml"
        )
    size = work.deployment.embedded.size
    # Left out where it isn't said: the makers have their own defaults.
    more: dict[str, Any] = {} if size is None else {"size": size}
    return build_raw(work.store, name, raw_folder(work, name), seed=work.deployment.embedded.seed, **more)


def unified(card: Descriptor, work: StageWork) -> Manifest:
    """Unify a source's records."""
    companions = {name: raw_folder(work, name) for name in card.companions}
    # Companions too: what a source is mapped with is what it was made from.
    inputs = {f"raw/{name}": work.store.require(f"raw/{name}").version for name in (card.id, *card.companions)}
    raw = Raw(raw_folder(work, card.id), companions)
    settings = work.deployment
    native = settings.native_folder(card.id) is not None
    bands = settings.source(card.id).changes
    if not native:
        # Embedded data plants words that nobody maps, so that quarantine is exercised.
        bands = bands.changed(words=(*bands.words, *PLANTED_WORDS.get(card.id, ())))
    return unify_source(
        work.store,
        card.id,
        raw,
        inputs=inputs,
        execution=work.execution,
        bands=bands,
        origin=NATIVE if native else embedded_version(settings),
        space=settings.action_space,
    )


def verdicts(name: str, work: StageWork) -> Manifest:
    """Have a source judged, by a judge that was admitted."""
    config = judge_config(work, work.deployment.judge.batch)
    judge = build_judge(config)
    # Before any source is judged by it.
    promote.admit(work.store, judge)
    moved = work.deployment.source(name).changes.scores
    return judge_source(work.store, name, judge, moved, config=config, execution=work.execution)


def verdicts_of_experiment(name: str, work: StageWork) -> Manifest:
    """Have a source judged by the judge of an experiment, which needs no admission: nothing is refined by it."""
    experiment = read(work.store, work.partition)
    said = JudgeChoice.parsed(experiment.settings.get("judge", {}))
    named = {key: getattr(said, key) for key in ("name", "base_url", "model") if getattr(said, key)}
    limits = {key: getattr(said, key) for key in ("read", "thoughts", "process") if getattr(said, key) is not None}
    settings = work.deployment.changed(judge=work.deployment.judge.changed(**limits))
    config = judge_config(replace(work, judge=replace(work.judge, **named), deployment=settings), settings.judge.batch)
    return judge_source(
        work.store,
        name,
        build_judge(config),
        settings.source(name).changes.scores,
        config=config,
        execution=work.execution,
        kept_as=experiment.asset(f"verdicts/{name}"),
    )


def gold(name: str, work: StageWork) -> Manifest:
    """Refine what a source's verdicts call for, and derive its samples."""
    config = judge_config(work)
    return build_gold(
        work.store,
        name,
        build_judge(config),
        build_rewriter(config),
        derivers=work.deployment.derivers,
        history=work.deployment.history,
        judge_config=config,
        execution=work.execution,
    )


def judge_config(work: StageWork, batch: bool = False) -> JudgeConfig:
    """Which judge a run asks, with its cache in the store and the deployment's limits; `batch`: by /batches."""
    settings = work.judge
    nano = work.store.current("checkpoints/nano_judge")
    config = JudgeConfig(
        settings.name,
        settings.base_url,
        settings.model,
        cache=work.store.home / "cache" / "judge",
        nano=None if nano is None else nano.file("nano.json").parent,
        read=work.deployment.judge.reader_used,
        thoughts=work.deployment.judge.thoughts,
        process=work.deployment.judge.process,
    )
    # Limits of requests mean nothing to a judge that asks no one.
    if not asks_a_model(config):
        return config
    return replace(config, client={**client_options(work.deployment.judge), "batch": batch})


def promote_answers(work: StageWork) -> dict[str, object]:
    """Freeze what people agreed on; the judge in use is asked about it once."""
    return promote.promote(work.store, build_judge(judge_config(work)))
