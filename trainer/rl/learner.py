"""The GRPO step that offline and online RL share: policy, reference and optimiser, in one process or in parts.

What the present policy sampled has its recorded log-probabilities as the old ones. For a stale reply the old policy is
the proximal one (the weights that the update starts from), the recorded log-probabilities are the behaviour's, and each
term is multiplied by min(π_prox/π_behaviour, C). Minimised is `L_GRPO + β·KL − c_k·H`, c_k = c_0·σ^k
(`trainer.rl.grpo`).

Under torchrun the policy that learns, the reference and the moments lie in parts (`trainer.modeling.sharding.sharded`).
The first rank has a whole policy besides, which samples and is published, and every call of its `Learner` is made by
the others too (`follow`): each does its share of the micro-batches, and an update ends with the new weights in the
whole policy. Losses are those of all samples, so the number of ranks changes no gradient; a state is saved in parts,
too, and gone on from by any number of ranks.
"""

import copy
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from trainer.modeling.adapters import only_adapters
from trainer.modeling.batches import Batch
from trainer.modeling.kernels import Kernels
from trainer.modeling.model import ReplyLogprobs, freeze_vision, recompute, reply_logprobs, train_only
from trainer.modeling.processor import Processor
from trainer.modeling.sharding import gather_into, norm_of, sharded
from trainer.modeling.shared_prompts import replies_laid_out
from trainer.rl.grpo import Advantages, LossParts, entropy_coefficient, grpo_loss
from trainer.rl.micro_batches import micro_batches
from trainer.rl.sampled_replies import SampledReply, as_served, by_step, gaps_of, old_and_behaviour
from trainer.rl.trust_region.assign import checked
from trainer.runtime.parallel import following, ranks
from trainer.runtime.precision import autocast, in_bf16
from trainer.runtime.rates import adamw, set_rate
from trainer.runtime.training_state import Saves, StateFile, read_parts, spread_whole, write_parts
from trainer.settings.grpo import GrpoConfig, KlWeightConfig, LearnerConfig

log = logging.getLogger(__name__)
STATE_VERSION = 3
"""Of the form of `Learner.state`: a run saved in another is begun anew."""
# nats a token; 16-bit kernels alone differ by 0.03 to 0.05 (docs/decisions/trainer.md)
LARGE_GAP = 0.1
MEANS = ("kl", "entropy", "ratio", "clip_low", "clip_high")


@dataclass(frozen=True)
class ScoredReplies:
    """Replies of a micro-batch with their log-probabilities: the policy's own (`found`), and [S, L] those of the old
    policy, of the behaviour's where that is another, and of the reference where there is one."""

    part: Sequence[SampledReply]
    found: ReplyLogprobs
    old: torch.Tensor
    behaviour: torch.Tensor | None
    reference: torch.Tensor | None


_Part = tuple[Sequence[SampledReply], bool]
"""A micro-batch, and whether it counts: a rank with nothing left to do computes along."""


class Learner:
    """`model` (given whole; hollow on other ranks) has the newest weights whenever a call returns; `reference` is None
    with β = 0. `state` and `load` hold all that changes. Raises `NotTrained` on a rank that is called off."""

    def __init__(self, model: Any, processor: Processor, config: LearnerConfig) -> None:
        checked(config.grpo)
        self.model, self.processor, self.config = model, processor, config
        group = self.group = ranks()
        following(group, None)
        # copied before anything is frozen or sharded: the policy as training found it
        self.reference = copy.deepcopy(model).eval().requires_grad_(False) if config.grpo.beta > 0 else None
        device = next(model.parameters()).device.type
        freeze_vision(model, config.freeze_vision, keep=group.world == 1, bf16=in_bf16(config.bf16, device))
        if config.trainable:
            train_only(model, config.trainable)
        only_adapters(model)
        if self.reference is not None:  # its tower is the policy's, for good
            self.reference.seen_pictures = model.seen_pictures
        self._policy, self._compared_with = model, self.reference
        if group.world > 1:
            if self.reference is not None:
                if group.first:
                    self.reference.cpu()  # it is only published
                self._compared_with = sharded(self.reference, group, config.bf16)
            self._policy = sharded(model, group, config.bf16)
        # kernels of a GPU round by the shape of a batch, so that what sampling recorded isn't the learner's own figure
        self._rounds_otherwise = next(self._policy.parameters()).device.type == "cuda"
        recompute(self._policy, config.gradient_checkpointing)
        self._kernels = Kernels(self._policy, config.attention, config.compile)
        # β₂ = 0.95 as in mid-training: the variance estimate follows within some twenty steps
        self.optimizer = adamw(
            self._policy,
            config.learning_rate,
            config.learning_rate_scales,
            betas=(0.9, 0.95),
            weight_decay=config.weight_decay,
        )
        self._taken_up: Mapping[str, Any] | None = None
        self._saves = Saves(config.async_save)
        self.written: Callable[[], object] = lambda: None  # returns once this rank's part of a state is there

    # -- what the first rank calls ---------------------------------------------------------------------------------

    def learning_rate(self, update: int) -> float:
        """Of update `update`, the first being 0: warmed up, then constant."""
        return self.config.learning_rate * min(1.0, (update + 1) / max(1, self.config.warmup_steps))

    def step(
        self,
        replies: Sequence[SampledReply],
        advantages: Advantages,
        tokens: Sequence[int],
        update: int,
        decay: float = 1.0,
        grpo: GrpoConfig | None = None,
    ) -> dict[str, float]:
        """An update's optimiser steps; → figures of the last one, {} where no reply holds a comparison. `tokens`: reply
        tokens of each trajectory, those left out included; `decay`: what the rate is multiplied by; `grpo`: this
        update's options of the loss, None for the run's. Raises `FloatingPointError` for a gradient that isn't finite.
        """
        # so a GPU's own samples are treated as those of a server with these weights
        if self._rounds_otherwise:
            replies = [as_served(one) for one in replies]
        return self._together("step", list(replies), advantages, list(tokens), update, decay, grpo) if replies else {}

    def blend(self, alpha: float) -> None:
        """π_ref ← (1 − α) π_ref + α π_θ."""
        self._together("blend", alpha)

    def state(self, file: StateFile) -> dict[str, Any]:
        """For `file.save`: whole tensors of one process; several ranks write theirs into a folder beside the file, and
        what is saved names it ("folder")."""
        folder = file.folder() if self.group.world > 1 else None
        found: dict[str, Any] = self._together("state", folder)
        return found

    def load(self, state: Mapping[str, Any], file: StateFile) -> None:
        """The inverse of `state`, whatever number of ranks saved it in that file."""
        self._taken_up = state
        self._together("load", file.folder(state["folder"]) if state["folder"] else None)

    def close(self) -> None:
        """Training is over: the model is as any other, and the other ranks are free."""
        # ends `follow` on the other ranks, which then leave the stage
        self.group.broadcast(("close", ()))
        recompute(self._policy, False)
        self.model.requires_grad_(True)

    def follow(self) -> None:
        """What every rank but the first does until `close`."""
        while (told := self.group.broadcast(None))[0] != "close":
            # what is called is named by the first rank of this run, never by data
            getattr(self, f"_{told[0]}")(*told[1])
        self.written()

    def _together(self, what: str, *given: object) -> Any:
        self.group.broadcast((what, given))
        return getattr(self, f"_{what}")(*given)

    # -- what every rank does --------------------------------------------------------------------------------------

    def _step(
        self,
        replies: Sequence[SampledReply],
        advantages: Advantages,
        tokens: Sequence[int],
        update: int,
        decay: float,
        own: GrpoConfig | None,
    ) -> dict[str, float]:
        rate = decay * self.learning_rate(update)
        chosen = own or self.config.grpo
        # with a floor the bonus answers what was measured, and not how long the run has gone on
        sigma = self.config.entropy_decay if chosen.entropy_floor is None else 1.0
        coefficient = entropy_coefficient(chosen.entropy_coef, sigma, update)
        grpo = chosen.changed(entropy_coef=coefficient)
        dealt = by_step(replies, advantages, self.config.optimiser_steps)
        steps = [(self._share(some), weighted) for some, weighted in dealt]
        again = self.config.num_iterations > 1  # else the first step's parts meet the very weights of the start
        figures: dict[str, float] = {}
        with self._kernels.used():
            # all of them before the first optimiser step: the proximal
            # policy is the one that the update starts from
            proximal = [
                self._proximal(parts) if again or number else [None] * len(parts)
                for number, (parts, _) in enumerate(steps)
            ]
            for _ in range(self.config.num_iterations):
                for (parts, weighted), before in zip(steps, proximal, strict=True):
                    figures = self._optimise(parts, before, weighted, tokens, grpo, update, rate)
        # the whole policy samples and is published: it gets the weights that the parts have now
        if self.group.world > 1:
            gather_into(self.model, self._policy, self.group)
        weight = {} if chosen.kl_weight == KlWeightConfig() else {"kl_weight": grpo.beta}
        return {**figures, "entropy_coef": coefficient, **weight}

    def _share(self, replies: Sequence[SampledReply]) -> list[_Part]:
        """This rank's micro-batches; every rank has as many, since a model in parts is gathered by all of them."""
        config, world = self.config, self.group.world
        parts = micro_batches(replies, config.micro_batch, config.micro_batch_tokens, self.processor.prompt_length)
        own: list[_Part] = [(part, True) for part in parts[self.group.rank :: world]]
        # -(-a // b) rounds up; a rank with fewer parts computes the first one again, for nothing
        return own + [(parts[0], False)] * (-(-len(parts) // world) - len(own))

    def _optimise(
        self,
        parts: Sequence[_Part],
        proximal: Sequence[torch.Tensor | None],
        advantages: Advantages,
        tokens: Sequence[int],
        grpo: GrpoConfig,
        update: int,
        rate: float,
    ) -> dict[str, float]:
        self._policy.train()
        self.optimizer.zero_grad(set_to_none=True)
        losses: list[tuple[int, LossParts]] = []
        gaps = [torch.zeros(0)]
        for (part, counts), before in zip(parts, proximal, strict=True):
            loss, tokens_here, gap = self._loss(part, before, advantages, tokens, grpo)
            self._backward(loss.loss * (self.group.world * counts))  # parts are averaged over ranks
            if counts:
                losses.append((tokens_here, loss))
                gaps.append(gap.cpu())
        norm = self._clipped()
        if not math.isfinite(norm):
            raise FloatingPointError(f"RL: the gradient of update {update + 1} isn't finite: {norm}")
        set_rate(self.optimizer, rate)
        self.optimizer.step()
        self._policy.eval()
        # sums over tokens, divided once all ranks are added: a mean of means would favour short micro-batches
        own = [float(sum(loss.loss.detach() for _, loss in losses)), sum(number for number, _ in losses)]
        own += [sum(number * getattr(loss, word) for number, loss in losses) for word in MEANS]
        total, count, *sums = self.group.sums(own)
        means = {word: value / count for word, value in zip(MEANS, sums, strict=True)}
        means |= self._gap_figures(torch.cat(gaps)) | self._after_step()
        return {"loss": total, "grad_norm": norm, "learning_rate": rate, **means}

    def _after_step(self) -> dict[str, float]:
        """What else an optimiser step ends with, and its figures."""
        return {}

    def _loss(
        self,
        part: Sequence[SampledReply],
        before: torch.Tensor | None,
        advantages: Advantages,
        tokens: Sequence[int],
        grpo: GrpoConfig,
    ) -> tuple[LossParts, int, torch.Tensor]:
        """A micro-batch's loss, its reply tokens, and the gaps of those that are compared (`gaps_of`)."""
        batch = self._batch(part)
        found = self._logprobs(self._policy, batch)
        old, behaviour = old_and_behaviour(part, found.logprobs, before)
        reference = None
        if self._compared_with is not None:
            with torch.no_grad():
                reference = self._logprobs(self._compared_with, batch).logprobs
        scored = ScoredReplies(part, found, old, behaviour, reference)
        loss = self._minimised(scored, advantages, tokens, grpo)
        gaps = gaps_of(part, found.logprobs.detach() if before is None else before, found.mask)
        return loss, int(found.mask.sum()), gaps

    def _minimised(
        self, scored: ScoredReplies, advantages: Advantages, tokens: Sequence[int], grpo: GrpoConfig
    ) -> LossParts:
        """The loss of replies; see `grpo_loss`."""
        found, part = scored.found, scored.part
        return grpo_loss(
            found.logprobs,
            scored.old,
            found.mask,
            [one.trajectory for one in part],
            advantages,
            tokens,
            grpo,
            reference_SL=scored.reference,
            entropy_SL=found.entropy,
            behaviour_SL=scored.behaviour,
            advantage_S=[one.advantage for one in part],
            advantage_SL=self._of_tokens(part, scored.old),
        )

    def _backward(self, loss: torch.Tensor) -> None:
        loss.backward()

    def _clipped(self) -> float:
        """The norm that the gradient had before it was scaled down to the largest allowed."""
        return float(norm_of(torch.nn.utils.clip_grad_norm_(self._policy.parameters(), self.config.max_grad_norm)))

    def _of_tokens(self, part: Sequence[SampledReply], old: torch.Tensor) -> torch.Tensor | None:
        """Advantages of the tokens [S, L], where each has its own; None: replies share theirs. `old`: log-probabilities
        of the old policy, of the same form."""
        return None

    def _gap_figures(self, gaps: torch.Tensor) -> dict[str, float]:
        """TRL's `sampling/sampling_logp_difference`: what kernels, precision and a wrong setting of a server make of
        it; {} where nothing is compared."""
        total, count = self.group.sums([float(gaps.sum()), len(gaps)])
        largest = self.group.largest(float(gaps.max()) if len(gaps) else 0.0)
        if not count:
            return {}
        if total / count > LARGE_GAP:
            hint = "start the servers with --logprobs-mode processed_logprobs, in the learner's precision"
            log.warning("online RL: sampled log-probabilities are %.3g nats off on average; %s", total / count, hint)
        return {"sampling_logp_difference_mean": total / count, "sampling_logp_difference_max": largest}

    def _proximal(self, parts: Sequence[_Part]) -> list[torch.Tensor | None]:
        """[S, L] a micro-batch; None where the recorded log-probabilities are the old ones, as all that is new are.
        (Of several ranks each has micro-batches of its own, and a model in parts is asked by all of them or none.)"""
        self._policy.eval()
        fresh = self.group.world == 1
        with torch.no_grad():
            return [
                None
                if fresh and not any(one.stale or one.compared for one in part)
                else self._logprobs(self._policy, self._batch(part)).logprobs
                for part, _ in parts
            ]

    def _batch(self, part: Sequence[SampledReply]) -> Batch:
        parameter = next(self._policy.parameters())
        seen = getattr(self._policy, "seen_pictures", None)
        rows, replies = [one.row for one in part], [one.token_ids for one in part]
        batch = replies_laid_out(self._policy, self.processor, rows, replies, seen)
        return batch.to(parameter.device, parameter.dtype)

    def _logprobs(self, model: Any, batch: Batch) -> ReplyLogprobs:
        with autocast(batch.input_ids.device, self.config.bf16, self.group.world):
            return reply_logprobs(model, batch, self.config.sampling_temperature, never=self.processor.never)

    def _blend(self, alpha: float) -> None:
        reference: Any = self._compared_with
        if self.group.world > 1:
            for model in (reference, self._policy):
                model.reshard()  # what was computed last left its outermost weights gathered
            blend(reference, self._policy, alpha)
        if self.group.first:
            blend(self.reference, self.model, alpha)

    def _reference(self) -> dict[str, Any]:
        """Its weights, a rank's share of them; {} without one."""
        from torch.distributed.checkpoint.state_dict import get_model_state_dict

        return {} if self._compared_with is None else {"reference": get_model_state_dict(self._compared_with)}

    def _state(self, folder: Path | None) -> dict[str, Any]:
        if folder is not None:
            self.written()  # one save at a time
            self.written = write_parts(folder, self._policy, self.optimizer, self._saves.group(), **self._reference())
            return {"folder": folder.name}
        return {
            "folder": "",
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "reference": None if self.reference is None else self.reference.state_dict(),
        }

    def _load(self, folder: Path | None) -> None:
        from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict

        state, self._taken_up = self._taken_up or {}, None
        compared: Any = self._compared_with
        if folder is not None:
            found = read_parts(folder, self._policy, self.optimizer, **self._reference())
            if compared is not None:
                set_model_state_dict(compared, found["reference"])
        elif self.group.world == 1:
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
            if compared is not None:
                compared.load_state_dict(state["reference"])
        else:
            spread_whole(self._policy, self.optimizer, state.get("model", {}), state.get("optimizer", {}))
            if compared is not None:
                whole = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
                set_model_state_dict(compared, state.get("reference", {}), options=whole)
        if self.group.world > 1:
            gather_into(self.model, self._policy, self.group)
            if compared is not None:
                gather_into(self.reference, compared, self.group)


@torch.no_grad()
def blend(reference: Any, policy: Any, alpha: float) -> None:
    """π_ref ← (1 − α) π_ref + α π_θ, in place, over all parameters and buffers (tied ones once)."""
    source = dict(chain(policy.named_parameters(), policy.named_buffers()))
    # by names of parameters, not the state dict: that lists tied embeddings twice, and blends them twice
    for name, tensor in chain(reference.named_parameters(), reference.named_buffers()):
        if tensor.is_floating_point():
            tensor.mul_(1.0 - alpha).add_(source[name].to(tensor.device, tensor.dtype), alpha=alpha)
        else:
            # counters and masks have no mean
            tensor.copy_(source[name])
