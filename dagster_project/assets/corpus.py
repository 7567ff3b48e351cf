"""The stages that see all sources: shards, mixture, held-out shards, task pool, cards; hygiene has its own file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from dagster_project.assets import generation, hygiene
from dagster_project.assets.hygiene import with_gold
from dagster_project.deployment import Deployment
from dagster_project.graph import Stage, Work
from generators.generation import static_task_pool
from generators.tasks import task_pool
from generators.tasks.task_pool import PoolConfig
from pipelines.store.manifest import Manifest
from pipelines.training_data import mixture, shards
from pipelines.training_data.mixture import Mixture
from pipelines.training_data.shards import ShardIndex
from quality.cards import card as cards
from schemas.tables import Tasks

HELDOUT = "evaluations/heldout"


def stages(deployment: Deployment, names: Sequence[str]) -> Iterator[Stage]:
    """The fan-in over the sources `names`. What has no gold yet is passed over, and shown as such."""
    owners = deployment.owners
    recorded = tuple(f"gold/{name}" for name in names)
    whole = [*names, generation.SOURCE]
    gold = (*recorded, generation.GOLD)

    def over(some: Sequence[str]) -> Callable[[Callable[[Work, list[str]], Manifest]], Callable[[Work], Manifest]]:
        return lambda function: lambda work: function(work, with_gold(work, some))

    over_gold = over(whole)

    def stage(
        key: str, deps: tuple[str, ...], run: Callable[[Work], Manifest], description: str, **more: object
    ) -> Stage:
        filled = {"job": "build_corpus", "kinds": ("parquet",), "owners": owners, **more}
        return Stage(key=key, deps=deps, run=run, description=description, **filled)  # type: ignore[arg-type]

    yield from hygiene.stages(deployment, whole)
    yield stage(
        "mid_training/shards",
        (*gold, "hygiene/contamination", "hygiene/safety", "hygiene/human_verdicts"),
        over_gold(_shards),
        'Training samples with their encoded pictures, packed once; `datasets.load_dataset("parquet")` opens them.',
        kinds=("parquet", "huggingface"),
        table="index",
        columns=ShardIndex,
        code_version=shards.CODE_VERSION,
    )
    yield hygiene.scan(deployment, whole)
    yield stage(
        "mid_training/mixture",
        ("mid_training/shards", "hygiene/duplicates", "hygiene/shard_scan", "hygiene/safety"),
        _mixture,
        "Which rows of which shards train, and how often: token shares by objective.",
        table="mixture",
        columns=Mixture,
        code_version=mixture.CODE_VERSION,
    )
    yield stage(
        HELDOUT,
        gold,
        over_gold(_heldout),
        "Samples of the test splits, packed like the training shards.",
        kinds=("parquet", "huggingface"),
        table="index",
        columns=ShardIndex,
        code_version=shards.CODE_VERSION,
    )
    yield from _task_pool(stage, over(names), recorded)
    cards_of = tuple(f"cards/{name}" for name in names)
    for name in names:
        yield Stage(
            key=f"cards/{name}",
            deps=(f"gold/{name}",),
            job="build_corpus",
            run=_card(name),
            owners=owners,
            description=f"Dataset card of {name}: counts, actions, losses, quarantine reasons, twelve samples drawn.",
            kinds=("markdown",),
            code_version=cards.CODE_VERSION,
        )
    yield stage(
        "cards/corpus",
        (*cards_of, "mid_training/mixture"),
        lambda work: cards.build_corpus_card(work.store, names),
        "The card of the whole corpus: sources, licences, actions, objectives.",
        kinds=("markdown",),
        code_version=cards.CODE_VERSION,
    )


def _task_pool(
    stage: Callable[..., Stage], over_gold: Callable[..., Callable[[Work], Manifest]], gold: tuple[str, ...]
) -> Iterator[Stage]:
    yield stage(  # before the rounds of the generation loop, whose banks take nothing that it holds
        "task_pool/static",
        (),
        _static_tasks,
        "Tasks from the functional maps of apps and sites.",
        table="tasks",
        columns=Tasks,
        code_version=task_pool.CODE_VERSION,
        needs=("browser",),
        job="refresh_sources",
    )
    yield stage(
        "task_pool/dynamic",
        ("task_pool/static", "hygiene/contamination", *gold),
        over_gold(_dynamic_tasks),
        "Tasks inferred from gold episodes; kept if no task of the pool is too similar.",
        table="tasks",
        columns=Tasks,
        code_version=task_pool.CODE_VERSION,
    )
    yield stage(
        "task_pool/shards",
        ("task_pool/static", "task_pool/dynamic", generation.POOL),
        _task_shards,
        "The pool by strata of expected steps, ready for sampling in proportion.",
        table="tasks",
        columns=Tasks,
        code_version=task_pool.CODE_VERSION,
    )


def _card(name: str) -> Callable[[Work], Manifest]:
    return lambda work: cards.build_card(work.store, name)


def _shards(work: Work, names: list[str]) -> Manifest:
    return shards.build_shards(work.store, names)


def _heldout(work: Work, names: list[str]) -> Manifest:
    return shards.build_shards(work.store, names, HELDOUT, ("test",))


def _mixture(work: Work) -> Manifest:
    return mixture.build_mixture(work.store)


def pool_config(deployment: Deployment) -> PoolConfig:
    """The pool's settings, with the strata edges that `deployment.yaml` says."""
    return PoolConfig() if deployment.strata_edges is None else PoolConfig(edges=deployment.strata_edges)


def _static_tasks(work: Work) -> Manifest:
    return static_task_pool.build_static(work.store, config=pool_config(work.deployment))


def _dynamic_tasks(work: Work, names: list[str]) -> Manifest:
    return task_pool.build_dynamic(work.store, names, config=pool_config(work.deployment))


def _task_shards(work: Work) -> Manifest:
    return task_pool.build_shards(work.store)
