"""Sampled replies → training batches: where a reply ends, what its labels are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch

from trainer.batches import Batch, Processor, Row
from trainer.generation import Completion


def ended_at_control(reply: Completion, processor: Processor) -> Completion:
    """A sampled control token (an image place, say) ends the reply: what comes after it was read from nothing.

    The token stays as the reply's last, so that training can push it down.
    """
    control = set(processor.tokenizer.all_special_ids)
    place = next((i for i, token in enumerate(reply.token_ids) if token in control), None)
    if place is None or reply.token_ids[place] == processor.end_id:
        return reply
    return replace(
        reply, token_ids=reply.token_ids[: place + 1], logprobs=reply.logprobs[: place + 1],
        text=processor.text(reply.token_ids[:place]), finished=False,
    )  # fmt: skip


def reply_batch(processor: Processor, rows: Sequence[Row], replies: Sequence[Completion]) -> Batch:
    """`reply_batch`, with the end token as the input of every last reply token and that token itself as its label.

    No later token reads that input; but an image place without a picture among the inputs can't be laid out.
    """
    batch = processor.reply_batch(rows, [[*reply.token_ids[:-1], processor.end_id] for reply in replies])
    for index, reply in enumerate(replies):
        last = int((batch.labels[index] != -100).nonzero()[-1])
        batch.labels[index, last] = reply.token_ids[-1]
    return batch


def padded(rows: Sequence[Sequence[float]], like: torch.Tensor) -> torch.Tensor:
    """Lists → [S, L] padded right with 0, as `like`."""
    padded = torch.zeros_like(like)
    for index, row in enumerate(rows):
        padded[index, : len(row)] = torch.tensor(row, dtype=like.dtype)
    return padded.detach()
