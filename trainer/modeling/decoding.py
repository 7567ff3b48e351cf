"""A few tokens after another: the text decoder's layers on a cache that is laid out once.

The same numbers as the model's own forward pass with a cache (up to rounding), without what it does around its layers
at every call (masks, rotary tables of three axes, bookkeeping of outputs), which for a model of a few million
parameters takes several times as long as the layers do. Letters: B replies, T places so far, N tokens of a pass,
K heads of keys, D width of a head, H hidden width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from trainer.modeling.attention import MASKED

if TYPE_CHECKING:
    from transformers import PreTrainedModel

GROWTH = 64
"""Places that the cache gets when it is full."""
PLAIN = ("qwen3_vl", "qwen3_vl_moe")
"""Kinds of models whose layers `Decoder` knows."""


def drafts_fit(model: PreTrainedModel) -> bool:
    """Whether a model may read tokens that turn out to be none of the reply's: recurrent states keep them."""
    return model.config.model_type in PLAIN


def decoder_of(
    model: PreTrainedModel, cache: Any, mask: torch.Tensor, position: torch.Tensor
) -> Decoder | ModelDecoder:
    """What goes on after a prompt's pass; see `Decoder`."""
    return (Decoder if drafts_fit(model) else ModelDecoder)(model, cache, mask, position)


class ModelDecoder:
    """`Decoder` of any model, by its own forward pass on its own cache, a token at a time."""

    def __init__(self, model: PreTrainedModel, cache: Any, mask: torch.Tensor, position: torch.Tensor) -> None:
        self._model, self._cache, self._mask, self._position = model, cache, mask, position

    def keep(self, rest: torch.Tensor) -> None:
        """See `Decoder.keep`."""
        self._cache.reorder_cache(rest)
        self._mask, self._position = self._mask[rest], self._position[rest]

    def accept(self, width: int, counts: torch.Tensor) -> None:
        """See `Decoder.accept`; all that was read is the reply's."""
        self._position = self._position + counts

    def step(self, tokens: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        """See `Decoder.step`. Raises `ValueError` for more than one token of a reply."""
        if tokens.shape[1] != 1:
            raise ValueError(f"{self._model.config.model_type}: expected a token a pass, found {tokens.shape[1]}")
        self._mask = torch.cat([self._mask, given.to(self._mask.dtype)], 1)
        found: torch.Tensor = self._model.model(
            input_ids=tokens,
            attention_mask=self._mask,
            # text has one position, the same on all three axes
            position_ids=self._position[None, :, None].expand(3, -1, -1),
            past_key_values=self._cache,
            use_cache=True,
        ).last_hidden_state
        return found


class Decoder:
    """Goes on after a prompt pass of a Qwen3-VL model (dense or MoE) that filled `cache`.

    `mask` [B, T] is true where a token of the prompt stands and false at padding, `position` [B] is that of the next
    token, the same on all three axes, since all that follows is text. A pass reads tokens that may turn out to be none
    of the reply's; `accept` says how many were: the places of the others stay empty.
    """

    def __init__(self, model: PreTrainedModel, cache: Any, mask: torch.Tensor, position: torch.Tensor) -> None:
        text = model.model.language_model
        self._embed, self._layers, self._norm, self._rotary = text.embed_tokens, text.layers, text.norm, text.rotary_emb
        self._position, self._length = position, mask.shape[1]
        self._seen = mask.bool()
        self._values = [layer.values for layer in cache.layers]
        # under autocast values are in 16 bits and keys, which a norm in float32 made, are not
        self._keys = [layer.keys.to(layer.values.dtype) for layer in cache.layers]

    def keep(self, rest: torch.Tensor) -> None:
        """Go on with these replies alone (indices)."""
        self._seen, self._position = self._seen[rest], self._position[rest]
        for cache in (self._keys, self._values):
            for layer, whole in enumerate(cache):  # one after the other, so that none but one stands twice
                cache[layer] = whole[rest]

    def accept(self, width: int, counts: torch.Tensor) -> None:
        """Of the last `width` tokens read, the first `counts` [B] are the reply's."""
        own = torch.arange(width, device=counts.device) < counts[:, None]
        # a token of the draft that isn't the reply's stays in the cache, unseen
        self._seen[:, self._length - width : self._length] &= own
        self._position = self._position + counts

    def step(self, tokens: torch.Tensor, given: torch.Tensor) -> torch.Tensor:
        """Tokens [B, N], of which `given` [B, N] (the first so many) are some → hidden states [B, N, H] after each."""
        width = tokens.shape[1]
        begin, self._length = self._length, self._length + width
        self._make_room()
        state = self._embed(tokens)  # [B, N, H]
        ahead = torch.arange(width, device=tokens.device)
        # [B, N, D]; three axes alike
        cos, sin = self._rotary(state, (self._position[:, None] + ahead)[None].expand(3, -1, -1))
        cos, sin = cos[:, None], sin[:, None]  # [B, 1, N, D]
        self._seen[:, begin : self._length] = given
        seen = self._seen[:, None, None, : self._length]  # [B, 1, 1, T]
        # one token may see all that is there; several mustn't see those drafted after them
        if width > 1:
            later = torch.arange(self._length, device=tokens.device) > (begin + ahead)[:, None]  # [N, T]
            seen = seen & ~later
        for layer, keys, values in zip(self._layers, self._keys, self._values, strict=True):
            own = layer.self_attn
            shape = (*state.shape[:-1], -1, own.head_dim)
            inner = layer.input_layernorm(state)
            query = _turned(own.q_norm(own.q_proj(inner).view(shape)).transpose(1, 2), cos, sin)  # [B, Q, N, D]
            keys[:, :, begin : self._length] = _turned(
                own.k_norm(own.k_proj(inner).view(shape)).transpose(1, 2), cos, sin
            )
            values[:, :, begin : self._length] = own.v_proj(inner).view(shape).transpose(1, 2)
            read = keys[:, :, : self._length], values[:, :, : self._length]
            found = _attention(query, *read, seen, own.scaling)
            state = state + own.o_proj(found.transpose(1, 2).reshape(*state.shape[:-1], -1))
            state = state + layer.mlp(layer.post_attention_layernorm(state))
        final: torch.Tensor = self._norm(state)
        return final

    def _make_room(self) -> None:
        if (more := self._length - self._seen.shape[1]) > 0:
            more = max(more, GROWTH)
            self._seen = functional.pad(self._seen, (0, more))
            for cache in (self._keys, self._values):
                for layer, full in enumerate(cache):
                    cache[layer] = functional.pad(full, (0, 0, 0, more))


def _attention(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, seen: torch.Tensor, scale: float
) -> torch.Tensor:
    """softmax(q·kᵀ·scale)·v over what is `seen` [B, 1, N or 1, T]: [B, Q, N, D] → the same."""
    if query.is_cuda:
        return grouped_attention(query, keys, values, seen, scale)
    return functional.scaled_dot_product_attention(
        query, keys, values, seen, scale=scale, enable_gqa=query.shape[1] != keys.shape[1]
    )


def grouped_attention(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, seen: torch.Tensor, scale: float
) -> torch.Tensor:
    """The same by two products that read the cache once. PyTorch's kernels for GPUs take either a mask or heads that
    share keys; without one of them it repeats the cache and reads it in float32."""
    shared, width = keys.shape[1], query.shape[2]
    grouped = query.to(keys.dtype).unflatten(1, (shared, -1)).flatten(2, 3)  # [B, K, G · N, D]
    # sums of 16-bit products are kept in float32 before the softmax
    scores = (grouped @ keys.mT).float().mul_(scale).unflatten(2, (-1, width))  # [B, K, G, N, T]
    scores = scores.masked_fill_(~seen[:, None], MASKED)
    weights = torch.softmax(scores, -1).to(values.dtype).flatten(2, 3)
    return (weights @ values).unflatten(2, (-1, width)).flatten(1, 2)


def _turned(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary embedding of [B, K, N, D]."""
    one, two = heads.chunk(2, -1)
    return heads * cos + torch.cat((-two, one), -1) * sin
