"""GRPO over trajectories of several samples against docs/method.md §7 written out in float64 numpy: loss, and
gradients.

The policy is a softmax over `features @ W`. The reference computes the loss as a function of W token by token, from
rewards on; it knows nothing of torch, and its gradient is a central difference. Ours adds up micro-batches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from trainer.rl.grpo import group_advantages, grpo_loss
from trainer.settings.grpo import GrpoConfig

FEATURES, VOCABULARY = 3, 5
Weights = np.ndarray
"""[FEATURES, VOCABULARY] float64."""


@dataclass
class Sample:
    """One reply: features [L, FEATURES] of its tokens' contexts, and the tokens."""

    features: np.ndarray
    tokens: np.ndarray


@dataclass
class Problem:
    """Groups of trajectories of samples, with rewards (None where lost), and the four policies that enter the loss."""

    groups: list[list[list[Sample]]]
    rewards: list[list[float | None]]
    policy: Weights
    old: Weights
    reference: Weights
    behaviour: Weights | None
    config: GrpoConfig


def log_softmax(weights: Weights, sample: Sample) -> np.ndarray:
    """[L, V]."""
    logits = sample.features @ weights
    logits = logits - logits.max(-1, keepdims=True)
    return np.asarray(logits - np.log(np.exp(logits).sum(-1, keepdims=True)))


def chosen(weights: Weights, sample: Sample) -> np.ndarray:
    return log_softmax(weights, sample)[np.arange(len(sample.tokens)), sample.tokens]


def expected_advantages(rewards: list[float | None], everyone: list[float], config: GrpoConfig) -> list[float] | None:
    """One group's, or None where it holds no comparison; `everyone`: all groups' rewards."""
    known = np.array([reward for reward in rewards if reward is not None])
    if len(known) < 2 or np.ptp(known) < 1e-8:
        return None
    scale = 1.0
    if config.scale_rewards != "none":
        compared = known if config.scale_rewards == "group" else np.array(everyone)
        scale = max(compared.std(ddof=1), config.std_floor) + config.advantage_epsilon
    return [0.0 if reward is None else (reward - known.mean()) / scale for reward in rewards]


def expected_loss(problem: Problem, weights: Weights) -> float:
    """The mean over used groups of the mean over survivors of the mean over the trajectory's tokens."""
    config, group_means = problem.config, []
    everyone = [reward for rewards in problem.rewards for reward in rewards if reward is not None]
    for group, rewards in zip(problem.groups, problem.rewards, strict=True):
        advantages = expected_advantages(rewards, everyone, config)
        if advantages is None:
            continue
        losses = []
        for trajectory, reward, advantage in zip(group, rewards, advantages, strict=True):
            if reward is None:
                continue
            total = sum(
                token_loss(problem, sample, place, weights, advantage)
                for sample in trajectory
                for place in range(len(sample.tokens))
            )
            tokens = sum(len(sample.tokens) for sample in trajectory)
            losses.append(total / (config.max_completion_length if config.loss_type == "dr_grpo" else tokens))
        group_means.append(sum(losses) / len(losses))
    return sum(group_means) / len(group_means) if group_means else 0.0


def token_loss(problem: Problem, sample: Sample, place: int, weights: Weights, advantage: float) -> float:
    config = problem.config
    now, old = chosen(weights, sample), chosen(problem.old, sample)
    change = (now - old).mean() if config.importance_sampling_level == "sequence" else (now - old)[place]
    ratio = math.exp(change)
    high = config.epsilon if config.epsilon_high is None else config.epsilon_high
    clipped = min(max(ratio, 1 - config.epsilon), 1 + high)
    loss = -min(ratio * advantage, clipped * advantage)
    if problem.behaviour is not None:
        loss *= min(math.exp(old[place] - chosen(problem.behaviour, sample)[place]), config.stale_cap)
    difference = chosen(problem.reference, sample)[place] - now[place]
    log_p = log_softmax(weights, sample)[place]
    entropy = -(np.exp(log_p) * log_p).sum()
    return float(loss + config.beta * (math.exp(difference) - difference - 1) - config.entropy_coef * entropy)


def edges_are_near(problem: Problem) -> bool:
    """Whether a ratio stands where the loss has a kink: a central difference would lie across it."""
    config = problem.config
    high = config.epsilon if config.epsilon_high is None else config.epsilon_high
    for sample in (sample for group in problem.groups for trajectory in group for sample in trajectory):
        change = chosen(problem.policy, sample) - chosen(problem.old, sample)
        ratios = np.exp([*change, change.mean()])
        if min(np.abs(ratios - 1 + config.epsilon).min(), np.abs(ratios - 1 - high).min()) < 1e-4:
            return True
    return False


def ours(problem: Problem, cuts: int) -> tuple[float, np.ndarray]:
    """Loss and gradient of W, over `cuts` micro-batches of samples in a shuffled order."""
    config = problem.config
    weights = torch.tensor(problem.policy, requires_grad=True)
    trajectories = [trajectory for group in problem.groups for trajectory in group]
    advantages = group_advantages(problem.rewards, config)
    tokens = [sum(len(sample.tokens) for sample in trajectory) for trajectory in trajectories]
    owned = [(owner, sample) for owner, trajectory in enumerate(trajectories) for sample in trajectory]
    order = np.random.default_rng(cuts).permutation(len(owned))
    total = 0.0
    for part in np.array_split(order, cuts):
        if not len(part):
            continue
        some = [owned[place] for place in part]
        width = max(len(sample.tokens) for _, sample in some)

        def rows(values: list[Any], width: int = width) -> torch.Tensor:
            return torch.stack([torch.nn.functional.pad(torch.as_tensor(v), (0, width - len(v))) for v in values])

        log_p = [torch.log_softmax(torch.tensor(sample.features) @ weights, -1) for _, sample in some]
        now = [lp[torch.arange(len(s.tokens)), torch.tensor(s.tokens)] for lp, (_, s) in zip(log_p, some, strict=True)]
        fixed = {
            name: rows([chosen(w, s) for _, s in some])
            for name, w in (("old", problem.old), ("reference", problem.reference))
        }
        behaviour = None
        if problem.behaviour is not None:
            behaviour = rows([chosen(problem.behaviour, s) for _, s in some])
        loss = grpo_loss(
            rows(now),
            fixed["old"],
            rows([torch.ones(len(s.tokens)) for _, s in some]).bool(),
            [owner for owner, _ in some],
            advantages,
            tokens,
            config,
            reference_SL=fixed["reference"],
            entropy_SL=rows([-(lp.exp() * lp).sum(-1) for lp in log_p]),
            behaviour_SL=behaviour,
        ).loss
        loss.backward()
        total += float(loss.detach())
    assert weights.grad is not None
    return total, weights.grad.numpy()


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    source = np.random.default_rng(draw(st.integers(0, 2**32)))
    groups, rewards = [], []
    for _ in range(draw(st.integers(1, 3))):
        members = draw(st.integers(2, 4))
        groups.append(
            [
                [
                    Sample(source.normal(size=(length, FEATURES)), source.integers(0, VOCABULARY, length))
                    for length in source.integers(1, 5, draw(st.integers(1, 3)))
                ]
                for _ in range(members)
            ]
        )
        # near rewards, so that the floor bites; equal ones; lost ones
        made = draw(st.lists(st.sampled_from([None, 0.0, 0.93, 1.0, -0.5]), min_size=members, max_size=members))
        rewards.append(made)
    policy = source.normal(size=(FEATURES, VOCABULARY))
    near = [policy + 0.3 * source.normal(size=policy.shape) for _ in range(3)]
    config = GrpoConfig(
        epsilon=0.2,
        epsilon_high=draw(st.sampled_from([None, 0.28])),
        beta=draw(st.sampled_from([0.0, 0.2])),
        entropy_coef=draw(st.sampled_from([0.0, 0.05])),
        loss_type=draw(st.sampled_from(["grpo", "dr_grpo"])),
        importance_sampling_level=draw(st.sampled_from(["token", "sequence"])),
        scale_rewards=draw(st.sampled_from(["group", "batch", "none"])),
        std_floor=draw(st.sampled_from([0.0, 0.1])),
        max_completion_length=7,
        stale_cap=draw(st.sampled_from([1.1, 2.0])),
    )
    return Problem(groups, rewards, policy, near[0], near[1], near[2] if draw(st.booleans()) else None, config)


@settings(max_examples=40, deadline=None)
@given(problems(), st.integers(1, 5))
def test_loss_and_gradients_are_those_of_the_method(problem: Problem, cuts: int) -> None:
    assume(not edges_are_near(problem))
    loss, gradient = ours(problem, cuts)
    assert loss == pytest.approx(expected_loss(problem, problem.policy), abs=1e-12)
    for at in ((0, 0), (1, 3), (2, 4)):
        step = np.zeros_like(problem.policy)
        step[at] = 1e-6
        up, down = (expected_loss(problem, problem.policy + sign * step) for sign in (1, -1))
        assert gradient[at] == pytest.approx((up - down) / 2e-6, abs=1e-8, rel=1e-6)
