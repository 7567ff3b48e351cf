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
from trainer.modeling.model import label_terms
from trainer.modeling.packing import bins, packed, takes_packed
from trainer.modeling.processor import Processor
from trainer.modeling.tokenizer import LAST_NUMBER
from trainer.runtime.parallel import Ranks
from trainer.settings.supervised import SpanWeights

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TOKENS = 8192
"""Of the rows of validation whose loss is taken at once; a longer row is alone."""


def token_losses(
    model: object, processor: Processor, batch: Batch, sigma: float = 0.0, image_blocks: int = 0
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(loss, weight, sample) of each labelled token, in order; see the module docstring for coordinates, and
    `trainer.modeling.model.hidden_states` for `image_blocks`."""
    # coordinates are tokens of their own, 0 to 1000 in order from `first` on
    first = processor.numbers.first if sigma > 0 and processor.numbers is not None else None

    def losses(logits: torch.Tensor, labels: torch.Tensor, coordinate: torch.Tensor) -> torch.Tensor:
        log_p = torch.log_softmax(logits.float(), dim=-1)  # [n, V], float32 whatever the model computes in
        losses = -log_p.gather(1, labels[:, None])[:, 0]  # [n]
        places = coordinate.nonzero(as_tuple=True)[0]  # [C]: which of the n are coordinates
        if first is None or not len(places):
            return losses
        truth = (labels[places] - first).float()  # [C], 0..1000
        units = torch.arange(LAST_NUMBER + 1, device=truth.device, dtype=truth.dtype)
        # normalised over 0..1000, so that near an edge the whole target still lies on the screen
        target = torch.softmax(-((units[None] - truth[:, None]) ** 2) / (2 * sigma**2), dim=-1)  # [C, 1001]
        soft = -(target * log_p[places, first : first + LAST_NUMBER + 1]).sum(-1)  # [C]
        # not in place: `losses` belongs to the graph that the backward pass goes through
        return losses.index_copy(0, places, soft)

    found = label_terms(model, batch, losses, image_blocks)
    return found.values, batch.weights[found.rows, found.columns], found.samples


@torch.no_grad()
def validate(
    model: PreTrainedModel,
    processor: Processor,
    rows: Sequence[Row],
    spans: SpanWeights | None = None,
    group: Ranks | None = None,
) -> dict[str, float]:
    """Plain weighted cross entropy (no Gaussian) by objective, and `all`; objectives without rows are left out.

    Rows are packed into sequences of `TOKENS`, as in training. Each of several ranks takes every world-th sequence; all
    get the figures of all rows. Raises `BadSample` for a row that can't become one.
    """
    group = group or Ranks()
    was_training = model.training
    model.eval()
    names = sorted({str(row.get("objective", "?")) for row in rows} | {"all"})
    sums = {name: [0.0, 0.0] for name in names}
    device = next(model.parameters()).device
    sequences = bins([processor.length(row) for row in rows], TOKENS)
    # a turn is one sequence of each rank; a rank that has none left computes an empty batch along
    for turn in range(0, len(sequences), group.world):
        some = [rows[index] for chosen in sequences[turn + group.rank :][:1] for index in chosen]
        batch = processor.training_batch(some, spans) if some else processor.empty_batch()
        batch = packed(batch) if takes_packed(model) else batch
        # all ranks run the tower, or those that do would wait for the others for ever
        batch = processor.with_picture(batch) if group.world > 1 else batch
        losses, weights, owners = token_losses(model, processor, batch.to(device))
        # in double, since these are sums over a whole validation set
        each = torch.stack([losses * weights, weights]).double()  # [2, N]
        by_row = each.new_zeros(2, len(some)).index_add(1, owners, each)
        for row, *found in zip(some, *by_row.tolist(), strict=True):
            for key in (str(row.get("objective", "?")), "all"):
                sums[key] = [total + one for total, one in zip(sums[key], found, strict=True)]
    model.train(was_training)
    # one collective for all figures: [loss, weight] of each name in turn
    whole = iter(group.sums([value for name in names for value in sums[name]]))
    return {name: total / weight for name, total, weight in ((n, next(whole), next(whole)) for n in names) if weight}
