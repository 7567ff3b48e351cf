"""Sampling replies: batched, with a KV cache, and with the log-probability of every sampled token.

RL asks for temperature 1 and top-p 1, so the recorded log-probabilities are those of the policy itself and
`model.reply_logprobs` with the same weights returns the same numbers. The policy is the model without control tokens
(`Processor.never`): an image place without a picture can't be laid out. A group of replies shares the prompt's pass,
and what a reply's form lets expect is read along with it (`trainer.modeling.drafts`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from trainer.modeling.batches import Batch, Row
from trainer.modeling.decoding import decoder_of, drafts_fit
from trainer.modeling.head_chunks import head_logits
from trainer.modeling.model import image_outputs, reply_log_softmax
from trainer.modeling.processor import Processor
from trainer.modeling.sampling_memory import prompts_at_once
from trainer.modeling.shaping import Said, Shaping
from trainer.modeling.tokenizer import LAST_NUMBER
from trainer.runtime.precision import sampling_autocast

# nano's; with fewer, thoughts filled the answer and cut the action off (docs/decisions/trainer.md)
MAX_NEW_TOKENS = 112
GROUNDING_TOKENS = 16
"""A point is written in fewer; what is longer has not the form of one."""


def reply_limit(limit: int, objective: str, wide: bool = False, free_form: bool = False) -> int:
    """Tokens that a reply may have: `limit`, but no more for grounding than any point takes, twice that if `wide`;
    in another form than ours it may take them all."""
    own = objective == "grounding" and not free_form
    return min(limit, GROUNDING_TOKENS * (1 + wide)) if own else limit


@dataclass
class Completion:
    """One reply. `row` is its prompt's index in the call, `member` its place in the group.

    `token_ids` include the end token if the reply has one (`finished`), `logprobs` (nats) stand beside each, and, where
    they were asked for, `top_logprobs` (token id, nats) and `decided` (nats: of a number, that one of 0..1000 stands).
    """

    row: int
    member: int
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    text: str = ""
    finished: bool = False
    top_logprobs: list[list[tuple[int, float]]] = field(default_factory=list)
    decided: list[float] = field(default_factory=list)


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
    seeds: Sequence[int] | None = None,
    batch_size: int = 64,
    on_batch: Callable[[int], None] | None = None,
    shaping: Shaping | None = None,
    on_tokens: Callable[[Completion], bool] | None = None,
    decided: bool = False,
) -> list[Completion]:
    """`group` replies per row, ordered by row, then by member.

    `temperature` 0 is greedy (numbers against the rest first, see `_likeliest`); above 0 it samples the whole
    distribution (top-p 1), and the log-probabilities are those of the tempered distribution. `generator` makes
    sampling a pure function of (weights, rows, its state, batch_size). With `seeds`, one for each reply, each is drawn
    by itself: with the same numbers, whatever stands beside it. `batch_size` counts replies in flight; on a GPU they
    are fewer where its memory is short (`trainer.modeling.sampling_memory`). With `shaping` tokens are drawn from what
    it makes of the distribution, and the log-probabilities stay those of the tempered one. `on_tokens` sees each reply
    as it grows, and may end it (true) or, by an exception, the call. `decided`: completions have that, too (without
    `shaping`). Raises `ValueError` for a group or length below 1.
    """
    if group < 1 or max_new_tokens < 1 or batch_size < 1:
        raise ValueError(
            f"generate: expected group, max_new_tokens and batch_size >= 1, "
            f"found {group}, {max_new_tokens}, {batch_size}"
        )
    was_training = model.training
    model.eval()
    found: list[Completion] = []
    # `batch_size` counts replies, of which every prompt has `group`
    most = max(1, batch_size // group)
    per_batch = prompts_at_once(model, processor, rows, group, max_new_tokens, most)
    try:
        for start in range(0, len(rows), per_batch):
            some = rows[start : start + per_batch]
            own = None if seeds is None else seeds[start * group : (start + len(some)) * group]
            with sampling_autocast(next(model.parameters()).device):
                found += _generate_batch(
                    model,
                    processor,
                    some,
                    start,
                    group,
                    temperature,
                    max_new_tokens,
                    generator,
                    own,
                    shaping,
                    on_tokens,
                    decided,
                )
            if on_batch:
                on_batch(len(some))
    finally:
        model.train(was_training)
    return found


def _generate_batch(
    model: Any,
    processor: Processor,
    rows: Sequence[Row],
    offset: int,
    group: int,
    temperature: float,
    max_new_tokens: int,
    generator: torch.Generator | None,
    seeds: Sequence[int] | None,
    shaping: Shaping | None,
    on_tokens: Callable[[Completion], bool] | None,
    decided: bool,
) -> list[Completion]:
    device = next(model.parameters()).device
    batch = processor.prompt_batch(rows, getattr(model, "seen_pictures", None)).to(
        device, next(model.parameters()).dtype
    )
    drafting = drafts_fit(model)
    first = [processor.drafts.first(str(row.get("objective", ""))) if drafting else [] for row in rows]
    cache, states, mask = _read_prompts(model, batch, first)
    if group > 1:
        # each prompt is read once; its cache is then repeated for its members
        cache.reorder_cache(torch.arange(len(rows), device=device).repeat_interleave(group))
        # [B, 1 + N, H], [B, T + N]; B = rows · group
        states, mask = states.repeat_interleave(group, 0), mask.repeat_interleave(group, 0)
    # the next position follows the largest one of the prompt on all three axes
    position = batch.position_ids.amax(dim=(0, 2)).repeat_interleave(group) + 1
    decoder = decoder_of(model, cache, mask, position)
    del cache  # the decoder's grow, and these would stay beside them
    done = [Completion(offset + i // group, i % group) for i in range(len(rows) * group)]
    uniform = None if seeds is None else _uniform(seeds, max_new_tokens)
    shown = zip(batch.input_ids, batch.attention_mask, strict=True) if shaping else ()
    prompts = [ids[seen.bool()].tolist() for ids, seen in shown]  # what a penalty counts
    ended: set[int] = set()
    alive, drafts, unread = list(range(len(done))), [first[i // group] for i in range(len(done))], 0
    while True:
        given = None if uniform is None else _of_next(uniform[alive], [done[i] for i in alive], states.shape[1])
        # [B, N, V] → [B · N, V]: the token after each place that was read, drafted or not
        logits = head_logits(model.lm_head, states).flatten(0, 1)
        if shaping is None:
            tokens, logprobs = _choose(logits, processor, temperature, generator, given)
            decisions = _decided(logits, tokens, logprobs, processor, temperature).tolist() if decided else []
        else:
            said = [
                before
                for place, draft in zip(alive, drafts, strict=True)
                for before in _said(prompts[place // group], done[place], draft, states.shape[1])
            ]
            tokens, logprobs, likeliest = _choose_shaped(logits, processor, temperature, generator, shaping, said)
        drawn = zip(tokens.view(len(alive), -1).tolist(), logprobs.view(len(alive), -1).tolist(), strict=True)
        counts = [
            _go_on(done[place], draft, ids, chosen_logprobs, processor.end_id, max_new_tokens)
            for place, draft, (ids, chosen_logprobs) in zip(alive, drafts, drawn, strict=True)
        ]
        for i, place in enumerate(alive):
            if shaping is not None:
                ahead = i * states.shape[1]
                new = len(done[place].token_ids) - len(done[place].top_logprobs)
                done[place].top_logprobs += likeliest[ahead : ahead + new]
            elif decided:
                ahead = i * states.shape[1]
                new = len(done[place].token_ids) - len(done[place].decided)
                done[place].decided += decisions[ahead : ahead + new]
            if on_tokens is not None and on_tokens(done[place]):
                ended.add(place)
        # a pass but the prompt's begins with the token that was drawn last, which is the reply's as well
        width = states.shape[1] - 1 + unread
        decoder.accept(width, torch.tensor([unread + count for count in counts], device=device))
        keep = [
            i
            for i, place in enumerate(alive)
            if not done[place].finished and place not in ended and len(done[place].token_ids) < max_new_tokens
        ]
        if not keep:
            break
        if len(keep) < len(alive):
            # replies that have ended leave the cache as well
            decoder.keep(torch.tensor(keep, device=device))
            alive = [alive[i] for i in keep]
        drafts = [processor.drafts.after(done[place].token_ids) if drafting else [] for place in alive]
        read = [[done[place].token_ids[-1], *draft] for place, draft in zip(alive, drafts, strict=True)]
        states, unread = decoder.step(*_padded(read, processor.pad_id, device)), 1
    for completion in done:
        completion.text = processor.text(completion.token_ids)
    return done


def _read_prompts(model: Any, batch: Batch, drafts: Sequence[Sequence[int]]) -> tuple[Any, torch.Tensor, torch.Tensor]:
    """Pass over prompts [U, T] and what is drafted after each, N at most → (cache, hidden states [U, 1 + N, H] after
    the prompt and after each token of the draft, mask [U, T + N])."""
    from transformers import DynamicCache

    cache = DynamicCache(config=model.config.get_text_config())
    tokens, given = _padded(drafts, 0, batch.input_ids.device)
    ahead = torch.arange(tokens.shape[1], device=tokens.device)  # [N]
    after = batch.position_ids.amax(dim=(0, 2))[:, None] + 1 + ahead  # [U, N]
    mask = torch.cat([batch.attention_mask, given.to(batch.attention_mask.dtype)], 1)
    output = model.model(
        input_ids=torch.cat([batch.input_ids, tokens], 1),
        attention_mask=mask,
        position_ids=torch.cat([batch.position_ids, after.expand(3, -1, -1)], 2),
        past_key_values=cache,
        use_cache=True,
        **image_outputs(model, batch),
    )
    # prompts are padded left, so each ends in the last column before the draft
    return cache, output.last_hidden_state[:, batch.input_ids.shape[1] - 1 :], mask


def _padded(lists: Sequence[Sequence[int]], blank: int, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """(ids [B, N], which of them are some [B, N])."""
    width = max(map(len, lists))
    ids = [[*some, *[blank] * (width - len(some))] for some in lists]
    given = [[place < len(some) for place in range(width)] for some in lists]
    return (
        torch.tensor(ids, dtype=torch.long, device=device).view(len(lists), width),
        torch.tensor(given, dtype=torch.bool, device=device).view(len(lists), width),
    )


def _go_on(
    reply: Completion, draft: Sequence[int], tokens: Sequence[int], logprobs: Sequence[float], end: int, limit: int
) -> int:
    """Add to a reply what was drawn: `tokens[0]`, and `tokens[n]` as far as the draft's first n were drawn themselves;
    → how many tokens of the draft are the reply's."""
    for place, (token, logprob) in enumerate(zip(tokens, logprobs, strict=True)):
        reply.token_ids.append(token)
        reply.logprobs.append(logprob)
        reply.finished = token == end
        over = reply.finished or len(reply.token_ids) == limit
        # what was drawn behind a token that isn't the draft's was drawn after another text than the reply's
        if over or place == len(draft) or token != draft[place]:
            return place
    return len(draft)


def _uniform(seeds: Sequence[int], count: int) -> torch.Tensor:
    """Numbers in [0, 1) for the tokens of replies [B, count], each reply's by its own seed."""
    return torch.stack(
        [torch.rand(count, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) for seed in seeds]
    )


def _of_next(uniform: torch.Tensor, replies: Sequence[Completion], width: int) -> torch.Tensor:
    """Of each reply's numbers [B, N] those for its next `width` tokens, [B · width]. A place in the reply has one
    number: how much was drafted, which depends on the others in a batch, moves none."""
    places = torch.tensor([len(reply.token_ids) for reply in replies])[:, None] + torch.arange(width)
    return uniform.gather(1, places.clamp(max=uniform.shape[1] - 1)).flatten()  # what lies beyond isn't the reply's


def _choose(
    logits: torch.Tensor,
    processor: Processor,
    temperature: float,
    generator: torch.Generator | None,
    uniform: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids [B] and their log-probabilities [B] under the distribution that was sampled."""
    log_p = reply_log_softmax(logits, processor.never, temperature or 1.0)  # [B, V]
    if temperature > 0:
        tokens = _drawn(log_p.exp(), generator, uniform)
    else:
        tokens = _likeliest(log_p, processor)
    return tokens, log_p.gather(1, tokens[:, None])[:, 0]


def _decided(
    logits: torch.Tensor, tokens: torch.Tensor, logprobs: torch.Tensor, processor: Processor, temperature: float
) -> torch.Tensor:
    """Log-probability [B] of each token; of a number, of all numbers 0..1000 together: that one stands there at all."""
    if processor.numbers is None:
        return logprobs
    first, last = processor.numbers.first, processor.numbers.first + LAST_NUMBER
    log_p = reply_log_softmax(logits, processor.never, temperature or 1.0)  # [B, V]
    together = log_p[:, first : last + 1].logsumexp(-1)
    return torch.where((tokens >= first) & (tokens <= last), together, logprobs)


def _said(prompt: Sequence[int], reply: Completion, draft: Sequence[int], width: int) -> list[Said]:
    """What stands before each of `width` places of a pass: the first follows the reply, the others its draft too."""
    return [(prompt, [*reply.token_ids, *draft[:place]]) for place in range(width)]


def _choose_shaped(
    logits: torch.Tensor,
    processor: Processor,
    temperature: float,
    generator: torch.Generator | None,
    shaping: Shaping,
    said: Sequence[Said],
) -> tuple[torch.Tensor, torch.Tensor, list[list[tuple[int, float]]]]:
    """As `_choose`, from the distribution that `shaping` makes, with the likeliest tokens of the one that it had."""
    plain = reply_log_softmax(logits, processor.never, temperature or 1.0)  # [B, V]
    log_p = reply_log_softmax(shaping.penalised(logits, said), processor.never, temperature or 1.0)
    tokens = _drawn(shaping.cut(log_p).exp(), generator) if temperature > 0 else _likeliest(log_p, processor)
    return tokens, plain.gather(1, tokens[:, None])[:, 0], shaping.likeliest(plain)


def _drawn(p: torch.Tensor, generator: torch.Generator | None, uniform: torch.Tensor | None = None) -> torch.Tensor:
    """A token of each distribution [B, V], where the sum of the probabilities passes a uniform number, [B] if they are
    given: `torch.multinomial` takes twenty times as long on a CPU."""
    up_to = p.double().cumsum(-1)  # [B, V]; float64, or rounding of so long a sum would move draws
    if uniform is None:
        uniform = torch.rand(len(p), dtype=up_to.dtype, device=p.device, generator=generator)
    # the last sum instead of 1, which rounding misses by a little
    passed = uniform.to(p.device)[:, None] * up_to[:, -1:]
    # a number that rounds up to the whole sum would point behind the last token
    return torch.searchsorted(up_to, passed, right=True)[:, 0].clamp(max=p.shape[1] - 1)


def _likeliest(log_p: torch.Tensor, processor: Processor) -> torch.Tensor:
    """Greedy choice [B] from log-probabilities [B, V], where the numbers 0..1000 stand together against other tokens.

    A model unsure whether it is 480 or 520 spreads its belief over hundreds of number tokens, and the plain argmax
    would be the one token of a refusal at a tenth of the mass. Models that write digits decide it this way by nature.
    """
    tokens = log_p.argmax(-1)
    if processor.numbers is None:
        return tokens
    first, last = processor.numbers.first, processor.numbers.first + LAST_NUMBER  # ids of the tokens 0 and 1000
    best, number = log_p[:, first : last + 1].max(-1)
    together = log_p[:, first : last + 1].logsumexp(-1)  # [B], log of the mass of all numbers
    other = log_p.gather(1, tokens[:, None])[:, 0]
    # `other` is a number itself where best equals it
    return torch.where((together > other) | (best == other), number + first, tokens)
