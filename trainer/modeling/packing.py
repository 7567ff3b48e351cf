"""Sequence packing: several samples in one sequence, none of which sees another.

`bins` decides which samples share a sequence, `packed` turns a padded batch into that sequence [1, T], and
`packed_attention` keeps attention within each sample. Positions restart with every sample, and each keeps its own
pictures, so a sample's logits are those it has alone; what is saved is the padding. Transformers' own packing goes by
positions that restart, which the picture positions of Qwen3-VL hide from it: the bounds travel as `cu_seq_lens_q`,
the arguments of its flash attention kernels, which take them as they are where they are installed.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from functools import partial
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from trainer.modeling.attention import attention, attention_in_row, lengths_fit_one_kernel, slow_when_fused

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from trainer.modeling.batches import Batch

BOUNDS = ("cu_seq_lens_k", "max_length_q", "max_length_k")
"""What `attention_arguments` gives beside `cu_seq_lens_q`."""
ATTENTION = "sdpa_packed"
"""Name of `packed_attention` among the attention functions of transformers."""


def bins(lengths: Sequence[int], max_length: int) -> list[list[int]]:
    """Lengths in tokens → indices of the samples that share a sequence of at most `max_length` tokens.

    Best-fit decreasing: the longest sample first, each into the fullest sequence it still fits in (Johnson et al.,
    1974; TRL's `packing_strategy="bfd"`). A sample longer than `max_length` has a sequence of its own, so none is
    lost. Equal lengths keep their order: a pure function of the lengths. Sequences are in the order they were opened,
    samples within one in their own order.
    """
    if max_length < 1:
        raise ValueError(f"bins: expected max_length >= 1, found {max_length}")
    sequences: list[list[int]] = []
    room: list[tuple[int, int]] = []  # (tokens left, sequence), sorted
    # longest first; the index decides between equal ones
    for index in sorted(range(len(lengths)), key=lambda i: (-lengths[i], i)):
        # the fullest sequence that has room: the smallest rest which is at least so long
        place = bisect_left(room, (lengths[index], -1))
        if place < len(room):
            left, chosen = room.pop(place)
        else:
            left, chosen = max(max_length, lengths[index]), len(sequences)
            sequences.append([])
        sequences[chosen].append(index)
        # a sequence without room is no candidate any more
        if left > lengths[index]:
            insort(room, (left - lengths[index], chosen))
    return [sorted(chosen) for chosen in sequences]


def fill(lengths: Sequence[int], made: Sequence[Sequence[int]], max_length: int) -> float:
    """Share of the places of the sequences that hold a token."""
    return sum(lengths) / (len(made) * max_length) if made else 0.0


def packed(batch: Batch) -> Batch:
    """A padded batch [B, S] → its real tokens in one row [1, T], samples one after another."""
    real = batch.attention_mask.bool()

    def flat(tensor: torch.Tensor) -> torch.Tensor:
        return tensor[real][None]

    from trainer.modeling.batches import Batch

    return Batch(
        flat(batch.input_ids),
        flat(batch.attention_mask),
        batch.position_ids[:, real][:, None],
        flat(batch.mm_token_type_ids),
        flat(batch.labels),
        flat(batch.weights),
        flat(batch.coordinate),
        batch.image_use,
        batch.pixel_values,
        batch.image_grid_thw,
        lengths=real.sum(1).tolist(),
        picture_keys=batch.picture_keys,
        features=batch.features,
    )


def takes_packed(model: PreTrainedModel) -> bool:
    """Whether the attention of a model keeps samples that share a row apart."""
    kernel = str(model.model.language_model.config._attn_implementation)
    return kernel == ATTENTION or "flash" in kernel


def shares_prompts(model: PreTrainedModel) -> bool:
    """Whether replies in a packed row may share prompts: by `packed_attention` alone, and no layer is recurrent."""
    text = model.model.language_model
    recurrent = any(getattr(layer, "linear_attn", None) is not None for layer in text.layers)
    return str(text.config._attn_implementation) == ATTENTION and not recurrent


def attention_arguments(model: PreTrainedModel, batch: Batch) -> dict[str, object]:
    """What attention functions of transformers take for the samples of a packed batch.

    Raises `ValueError` for a model whose attention would not heed it and let samples see one another.
    """
    if not (shares_prompts(model) if batch.prompts is not None else takes_packed(model)):
        kernel = str(model.model.language_model.config._attn_implementation)
        raise ValueError(
            f"packing: expected attention by {ATTENTION} or flash attention, found {kernel!r}; load the "
            "model with sdpa, or set packing and padding_free to false"
        )
    lengths, device = batch.lengths or [], batch.input_ids.device
    queries, longest = _bounds(lengths).to(device), max(lengths)
    if batch.prompts is None:
        return {"cu_seq_lens_q": queries, "cu_seq_lens_k": queries, "max_length_q": longest, "max_length_k": longest}
    seen = [length + (lengths[at] if at >= 0 else 0) for length, at in zip(lengths, batch.prompts, strict=True)]
    return {
        "cu_seq_lens_q": queries,
        "cu_seq_lens_k": _bounds(seen).to(device),
        "max_length_q": longest,
        "max_length_k": max(seen),
        "key_places": _key_places(lengths, batch.prompts).to(device),
    }


def _bounds(lengths: Sequence[int]) -> torch.Tensor:
    """int32 [N + 1]: 0 and where each ends."""
    return functional.pad(torch.tensor(lengths, dtype=torch.int32).cumsum(0, dtype=torch.int32), (1, 0))


def _key_places(lengths: Sequence[int], prompts: Sequence[int]) -> torch.Tensor:
    """Places in the row of the keys that each part sees: those of its prompt, and its own."""
    own = [torch.arange(end - length, end) for end, length in zip(accumulate(lengths), lengths, strict=True)]
    seen = [(each,) if at < 0 else (own[at], each) for each, at in zip(own, prompts, strict=True)]
    return torch.cat([places for parts in seen for places in parts])


def packed_attention(
    module: Any,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    cu_seq_lens_q: torch.Tensor | None = None,
    cu_seq_lens_k: torch.Tensor | None = None,
    max_length_q: int = 0,
    max_length_k: int = 0,
    key_places: torch.Tensor | None = None,
    **kwargs: Any,
) -> tuple[torch.Tensor, None]:
    """Causal attention within each sample, [1, H, T, D] → [1, T, H, D]; without bounds it is that of a padded batch.
    `key_places`: of the keys that each part of the row sees, where replies share prompts.

    It costs the sum of the squared lengths, where a block mask would cost the square of their sum: by one kernel that
    takes the bounds, or by one call a sample.
    """
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    # a mask means a padded batch: its samples are apart already
    if cu_seq_lens_q is None or attention_mask is not None:
        if not slow_when_fused(query, key):
            return sdpa_attention_forward(module, query, key, value, attention_mask, dropout, scaling, **kwargs)
        causal = attention_mask is None and query.shape[2] > 1
        out = attention(query, key, value, attention_mask, causal=causal, scale=scaling, dropout=dropout)
        return out.transpose(1, 2).contiguous(), None
    if cu_seq_lens_k is None:
        cu_seq_lens_k, max_length_k = cu_seq_lens_q, max_length_q
    if key_places is not None:
        key, value = key[:, :, key_places], value[:, :, key_places]
    if lengths_fit_one_kernel(query):
        # the kernel wants one row of tokens, [T, H, D]
        q, k, v = (heads[0].transpose(0, 1) for heads in (query, key, value))
        bounds, longest = (cu_seq_lens_q, cu_seq_lens_k), (max_length_q, max_length_k)
        return attention_in_row(q, k, v, bounds, longest, causal=True, scale=scaling)[None], None
    queries, keys = ((ends[1:] - ends[:-1]).tolist() for ends in (cu_seq_lens_q, cu_seq_lens_k))
    cut = zip(query.split(queries, dim=2), key.split(keys, dim=2), value.split(keys, dim=2), strict=True)
    parts = [_last_queries(q, k, v, scaling, dropout) for q, k, v in cut]
    return torch.cat(parts, dim=2).transpose(1, 2).contiguous(), None


def _last_queries(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, scale: float | None, dropout: float
) -> torch.Tensor:
    """Causal attention of queries that are those of the last keys."""
    queries, keys = query.shape[2], key.shape[2]
    if queries == keys:
        return attention(query, key, value, causal=True, scale=scale, dropout=dropout)
    # query i is that of key i + (keys - queries), and sees up to it
    seen = torch.ones(queries, keys, dtype=torch.bool, device=query.device).tril(keys - queries)
    return attention(query, key, value, seen, scale=scale, dropout=dropout)


def _apart(
    forward: Callable[..., torch.Tensor],
    hidden_states: torch.Tensor,
    cache_params: Any = None,
    attention_mask: torch.Tensor | None = None,
    cu_seq_lens_q: torch.Tensor | None = None,
    **kwargs: Any,
) -> torch.Tensor:
    """A recurrent layer (Qwen3.5's linear attention) on each sample of a packed row [1, T, H] by itself, side by side
    with padding: state and convolution would run on from one into the next, unless a kernel heeds the bounds."""
    if cu_seq_lens_q is None or attention_mask is not None:
        return forward(hidden_states, cache_params=cache_params, attention_mask=attention_mask, **kwargs)
    kwargs = {name: value for name, value in kwargs.items() if name not in BOUNDS}
    lengths = (cu_seq_lens_q[1:] - cu_seq_lens_q[:-1]).tolist()
    longest = max(lengths)
    parts = [functional.pad(part, (0, 0, 0, longest - len(part))) for part in hidden_states[0].split(lengths)]
    found = forward(torch.stack(parts), cache_params=None, attention_mask=None, **kwargs)  # causal: padding is behind
    return torch.cat([found[place, :length] for place, length in enumerate(lengths)])[None]


def accept_packed(model: PreTrainedModel) -> None:
    """Let the text part of a model that uses SDPA take packed sequences (flash attention does by itself)."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

    AttentionInterface.register(ATTENTION, packed_attention)
    AttentionMaskInterface.register(ATTENTION, sdpa_mask)
    for layer in model.model.language_model.layers:
        if (recurrent := getattr(layer, "linear_attn", None)) is not None:
            recurrent.forward = partial(_apart, recurrent.forward)
    config = model.model.language_model.config
    if config._attn_implementation == "sdpa":
        config._attn_implementation = ATTENTION
