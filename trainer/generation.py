"""Sampling replies: batched, with a KV cache, and with the log-probability of every sampled token.

RL asks for temperature 1 and top-p 1, so the recorded log-probabilities are those of the policy itself and
`model.reply_logprobs` with the same weights returns the same numbers. The policy is the model without control tokens
(`Processor.never`): an image place without a picture can't be laid out. A group of replies shares the prompt's pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from trainer.batches import Processor, Row
from trainer.decoding import Decoder
from trainer.model import image_outputs, reply_log_softmax
from trainer.tokenizer import LAST_NUMBER

MAX_NEW_TOKENS = 112
GROUNDING_TOKENS = 16
"""A point is written in fewer; what is longer has not the form of one."""


def reply_limit(limit: int, objective: str, wide: bool = False) -> int:
    """Tokens that a reply may have: `limit`, but no more for grounding than any point takes, twice that if `wide`."""
    return min(limit, GROUNDING_TOKENS * (1 + wide)) if objective == "grounding" else limit


@dataclass
class Completion:
    """One reply. `row` is its prompt's index in the call, `member` its place in the group.

    `token_ids` include the end token if the reply has one (`finished`), `logprobs` (nats) stand beside each.
    """

    row: int
    member: int
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    text: str = ""
    finished: bool = False


@torch.no_grad()
def generate(
    model: Any,
    processor: Processor,
    rows: Sequence[Row],
    *,
    group: int = 1,
    temperature: float = 0.0,
    max_new_tokens: int = MAX_NEW_TOKENS,
    generator: torch.Generator | None = None,
    batch_size: int = 64,
    on_batch: Callable[[int], None] | None = None,
) -> list[Completion]:
    """`group` replies per row, ordered by row, then by member.

    `temperature` 0 is greedy (numbers against the rest first, see `_likeliest`); above 0 it samples the whole
    distribution (top-p 1), and the log-probabilities are those of the tempered distribution. `generator` makes
    sampling a pure function of (weights, rows, its state, batch_size). `batch_size` counts replies in flight. Raises
    `ValueError` for a group or length below 1.
    """
    if group < 1 or max_new_tokens < 1 or batch_size < 1:
        raise ValueError(f"generate: expected group, max_new_tokens and batch_size >= 1, "
                         f"found {group}, {max_new_tokens}, {batch_size}")  # fmt: skip
    was_training = model.training
    model.eval()
    found: list[Completion] = []
    per_batch = max(1, batch_size // group)
    try:
        for start in range(0, len(rows), per_batch):
            some = rows[start : start + per_batch]
            found += _generate_batch(model, processor, some, start, group, temperature, max_new_tokens, generator)
            if on_batch:
                on_batch(len(some))
    finally:
        model.train(was_training)
    return found


def _generate_batch(
    model: Any, processor: Processor, rows: Sequence[Row], offset: int, group: int, temperature: float,
    max_new_tokens: int, generator: torch.Generator | None,
) -> list[Completion]:  # fmt: skip
    from transformers import DynamicCache

    device = next(model.parameters()).device
    batch = processor.prompt_batch(rows).to(device, next(model.parameters()).dtype)
    cache = DynamicCache(config=model.config.get_text_config())
    output = model.model(
        input_ids=batch.input_ids, attention_mask=batch.attention_mask, position_ids=batch.position_ids,
        past_key_values=cache, use_cache=True, **image_outputs(model, batch),
    )  # fmt: skip
    state = output.last_hidden_state[:, -1].repeat_interleave(group, 0)
    if group > 1:
        cache.batch_repeat_interleave(group)
    # the next position follows the largest one of the prompt on all three axes
    position = batch.position_ids.amax(dim=(0, 2)).repeat_interleave(group) + 1
    decoder = Decoder(model, cache, batch.attention_mask.repeat_interleave(group, 0), position, max_new_tokens)
    done = [Completion(offset + i // group, i % group) for i in range(len(rows) * group)]
    alive = list(range(len(done)))
    for step in range(max_new_tokens):
        tokens, logprobs = _choose(model.lm_head(state), processor, temperature, generator)
        for place, token, logprob in zip(alive, tokens.tolist(), logprobs.tolist(), strict=True):
            done[place].token_ids.append(token)
            done[place].logprobs.append(logprob)
            done[place].finished = token == processor.end_id
        keep = [i for i, place in enumerate(alive) if not done[place].finished]
        if not keep or step == max_new_tokens - 1:
            break
        if len(keep) < len(alive):
            rest = torch.tensor(keep, device=device)
            decoder.keep(rest)
            tokens, alive = tokens[rest], [alive[i] for i in keep]
        state = decoder.step(tokens)
    for completion in done:
        completion.text = processor.text(completion.token_ids)
    return done


def _choose(
    logits: torch.Tensor, processor: Processor, temperature: float, generator: torch.Generator | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids [B] and their log-probabilities [B] under the distribution that was sampled."""
    log_p = reply_log_softmax(logits, processor.never, temperature or 1.0)
    if temperature > 0:
        tokens = torch.multinomial(log_p.exp(), 1, generator=generator)[:, 0]
    else:
        tokens = _likeliest(log_p, processor)
    return tokens, log_p.gather(1, tokens[:, None])[:, 0]


def _likeliest(log_p: torch.Tensor, processor: Processor) -> torch.Tensor:
    """Greedy choice [B] from log-probabilities [B, V], where the numbers 0..1000 stand together against other tokens.

    A model unsure whether it is 480 or 520 spreads its belief over hundreds of number tokens, and the plain argmax
    would be the one token of a refusal at a tenth of the mass. Models that write digits decide it this way by nature.
    """
    tokens = log_p.argmax(-1)
    if processor.numbers is None:
        return tokens
    first, last = processor.numbers.first, processor.numbers.first + LAST_NUMBER
    best, number = log_p[:, first : last + 1].max(-1)
    together = log_p[:, first : last + 1].logsumexp(-1)
    other = log_p.gather(1, tokens[:, None])[:, 0]
    # `other` is a number itself where best equals it
    return torch.where((together > other) | (best == other), number + first, tokens)
