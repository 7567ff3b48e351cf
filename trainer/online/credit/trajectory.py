"""All replies of a trajectory share its advantage (docs/method.md §7): the reference."""

from collections.abc import Sequence

from trainer.online.credit import Estimates
from trainer.online.rollouts import Rollout
from trainer.settings.grpo import GrpoConfig


def trajectory(rollouts: Sequence[Rollout], rewards: Sequence[float | None], grpo: GrpoConfig) -> Estimates:
    """None for every reply."""
    return [[None] * len(rollout.samples) for rollout in rollouts]
