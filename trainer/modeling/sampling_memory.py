"""How many prompts may be answered at once on a GPU: caches of keys and values are what sampling takes memory for.

By arithmetic from the sizes of the model, on the safe side; on a CPU only the caller's own limit counts. With the 8b,
1080 x 2400 screens and 8 replies of 512 tokens to each, a prompt takes 8.8 GB.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from trainer.modeling.batches import Row
from trainer.modeling.processor import Processor

if TYPE_CHECKING:
    from transformers import PreTrainedModel

SHARE = 0.8
"""Of the memory that is free: kernels and the allocator want some."""
NUMBER = 4
"""Bytes: weights are float32, and so are keys while a prompt is read; then they take half of it, as values do."""


def prompts_at_once(
    model: PreTrainedModel, processor: Processor, rows: Sequence[Row], group: int, new_tokens: int, most: int
) -> int:
    """How many of `rows` may be answered `group` times each, by at most `new_tokens` tokens, at the same time: 1 to
    `most`."""
    device = next(model.parameters()).device
    if not _on_gpu(device) or not rows:
        return most
    longest = max(processor.prompt_length(row) for row in rows)
    wanted = bytes_of_a_prompt(model.config.get_text_config(), longest, group, new_tokens)
    return max(1, min(most, int(SHARE * _free(device) / wanted)))


def bytes_of_a_prompt(text: Any, prompt_tokens: int, group: int, new_tokens: int) -> int:
    """What a prompt of so many tokens and its replies take at most, for a decoder of the configuration `text`: keys and
    values of all layers, those of one layer once more where the cache grows, and while the prompt is read what a layer
    makes of it."""
    layer = 2 * text.num_key_value_heads * text.head_dim * NUMBER
    kept = (text.num_hidden_layers + 1) * layer * group * (prompt_tokens + new_tokens)
    experts = getattr(text, "moe_intermediate_size", 0) * getattr(text, "num_experts_per_tok", 0)
    wide = max(text.intermediate_size, experts)
    read = (4 * wide + 8 * text.hidden_size) * NUMBER * prompt_tokens
    return int(kept + read)


def _on_gpu(device: torch.device) -> bool:
    return device.type == "cuda"


def _free(device: torch.device) -> int:
    """Bytes that this process could have: free ones, and those that its allocator keeps for it."""
    free, _ = torch.cuda.mem_get_info(device)
    # what the allocator holds and nobody uses is free to this process
    return int(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))
