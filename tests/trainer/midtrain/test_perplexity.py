"""Weights by perplexity: neutral at power 0, bounded by the cap, the same however a step is split."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainer.data.row_sources import ListSource
from trainer.midtrain.engines import engine
from trainer.midtrain.loss import token_losses
from trainer.midtrain.perplexity import perplexity_weights
from trainer.midtrain.train import train
from trainer.settings.supervised import MidtrainConfig, PerplexityWeights

HARD = PerplexityWeights(power=0.5, cap=4.0)
CONFIG = MidtrainConfig(
    max_steps=3, batch_size=4, warmup_steps=1, eval_steps=0, learning_rate=3e-3, threads=1, sigma=(0, 0)
)
LOSSES = st.lists(st.floats(0, 50), min_size=1, max_size=20)
NO_COORDINATE = torch.zeros(20, dtype=torch.bool)


def factors(losses: list[float], config: PerplexityWeights = HARD) -> list[float]:
    found: list[float] = perplexity_weights(torch.tensor(losses), NO_COORDINATE[: len(losses)], 0.0, config).tolist()
    return found


@given(LOSSES)
def test_factors_rise_with_the_loss_from_1_to_the_cap(losses: list[float]) -> None:
    found = [factor for _, factor in sorted(zip(losses, factors(losses), strict=True))]
    assert found == sorted(found) and all(1.0 <= factor <= 4.0 + 1e-5 for factor in found)
    assert factors(losses, PerplexityWeights()) == [1.0] * len(losses)


def test_by_hand() -> None:
    assert factors([0.0, 2 * math.log(2), 90.0]) == pytest.approx([1.0, 2.0, 4.0])  # ppl 4 to the power of 1/2


def test_a_coordinate_counts_by_what_its_gaussian_leaves_to_learn() -> None:
    floor = 0.5 * math.log(2 * math.pi * math.e * 60.0**2)
    losses, coordinate = torch.tensor([floor, floor, floor + math.log(4)]), torch.tensor([True, False, True])
    assert perplexity_weights(losses, coordinate, 60.0, HARD).tolist() == pytest.approx([1.0, 4.0, 2.0])


@pytest.mark.slow
class TestTraining:
    def losses(self, model: Any, processor: Any, rows: Any, config: MidtrainConfig) -> list[dict[str, Any]]:
        trained = copy.deepcopy(model)
        return list(train(trained, processor, ListSource(rows, 3), config, progress=False).steps)

    def test_the_first_loss_is_the_weighted_mean(self, model: Any, processor: Any, rows: Any) -> None:
        four = rows[:4]
        config = CONFIG.changed(max_steps=1, perplexity=HARD)
        (step,) = self.losses(model, processor, four, config)
        found, weights, _ = token_losses(model, processor, processor.training_batch(four, config.spans))
        weights = weights * perplexity_weights(found, torch.zeros_like(found, dtype=torch.bool), 0.0, HARD)
        assert step["loss"] == pytest.approx(((found * weights).sum() / weights.sum()).item(), rel=1e-4)
        assert 1.0 < step["perplexity_weight"] <= 4.0

    @pytest.mark.parametrize("packing", [False, True])
    def test_micro_batches_change_no_gradient(self, model: Any, processor: Any, rows: Any, packing: bool) -> None:
        config = CONFIG.changed(perplexity=HARD, packing=packing, max_length=400)
        whole = self.losses(model, processor, rows, config)
        split = self.losses(model, processor, rows, config.changed(gradient_accumulation_steps=2))
        for word in ("loss", "grad_norm", "perplexity_weight"):
            assert [one[word] for one in whole] == pytest.approx([one[word] for one in split], rel=1e-3)

    def test_a_cap_of_1_is_plain_cross_entropy(self, model: Any, processor: Any, rows: Any) -> None:
        plain = self.losses(model, processor, rows, CONFIG)
        capped = self.losses(model, processor, rows, CONFIG.changed(perplexity={"power": 1.0, "cap": 1.0}))
        assert [one["loss"] for one in capped] == pytest.approx([one["loss"] for one in plain], rel=1e-5)
        assert "perplexity_weight" not in plain[0]

    def test_trl_refuses_them(self, model: Any, processor: Any, rows: Any) -> None:
        with pytest.raises(ValueError, match=r"engine trl: expected perplexity.power 0, found 0.5"):
            engine("trl")(model, processor, ListSource(rows), CONFIG.changed(perplexity=HARD))


def test_weights_that_are_summed_late_go_with_no_balance_of_experts() -> None:
    with pytest.raises(ValueError, match="expected router_aux_loss_coef 0 beside perplexity.power"):
        MidtrainConfig(perplexity=HARD, router_aux_loss_coef=0.001)
