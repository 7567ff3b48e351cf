"""The generation loop's stages: one partition a round, and what all rounds together give the corpus and the task pool.

Rounds learn from each other through `feedback/verified`, which is promoted and never an edge.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dagster_project.settings.deployment import Deployment
from dagster_project.stages.stage import GraphStage, StageWork
from dagster_project.stages.task_pool import pool_config
from generators.execution.device_sources import DevicePlaces, open_pool
from generators.generation import gold, rounds, steering
from generators.generation.generated_pool import build_pool
from generators.generation.loop import BANK, CATALOGUE, TRAJECTORIES, VERIFIED, LoopConfig, LoopParts, round_number
from generators.generation.round_tables import CatalogueRows
from generators.generation.steering import policy_folder
from generators.generation.tables import SOURCE
from generators.policies.registry import POLICIES, build_policy
from generators.tasks.task_pool import GENERATED
from pipelines.store.manifest import Manifest
from schemas.tables import Samples, Tasks, Trajectories, TrajectoryRuns
from trainer.serving.checkpoint_policy import checkpoint_policies

if TYPE_CHECKING:
    from generators.execution.device_sources import DevicePlaces
    from generators.generation.loop import LoopConfig

GOLD = gold.ASSET
ROUND_STAGES = (CATALOGUE, BANK, TRAJECTORIES, VERIFIED)
VERSION = "1"


def stages(deployment: Deployment) -> Iterator[GraphStage]:
    """Four stages a round, then `gold/generated` and `task_pool/generated` over all rounds."""
    told = [
        (
            CATALOGUE,
            (),
            _catalogue,
            "catalogue",
            CatalogueRows,
            "What targets can do, as far as functional maps, screens and verified runs of earlier rounds say: counts, "
            "coverage, why tasks failed.",
        ),
        (
            BANK,
            (CATALOGUE,),
            _bank,
            "tasks",
            Tasks,
            "New tasks as executable contracts, like no task of the bank; the stratum mix is the same in every round.",
        ),
        (
            TRAJECTORIES,
            (BANK,),
            _trajectories,
            "trajectory_runs",
            TrajectoryRuns,
            "What the policy made of the tasks, on leased devices; a crash costs the step in flight.",
        ),
        (
            VERIFIED,
            (BANK, TRAJECTORIES),
            _verified,
            "trajectories",
            Trajectories,
            "Verdicts by rules, the world's own rule and several annotators; the yield, and the world's truth "
            "beside it.",
        ),
    ]
    for key, deps, run, table, columns, description in told:
        yield GraphStage(
            key=key,
            deps=deps,
            job="generate_round",
            run=run,
            description=description,
            kinds=("parquet",),
            code_version=VERSION,
            table=table,
            columns=columns,
            owners=deployment.owners,
            by_round=True,
            external=key == TRAJECTORIES,
            pool="devices" if key == TRAJECTORIES else None,
            needs=("ground",) if key == TRAJECTORIES else (),
        )
    yield GraphStage(
        key=GOLD,
        deps=(VERIFIED,),
        job="collect_rounds",
        run=_gold,
        kinds=("parquet",),
        code_version=VERSION,
        table="samples",
        columns=Samples,
        owners=deployment.owners,
        tags={"source": SOURCE},
        description="Verified trajectories of all rounds as a source of the corpus, and the samples derived from them.",
    )
    yield GraphStage(
        key=GENERATED,
        deps=(VERIFIED,),
        job="collect_rounds",
        run=_pool,
        kinds=("parquet",),
        code_version=VERSION,
        table="tasks",
        columns=Tasks,
        owners=deployment.owners,
        description="Tasks that a verified trajectory has done, with the steps that the shortest one took.",
    )


def loop_config(settings: Mapping[str, object]) -> LoopConfig:
    """The loop that `deployment.yaml` describes. Raises `ValueError` for a setting that there isn't."""
    from dataclasses import fields

    known = {field.name for field in fields(LoopConfig)} - {"verify", "evaluations", "agent"}
    if unknown := sorted(set(settings) - known):
        raise ValueError(f"generation: unknown {unknown[0]!r}; known are {', '.join(sorted(known))}")
    told: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()}
    return LoopConfig(**told)


def _number(work: StageWork) -> int:
    return round_number(work.partition)


def config_of(work: StageWork) -> LoopConfig:
    """The loop for a round: its tasks' difficulty follows the promoted evaluations if the deployment says so, and a
    policy `checkpoint` is the promoted agent. A round keeps what it began with."""
    config = steering.with_agent(work.store, loop_config(work.deployment.generation.loop), work.partition)
    return steering.steered(work.store, config, work.partition) if work.deployment.generation.steer else config


def _catalogue(work: StageWork) -> Manifest:
    return rounds.build_catalogue(work.store, _number(work), config_of(work))


def _bank(work: StageWork) -> Manifest:
    return rounds.build_bank(work.store, _number(work), config_of(work))


def _trajectories(work: StageWork) -> Manifest:
    def tell(done: Any, number: int, total: int) -> None:
        work.on_event({"event": "trajectory", "number": number, "of": total, "ended": done.ended})

    config = config_of(work)
    policies = _agent(work, config) if config.policy == "checkpoint" else None
    with open_pool(places(work.deployment), [config.ground]) as pool:
        parts = LoopParts(pool=pool, policies=policies, workers=work.deployment.generation.workers, progress=tell)
        return rounds.build_trajectories(work.store, _number(work), config, parts)


def places(deployment: Deployment) -> DevicePlaces:
    """Where a round's tasks are executed. No part of what a round is: another device makes nothing anew."""
    return DevicePlaces.of(deployment.generation.device, deployment.generation.site_url or "")


def _agent(work: StageWork, config: LoopConfig) -> Callable[[LoopConfig], Any]:
    """The promoted agent as a policy."""
    _, folder = policy_folder(work.store, config.agent)
    made = build_policy("checkpoint", {**POLICIES, "checkpoint": checkpoint_policies}, checkpoint=Path(folder))
    return lambda _: made


def _verified(work: StageWork) -> Manifest:
    return rounds.build_verified(work.store, _number(work), config_of(work))


def _gold(work: StageWork) -> Manifest:
    return gold.build_generated(work.store)


def _pool(work: StageWork) -> Manifest:
    return build_pool(work.store, pool_config(work.deployment))
