"""The loss of mid-training: weighted cross entropy on answers, by token and by objective.

ℓ is cross entropy; for a coordinate it is cross entropy against a Gaussian over the number tokens around the true
one: coarse cells first, and 499 is no total miss of 500. A tokenizer that writes numbers digit by digit has plain
cross entropy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from trainer.modeling.batches import Batch, Row
from trainer.modeling.model import label_logits
from trainer.modeling.processor import Processor
from trainer.modeling.tokenizer import LAST_NUMBER
from trainer.runtime.parallel import Ranks
from trainer.settings.supervised import SpanWeights

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ROWS = 64
"""Rows of validation whose loss is taken at once."""


def token_losses(
    model: object, processor: Processor, batch: Batch, sigma: float = 0.0, image_blocks: int = 0
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(loss, weight, sample) of each labelled token, in order; see the module docstring for coordinates, and
    `trainer.modeling.model.hidden_states` for `image_blocks`."""
    found = label_logits(model, batch, image_blocks)  # over labelled tokens only: N of them in the batch
    log_p = torch.log_softmax(found.logits.float(), dim=-1)  # [N, V], float32 whatever the model computes in
    losses = -log_p.gather(1, found.labels[:, None])[:, 0]  # [N]
    if sigma > 0 and processor.numbers is not None:
        # [C]: which of the N are coordinates
        places = batch.coordinate[found.rows, found.columns].nonzero(as_tuple=True)[0]
        if len(places):
            first = processor.numbers.first
            truth = (found.labels[places] - first).float()  # [C], 0..1000
            units = torch.arange(LAST_NUMBER + 1, device=truth.device, dtype=truth.dtype)
            target = torch.softmax(-((units[None] - truth[:, None]) ** 2) / (2 * sigma**2), dim=-1)  # [C, 1001]
            soft = -(target * log_p[places, first : first + LAST_NUMBER + 1]).sum(-1)  # [C]
            losses = losses.index_copy(0, places, soft)
    return losses, batch.weights[found.rows, found.columns], found.samples


@torch.no_grad()
def validate(
    model: PreTrainedModel,
    processor: Processor,
    rows: Sequence[Row],
    spans: SpanWeights | None = None,
    group: Ranks | None = None,
) -> dict[str, float]:
    """Plain weighted cross entropy (no Gaussian) by objective, and `all`; objectives without rows are left out.

    Each of several ranks takes every world-th batch; all get the figures of all rows.
    """
    group = group or Ranks()
    was_training = model.training
    model.eval()
    names = sorted({str(row.get("objective", "?")) for row in rows} | {"all"})
    sums = {name: [0.0, 0.0] for name in names}
    device = next(model.parameters()).device
    starts = range(0, len(rows), ROWS)
    for turn in range(-(-len(starts) // group.world)):
        mine = turn * group.world + group.rank
        some = rows[starts[mine] : starts[mine] + ROWS] if mine < len(starts) else []
        batch = processor.training_batch(some, spans) if some else processor.empty_batch()
        # all ranks run the tower, or those that do would wait for the others for ever
        batch = processor.with_picture(batch) if group.world > 1 else batch
        losses, weights, owners = token_losses(model, processor, batch.to(device))
        for index, row in enumerate(some):
            here = owners == index
            for key in (str(row.get("objective", "?")), "all"):
                sums[key][0] += float((losses[here] * weights[here]).sum())
                sums[key][1] += float(weights[here].sum())
    model.train(was_training)
    # one collective for all figures: [loss, weight] of each name in turn
    whole = iter(group.sums([value for name in names for value in sums[name]]))
    return {name: total / weight for name, total, weight in ((n, next(whole), next(whole)) for n in names) if weight}
