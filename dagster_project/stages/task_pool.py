"""`task_pool/*`: tasks from functional maps, from gold episodes, and those that rounds have verified, in one pool."""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from dagster_project.settings.deployment import Deployment
from dagster_project.stages.hygiene import with_gold
from dagster_project.stages.stage import GraphStage, StageWork
from dagster_project.stages.training import domains
from generators.generation import dynamic_task_pool, static_task_pool
from generators.generation.functional_maps import MapConfig
from generators.generation.proposing.screen_tasks import ScreenProposer
from generators.tasks import task_pool
from generators.tasks.task_pool import PoolConfig
from generators.worlds.desktop.programs import PROGRAMS
from generators.worlds.desktop.session import find_base_missing
from pipelines.store.manifest import Manifest
from pipelines.training_data.removed import CONTAMINATION
from quality.model_client.client import ModelClient
from schemas.tables import Tasks


def stages(deployment: Deployment, names: Sequence[str]) -> Iterator[GraphStage]:
    """The pool over the gold of `names`, and what rounds of the generation loop have verified."""
    common: dict[str, Any] = {"kinds": ("parquet",), "owners": deployment.owners, "table": "tasks", "columns": Tasks}
    yield GraphStage(  # before the rounds of the generation loop, whose banks take nothing that it holds
        key=task_pool.STATIC,
        deps=(),
        job="refresh_sources",
        run=_static_tasks,
        checks=static_task_pool.CHECKS,
        needs=("browser",),
        code_version=task_pool.CODE_VERSION,
        description="Tasks from the functional maps of apps and sites.",
        **common,
    )
    yield GraphStage(
        key=task_pool.DYNAMIC,
        deps=(task_pool.STATIC, CONTAMINATION, *(f"gold/{name}" for name in names)),
        job="build_corpus",
        run=lambda work: _dynamic_tasks(work, with_gold(work, names)),
        checks=dynamic_task_pool.CHECKS,
        code_version=dynamic_task_pool.CODE_VERSION,
        description="Tasks inferred from gold episodes; kept if no task of the pool is too similar.",
        **common,
    )
    yield GraphStage(
        key=task_pool.SHARDS,
        deps=(task_pool.STATIC, task_pool.DYNAMIC, task_pool.GENERATED),
        job="build_corpus",
        run=lambda work: task_pool.build_shards(work.store),
        checks=task_pool.SHARD_CHECKS,
        code_version=task_pool.CODE_VERSION,
        description="The pool by strata of expected steps, ready for sampling in proportion.",
        **common,
    )


FEWER = MapConfig(page_platforms=("phone",), miniwob_seeds=1)
"""For a first look: each family and page once."""


def maps_of(deployment: Deployment) -> MapConfig:
    """How many tasks of functional maps are tried. Where computers have a specialist, it gets tasks: on pages, and, but
    for a first look, in the programs of a desktop that are here."""
    # A first look has desktop pages, too, where computers have a specialist: it would have no tasks else.
    tiny, computer = deployment.embedded.size == "tiny", "computer" in domains()
    if tiny:
        return replace(FEWER, page_platforms=("phone", "desktop")) if computer else FEWER
    # Without the desktop's base packages no program can be opened.
    if not computer or find_base_missing():
        return MapConfig()
    return MapConfig(desktop_programs=tuple(name for name, program in PROGRAMS.items() if program.installed()))


def pool_config(deployment: Deployment) -> PoolConfig:
    """The pool's settings, with the strata edges that `deployment.yaml` says."""
    return PoolConfig() if deployment.strata_edges is None else PoolConfig(edges=deployment.strata_edges)


def _static_tasks(work: StageWork) -> Manifest:
    config, maps = pool_config(work.deployment), maps_of(work.deployment)
    return static_task_pool.build_static(work.store, config=config, maps=maps)


def _dynamic_tasks(work: StageWork, names: list[str]) -> Manifest:
    said = work.deployment.task_pool
    # The client's connections are closed whatever becomes of the build.
    with contextlib.ExitStack() as stack:
        more: dict[str, Any] = {"config": pool_config(work.deployment), "most_unopened": said.most_unopened}
        if said.proposer:
            cache = work.store.home / "cache" / "proposer"
            client = ModelClient(str(said.proposer_url), said.proposer, cache, max_tokens=800)
            stack.callback(client.close)
            more["proposer"] = ScreenProposer(work.store, client)
        return dynamic_task_pool.build_dynamic(work.store, names, **more)
