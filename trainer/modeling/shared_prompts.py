"""Replies to one prompt in one packed row, the prompt once.

A step of GRPO learns from a group of replies to one prompt, which is a screen of a thousand tokens and an instruction,
while a reply has a hundred: laid out one by one, eight replies hold the prompt eight times. Here a row is made of
parts: a prompt where it is first needed, then each of its replies, whose attention sees the prompt's keys beside its
own (`packing.packed_attention`). Positions are those that a reply has behind its prompt, so its logits, and their
gradient, are those it has alone, up to rounding (as in Prefix Grouper, arXiv 2506.05433).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from trainer.modeling.batches import Batch, Prompt, Row
from trainer.modeling.packing import packed, shares_prompts, takes_packed
from trainer.modeling.seen_pictures import SeenPictures

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from trainer.modeling.processor import Processor


def replies_laid_out(
    model: PreTrainedModel,
    processor: Processor,
    rows: Sequence[Row],
    replies: Sequence[Sequence[int]],
    seen: SeenPictures | None = None,
) -> Batch:
    """Prompts and reply ids in the shortest form that the model's attention takes: equal prompts once, without padding,
    or padded. `seen`: as in `Processor.pad`."""
    prompts = processor.prompts(rows)
    batch = processor.pad(prompts, replies, None, left=False, seen=seen)
    if shares_prompts(model):
        return share_prompts(batch, prompts)
    return packed(batch) if takes_packed(model) else batch


def share_prompts(batch: Batch, prompts: Sequence[Prompt]) -> Batch:
    """A batch [B, S] of these prompts with their replies, padded right → one row [1, T] in which equal prompts stand
    once, replies in their order."""
    places: dict[tuple[object, ...], int] = {}
    lengths: list[int] = []
    owners: list[int] = []
    rows: list[torch.Tensor] = []
    columns: list[torch.Tensor] = []
    use: list[int] = []
    pictures = iter(batch.image_use)

    def add(row: int, begin: int, end: int, owner: int) -> None:
        lengths.append(end - begin)
        owners.append(owner)
        rows.append(torch.full((end - begin,), row))
        columns.append(torch.arange(begin, end))

    for row, (prompt, length) in enumerate(zip(prompts, batch.attention_mask.sum(1).tolist(), strict=True)):
        # taken even where the prompt stands already: each use has its turn in the list
        shown = [next(pictures) for _ in prompt.pictures]
        key = (*prompt.ids, *(picture.key for picture in prompt.pictures))
        if key not in places:
            places[key] = len(lengths)
            add(row, 0, len(prompt.ids), -1)
            use += shown
        add(row, len(prompt.ids), length, places[key])
    at = torch.cat(rows), torch.cat(columns)

    def taken(tensor: torch.Tensor) -> torch.Tensor:
        return tensor[at][None]

    return replace(
        batch,
        input_ids=taken(batch.input_ids),
        attention_mask=taken(batch.attention_mask),
        position_ids=batch.position_ids[:, *at][:, None],
        mm_token_type_ids=taken(batch.mm_token_type_ids),
        labels=taken(batch.labels),
        weights=taken(batch.weights),
        coordinate=taken(batch.coordinate),
        image_use=use,
        lengths=lengths,
        prompts=owners,
    )
