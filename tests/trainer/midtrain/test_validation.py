"""The loss of validation rows: each row's own, whatever it was computed beside, in batches of bounded size."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from drawn import draw, make_rows

from trainer.midtrain import loss
from trainer.modeling.batches import Batch
from trainer.settings.supervised import SpanWeights

SPANS = SpanWeights(coordinate=5.0, text=0.5)


@torch.no_grad()
def of_each(model: Any, processor: Any, rows: list[dict[str, Any]]) -> dict[str, float]:
    """Weighted means by objective, from one row at a time."""
    sums: dict[str, list[float]] = {}
    for row in rows:
        losses, weights, _ = loss.token_losses(model, processor, processor.training_batch([row], SPANS))
        for key in (row["objective"], "all"):
            both = sums.setdefault(key, [0.0, 0.0])
            both[0] += float((losses * weights).sum())
            both[1] += float(weights.sum())
    return {key: total / weight for key, (total, weight) in sums.items()}


@pytest.mark.parametrize("kernel", ["sdpa_packed", "eager"])
def test_batches_hold_so_many_tokens_and_the_figures_are_those_of_each_row(
    model: Any, processor: Any, monkeypatch: pytest.MonkeyPatch, kernel: str
) -> None:
    """A row that is longer than a batch may be has one of its own. Attention that can't keep samples apart takes the
    same rows padded."""
    rows = make_rows(11, seed=3)
    rows[2] |= {"images": [draw({"red": (10, 20, 60, 90)}, (120, 260))]}
    rows[7] |= {"images": [], "messages": '[{"role": "user", "content": "' + "scroll on, and " * 60 + '"}]'}
    lengths = [processor.length(row) for row in rows]
    assert max(lengths) > 170 > 2 * min(lengths)
    if kernel == "eager":
        model.set_attn_implementation(kernel)
    seen: list[Batch] = []
    plain = loss.token_losses

    def spied(model: Any, processor: Any, batch: Batch) -> tuple[torch.Tensor, ...]:
        seen.append(batch)
        return plain(model, processor, batch)

    monkeypatch.setattr(loss, "TOKENS", 170)
    monkeypatch.setattr(loss, "token_losses", spied)
    found = loss.validate(model.eval(), processor, rows, SPANS)
    assert sum(batch.tokens for batch in seen) == sum(lengths)
    assert sorted(batch.tokens > 170 for batch in seen) == [False] * (len(seen) - 1) + [True]
    assert len(seen) <= sum(lengths) / 170 + 3
    if kernel == "sdpa_packed":
        assert all(batch.input_ids.numel() == batch.tokens for batch in seen)
    monkeypatch.setattr(loss, "token_losses", plain)
    assert found == pytest.approx(of_each(model, processor, rows), rel=1e-5)
