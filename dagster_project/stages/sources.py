"""Per source: `raw` → `unified` → `verdicts` → `gold`, from the adapter registry. A new adapter is a new chain."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dagster_project.settings import raw_folders
from dagster_project.settings.deployment import Deployment
from dagster_project.settings.environment import Environment
from dagster_project.stages.deployment_names import check_sources
from dagster_project.stages.stage import GraphStage, NamedFunction, StageWork
from generators.proving.embedded import sizes
from pipelines import sources as adapters
from pipelines.mapping.card import Descriptor, Download
from pipelines.raw import rawdata
from pipelines.raw.upstream import pulled_before
from pipelines.unify import unify
from quality.judges import verdicts
from quality.judges.registry import JudgeConfig, asks_a_model
from quality.refinement import gold
from schemas.settings import SettingsError
from schemas.tables import Samples, Steps, Verdicts

FUNCTIONS = "dagster_project.stage_functions.sources"
RAW_VERSION = f"1.{sizes.CODE_VERSION}"
"""Of the listing of native files, and of the generator of those that are embedded."""


def enabled(deployment: Deployment) -> list[str]:
    """Ids of the sources that feed the corpus, sorted: allowed, not switched off, with files or told to be there.
    Raises `DeploymentError` if the deployment names an unknown one, or says of one what would have no effect."""
    check_sources(deployment)
    known = adapters.registry()
    chosen = []
    for name, adapter in known.items():
        state = deployment.state(name, adapter.descriptor.licence)
        # Waiting ones only where somebody said that they are to be in: their stages then ask for files.
        if state in ("native", "embedded") or (state == "waiting" and deployment.source(name).enabled):
            chosen.append(name)
    return chosen


def outside(deployment: Deployment) -> dict[str, str]:
    """Sources that are shown but feed nothing, with the reason."""
    known = adapters.registry()
    inside = set(enabled(deployment))
    return {name: _why(known[name].descriptor, deployment) for name in known if name not in inside}


def _why(card: Descriptor, deployment: Deployment) -> str:
    state = deployment.state(card.id, card.licence)
    if state == "off":
        return "Switched off in deployment.yaml: nothing of it enters the corpus."
    if state == "licence":
        return f"Not ingested: {deployment.licences.refuses(card.licence)}."
    return f"Waiting for native files: `vesper sources pull {card.id}`, then reload the definitions.\n\n{card.origin}"


def stages(deployment: Deployment) -> Iterator[GraphStage]:
    """The chains of all enabled sources; companions (such as Rico's screens) come first."""
    known = adapters.registry()
    names = enabled(deployment)
    # A companion may serve several sources, and is one asset.
    for companion in sorted({c for name in names for c in known[name].descriptor.companions}):
        yield GraphStage(
            key=f"raw/{companion}",
            deps=(),
            job="refresh_sources",
            run=NamedFunction(f"{FUNCTIONS}:raw", (companion,)),
            description=f"Native files of {companion}, which other sources' records point to.",
            kinds=("file",),
            code_version=RAW_VERSION,
            checks=rawdata.CHECKS,
            tags={"companion": "true"},
            needs=("files",),
            owners=deployment.source(companion).owners or deployment.owners,
        )
    for name in names:
        # Its action space is the deployment's, and part of the mapping's version.
        mapping = adapters.get(name, deployment.action_space).mapping_version
        yield from _chain(known[name].descriptor, mapping, deployment)


def _chain(card: Descriptor, version: str, deployment: Deployment) -> Iterator[GraphStage]:
    settings = deployment.source(card.id)
    owners = settings.owners or deployment.owners
    tags = {"source": card.id, "licence": slug(card.licence), "language": slug(card.language)}
    # Keys without values, since Dagster's tags can't hold lists.
    tags |= {f"platform/{slug(name)}": "" for name in card.platforms}
    tags |= {f"objective/{slug(name)}": "" for name in card.objectives}
    if settings.revision:
        tags["revision"] = slug(settings.revision)
    common: dict[str, Any] = {"job": "refresh_sources", "owners": owners, "tags": tags}
    # Companions are inputs like the native files: their pictures are read while mapping.
    native = (f"raw/{card.id}", *(f"raw/{name}" for name in card.companions))
    # The table that people look at first: steps where the source has them, else samples.
    step_source = "navigation" in card.objectives
    yield GraphStage(
        key=f"raw/{card.id}",
        deps=(),
        run=NamedFunction(f"{FUNCTIONS}:raw", (card.id,)),
        kinds=("file",),
        code_version=RAW_VERSION,
        checks=rawdata.CHECKS,
        needs=("files",),
        description=f"{card.title}: native files as they came.\n\n{card.origin}\n\nLicence: {card.licence}",
        **common,
    )
    yield GraphStage(
        key=f"unified/{card.id}",
        deps=native,
        run=NamedFunction(f"{FUNCTIONS}:unified", (card,)),
        kinds=("parquet",),
        code_version=f"{unify.CODE_VERSION}.{version}",
        table="steps" if step_source else "samples",
        columns=Steps if step_source else Samples,
        checks=unify.CHECKS,
        needs=("engine",),
        description=f"{card.title} in the unified action space; what can't be mapped is quarantined with reasons.\n\n"
        f"Native frame: {card.frame}",
        **common,
    )
    yield GraphStage(
        key=f"verdicts/{card.id}",
        deps=(f"unified/{card.id}",),
        run=NamedFunction(f"{FUNCTIONS}:verdicts", (card.id,)),
        kinds=("parquet",),
        code_version=verdicts.CODE_VERSION,
        table="verdicts",
        columns=Verdicts,
        checks=verdicts.CHECKS,
        pool=judge_pool(),
        needs=("judge", "engine"),
        settings=("judge",),
        description="Round 0 of the judge: alignment of each step or sample with its screen, reachability of each "
        "episode, 0 to 10.",
        **common,
    )
    yield GraphStage(
        key=f"gold/{card.id}",
        deps=(f"unified/{card.id}", f"verdicts/{card.id}"),
        run=NamedFunction(f"{FUNCTIONS}:gold", (card.id,)),
        kinds=("parquet",),
        code_version=gold.CODE_VERSION,
        table="samples",
        columns=Samples,
        checks=gold.CHECKS,
        pool=judge_pool(),
        needs=("judge", "engine"),
        settings=("judge",),
        description="What was kept, rewritten or reconstructed, judged again until nothing changes; and the training "
        "samples derived from it.",
        **common,
    )


def judge_pool() -> str | None:
    """The pool of stages that ask a model, whose ceiling one at a time keeps; none for a judge that asks none."""
    try:
        said = Environment.read()
    except SettingsError:  # the graph loads; whoever runs a stage is told
        return "judge"
    return "judge" if asks_a_model(JudgeConfig(said.judge, said.judge_base_url or None)) else None


def slug(text: str) -> str:
    """Text as a Dagster tag value: letters, digits, `_`, `-` and `.`, at most 63 of them."""
    # Cut first, then stripped once more: the cut may end in a dash.
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-._")[:63].strip("-._") or "unknown"


def raw_folder(work: StageWork, name: str) -> Path:
    """Where a source's native files lie: the deployment's folder, else that of the embedded data."""
    return raw_folders.raw_folder(work.deployment, work.store.home, name)


@dataclass(frozen=True, slots=True)
class Followed:
    """A source whose raw files follow a repository of the hub."""

    download: Download
    folder: Path
    revision: str | None
    endpoint: str | None


def follow(settings: Deployment, name: str) -> Followed | None:
    """How a source's raw files follow the hub; None if they don't: the deployment doesn't say so, nobody knows their
    repository, or they were put here by hand."""
    adapter = adapters.registry().get(name)
    download = adapter.descriptor.download if adapter is not None else None
    if not settings.upstream.hub or download is None or not download.repo:
        return None
    said = settings.source(name)
    folder = settings.native_folder(name) or settings.raw_root / name
    # An empty folder, or none, follows the hub only where the source was asked for by name.
    empty = not folder.is_dir() or not any(folder.iterdir())
    if pulled_before(folder) or (empty and said.enabled):
        return Followed(download, folder, said.revision, settings.upstream.endpoint)
    return None


def embedded_version(settings: Deployment) -> str:
    """Embedded data is what its generator makes of its settings."""
    return f"embedded {RAW_VERSION} {settings.embedded.size or 'default'} {settings.embedded.seed}"
