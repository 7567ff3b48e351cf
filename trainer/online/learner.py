"""The update: trajectory-level GRPO on groups of rollouts (METHOD §7).

A trajectory is T separate (context, reply) samples that share one advantage, each weighted by the reply tokens of the
whole trajectory. Minimised is `L_GRPO + β·KL − c_k·H`, c_k = c_0·σ^k (see `trainer.grpo`).

What the present policy sampled has its recorded log-probabilities as the old ones. For replies of older weights, for
replayed ones and for those of a server, the old policy is the proximal one (the weights that the update starts from),
the recorded log-probabilities are the behaviour's, and each term is multiplied by min(π_prox/π_behaviour, C).
"""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from trainer.batches import Batch, Processor
from trainer.grpo import Advantages, GrpoConfig, LossParts, entropy_coefficient, grpo_loss, padded
from trainer.model import freeze_vision, reply_logprobs
from trainer.online.config import OnlineConfig
from trainer.online.rollouts import Rollout, Sample

log = logging.getLogger(__name__)
LARGE_GAP = 0.1
MEANS = ("kl", "entropy", "ratio", "clip_low", "clip_high")


@dataclass(frozen=True)
class Placed:
    """A sample of trajectory `trajectory`. `stale`: other weights than the present ones made it."""

    sample: Sample
    trajectory: int
    stale: bool


def placed_samples(
    rollouts: Sequence[Rollout], advantages: Advantages, version: int, *, correct_all: bool = False
) -> list[Placed]:
    """The samples of the trajectories that count in the loss, in order."""
    return [
        Placed(sample, index, correct_all or rollout.replayed or sample.version != version)
        for index, rollout in enumerate(rollouts) if advantages.weights[index] > 0
        for sample in rollout.samples
    ]  # fmt: skip


class Learner:
    """Policy, reference (None with β = 0) and optimiser. `state` and `load` hold all of it but the configuration."""

    def __init__(self, model: Any, processor: Processor, config: OnlineConfig) -> None:
        self.model, self.processor, self.config = model, processor, config
        self.reference = copy.deepcopy(model).eval().requires_grad_(False) if config.grpo.beta > 0 else None
        freeze_vision(model, config.freeze_vision)
        self.optimizer = torch.optim.AdamW(
            model.parameters(), lr=config.learning_rate, betas=(0.9, 0.95), weight_decay=config.weight_decay
        )

    def state(self) -> dict[str, Any]:
        """For `torch.save`."""
        reference = None if self.reference is None else self.reference.state_dict()
        return {"model": self.model.state_dict(), "reference": reference, "optimizer": self.optimizer.state_dict()}

    def load(self, state: dict[str, Any]) -> None:
        """The inverse of `state`."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if self.reference is not None:
            self.reference.load_state_dict(state["reference"])

    def learning_rate(self, update: int) -> float:
        """Of update `update`, the first being 0: warmed up, then constant."""
        return self.config.learning_rate * min(1.0, (update + 1) / max(1, self.config.warmup_steps))

    def update(self, rollouts: Sequence[Rollout], advantages: Advantages, update: int) -> dict[str, float]:
        """`num_iterations` optimiser steps; → figures of the last one. The weights at the start have the version
        `update`. Raises `FloatingPointError` for a gradient that isn't finite."""
        # an asynchronous run that was killed may hold replies of weights that were lost, under any version; a server's
        # kernels aren't the learner's, so what it tells is never the learner's own log-probability
        correct_all = self.config.mode == "async" or self.config.rollout_engine == "vllm"
        placed = placed_samples(rollouts, advantages, update, correct_all=correct_all)
        if not placed:
            return {}
        cuts = range(0, len(placed), self.config.micro_batch)
        parts = [placed[cut : cut + self.config.micro_batch] for cut in cuts]
        tokens = [rollout.tokens for rollout in rollouts]
        grpo = replace(
            self.config.grpo,
            entropy_coef=entropy_coefficient(self.config.grpo.entropy_coef, self.config.entropy_decay, update),
        )
        proximal = self._proximal(parts) if self.config.num_iterations > 1 else [None] * len(parts)
        figures: dict[str, float] = {}
        for _ in range(self.config.num_iterations):
            figures = self._step(parts, proximal, advantages, tokens, grpo, update)
        return {**figures, "entropy_coef": grpo.entropy_coef}

    def _batch(self, part: Sequence[Placed]) -> Batch:
        rows, replies = [one.sample.row() for one in part], [one.sample.token_ids for one in part]
        parameter = next(self.model.parameters())
        return self.processor.reply_batch(rows, replies).to(parameter.device, parameter.dtype)

    def _proximal(self, parts: Sequence[Sequence[Placed]]) -> list[torch.Tensor]:
        self.model.eval()
        with torch.no_grad():
            return [self._logprobs(self.model, self._batch(part)).logprobs for part in parts]

    def _logprobs(self, model: Any, batch: Batch) -> Any:
        return reply_logprobs(model, batch, self.config.temperature, never=self.processor.never)

    def _step(
        self, parts: Sequence[Sequence[Placed]], proximal: Sequence[torch.Tensor | None], advantages: Advantages,
        tokens: Sequence[int], grpo: GrpoConfig, update: int,
    ) -> dict[str, float]:  # fmt: skip
        self.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        losses: list[tuple[int, LossParts]] = []
        gaps: list[torch.Tensor] = []
        for part, before in zip(parts, proximal, strict=True):
            batch = self._batch(part)
            found = self._logprobs(self.model, batch)
            old, behaviour = _old(part, found.logprobs, before)
            if self.config.rollout_engine == "vllm":
                start = found.logprobs.detach() if before is None else before
                gaps.append(_sampling_gaps(part, start, found.mask, update))
            reference = None
            if self.reference is not None:
                with torch.no_grad():
                    reference = self._logprobs(self.reference, batch).logprobs
            loss = grpo_loss(
                found.logprobs, old, found.mask, [one.trajectory for one in part], advantages, tokens, grpo,
                reference_SL=reference, entropy_SL=found.entropy, behaviour_SL=behaviour,
            )  # fmt: skip
            loss.loss.backward()
            losses.append((int(found.mask.sum()), loss))
        norm = float(torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.max_grad_norm))
        if not math.isfinite(norm):
            raise FloatingPointError(f"online RL: the gradient of update {update + 1} isn't finite: {norm}")
        rate = self.learning_rate(update)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()
        self.model.eval()
        count = sum(number for number, _ in losses)
        means = {word: sum(number * getattr(loss, word) for number, loss in losses) / count for word in MEANS}
        total = float(sum(loss.loss.detach() for _, loss in losses))
        return {"loss": total, "grad_norm": norm, "learning_rate": rate, **means, **_gap_figures(gaps)}


def _sampling_gaps(part: Sequence[Placed], logprobs: torch.Tensor, mask: torch.Tensor, update: int) -> torch.Tensor:
    """|learner's − sampler's| log-probability (nats) of each token that the present weights sampled."""
    fresh = torch.tensor([one.sample.version == update for one in part], device=logprobs.device)
    recorded = padded([one.sample.logprobs for one in part], logprobs)
    return (logprobs - recorded).abs()[mask & fresh[:, None]]


def _gap_figures(gaps: Sequence[torch.Tensor]) -> dict[str, float]:
    """TRL's `sampling/sampling_logp_difference`: what kernels, precision and a wrong setting of a server make of it."""
    found = torch.cat(list(gaps)) if gaps else torch.zeros(0)
    if not len(found):
        return {}
    mean = float(found.mean())
    if mean > LARGE_GAP:
        hint = "start the servers with --logprobs-mode processed_logprobs, in the learner's precision"
        log.warning("online RL: sampled log-probabilities are %.3g nats off on average; %s", mean, hint)
    return {"sampling_logp_difference_mean": mean, "sampling_logp_difference_max": float(found.max())}


def _old(
    part: Sequence[Placed], logprobs: torch.Tensor, proximal: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """(old, behaviour) [S, L]: see the module. `proximal` None: the present weights are still those of the start."""
    recorded = padded([one.sample.logprobs for one in part], logprobs)
    stale = torch.tensor([one.stale for one in part], device=logprobs.device)
    if not stale.any():
        return recorded, None
    start = logprobs.detach() if proximal is None else proximal
    old = torch.where(stale[:, None], start, recorded)
    return old, torch.where(stale[:, None], recorded, old)
