"""Which kernels a model learns with: another attention than PyTorch's own, and blocks that are compiled.

Numbers stay the same up to rounding. With `narrow` what the layers add up is kept in 16 bits under autocast on a GPU,
as it is on several ranks: 5 % faster, but log-probabilities are twice as far from those of the sampler (0.048 and 0.026
nats a token with the 2b's shapes on an H200), so that only what nobody samples learns by it. Replies are drawn by the
usual kernels: a pass of one token gains nothing, and the cache would have each block compiled once more.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

USUAL = "sdpa"


class Kernels:
    """Those of a model, whole or in parts, while `used`. Raises `ValueError` for an attention that can't be loaded."""

    def __init__(self, model: Any, attention: str = USUAL, compiled: bool = False, narrow: bool = False) -> None:
        text = model.model.language_model
        self._config, self._usual = text.config, text.config._attn_implementation
        if attention != USUAL:
            _load(text, attention)
        # loading wrote it into the model's configuration, where the usual one belongs outside of `used`
        self._attention, self._config._attn_implementation = self._config._attn_implementation, self._usual
        self._embedding = text.embed_tokens if narrow else None
        blocks = (*model.model.visual.blocks, *text.layers) if compiled else ()
        self._compiled = [(block, _compiled(block)) for block in blocks]

    @contextmanager
    def used(self) -> Iterator[None]:
        """The model runs by them inside."""
        self._config._attn_implementation = self._attention
        hook = self._embedding.register_forward_hook(_in_16_bits) if self._embedding is not None else None
        for block, call in self._compiled:
            # what a module's call goes by instead of `forward`, where it is set
            block._compiled_call_impl = call
        try:
            yield
        finally:
            if hook is not None:
                hook.remove()
            self._config._attn_implementation = self._usual
            for block, _ in self._compiled:
                block._compiled_call_impl = None


def _in_16_bits(_embedding: object, _given: object, states: torch.Tensor) -> torch.Tensor:
    """What the decoder begins with; autocast by itself casts the factors of products alone."""
    if not (states.is_cuda and torch.is_autocast_enabled("cuda")):
        return states
    return states.to(torch.get_autocast_dtype("cuda"))


def _load(text: Any, attention: str) -> None:
    try:
        text.set_attn_implementation(attention)
    except (ImportError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"attention: expected {USUAL} or a kernel that transformers can load here, found {attention!r}: "
            f"{reason:.300}"
        ) from error


def _compiled(block: Any) -> Any:
    """What `Module.compile` lets a block be called by, for all lengths; the block is as it was."""
    block.compile(dynamic=True)
    call, block._compiled_call_impl = block._compiled_call_impl, None
    return call
