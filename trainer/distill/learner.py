"""The step of distillation: reverse KL from the student to a reply's teacher, at the tokens that are pushed.

`sampled`: token t of a reply has the advantage w_t · (log π_T − log π_S), π_S as it was when it sampled the token, in
the clipped loss of GRPO; with every w_t at 1 its expectation is the gradient of KL(π_S‖π_T) (MiMo-V2-Flash,
arXiv 2601.02780, multi-teacher on-policy distillation; so OpenClaw-RL for its hints). It needs one number a token.
`full`: w_t · Σ_v π_S(v) (log π_S(v) − log π_T(v)) itself. A wrong token alone is pushed down by `sampled`, whose mass
then goes anywhere; `full` says where it belongs, and needs the teacher's whole distribution at the pushed tokens.
Either way a loss is a mean over replies of the sum over tokens divided by the reply's length, as GRPO's is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import repeat

import torch

from trainer.modeling.batches import Batch
from trainer.modeling.head_chunks import Terms
from trainer.modeling.model import label_terms, reply_log_softmax
from trainer.rl.grpo import Advantages, LossParts, padded
from trainer.rl.learner import Learner
from trainer.rl.sampled_replies import SampledReply
from trainer.runtime.precision import autocast
from trainer.settings.grpo import GrpoConfig


@dataclass(frozen=True)
class TaughtReply(SampledReply):
    """A reply with its tokens' weights and what its teacher says: the log-probabilities (nats) of its tokens, or the
    log-distributions [pushed tokens, V] at those of a weight above 0."""

    pushes: Sequence[float] = ()
    taught: Sequence[float] = ()
    distributions: torch.Tensor | None = None


class Distiller(Learner):
    """A learner of `TaughtReply`s; with distributions the loss is `full`, else `sampled`."""

    def _of_tokens(self, part: Sequence[SampledReply], old: torch.Tensor) -> torch.Tensor | None:
        replies = [one for one in part if isinstance(one, TaughtReply)]
        # in nats; where padding stands the weights are 0
        weights, taught = (padded([getattr(one, name) for one in replies], old) for name in ("pushes", "taught"))
        return weights * (taught - old)

    def _loss(
        self,
        part: Sequence[SampledReply],
        before: torch.Tensor | None,
        advantages: Advantages,
        tokens: Sequence[int],
        grpo: GrpoConfig,
    ) -> tuple[LossParts, int, torch.Tensor]:
        replies = [one for one in part if isinstance(one, TaughtReply)]
        tables = [one.distributions for one in replies if one.distributions is not None]
        if not tables:
            return super()._loss(part, before, advantages, tokens, grpo)
        batch = pushed_only(self._batch(part), [one.pushes for one in replies])
        table = torch.cat(tables).to(batch.input_ids.device)
        with autocast(batch.input_ids.device, self.config.bf16, self.group.world):
            found = label_terms(self._policy, batch, kl_terms(self.processor.never, table))
        kl, own = found.values.unbind(-1)
        # in the order of the labels, which are the pushed tokens
        pushed = [
            place for one in replies for place in zip(one.pushes, one.logprobs, repeat(one.compared)) if place[0] > 0
        ]
        weights, recorded, compared = zip(*pushed, strict=True)
        shares = [advantages.weights[one.trajectory] / tokens[one.trajectory] for one in replies]
        # the sum over tokens divided by the whole reply's length, as in GRPO's loss
        loss = (kl * kl.new_tensor(shares)[found.samples] * kl.new_tensor(weights)).sum()
        # nothing is clipped and no ratio taken, nor corrected: the student's own distribution is what is pulled
        figures = LossParts(loss, float(loss.detach()), float(kl.detach().mean()), 0.0, 1.0, 0.0, 0.0)
        return figures, len(weights), (own.detach() - own.new_tensor(recorded)).abs()[torch.tensor(compared)]


def pushed_only(batch: Batch, pushes: Sequence[Sequence[float]]) -> Batch:
    """The batch of replies with labels at the pushed tokens alone; in the place of `coordinate` the number of each
    among all of them, which `Terms` are given."""
    labelled = batch.labels != -100
    flags = torch.tensor([weight > 0 for one in pushes for weight in one], device=labelled.device)
    chosen = torch.zeros_like(labelled).masked_scatter(labelled, flags)  # row by row, as replies come
    numbers = torch.zeros_like(batch.labels)
    # numbers instead of flags: each says which row of the teachers' table is its token's
    numbers[chosen] = torch.arange(int(flags.sum()), device=labelled.device)
    return replace(batch, labels=batch.labels.masked_fill(~chosen, -100), coordinate=numbers)


def kl_terms(never: Sequence[int], taught: torch.Tensor) -> Terms:
    """[n, 2] in nats of tokens whose teachers' log-distributions are rows of `taught` [N, V]: KL(π_S‖π_T), and the
    student's log-probability of the token itself."""

    def terms(logits: torch.Tensor, labels: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        log_p = reply_log_softmax(logits, never)
        kl = (log_p.exp() * (log_p - taught[numbers])).sum(-1)
        return torch.stack([kl, log_p.gather(-1, labels[:, None])[:, 0]], -1)

    return terms


def log_distributions(never: Sequence[int]) -> Terms:
    """Log-distributions [n, V] in nats, as sampling has them."""

    def terms(logits: torch.Tensor, _labels: torch.Tensor, _numbers: torch.Tensor) -> torch.Tensor:
        return reply_log_softmax(logits, never)

    return terms
