"""A reward that is noisier than it is large: who still finds what is right, and who is sure of what is wrong?

In each of sixteen states one action of eight is right and earns 1; every reward has noise of twice that on it. The
start likes another action best. PPO and GRPO take the same replies, with PPO-max's stabilisers and without.
"""

from collections.abc import Mapping

import torch

from trainer.proving.methods import MethodCheck
from trainer.proving.methods.table_policy import TablePolicy
from trainer.rl.grpo import group_advantages
from trainer.rl.ppo import Critic, token_advantages
from trainer.rl.trust_region.assign import update_options
from trainer.settings.grpo import GrpoConfig, LearnerConfig

STATES, ACTIONS, GROUP, GROUPS = 16, 8, 8, 4
UPDATES, RATE = 400, 0.05
NOISE = 2.0
LIKED, RIGHT = 0, 1
SURE = 0.9
"""Probability of a wrong action from which on a state counts as collapsed."""
STABLE = {"advantage_clip": 1.0, "delta": 2.0, "beta": 0.02, "entropy_coef": 0.05, "entropy_floor": 1.0}
"""What of PPO-max needs no critic: clipped advantages, dual clip, KL to the reference, and a floor of the entropy."""
OPTIONS: dict[str, dict[str, object]] = {
    "grpo": {},
    "grpo_max": {**STABLE},
    "ppo": {"critic": {"learning_rate": 0.02}},
    "ppo_max": {**STABLE, "critic": {"learning_rate": 0.02, "warmup_updates": 20}},
}


def run(member: str, seed: int, share: float = 1.0) -> Mapping[str, float]:
    """Success at the end (percent), states that are sure of a wrong action (percent), the least mean entropy, and how
    much of the rewards' variance the critic explained in the last quarter (0 without one)."""
    generator = torch.Generator().manual_seed(seed)
    table = 0.3 * torch.randn(STATES, ACTIONS, generator=generator)
    table[:, LIKED] += 2.0
    policy = TablePolicy(table, RATE)
    config = LearnerConfig(learning_rate=RATE, grpo=GrpoConfig.parsed(OPTIONS[member]))
    critic = None if config.grpo.critic is None else Critic(STATES, config.grpo.critic)
    curve: list[dict[str, float]] = []
    explained: list[float] = []
    updates = round(UPDATES * share)
    for update in range(updates):
        asked = torch.randperm(STATES, generator=generator)[:GROUPS]
        states = asked.repeat_interleave(GROUP).tolist()
        actions = policy.sample(states, generator)
        noise = NOISE * torch.randn(len(actions), generator=generator)
        rewards = torch.tensor([float(action == RIGHT) for action in actions]) + noise
        options = update_options(config, curve)
        advantages = group_advantages(rewards.reshape(GROUPS, GROUP).tolist(), options)
        own = None
        if critic is not None:
            features, limit = torch.eye(STATES)[states], options.advantage_clip or torch.inf
            values = critic.values(features)[:, None]
            own = token_advantages(values, torch.ones_like(values), rewards, critic.config.gae_lambda)
            # while the critic learns alone its advantages are the rewards themselves: nothing is learned from them
            own = own.clamp(-limit, limit) * (update >= critic.config.warmup_updates)
            explained.append(critic.fit(features, rewards))
        parts = policy.step(states, actions, advantages, options, own=own)
        curve.append({"kl": parts.kl, "entropy": parts.entropy})
    chances = policy.log_softmax().exp().detach()
    wrong = chances.clone()
    wrong[:, RIGHT] = 0.0
    late = explained[-max(1, updates // 4) :]
    return {
        "success": 100 * float(chances[:, RIGHT].mean()),
        "collapsed": 100 * float((wrong.amax(1) > SURE).float().mean()),
        "least_entropy": min(one["entropy"] for one in curve),
        "explained_variance": sum(late) / max(1, len(late)),
    }


CHECK = MethodCheck(
    name="noisy_reward",
    system="PPO; PPO-max",
    asks="success at the end, percent (wanted: with stabilisers at most half of plain PPO's spread over seeds, and no "
    "state sure of a wrong action)",
    members=tuple(OPTIONS),
    reference="grpo",
    figures=("success", "collapsed", "least_entropy", "explained_variance"),
    run=run,
)
