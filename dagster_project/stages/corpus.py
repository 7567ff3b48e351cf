"""The stages that see all sources: shards, mixture, held-out shards, cards; hygiene and task pool have own files."""

from collections.abc import Callable, Iterator, Sequence

from dagster_project.settings.deployment import Deployment
from dagster_project.stages import hygiene, task_pool
from dagster_project.stages.hygiene import with_gold
from dagster_project.stages.stage import GraphStage, StageWork
from dagster_project.stages.worth import with_promoted
from generators.generation.round_names import GOLD as GENERATED_GOLD
from pipelines.store.manifest import Manifest
from pipelines.training_data import mixture, shards
from pipelines.training_data.mixture import DUPLICATES, SCAN, Mixture
from pipelines.training_data.removed import CONTAMINATION, PEOPLE, SAFETY
from pipelines.training_data.shard_form import ShardIndex
from quality.cards import card
from schemas.ids import GENERATED_SOURCE
from trainer.settings.stages import HELDOUT


def stages(deployment: Deployment, names: Sequence[str]) -> Iterator[GraphStage]:
    """The fan-in over the sources `names`. What has no gold yet is passed over, and shown as such."""
    owners = deployment.owners
    recorded = tuple(f"gold/{name}" for name in names)
    # Rounds of generation are a source like any other from here on.
    whole = [*names, GENERATED_SOURCE]
    all_gold = (*recorded, GENERATED_GOLD)

    def over_gold(function: Callable[[StageWork, list[str]], Manifest]) -> Callable[[StageWork], Manifest]:
        return lambda work: function(work, with_gold(work, whole))

    def stage(
        key: str, deps: tuple[str, ...], run: Callable[[StageWork], Manifest], description: str, **more: object
    ) -> GraphStage:
        filled = {"job": "build_corpus", "kinds": ("parquet",), "owners": owners, **more}
        return GraphStage(key=key, deps=deps, run=run, description=description, **filled)  # type: ignore[arg-type]

    # Before the shards, which leave out what these find; the scan of the shards comes after them.
    yield from hygiene.stages(deployment, whole)
    yield stage(
        shards.ASSET,
        (*all_gold, CONTAMINATION, SAFETY, PEOPLE),
        over_gold(_shards),
        'Training samples with their encoded pictures, packed once; `datasets.load_dataset("parquet")` opens them.',
        kinds=("parquet", "huggingface"),
        table="index",
        columns=ShardIndex,
        code_version=shards.CODE_VERSION,
        checks=shards.CHECKS,
    )
    # Between shards and mixture: the mixture refuses shards that haven't passed.
    yield hygiene.scan(deployment, whole)
    yield stage(
        mixture.ASSET,
        # SAFETY is only waited for, and not read: nothing trains before the data was looked at.
        (shards.ASSET, DUPLICATES, SCAN, SAFETY),
        _mixture,
        "Which rows of which shards train, and how often: token shares by objective.",
        table="mixture",
        columns=Mixture,
        settings=("mixture",),
        code_version=mixture.CODE_VERSION,
        checks=mixture.CHECKS,
    )
    yield stage(
        HELDOUT,
        all_gold,
        over_gold(_heldout),
        "Samples of the test splits, packed like the training shards.",
        kinds=("parquet", "huggingface"),
        table="index",
        columns=ShardIndex,
        code_version=shards.CODE_VERSION,
        checks=shards.HELDOUT_CHECKS,
    )
    yield from task_pool.stages(deployment, names)
    cards_of = tuple(f"cards/{name}" for name in names)
    for name in names:
        yield GraphStage(
            key=f"cards/{name}",
            deps=(f"gold/{name}",),
            job="build_corpus",
            run=_card(name),
            owners=owners,
            description=f"Dataset card of {name}: counts, actions, losses, quarantine reasons, twelve samples drawn.",
            kinds=("markdown",),
            code_version=card.CODE_VERSION,
            checks=card.CHECKS,
        )
    yield stage(
        "cards/corpus",
        (*cards_of, mixture.ASSET),
        # Recorded sources only: generated trajectories have no native files to tell of.
        lambda work: card.build_corpus_card(work.store, names),
        "The card of the whole corpus: sources, licences, actions, objectives.",
        kinds=("markdown",),
        code_version=card.CODE_VERSION,
        checks=card.CORPUS_CHECKS,
    )


def _card(name: str) -> Callable[[StageWork], Manifest]:
    return lambda work: card.build_card(work.store, name)


def _shards(work: StageWork, names: list[str]) -> Manifest:
    return shards.build_shards(work.store, names, execution=work.execution)


def _heldout(work: StageWork, names: list[str]) -> Manifest:
    return shards.build_shards(work.store, names, HELDOUT, ("test",), execution=work.execution)


def _mixture(work: StageWork) -> Manifest:
    return mixture.build_mixture(work.store, config=with_promoted(work.store, work.deployment.mixture))
