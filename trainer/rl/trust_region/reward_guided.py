"""β reacts to the reward: what rises above its own past is held back (after GuirlVG's adversarial KL factor).

GuirlVG publishes no formula; this one is ours: β_t = β · clip(1 + c · z, `least`, `most`), z being how many standard
deviations the last update's mean reward lies above the mean over all updates so far.
"""

import math
from collections.abc import Sequence

from schemas.settings import Number, Settings, setting
from trainer.rl.trust_region import UpdateMeasures


class RewardGuidedOptions(Settings):
    """Options of `reward_guided`."""

    strength: Number = setting(1.0, "c: how much of β a standard deviation of reward adds.", ge=0)
    least: Number = setting(0.1, "The factor of β is no less than this.", ge=0, le=1)
    most: Number = setting(10.0, "And no more than this.", ge=1)


def reward_guided(beta: float, measured: Sequence[UpdateMeasures], **options: object) -> float:
    """β by the last reward against all so far; `beta` itself until two of them differ. Raises `ValueError` for unknown
    options."""
    config = RewardGuidedOptions.parsed(options, "kl_weight reward_guided")
    rewards = [one.reward for one in measured if one.reward is not None]
    mean = math.fsum(rewards) / max(1, len(rewards))
    std = math.sqrt(math.fsum((reward - mean) ** 2 for reward in rewards) / max(1, len(rewards) - 1))
    if std < 1e-8:
        return beta
    return beta * max(config.least, min(config.most, 1.0 + config.strength * (rewards[-1] - mean) / std))
