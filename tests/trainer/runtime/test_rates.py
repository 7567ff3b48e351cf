"""Rates of parts of a model: which parameters, by how much, and where a name is wrong."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from schemas.settings import SettingsError
from trainer.runtime.rates import names_in_order, rate_groups, set_rate
from trainer.settings.supervised import MidtrainConfig


def small() -> nn.ModuleDict:
    torch.manual_seed(0)
    tower = nn.ModuleDict({"block": nn.Linear(3, 3), "merger": nn.Linear(3, 2)})
    return nn.ModuleDict({"visual": tower, "head": nn.Linear(2, 2)})


def one_step(scales: dict[str, float]) -> dict[str, float]:
    """By how much each parameter moved: AdamW's first step is the rate, whatever the gradient's size."""
    model = small()
    optimiser = torch.optim.AdamW(rate_groups(model, scales), 1.0, weight_decay=0.0)
    set_rate(optimiser, 0.01)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    given = torch.randn(4, 3)
    model["head"](model["visual"]["merger"](model["visual"]["block"](given))).pow(2).sum().backward()
    optimiser.step()
    return {name: float((tensor - before[name]).abs().max()) for name, tensor in model.state_dict().items()}


def test_the_first_expression_that_is_found_scales_the_rate() -> None:
    moved = one_step({r"visual\.merger": 3.0, "visual": 0.1})
    expected = {"visual.block": 0.001, "visual.merger": 0.03, "head": 0.01}
    assert len(moved) == 6
    for name, by in moved.items():
        assert by == pytest.approx(expected[name.rpartition(".")[0]], rel=1e-4), name


def test_without_scales_there_is_one_group_as_ever() -> None:
    model = small()
    [group] = rate_groups(model, {})
    assert list(group) == ["params"] and group["params"] == list(model.parameters())


def test_a_factor_of_nothing_keeps_the_weights() -> None:
    assert {name for name, by in one_step({"visual": 0.0}).items() if by} == {"head.weight", "head.bias"}


def test_numbers_of_a_state_are_named_in_the_order_of_the_groups() -> None:
    model = small()
    optimiser = torch.optim.AdamW(rate_groups(model, {"merger": 2.0}), 1.0)
    assert names_in_order(model, optimiser)[:2] == ["visual.merger.weight", "visual.merger.bias"]
    assert sorted(names_in_order(model, optimiser)) == sorted(name for name, _ in model.named_parameters())


def test_an_expression_that_finds_nothing_is_an_error() -> None:
    with pytest.raises(ValueError, match="found 'vision'"):
        rate_groups(small(), {"vision": 0.1})
    with pytest.raises(ValueError, match="none that is left"):
        rate_groups(small(), {"visual": 0.1, "merger": 2.0})


@pytest.mark.parametrize(
    ("scales", "says"),
    [({"(": 1.0}, "regular expression"), ({"visual": -1.0}, "0 or more"), ({"visual": float("nan")}, "0 or more")],
)
def test_settings_refuse_what_is_no_scale(scales: dict[str, float], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        MidtrainConfig(learning_rate_scales=scales)
