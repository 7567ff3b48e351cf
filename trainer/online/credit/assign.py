"""The advantage of each reply of an update, by the estimator that the settings name."""

from collections.abc import Iterator, Sequence
from functools import partial

from pipelines.extensions import find_named_path
from trainer.online.credit import MEMBERS, Estimates
from trainer.online.rollouts import Rollout
from trainer.rl.grpo import Advantages
from trainer.settings.grpo import GrpoConfig
from trainer.settings.online import CreditConfig

estimator = partial(find_named_path, "credit", paths=MEMBERS)
"""That of a name, or of the path of one of your own. Raises `ValueError` where there is none."""


def reply_advantages(
    groups: Sequence[Sequence[Rollout]],
    rewards: Sequence[Sequence[float | None]],
    advantages: Advantages,
    credit: CreditConfig,
    grpo: GrpoConfig,
) -> Estimates:
    """(1 − weight) · the trajectory's advantage + weight · the reply's own; None for a reply that has none of its own
    and shares its trajectory's. By rollout, in the order of the groups."""
    own: Estimates = []
    for group, gains in zip(groups, rewards, strict=True):
        own += estimator(credit.estimator)(group, gains, grpo, **credit.options)
    # a weight of 0 is the method's own advantage, 1 the estimator's alone
    return [
        [None if one is None else (1.0 - credit.weight) * whole + credit.weight * one for one in some]
        for some, whole in zip(own, advantages.values, strict=True)
    ]


def credit_figures(rollouts: Sequence[Rollout], advantages: Advantages, own: Estimates) -> dict[str, float]:
    """Of the replies that count in the loss: the share with an advantage of their own, and of those of successes the
    share whose advantage is negative; {} where no reply has one."""
    if not any(one is not None for some in own for one in some):
        return {}
    counted = list(_counted(rollouts, advantages, own))
    of_successes = [value < 0 for success, value, _ in counted if success]
    return {
        "credit/compared": sum(compared for _, _, compared in counted) / max(1, len(counted)),
        "credit/negative_in_success": sum(of_successes) / max(1, len(of_successes)),
    }


def _counted(rollouts: Sequence[Rollout], advantages: Advantages, own: Estimates) -> Iterator[tuple[bool, float, bool]]:
    """(success, advantage, whether it is the reply's own) of each reply with a weight."""
    for rollout, some, whole, weight in zip(rollouts, own, advantages.values, advantages.weights, strict=True):
        for one in some if weight > 0 else ():
            yield bool(rollout.success), whole if one is None else one, one is not None
