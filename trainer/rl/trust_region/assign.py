"""The loss's options of the next update, by the controller that the settings name and what past updates measured."""

import math
from collections.abc import Mapping, Sequence
from functools import partial

from pipelines.extensions import find_named_path
from trainer.rl.trust_region import MEMBERS, UpdateMeasures
from trainer.settings.grpo import GrpoConfig, KlWeightConfig, LearnerConfig

controller = partial(find_named_path, "kl_weight", paths=MEMBERS)
"""That of a name, or of the path of one of your own. Raises `ValueError` where there is none."""


def checked(grpo: GrpoConfig) -> None:
    """Refuses, before a run costs anything, a controller that nobody has, that doesn't take its options, or that has
    no KL term to weigh: `ValueError`."""
    if grpo.kl_weight.controller != KlWeightConfig().controller and grpo.beta <= 0:
        raise ValueError(
            f"kl_weight: expected beta above 0 for {grpo.kl_weight.controller!r} to start from, found {grpo.beta:g}; "
            "without it there is no reference"
        )
    _weight(grpo, [])


def update_options(config: LearnerConfig, curve: Sequence[Mapping[str, object]]) -> GrpoConfig:
    """What the next update's loss is set by; `curve` holds an event per update so far, as runs report and save them.

    With defaults it is `config.grpo` itself, decayed entropy bonus included, which the learner does. With an
    `entropy_floor` the bonus is c_0 after an update whose mean entropy lay below the floor, and 0 after any other.
    Raises `ValueError` for a weight that is negative or not finite.
    """
    grpo = config.grpo
    measured = [_measured(event) for event in curve]
    if grpo.kl_weight != KlWeightConfig():
        grpo = grpo.changed(beta=_weight(grpo, measured))
    if grpo.entropy_floor is not None:
        # the floor decides instead of the decay: a policy may collapse late, when a decayed bonus is long gone
        known = [one.entropy for one in measured if one.entropy is not None]
        collapsed = bool(known) and known[-1] < grpo.entropy_floor
        grpo = grpo.changed(entropy_coef=grpo.entropy_coef if collapsed else 0.0)
    return grpo


def _weight(grpo: GrpoConfig, measured: Sequence[UpdateMeasures]) -> float:
    beta = controller(grpo.kl_weight.controller)(grpo.beta, measured, **grpo.kl_weight.options)
    if not math.isfinite(beta) or beta < 0:
        raise ValueError(
            f"kl_weight {grpo.kl_weight.controller!r}: expected a finite number, 0 or more, found {beta!r:.40}"
        )
    return beta


def _measured(event: Mapping[str, object]) -> UpdateMeasures:
    return UpdateMeasures(*(_number(event.get(word)) for word in ("kl", "reward", "entropy")))


def _number(found: object) -> float | None:
    return float(found) if isinstance(found, int | float) else None
