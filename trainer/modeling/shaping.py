"""What callers of a served model may ask of sampling beyond temperature: penalties, biases, and a cut of the unlikely.

Meanings are those of vLLM and transformers: penalties and biases change the logits, then the temperature divides them,
then what is unlikely is cut off. `repetition_penalty` counts the prompt's tokens too, the other two penalties count
those of the reply alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

Said = tuple[Sequence[int], Sequence[int]]
"""Token ids before a place: the prompt's, and the reply's."""


@dataclass(frozen=True, slots=True)
class Shaping:
    """Off by default. `top_k` 0 or -1 is off; `logit_bias`: token id → what is added to its logit; `top_logprobs`: so
    many of the likeliest tokens are recorded beside each one that is drawn."""

    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] = field(default_factory=dict)
    top_logprobs: int = 0

    def penalised(self, logits: torch.Tensor, said: Sequence[Said]) -> torch.Tensor:
        """Logits [P, V] with penalties and biases; `said[p]` stands before place p."""
        from transformers import RepetitionPenaltyLogitsProcessor

        changed = logits.float().clone()
        for place, (prompt, reply) in enumerate(said):
            row = changed[place : place + 1]
            if self.repetition_penalty != 1.0 and (before := [*prompt, *reply]):
                ids = torch.tensor([before], device=row.device)
                changed[place] = RepetitionPenaltyLogitsProcessor(self.repetition_penalty)(ids, row)[0]
            if (self.presence_penalty or self.frequency_penalty) and reply:
                ids, counts = torch.tensor(list(reply), device=row.device).unique(return_counts=True)
                changed[place, ids] -= self.presence_penalty + counts * self.frequency_penalty
        for token, bias in self.logit_bias.items():
            changed[:, token] += bias
        return changed

    def cut(self, log_p: torch.Tensor) -> torch.Tensor:
        """Log-probabilities [P, V] with -inf where a token may not be drawn; one stays at least."""
        from transformers import MinPLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

        # transformers' own want the ids before as well, and read none of them
        none: Any = torch.empty(len(log_p), 0, dtype=torch.long, device=log_p.device)
        # in the order of transformers and vLLM, since each cut changes what is left for the next
        if self.top_k > 0:
            log_p = TopKLogitsWarper(self.top_k)(none, log_p)
        if self.top_p < 1.0:
            log_p = TopPLogitsWarper(self.top_p)(none, log_p)
        return MinPLogitsWarper(self.min_p)(none, log_p) if self.min_p > 0.0 else log_p

    def likeliest(self, log_p: torch.Tensor) -> list[list[tuple[int, float]]]:
        """Of each place its `top_logprobs` likeliest tokens with their log-probabilities [P, V]."""
        if not self.top_logprobs:
            return [[] for _ in log_p]
        values, ids = log_p.topk(self.top_logprobs)
        return [list(zip(*some, strict=True)) for some in zip(ids.tolist(), values.tolist(), strict=True)]
