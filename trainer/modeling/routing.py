"""Balance of a mixture of experts: a loss that keeps all of a model's experts in use while it is trained.

For a pass, L = mean over blocks of E · Σ_e f_e · P_e: of E experts, f_e is the share of the tokens that expert e
answers (a token counts for each of its top-k experts, so the shares sum to k) and P_e the mean of its probability
before the choice. Fedus et al., 2021 (arXiv 2101.03961, eqs. 4-6); for one block it is `load_balancing_loss_func` of
transformers. L is k where the experts share the tokens evenly, E where each token goes to the same ones.

f, through which no gradient flows, counts the tokens of all ranks and of the step's micro-batches so far (Qiu et al.,
2025, arXiv 2501.11873): a micro-batch of screens of one kind may well go to few experts. So this loss, alone among
those of a step, depends on how the step is split.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from trainer.runtime.parallel import Ranks


def routers(model: Any) -> list[torch.nn.Module]:
    """The routers of a model's decoder, one for each block of experts; none in a dense model."""
    found = (getattr(block.mlp, "gate", None) for block in model.model.language_model.layers)
    return [router for router in found if router is not None]


@contextmanager
def routed(model: object, on: bool) -> Iterator[list[torch.Tensor]]:
    """The logits [tokens, E] that each router gives in a pass within, in order of the blocks; with `on` false none."""
    logits: list[torch.Tensor] = []
    hooks = [
        router.register_forward_hook(lambda _router, _given, output: logits.append(output[0]))
        for router in (routers(model) if on else ())
    ]
    try:
        yield logits
    finally:  # recomputation in the backward pass is not another pass
        for hook in hooks:
            hook.remove()


class Balance:
    """The balance loss of one optimiser step, a micro-batch at a time."""

    def __init__(self, model: Any, group: Ranks) -> None:
        """Raises `ValueError` for a dense model."""
        if not routers(model):
            raise ValueError("router_aux_loss_coef: expected a mixture of experts, found a dense model; set it to 0")
        text = model.config.text_config
        self._experts, self._chosen, self._group = text.num_experts, text.num_experts_per_tok, group
        self._counts: torch.Tensor | None = None
        self._tokens = 0.0

    def loss(self, logits: Sequence[torch.Tensor], real: torch.Tensor) -> torch.Tensor:
        """L of this rank's tokens in a micro-batch: `logits` as `routed` gives them, `real` [B, S] is 0 on padding.
        All ranks call it together."""
        mask = real.reshape(-1).bool()
        shares = [torch.softmax(one.float()[mask], dim=-1) for one in logits]
        own = torch.stack([self._answered(one) for one in shares])
        totals = self._group.sums([*own.flatten().tolist(), float(mask.sum())])
        counts = torch.tensor(totals[:-1], dtype=torch.float32, device=own.device).view_as(own)
        self._counts = counts if self._counts is None else self._counts + counts
        self._tokens += totals[-1]
        used = self._counts / self._tokens
        # of this rank alone: its gradient is summed with the others' as any other part of the loss
        mean = torch.stack([one.mean(0) for one in shares])
        return self._experts * (used * mean).sum(-1).mean()

    def _answered(self, shares: torch.Tensor) -> torch.Tensor:
        """How many tokens each expert answers, [E]."""
        chosen = shares.detach().topk(self._chosen, dim=-1).indices
        return torch.bincount(chosen.flatten(), minlength=self._experts).double()
