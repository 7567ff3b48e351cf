"""Learning rates of parts of a model: a vision tower or its mergers often learn slower, or faster, than the decoder."""

import re
from collections.abc import Mapping
from typing import Any

from torch import nn
from torch.optim import AdamW, Optimizer

SCALE = "scale"
"""Key of a parameter group: what the rate is multiplied by for it."""


def adamw(
    model: nn.Module, rate: float, scales: Mapping[str, float], *, betas: tuple[float, float], weight_decay: float
) -> AdamW:
    """The optimiser of a model's parameters (`rate_groups`); on a GPU one kernel makes a step, which else goes through
    weights and moments a dozen times."""
    on_gpu = next(model.parameters()).device.type == "cuda"
    groups = rate_groups(model, scales)
    return AdamW(groups, rate, betas, weight_decay=weight_decay, fused=on_gpu or None)


def rate_groups(model: nn.Module, scales: Mapping[str, float]) -> list[dict[str, Any]]:
    """The parameters of a model for an optimiser: a group for each of `scales` (regular expression → factor of the
    rate), in their order, and one of all others, last. A parameter is of the first expression found in its name.

    Raises `ValueError` for an expression that finds no parameter: it would change nothing, and nobody would see it.
    """
    left = dict(model.named_parameters())
    groups: list[dict[str, Any]] = []
    for pattern, scale in scales.items():
        found = [name for name in left if re.search(pattern, name)]
        if not found:
            raise ValueError(
                f"learning_rate_scales: expected expressions that are found in names of parameters, such as "
                f"'visual\\.merger' before 'visual', found {pattern!r}, which is in none that is left"
            )
        # popped, so that an earlier expression takes a parameter from later ones
        groups.append({"params": [left.pop(name) for name in found], SCALE: scale})
    if left:
        groups.append({"params": list(left.values())})
    return groups


def set_rate(optimiser: Optimizer, rate: float) -> None:
    """Let the next step have this rate, scaled for those that have a scale."""
    for group in optimiser.param_groups:
        group["lr"] = rate * group.get(SCALE, 1.0)


def names_in_order(model: nn.Module, optimiser: Optimizer) -> list[str]:
    """Names of an optimiser's parameters, by the numbers that its state has for them."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    return [names[id(parameter)] for group in optimiser.param_groups for parameter in group["params"]]
