"""Replies as the learner takes them: dealt out to optimiser steps, and which log-probabilities are the old policy's."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import torch

from trainer.modeling.batches import Row
from trainer.rl.grpo import Advantages, padded


@dataclass(frozen=True)
class SampledReply:
    """A sampled reply (`logprobs` in nats) to the context of `row`, of trajectory `trajectory`. `stale`: other weights
    than the present ones sampled it; `compared`: a server with the present weights did, so that the learner's own
    log-probabilities should be the same; `advantage`: its own, None where it shares its trajectory's."""

    row: Row
    token_ids: Sequence[int]
    logprobs: Sequence[float]
    trajectory: int
    stale: bool = False
    compared: bool = False
    advantage: float | None = None


Reply = TypeVar("Reply", bound=SampledReply)


def by_step(
    replies: Sequence[SampledReply], advantages: Advantages, steps: int
) -> list[tuple[Sequence[SampledReply], Advantages]]:
    """The trajectories dealt out to optimiser steps, those of a group to different ones; a step's weights sum to what
    all summed to, so that its loss is a mean over as many groups as it holds."""
    counting = [index for index, weight in enumerate(advantages.weights) if weight > 0]
    # members of a group stand one after another, so each step gets a part of every comparison
    dealt = {index: place % steps for place, index in enumerate(counting)}
    found: list[tuple[Sequence[SampledReply], Advantages]] = []
    for step in range(min(steps, len(counting))):
        own = [weight if dealt.get(index) == step else 0.0 for index, weight in enumerate(advantages.weights)]
        # a step's weights again sum to what all summed to
        scale = math.fsum(advantages.weights) / math.fsum(own)
        some = [one for one in replies if dealt[one.trajectory] == step]
        found.append((some, replace(advantages, weights=tuple(weight * scale for weight in own))))
    return found


def as_served(reply: Reply) -> Reply:
    """A reply of the present weights, corrected and compared as that of a server with them; another as it is."""
    return reply if reply.stale else replace(reply, stale=True, compared=True)


def gaps_of(part: Sequence[SampledReply], logprobs: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """|learner's − sampler's| log-probability (nats) of each token of the replies that are compared."""
    compared = torch.tensor([one.compared for one in part], device=logprobs.device)
    recorded = padded([one.logprobs for one in part], logprobs)
    return (logprobs - recorded).abs()[mask & compared[:, None]]


def old_and_behaviour(
    part: Sequence[SampledReply], logprobs: torch.Tensor, proximal: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """(old, behaviour) [S, L], see `trainer.rl.learner`; `proximal` None: the weights are still those of the start."""
    recorded = padded([one.logprobs for one in part], logprobs)
    stale = torch.tensor([one.stale for one in part], device=logprobs.device)
    if not stale.any():
        return recorded, None
    start = logprobs.detach() if proximal is None else proximal
    old = torch.where(stale[:, None], start, recorded)
    return old, torch.where(stale[:, None], recorded, old)
