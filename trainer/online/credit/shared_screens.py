"""Steps of a group that stand on the same screen are compared with one another.

A group's rollouts begin alike, so they meet on screens; what they do there differs, and so does what comes of it. The
idea of groups of steps is GiGPO's, which takes each step's own discounted return. Here the return of what follows is
the mean over all that followed from that next screen, whoever stood there: a step that goes astray and is made good
later earns what the screen it led to is worth, and not the luck of the one rollout that got back. With G the reward of
a rollout above the worst of its group:

    q(last step) = G     q(step) = γ · v(next screen)     v(screen) = the mean of q over the steps taken there

which is one linear system (the certainty-equivalence estimate; Sutton & Barto, 2018, §6.3). A detour that comes back to
screen s is worth γ² v(s) or less, below v(s), whatever its rollout came to.
"""

from collections.abc import Sequence

import numpy as np

from schemas.settings import Number, Settings, setting
from trainer.online.credit import Estimates
from trainer.online.rollouts import Rollout
from trainer.rl.grpo import group_advantages
from trainer.settings.grpo import GrpoConfig


class SharedScreensOptions(Settings):
    """Options of `shared_screens`."""

    gamma: Number = setting(0.9, "Discount of a reward for every step that it is away.", gt=0, lt=1)


def shared_screens(
    rollouts: Sequence[Rollout], rewards: Sequence[float | None], grpo: GrpoConfig, **options: object
) -> Estimates:
    """q of a step against the q of all steps on its screen, scaled as `group_advantages` scales rewards; None for a
    screen on which one step stood. A screen is its picture's very bytes: what a picture doesn't show, such as text that
    was typed elsewhere, isn't told apart. Raises `ValueError` for unknown options."""
    gamma = SharedScreensOptions.parsed(options, "credit shared_screens").gamma
    taken: dict[bytes, list[tuple[int, int]]] = {}
    for i, rollout in enumerate(rollouts):
        # a rollout that was lost shows nothing of what its steps were worth
        for t, sample in enumerate(rollout.samples if rewards[i] is not None else ()):
            taken.setdefault(sample.picture, []).append((i, t))
    worth = _step_values(rollouts, rewards, list(taken), gamma)
    compared = group_advantages([[worth[place] for place in places] for places in taken.values()], grpo)
    found: Estimates = [[None] * len(rollout.samples) for rollout in rollouts]
    values = iter(compared.values)
    for places in taken.values():
        for i, t in places:
            value = next(values)
            # alone on its screen there is nothing it was compared with
            found[i][t] = value if len(places) > 1 else None
    return found


def _step_values(
    rollouts: Sequence[Rollout], rewards: Sequence[float | None], screens: Sequence[bytes], gamma: float
) -> dict[tuple[int, int], float]:
    """q of each step (rollout, step), see the module."""
    place = {screen: number for number, screen in enumerate(screens)}
    follows = np.zeros((len(screens), len(screens)))
    gained, visits = np.zeros(len(screens)), np.zeros(len(screens))
    # above the worst, so never negative: discounted, a bad end would look better the later it comes
    worst = min((one for one in rewards if one is not None), default=0.0)
    steps: list[tuple[tuple[int, int], int | None, float]] = []
    for i, (rollout, reward) in enumerate(zip(rollouts, rewards, strict=True)):
        path = [place[sample.picture] for sample in rollout.samples] if reward is not None else []
        for t, here in enumerate(path):
            visits[here] += 1
            after = path[t + 1] if t + 1 < len(path) else None
            gain = 0.0 if after is not None or reward is None else reward - worst
            gained[here] += gain
            if after is not None:
                follows[here, after] += 1
            steps.append(((i, t), after, gain))
    each = 1.0 / np.maximum(visits, 1)
    # (I - γ P) v = r: rows of γ P sum to γ at most, so there is exactly one solution
    worth = np.linalg.solve(np.eye(len(screens)) - gamma * follows * each[:, None], gained * each)
    return {key: gain if after is None else gamma * float(worth[after]) for key, after, gain in steps}
