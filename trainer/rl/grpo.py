"""GRPO (docs/method.md §7): group-relative advantages, and the clipped loss over (context, reply) samples.

A trajectory is T separate samples that share one advantage, never one sequence with many images; offline RL is the
case T = 1. Letters: S samples, L reply tokens (padded), N trajectories, V vocabulary. Prompt and image tokens never
come here: the mask is over reply tokens. Minimised is `L_GRPO + β·KL − c·H` (the report's closing formula subtracts
the KL term while its other terms are losses; this is what is meant). Option names are TRL's. With TRL's
`use_bias_correction_kl` off (the method's KL is plain k3) losses and steps are TRL's (`trainer.rl.trl_learner`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from trainer.settings.grpo import GrpoConfig


@dataclass(frozen=True)
class Advantages:
    """Advantages of N trajectories (in the order given) and their weights in the loss; a skipped one has weight 0.

    The weights of a used group of G survivors are 1/(G · used groups), so they sum to 1 and the loss is the mean over
    groups of the mean over trajectories, whatever the micro-batches.
    """

    values: tuple[float, ...]
    weights: tuple[float, ...]
    groups: int
    zero_variance: int
    too_small: int

    @property
    def used(self) -> int:
        """Groups that take part in the loss."""
        return self.groups - self.zero_variance - self.too_small


def group_advantages(groups: Sequence[Sequence[float | None]], config: GrpoConfig) -> Advantages:
    """Rewards by group (one group = one prompt; None = lost to infrastructure) → Â_i = (R_i − mean)/(std + ε).

    std is the sample standard deviation (n − 1), as in TRL and verl, at least `std_floor`; with
    `scale_rewards="batch"` that of all groups' rewards together, with "none" nothing is divided by. Those beyond
    ±`advantage_clip` count as that (PPO-max, arXiv 2307.04964, clips its standardised rewards likewise). Groups whose
    rewards are all equal, and groups with fewer than two survivors, are skipped and counted: they hold no comparison.
    Lost ones don't count in mean, std or G. With a `critic` nothing is compared here: values are the rewards
    themselves, all survivors weigh the same, and no group is skipped.
    """
    values: list[list[float]] = []
    live: list[list[bool]] = []
    zero_variance = too_small = 0
    # flattened first: with scale_rewards="batch" one standard deviation serves all groups
    everyone = [reward for rewards in groups for reward in rewards if reward is not None]
    if not all(math.isfinite(reward) for reward in everyone):
        raise ValueError(f"advantages: expected finite rewards (None where lost), found {everyone[:64]}")
    if config.critic is not None:
        each = [reward for rewards in groups for reward in rewards]
        shares = tuple(0.0 if reward is None else 1.0 / len(everyone) for reward in each)
        return Advantages(tuple(reward or 0.0 for reward in each), shares, len(groups), 0, 0)
    whole = _std(everyone) if config.scale_rewards == "batch" else 0.0
    for rewards in groups:
        known = [reward for reward in rewards if reward is not None]
        # equal, up to rounding
        if len(known) < 2 or max(known) - min(known) < 1e-8:
            zero_variance += len(known) >= 2
            too_small += len(known) < 2
            values.append([0.0] * len(rewards))
            live.append([False] * len(rewards))
            continue
        # fsum rounds once: the mean doesn't depend on the order in which rollouts came back
        mean = math.fsum(known) / len(known)
        std = _std(known) if config.scale_rewards == "group" else whole
        # without the floor, rewards that hardly differ would be blown up by dividing by almost nothing
        scale = 1.0 if config.scale_rewards == "none" else max(std, config.std_floor) + config.advantage_epsilon
        values.append([0.0 if reward is None else (reward - mean) / scale for reward in rewards])
        live.append([reward is not None for reward in rewards])
    # each group weighs the same, however many of its members were lost
    used = sum(any(flags) for flags in live)
    weights = [flag / (sum(flags) * used) if flag else 0.0 for flags in live for flag in flags]
    limit = math.inf if config.advantage_clip is None else config.advantage_clip
    flat = tuple(max(-limit, min(limit, value)) for group in values for value in group)
    return Advantages(flat, tuple(weights), len(groups), zero_variance, too_small)


def _std(rewards: Sequence[float]) -> float:
    """The sample standard deviation (n − 1); 0 of fewer than two."""
    mean = math.fsum(rewards) / max(1, len(rewards))
    return math.sqrt(math.fsum((reward - mean) ** 2 for reward in rewards) / max(1, len(rewards) - 1))


def shrunk_negatives(advantages: Advantages, succeeded: Sequence[Sequence[bool | None]], floor: float) -> Advantages:
    """Negative advantages times floor + (1 − floor) · (share of the group that succeeded); None = lost, not counted.

    One action is labelled where several would do: a reply that misses the label in a group that hardly ever meets it
    is poor evidence of a mistake (partial verifiability, GUI-Libra). Floor 1 changes nothing. `succeeded` by group, in
    the order of `group_advantages`. Raises `ValueError` if it has another number of members.
    """
    if sum(map(len, succeeded)) != len(advantages.values):
        raise ValueError(f"advantages: expected {len(advantages.values)} outcomes, found {sum(map(len, succeeded))}")
    scales: list[float] = []
    for group in succeeded:
        known = [one for one in group if one is not None]
        # a whole group failing is scaled by `floor`, one that mostly meets the label hardly at all
        scales += [floor + (1.0 - floor) * sum(known) / max(1, len(known))] * len(group)
    values = (value * scale if value < 0 else value for value, scale in zip(advantages.values, scales, strict=True))
    return replace(advantages, values=tuple(values))


def scaled_groups(advantages: Advantages, sizes: Sequence[int], factors: Sequence[float]) -> Advantages:
    """The advantages of each group times its factor; `sizes` are the groups', in the order of `group_advantages`.

    Raises `ValueError` if they have another number of members than there are advantages.
    """
    spread = [factor for size, factor in zip(sizes, factors, strict=True) for _ in range(size)]
    if len(spread) != len(advantages.values):
        raise ValueError(f"advantages: expected groups of {len(advantages.values)} members, found {len(spread)}")
    values = tuple(value * factor for value, factor in zip(advantages.values, spread, strict=True))
    return replace(advantages, values=values)


def entropy_coefficient(start: float, decay: float, step: int) -> float:
    """c_k = c_0 · σ^k, 0 < σ < 1 (σ = 1 keeps it constant)."""
    if not 0 < decay <= 1 or step < 0:
        raise ValueError(f"entropy: expected 0 < decay <= 1 and step >= 0, found {decay} and {step}")
    return float(start * decay**step)


def kl_k3(logprobs: torch.Tensor, reference: torch.Tensor) -> torch.Tensor:
    """Schulman's k3 estimate of KL(π_θ‖π_ref) per token: exp(d) − d − 1 with d = log π_ref − log π_θ; never < 0."""
    difference = reference - logprobs
    return torch.exp(difference) - difference - 1.0


@dataclass(frozen=True)
class LossParts:
    """A (micro-)batch's loss with gradient, and detached figures; `clip_*` and `ratio` are means over its tokens."""

    loss: torch.Tensor
    policy: float
    kl: float
    entropy: float
    ratio: float
    clip_low: float
    clip_high: float


def grpo_loss(
    logprobs_SL: torch.Tensor,
    old_SL: torch.Tensor,
    mask_SL: torch.Tensor,
    trajectory_S: Sequence[int],
    advantages: Advantages,
    tokens_N: Sequence[int],
    config: GrpoConfig,
    *,
    reference_SL: torch.Tensor | None = None,
    entropy_SL: torch.Tensor | None = None,
    behaviour_SL: torch.Tensor | None = None,
    advantage_S: Sequence[float | None] = (),
    advantage_SL: torch.Tensor | None = None,
) -> LossParts:
    """`Σ_i w_i 1/|τ_i| Σ_t (−min(r Â, clip(r) Â) + β·k3 − c·H)` over the samples given.

    `trajectory_S[s]` is the trajectory that sample s belongs to and `tokens_N[i]` = |τ_i| counts *all* reply tokens of
    trajectory i, in this micro-batch or not; the losses of micro-batches therefore add up to that of the whole
    batch. dr_grpo divides by `max_completion_length` instead of |τ_i|. `old_SL`: recorded at sampling. Under
    `sequence` the ratio is the geometric mean over a reply's tokens (GSPO); a reply is one sample.
    `behaviour_SL`: log-probabilities of a stale policy that made the rollouts, `old_SL` then being the proximal one;
    multiplies each term by min(π_prox/π_behaviour, C), without gradient. With `delta` the unclipped ratio is bounded,
    too (dual clip, arXiv 1912.09729). `advantage_S`: a sample's own advantage in
    place of its trajectory's Â; None, or none at all, where it shares that. `advantage_SL`: those of tokens, in place
    of both.
    Raises `ValueError` when β > 0 without a reference, or an entropy coefficient without entropies.
    """
    if config.beta > 0 and reference_SL is None:
        raise ValueError("grpo: beta > 0 needs the reference's log-probabilities, found none")
    if config.entropy_coef > 0 and entropy_SL is None:
        raise ValueError("grpo: entropy_coef > 0 needs the tokens' entropies, found none")
    # [S, L]: 1 for reply tokens, 0 for padding
    mask = mask_SL.to(logprobs_SL.dtype)
    picked = list(trajectory_S)
    # a sample's own advantage goes before that of its trajectory
    own = advantage_S or [None] * len(picked)
    each = [advantages.values[i] if one is None else one for i, one in zip(picked, own, strict=True)]
    advantage = logprobs_SL.new_tensor(each).unsqueeze(1) if advantage_SL is None else advantage_SL.detach()  # [S, 1|L]
    share = token_shares(logprobs_SL, advantages, picked, tokens_N, config) * mask  # [S, L]

    # masked before exp: what stands in the padding may overflow it, and inf · 0 is nan
    change = _zeroed(logprobs_SL - old_SL.detach(), mask_SL)  # [S, L] log π_θ/π_old
    if config.importance_sampling_level == "sequence":
        # GSPO: long replies would otherwise have extreme products of token ratios
        change = (change.sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1.0)).expand_as(change)
    ratio = torch.exp(change)  # [S, L]
    # a wider upper bound is DAPO's clip-higher; without one the interval is PPO's
    high = config.epsilon if config.epsilon_high is None else config.epsilon_high
    clipped = torch.clamp(ratio, 1.0 - config.epsilon, 1.0 + high)
    # for a negative advantage the minimum has no bound of its own: a reply grown likely would outweigh all others
    bounded = ratio if config.delta is None else ratio.clamp(max=config.delta)
    policy = -torch.minimum(bounded * advantage, clipped * advantage)
    if behaviour_SL is not None:
        stale = torch.exp(_zeroed(old_SL.detach() - behaviour_SL.detach(), mask_SL))  # [S, L] π_prox/π_behaviour
        # truncated importance weight: without a cap few very stale tokens would rule the gradient
        policy = policy * stale.clamp(max=config.stale_cap)

    total = policy
    kl = entropy = None
    if reference_SL is not None:
        kl = kl_k3(_zeroed(logprobs_SL, mask_SL), _zeroed(reference_SL.detach(), mask_SL))
        # on-policy, E[∇k3] is the gradient of KL(π_ref‖π_θ), and E[∇(r · k3)] that of KL(π_θ‖π_ref)
        total = total + config.beta * (kl * ratio if config.use_bias_correction_kl else kl)
    if entropy_SL is not None:
        entropy = _zeroed(entropy_SL, mask_SL)
        total = total - config.entropy_coef * entropy

    def mean(values: torch.Tensor | None) -> float:
        # plain means over tokens, to look at; the loss itself weighs groups and trajectories alike
        return 0.0 if values is None else float((values.detach() * mask).sum() / mask.sum().clamp(min=1.0))

    # a ratio outside the interval is clipped only where going on would raise the objective
    low_clip = (ratio < 1.0 - config.epsilon) & (advantage < 0)
    high_clip = (ratio > 1.0 + high) & (advantage > 0)
    return LossParts(
        loss=(total * share).sum(),
        policy=float((policy.detach() * share).sum()),
        kl=mean(kl),
        entropy=mean(entropy),
        ratio=mean(ratio),
        clip_low=mean(low_clip.to(mask.dtype)),
        clip_high=mean(high_clip.to(mask.dtype)),
    )


def _zeroed(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """0 where masked: padding may hold -inf, and -inf · 0 is nan."""
    return torch.where(mask.bool(), values, torch.zeros_like(values))


def token_shares(
    like: torch.Tensor, advantages: Advantages, picked: Sequence[int], tokens_N: Sequence[int], config: GrpoConfig
) -> torch.Tensor:
    """Weight of one token of each sample, [S, 1]."""
    # a constant divisor: |τ_i| favours short right replies and long wrong ones (Dr. GRPO)
    if config.loss_type == "dr_grpo":
        lengths = [float(config.max_completion_length)] * len(picked)
    else:
        lengths = [float(max(1, tokens_N[i])) for i in picked]
    shares = [advantages.weights[i] / length for i, length in zip(picked, lengths, strict=True)]
    return like.new_tensor(shares).unsqueeze(1)


def padded(rows: Sequence[Sequence[float]], like: torch.Tensor) -> torch.Tensor:
    """Lists of numbers → [S, L] padded right with 0, as `like`; without gradient."""
    filled = torch.zeros_like(like)
    for index, row in enumerate(rows):
        filled[index, : len(row)] = torch.tensor(row, dtype=like.dtype)
    return filled.detach()
