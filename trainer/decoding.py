"""One token after another: the text decoder's layers on a cache that is laid out once.

The same numbers as the model's own forward pass with a cache (up to rounding), without what it does around its layers
at every call (masks, rotary tables of three axes, bookkeeping of outputs), which for a model of a few million
parameters takes several times as long as the layers do. Letters: B replies, T tokens so far, K heads of keys, D width
of a head, H hidden width.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional


class Decoder:
    """Goes on after a prompt pass of a Qwen3-VL model (dense or MoE) that filled `cache`, up to `room` tokens.

    `mask` [B, T] tells the prompt's tokens from padding, `position` [B] is that of the next token, the same on all
    three axes, since all that follows is text.
    """

    def __init__(self, model: Any, cache: Any, mask: torch.Tensor, position: torch.Tensor, room: int) -> None:
        text = model.model.language_model
        self._embed, self._layers, self._norm, self._rotary = text.embed_tokens, text.layers, text.norm, text.rotary_emb
        self._position, self._length = position, mask.shape[1]
        self._seen = functional.pad(mask.bool(), (0, room), value=True)
        self._keys, self._values = (
            [functional.pad(getattr(layer, name), (0, 0, 0, room)) for layer in cache.layers]
            for name in ("keys", "values")
        )

    def keep(self, rest: torch.Tensor) -> None:
        """Go on with these replies alone (indices)."""
        self._seen, self._position = self._seen[rest], self._position[rest]
        self._keys = [keys[rest] for keys in self._keys]
        self._values = [values[rest] for values in self._values]

    def step(self, tokens: torch.Tensor) -> torch.Tensor:
        """Tokens [B] → last hidden states [B, H] after them."""
        state = self._embed(tokens)[:, None]
        cos, sin = self._rotary(state, self._position[None, :, None].expand(3, -1, -1))
        cos, sin = cos[:, None], sin[:, None]
        end = self._length + 1
        seen = self._seen[:, None, None, :end]
        for layer, keys, values in zip(self._layers, self._keys, self._values, strict=True):
            own = layer.self_attn
            shape = (*state.shape[:-1], -1, own.head_dim)
            inner = layer.input_layernorm(state)
            query = _turned(own.q_norm(own.q_proj(inner).view(shape)).transpose(1, 2), cos, sin)
            keys[:, :, self._length] = _turned(own.k_norm(own.k_proj(inner).view(shape)).transpose(1, 2), cos, sin)[
                :, :, 0
            ]
            values[:, :, self._length] = own.v_proj(inner).view(shape)[:, 0]
            found = functional.scaled_dot_product_attention(
                query, keys[:, :, :end], values[:, :, :end], seen, scale=own.scaling,
                enable_gqa=query.shape[1] != keys.shape[1],
            )  # fmt: skip
            state = state + own.o_proj(found.transpose(1, 2).reshape(*state.shape[:-1], -1))
            state = state + layer.mlp(layer.post_attention_layernorm(state))
        self._length, self._position = end, self._position + 1
        final: torch.Tensor = self._norm(state)[:, 0]
        return final


def _turned(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary embedding of [B, K, 1, D]."""
    one, two = heads.chunk(2, -1)
    return heads * cos + torch.cat((-two, one), -1) * sin
