"""What the stages of `stages.generation` run."""

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from dagster_project.settings.deployment import Deployment
from dagster_project.stages.stage import StageWork
from dagster_project.stages.task_pool import pool_config
from generators.execution.device_sources import DevicePlaces, open_pool
from generators.generation import gold as gold_stage
from generators.generation import rounds, steering
from generators.generation.generated_pool import build_pool
from generators.generation.loop import LoopConfig, LoopParts
from generators.generation.round_names import round_number
from generators.generation.steering import POLICY, policy_folder
from generators.policies.registry import POLICIES, build_policy
from pipelines.store.frozen import frozen_inputs
from pipelines.store.manifest import Manifest
from schemas.settings import nearest
from trainer.serving.checkpoint_policy import checkpoint_policies


def loop_config(settings: Mapping[str, object]) -> LoopConfig:
    """The loop that `deployment.yaml` describes. Raises `ValueError` for a setting that there isn't."""
    known = {field.name for field in fields(LoopConfig)} - {"verify", "evaluations", "agent"}
    if unknown := sorted(set(settings) - known):
        raise ValueError(f"generation: unknown {unknown[0]!r}; {nearest(unknown[0], known)}")
    facts: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()}
    return LoopConfig(**facts)


def _number(work: StageWork) -> int:
    return round_number(work.partition)


def config_of(work: StageWork) -> LoopConfig:
    """The loop for a round: its tasks' difficulty follows the promoted evaluations if the deployment says so, and a
    policy `checkpoint` is the promoted agent. A round keeps what it began with."""
    config = steering.with_agent(work.store, loop_config(work.deployment.generation.loop), work.partition)
    return steering.steered(work.store, config, work.partition) if work.deployment.generation.steer else config


def catalogue(work: StageWork) -> Manifest:
    """Build a round's catalogue."""
    return rounds.build_catalogue(work.store, _number(work), config_of(work))


def bank(work: StageWork) -> Manifest:
    """Propose a round's tasks."""
    return rounds.build_bank(work.store, _number(work), config_of(work))


def trajectories(work: StageWork) -> Manifest:
    """Execute a round's tasks where the deployment says."""

    def report(done: Any, number: int, total: int) -> None:
        work.on_event({"event": "trajectory", "number": number, "of": total, "ended": done.ended})

    config = config_of(work)
    policies = _agent(work, config) if config.policy == "checkpoint" else None
    with open_pool(places(work.deployment), [config.ground]) as pool:
        parts = LoopParts(pool=pool, policies=policies, workers=work.deployment.generation.workers, progress=report)
        return rounds.build_trajectories(work.store, _number(work), config, parts)


def places(deployment: Deployment) -> DevicePlaces:
    """Where a round's tasks are executed. No part of what a round is: another device makes nothing anew."""
    return DevicePlaces.of(deployment.generation.device, deployment.generation.site_url or "")


def _agent(work: StageWork, config: LoopConfig) -> Callable[[LoopConfig], Any]:
    """The promoted agent as a policy."""
    _, folder = policy_folder(work.store, config.agent)
    policy = build_policy("checkpoint", {**POLICIES, "checkpoint": checkpoint_policies}, checkpoint=Path(folder))
    acting = replace(policy, inputs=frozen_inputs(work.store.home, POLICY, config.agent))
    return lambda _: acting


def verified(work: StageWork) -> Manifest:
    """Verify a round's trajectories."""
    return rounds.build_verified(work.store, _number(work), config_of(work))


def gold(work: StageWork) -> Manifest:
    """Collect the verified trajectories of all rounds."""
    return gold_stage.build_generated(work.store, work.deployment.trajectories, work.deployment.history)


def pool(work: StageWork) -> Manifest:
    """Collect the tasks that rounds have verified."""
    return build_pool(work.store, pool_config(work.deployment))
