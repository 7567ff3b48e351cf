"""The logits that predict the labelled tokens of a batch, to look at: training asks for less, a chunk at a time."""

from __future__ import annotations

from trainer.modeling.batches import Batch
from trainer.modeling.model import LabelTerms, label_terms


def label_logits(model: object, batch: Batch, image_blocks: int = 0) -> LabelTerms:
    """`values` are the logits [N, V]."""
    return label_terms(model, batch, lambda logits, _labels, _coordinate: logits, image_blocks)
