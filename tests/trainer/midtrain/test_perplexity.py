"""Weights by perplexity: neutral at power 0, bounded by the cap, the same however a step is split."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from trainer.data.row_sources import ListSource
from trainer.midtrain.engines import engine
from trainer.midtrain.loss import token_losses
from trainer.midtrain.perplexity import perplexity_weights
from trainer.midtrain.train import train
from trainer.proving.methods import MethodCheck
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


QUESTIONS, BOILERPLATE, BINS, WIDTH = 96, 9, 32, 48


def coordinates_right(weights: PerplexityWeights, seed: int, steps: int = 160) -> float:
    """Share of coordinates that a small network says right after steps of 16 answers. Nine tokens of an answer always
    say the same, the tenth is the question's own; one in twenty is labelled wrong, anew each time: what can't be
    learned stays perplexing."""
    generator = torch.Generator().manual_seed(seed)
    wanted = torch.randint(BINS, (QUESTIONS,), generator=generator)
    first, last = (nn.Parameter(torch.empty(shape)) for shape in ((QUESTIONS + BOILERPLATE + 1, WIDTH), (WIDTH, 64)))
    for one in (first, last):
        nn.init.normal_(one, std=0.2, generator=generator)
    optimizer = torch.optim.Adam([first, last], lr=4e-3)
    places = torch.arange(BOILERPLATE + 1)

    def logits(questions: torch.Tensor) -> torch.Tensor:
        """[B, places, vocabulary]; a token knows its question and its place."""
        return torch.relu(first[questions][:, None] + first[QUESTIONS + places]) @ last

    for _ in range(steps):
        asked = torch.randint(QUESTIONS, (16,), generator=generator)
        noisy = torch.rand(16, generator=generator) < 0.05
        shown = torch.where(noisy, torch.randint(BINS, (16,), generator=generator), wanted[asked])
        labels = torch.cat([(BINS + places[:-1]).expand(16, -1), shown[:, None]], 1)
        losses = functional.cross_entropy(logits(asked).flatten(0, 1), labels.flatten(), reduction="none")
        factors = perplexity_weights(losses, torch.zeros_like(losses, dtype=torch.bool), 0.0, weights)
        optimizer.zero_grad()
        # divided by the mean over the step, as mid-training does
        ((losses * factors).sum() / factors.sum()).backward()
        optimizer.step()
    said = logits(torch.arange(QUESTIONS)).argmax(-1)
    return float((said[:, -1] == wanted).float().mean())


WEIGHTED = {
    "cross entropy": PerplexityWeights(),
    "power 0.5, cap 4": HARD,
    "power 1, cap 16": PerplexityWeights(power=1.0, cap=16.0),
}


def run(member: str, seed: int, share: float = 1.0) -> dict[str, float]:
    """Coordinates right, percent."""
    return {"right": 100 * coordinates_right(WEIGHTED[member], seed, max(1, round(160 * share)))}


CHECK = MethodCheck(
    name="boilerplate",
    system="LAMO",
    asks="coordinates right, percent, after as many steps (wanted: 5 more in four of five seeds)",
    members=tuple(WEIGHTED),
    reference="cross entropy",
    figures=("right",),
    run=run,
)


@pytest.mark.slow
def test_coordinates_behind_boilerplate_are_learned_in_fewer_steps() -> None:
    """Five points were wanted in four of five seeds; an outlier's weight is bounded by the cap (above)."""
    plain, half, whole = ([coordinates_right(weights, seed) for seed in range(5)] for weights in WEIGHTED.values())
    assert sum(after > before + 0.05 for before, after in zip(plain, half, strict=True)) >= 4, (plain, half)
    assert sum(whole) > sum(half)


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
