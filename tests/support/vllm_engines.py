"""An engine of vLLM's protocol on servers of a test, asked for replies, and held to the learner's own figures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from choice_world import GOAL, SIZE, picture, task

from generators.policies.policy import PolicyView
from trainer.modeling.checkpoint import Checkpoint, load_processor
from trainer.modeling.generation import Completion
from trainer.modeling.model import reply_logprobs
from trainer.modeling.sampler import POLICY
from trainer.online.rollouts import RolloutJob
from trainer.serving.checkpoint_policy import CheckpointPolicy
from trainer.settings.grpo import VllmConfig
from trainer.vllm.engine import VllmEngine


@contextmanager
def engine(
    loaded: Checkpoint, urls: list[str], root: Path, *, temperature: float = 1.0, models: Any = None, **changes: Any
) -> Iterator[VllmEngine]:
    assert loaded.folder is not None
    given: dict[str, Any] = {"timeout_s": 60.0, "wait_s": 60.0, "logprob_tolerance": 1e-3, **changes}
    config = VllmConfig(endpoints=tuple(urls), weights_dir=str(root), **given)
    with VllmEngine(
        models or {POLICY: loaded.model},
        load_processor(loaded.folder),
        config,
        temperature=temperature,
        max_new_tokens=24,
        run="run",
    ) as made:
        yield made


def row(loaded: Checkpoint) -> dict[str, Any]:
    return CheckpointPolicy(loaded).row(PolicyView(GOAL, picture(2, 0), SIZE, "web", ()))


def job(member: int = 0, **changes: Any) -> RolloutJob:
    return RolloutJob(task(2), "g", member, member, **changes)


def ask(made: VllmEngine, loaded: Checkpoint, member: int = 0, **changes: Any) -> tuple[Completion, int, int]:
    one = job(member, **changes)
    made.active.add(one.key)
    try:
        return made.ask(one, row(loaded), 7 + member)
    finally:
        with made.cond:
            made.active.discard(one.key)


def moved(model: Any, by: float) -> None:
    """Other weights."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(by * torch.randn(parameter.shape, generator=generator))


def gap(loaded: Checkpoint, reply: Completion, temperature: float = 1.0) -> float:
    """Nats between what the server told and the learner's own pass over the very token ids."""
    batch = loaded.processor.reply_batch([row(loaded)], [reply.token_ids])
    with torch.no_grad():
        found = reply_logprobs(loaded.model, batch, temperature, never=loaded.processor.never).logprobs[0]
    return float((found - torch.tensor(reply.logprobs)).abs().max())
