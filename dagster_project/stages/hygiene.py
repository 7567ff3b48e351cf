"""What keeps the corpus clean across sources: fingerprints of evaluation data, contamination, duplicates, the scan."""

import functools
from collections.abc import Iterator, Sequence

from dagster_project.settings.deployment import Deployment
from dagster_project.stages import sources
from dagster_project.stages.stage import GraphStage, NamedFunction, StageWork
from pipelines import suites
from pipelines.mapping.adapter import Raw
from pipelines.raw import rawdata
from pipelines.store.files import StoreError
from pipelines.store.manifest import Manifest
from pipelines.training_data.shards import ASSET as SHARDS
from quality.contamination import contamination, fingerprints, shard_scan
from quality.contamination.split_fingerprints import build_split_fingerprints
from quality.duplicates import dedup, screen_owners
from schemas.tables import Pairs


def prints(deployment: Deployment, names: Sequence[str]) -> Iterator[GraphStage]:
    """`raw/<suite>` → `fingerprints/<suite>` for the suites whose files are here, and the test splits of sources."""
    for name, suite in suites.registry().items():
        # Suites without files are shown as waiting (`absent`), not as stages that can't run.
        if deployment.native_folder(name) is None:
            continue
        yield GraphStage(
            key=f"raw/{name}",
            deps=(),
            job="refresh_sources",
            run=NamedFunction(f"{sources.FUNCTIONS}:raw", (name,)),
            kinds=("file",),
            needs=("files",),
            code_version=sources.RAW_VERSION,
            checks=rawdata.CHECKS,
            tags={"evaluation": "true"},
            owners=deployment.source(name).owners or deployment.owners,
            description=f"{suite.card.title}: evaluation data, never trained on.\n\n{suite.card.origin}",
        )
        yield _prints(name, f"raw/{name}", functools.partial(_suite, name), deployment)
    # A source's own test split is evaluation data as well, and comes from its unified rows.
    for name in split_sources(names):
        split = fingerprints.split_name(name)
        yield _prints(split, f"unified/{name}", functools.partial(_split, name), deployment)


def _prints(name: str, dep: str, run: functools.partial[Manifest], deployment: Deployment) -> GraphStage:
    return GraphStage(
        key=fingerprints.asset_of(name),
        deps=(dep,),
        job="refresh_sources",
        run=run,
        kinds=("parquet",),
        table="items",
        columns=fingerprints.Items,
        checks=fingerprints.CHECKS,
        code_version=fingerprints.CODE_VERSION,
        owners=deployment.owners,
        tags={"evaluation": "true"},
        description="Hashes and words by which training data is held against this evaluation data; no row to train on.",
    )


def split_sources(names: Sequence[str]) -> list[str]:
    """The sources among `names` whose test split is evaluation data."""
    return [name for name in fingerprints.SPLIT_SOURCES if name in names]


def absent(deployment: Deployment) -> dict[str, str]:
    """Suites without native files, with what to do."""
    return {
        name: f"Waiting for native files of {suite.card.title}: until they are in {name}/ below the raw root, training "
        f"data isn't held against it, and no checkpoint is evaluated on it.\n\n{suite.card.origin}"
        for name, suite in suites.registry().items()
        if deployment.native_folder(name) is None
    }


def stages(deployment: Deployment, names: Sequence[str]) -> Iterator[GraphStage]:
    """Contamination and duplicates over the gold of `names`; the scan comes after the shards (`scan`)."""
    gold = tuple(f"gold/{name}" for name in names)
    # The same list as the stages above, so that no suite is held against nothing.
    evaluations = tuple(stage.key for stage in prints(deployment, names) if stage.group == "fingerprints")
    yield GraphStage(
        key=contamination.ASSET,
        deps=(*gold, *evaluations),
        job="build_corpus",
        kinds=("parquet", "faiss"),
        run=lambda work: contamination.find_contamination(
            work.store, with_gold(work, names), _wanted(work, names), work.execution
        ),
        code_version=contamination.CODE_VERSION,
        table="hits",
        columns=contamination.Hits,
        checks=contamination.CHECKS,
        owners=deployment.owners,
        description="Training items that evaluation data holds too, by picture and by words; they go to quarantine, "
        "each beside what it equals.",
    )
    yield GraphStage(
        key=screen_owners.ASSET,
        deps=gold,
        job="build_corpus",
        kinds=("parquet",),
        run=lambda work: screen_owners.find_screen_owners(work.store, with_gold(work, names)),
        code_version=screen_owners.CODE_VERSION,
        table="copies",
        columns=screen_owners.Copies,
        checks=screen_owners.CHECKS,
        owners=deployment.owners,
        description="Screens and recordings that several sources share, and the one source each belongs to.",
    )
    yield GraphStage(
        key=dedup.ASSET,
        deps=(*gold, screen_owners.ASSET),
        job="build_corpus",
        kinds=("parquet", "faiss"),
        run=lambda work: dedup.find_duplicates(work.store, with_gold(work, names)),
        code_version=dedup.CODE_VERSION,
        table="pairs",
        columns=Pairs,
        checks=dedup.CHECKS,
        owners=deployment.owners,
        description="Items that say the same about the same thing, by cosine similarity; `keep` is recomputed from the "
        "pairs, so a withdrawn source revives what it had displaced.",
    )


def scan(deployment: Deployment, names: Sequence[str]) -> GraphStage:
    """The blocking look at the packed shards."""
    evaluations = tuple(stage.key for stage in prints(deployment, names) if stage.group == "fingerprints")
    return GraphStage(
        key=shard_scan.ASSET,
        deps=(SHARDS, *evaluations),
        job="build_corpus",
        kinds=("parquet",),
        run=lambda work: shard_scan.scan_shards(work.store, _suites(), work.execution),
        code_version=shard_scan.CODE_VERSION,
        table="leaks",
        columns=shard_scan.Leaks,
        checks=shard_scan.CHECKS,
        owners=deployment.owners,
        description="The shards read as a trainer reads them: nothing of an evaluation suite may stand in them, "
        "whatever was removed before. The mixture refuses shards that haven't passed.",
    )


def with_gold(work: StageWork, names: Sequence[str]) -> list[str]:
    """Sources that have a last good `gold`. Raises `StoreError` if none has."""
    # A source that has none yet joins in as soon as it has: the fan-in waits for nobody.
    found = [name for name in names if work.store.current(f"gold/{name}") is not None]
    if not found:
        raise StoreError("no source has gold yet; run refresh_sources first")
    return found


def _wanted(work: StageWork, names: Sequence[str]) -> list[str]:
    """Suites that the gold of `names` has to be held against: all of them, and of Vesper's own data, which no suite was
    made from, the test splits beside it."""
    # Data that Vesper drew itself can't have leaked from any published suite.
    native = any(work.deployment.native_folder(name) is not None for name in names)
    return _suites() if native else [fingerprints.split_name(name) for name in split_sources(names)]


def _suites() -> list[str]:
    return fingerprints.suite_names()


def _suite(name: str, work: StageWork) -> Manifest:
    return fingerprints.build_fingerprints(work.store, name, Raw(sources.raw_folder(work, name)))


def _split(name: str, work: StageWork) -> Manifest:
    return build_split_fingerprints(work.store, name, work.execution)
