"""Two platforms whose habits clash in one policy: what is right on one is wrong on the other, and both share weights.

Eight kinds of screens a platform, twelve actions. On the phone, where three of four tasks are, most kinds want the
first action; on the web most want the second, and few of its groups hold a success at first. What a kind wants is
learned in weights of its own, which grow slowly, beside those that all kinds of both platforms share.
"""

from collections.abc import Mapping

import torch

from trainer.online.platforms import most_mixed, platform_advantages
from trainer.proving.methods import MethodCheck
from trainer.proving.methods.table_policy import TablePolicy
from trainer.rl.grpo import Advantages, group_advantages
from trainer.settings.grpo import GrpoConfig

PLATFORMS = ("phone", "web")
KINDS, ACTIONS, GROUP = 8, 12, 6
GROUPS = 12
"""Of an update; three of four are the phone's where platforms don't take turns."""
UPDATES, PHASE = 150, 5
OWN = 0.5
"""How far a kind's own weights move its logits, beside the shared ones at 1."""
SETTINGS: dict[str, tuple[bool, bool, int]] = {
    "pooled": (False, False, 1),
    "weighting": (True, False, 1),
    "phases": (False, True, 1),
    "oversampling": (False, False, 2),
    "all": (True, True, 2),
}
"""Member → whether platforms weigh the same, whether they take turns, and rollouts made for each that is kept."""
GRPO = GrpoConfig(std_floor=0.1, entropy_coef=0.003)


def world(generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
    """Features [kinds of both platforms, 1 + kinds], the table of the start, and each kind's right action."""
    count = len(PLATFORMS) * KINDS
    # One column of ones, shared by all kinds, and one of each kind's own.
    features = torch.cat([torch.ones(count, 1), OWN * torch.eye(count)], 1)
    right = []
    for platform in range(len(PLATFORMS)):
        # a quarter of a platform's kinds have an action of their own, so that a habit alone isn't enough
        others = torch.randint(2, ACTIONS, (KINDS,), generator=generator).tolist()
        right += [others[kind] if kind % 4 == 3 else platform for kind in range(KINDS)]
    table = torch.zeros(1 + count, ACTIONS)
    table[0, 0] = 1.5  # the start has the phone's habit
    return features, table, right


def platforms_of_update(update: int, phases: bool) -> list[int]:
    """The platform of each group of an update: by turns, as `AlternatingBatches` draws them, or three of four groups
    are the phone's."""
    if phases:
        # Phases: one platform for `PHASE` updates, then the other.
        return [update // PHASE % len(PLATFORMS)] * GROUPS
    return [int(place % 4 == 3) for place in range(GROUPS)]


def run(member: str, seed: int, share: float = 1.0) -> Mapping[str, float]:
    """Success (percent) of the worse platform, of each, and the cosine of the gradients of both at the end."""
    weighting, phases, oversampling = SETTINGS[member]
    generator = torch.Generator().manual_seed(seed)
    features, table, right = world(generator)
    policy = TablePolicy(table, 0.05, features)
    # oversampled rollouts are paid for: with twice as many a group there are half as many updates
    for update in range(round(UPDATES * share / oversampling)):
        states: list[int] = []
        actions: list[int] = []
        rewards: list[list[float]] = []
        owners = platforms_of_update(update, phases)
        for platform in owners:
            kind = platform * KINDS + int(torch.randint(KINDS, (1,), generator=generator))
            drawn = policy.sample([kind] * (GROUP * oversampling), generator)
            gains = [float(one == right[kind]) for one in drawn]
            # Of twice as many rollouts those are trained on that hold both
            # successes and failures, where there are any.
            kept = most_mixed(gains, GROUP)
            states += [kind] * len(kept)
            actions += [drawn[at] for at in kept]
            rewards.append([gains[at] for at in kept])
        names = [PLATFORMS[platform] for platform in owners]
        advantages: Advantages
        advantages = platform_advantages(rewards, names, GRPO) if weighting else group_advantages(rewards, GRPO)
        if advantages.used:
            policy.step(states, actions, advantages, GRPO)
    done = _success(policy, right)
    return {"worse": min(done), "phone": done[0], "web": done[1], "cosine": _cosine(policy, right)}


def _success(policy: TablePolicy, right: list[int]) -> list[float]:
    chances = policy.log_softmax().detach().exp()[range(len(right)), right]
    return [100.0 * float(some.mean()) for some in chances.split(KINDS)]


def _cosine(policy: TablePolicy, right: list[int]) -> float:
    """Of the gradients of either platform's expected success."""
    found = []
    for platform in range(len(PLATFORMS)):
        # Gradients of each platform alone: a negative cosine says that what helps one harms the other.
        own = range(platform * KINDS, (platform + 1) * KINDS)
        expected = policy.log_softmax().exp()[own, right[own.start : own.stop]].mean()
        (gradient,) = torch.autograd.grad(expected, policy.table)
        found.append(gradient.flatten())
    return float(torch.nn.functional.cosine_similarity(found[0], found[1], dim=0))


CHECK = MethodCheck(
    name="clashing_platforms",
    system="Mobile-Agent-v3.5, MRPO",
    asks="success of the worse platform, percent (wanted: 5 more than pooled in four of five seeds)",
    members=tuple(SETTINGS),
    reference="pooled",
    figures=("worse", "phone", "web", "cosine"),
    run=run,
)
