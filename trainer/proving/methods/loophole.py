"""A reward with a loophole: does a policy that has learned what was meant unlearn it for what pays more?

In each of four states one action of eight is right and earns 1; another earns half as much again, and the policy of the
start takes it once in a thousand times. Advantages aren't scaled, and the KL term has the gradient of KL(π_θ‖π_ref).
"""

from collections.abc import Mapping

import torch

from trainer.proving.methods import MethodCheck
from trainer.proving.methods.table_policy import TablePolicy
from trainer.rl.grpo import group_advantages
from trainer.rl.trust_region.assign import update_options
from trainer.settings.grpo import GrpoConfig, KlWeightConfig, LearnerConfig

STATES, ACTIONS, GROUP, GROUPS = 4, 8, 8, 3
UPDATES = 800
RIGHT, GAMED = 0, 1
START = {RIGHT: 0.35, GAMED: 0.001}
BONUS = 0.5
TARGET = 0.75
"""Nats: the policy that earns most within it takes the right action in 93 % and the loophole in 1 %."""

KL_WEIGHTS: dict[str, dict[str, object]] = {
    "fixed": {},
    "target_kl": {"controller": "target_kl", "options": {"target": TARGET}},
    "reward_guided": {"controller": "reward_guided"},
}


def start_logits(generator: torch.Generator) -> torch.Tensor:
    """log π of the start [states, actions], a little different in each state."""
    # The other actions share what is left, so that each state's chances sum to 1 before the noise.
    rest = (1.0 - sum(START.values())) / (ACTIONS - len(START))
    chances = torch.tensor([START.get(action, rest) for action in range(ACTIONS)])
    return chances.log() + 0.3 * torch.randn(STATES, ACTIONS, generator=generator)


def run(member: str, seed: int, share: float = 1.0) -> Mapping[str, float]:
    """Points of true accuracy lost since its peak, the accuracy at the peak and the end, and what β ended as."""
    generator = torch.Generator().manual_seed(seed)
    kl_weight = KlWeightConfig.parsed(KL_WEIGHTS[member])
    grpo = GrpoConfig(beta=0.02, scale_rewards="none", use_bias_correction_kl=True, kl_weight=kl_weight)
    config = LearnerConfig(learning_rate=0.03, grpo=grpo)
    policy = TablePolicy(start_logits(generator), config.learning_rate)
    states = [state for state in range(STATES) for _ in range(GROUP * GROUPS)]
    curve: list[dict[str, float]] = []
    accuracy: list[float] = []
    for _ in range(round(UPDATES * share)):
        actions = policy.sample(states, generator)
        rewards = [1.0 * (one == RIGHT) + (1.0 + BONUS) * (one == GAMED) for one in actions]
        groups = [rewards[at : at + GROUP] for at in range(0, len(rewards), GROUP)]
        # Options from the curve so far: a controller sees past updates only, never the one that it sets.
        options = update_options(config, curve)
        parts = policy.step(states, actions, group_advantages(groups, options), options)
        curve.append({"kl": parts.kl, "reward": sum(rewards) / len(rewards), "entropy": parts.entropy})
        accuracy.append(100.0 * float(policy.log_softmax().exp()[:, RIGHT].mean().detach()))
    beta = update_options(config, curve).beta
    return {"lost": max(accuracy) - accuracy[-1], "peak": max(accuracy), "end": accuracy[-1], "beta": beta}


CHECK = MethodCheck(
    name="loophole",
    system="GuirlVG; Ziegler et al.",
    asks="points of accuracy lost since the peak (wanted: at most 2 with a controller, at least 5 with a fixed weight)",
    members=tuple(KL_WEIGHTS),
    reference="fixed",
    figures=("lost", "peak", "end", "beta"),
    run=run,
)
