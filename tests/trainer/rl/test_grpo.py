"""GRPO: a float64 reference in plain Python loops, a worked example, and what must not change the loss."""

from __future__ import annotations

import math
import random
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.rl import grpo
from trainer.settings.grpo import GrpoConfig

CONFIG = GrpoConfig()


def one_group(values: list[float]) -> grpo.Advantages:
    return grpo.Advantages(tuple(values), (1 / len(values),) * len(values), 1, 0, 0)


class TestAdvantages:
    def test_worked_by_hand(self) -> None:
        # mean 0.5, sample std sqrt(4 * 0.25 / 3) = 0.57735
        found = grpo.group_advantages([[0.0, 1.0, 1.0, 0.0]], CONFIG.changed(advantage_epsilon=1e-12))
        assert found.values == pytest.approx([-0.866025, 0.866025, 0.866025, -0.866025], abs=1e-5)
        assert found.weights == (0.25,) * 4 and found.used == 1

    def test_unscaled_and_floored(self) -> None:
        assert grpo.group_advantages([[0.0, 1.0]], CONFIG.changed(scale_rewards="none")).values == (-0.5, 0.5)
        # std of 0.99 and 1.0 is 0.00707: without the floor one step of length becomes a full-size advantage
        floored = grpo.group_advantages([[0.99, 1.0]], CONFIG.changed(std_floor=0.1, advantage_epsilon=1e-12))
        assert floored.values == pytest.approx([-0.05, 0.05])

    def test_scaled_by_the_batch(self) -> None:
        # rewards 0, 1, 1, 1 and 2 of both groups (mean 1): sample std sqrt(2 / 4) = 0.70711
        batch = CONFIG.changed(scale_rewards="batch", advantage_epsilon=1e-12)
        found = grpo.group_advantages([[0.0, 1.0, None], [1.0, 1.0], [2.0]], batch)
        assert found.values == pytest.approx([-0.70711, 0.70711, 0, 0, 0, 0], abs=1e-5)

    def test_groups_without_a_comparison_are_skipped_and_counted(self) -> None:
        found = grpo.group_advantages([[1.0, 1.0, 1.0], [0.0, 1.0], [None, 0.5], [None, None]], CONFIG)
        assert (found.groups, found.zero_variance, found.too_small, found.used) == (4, 1, 2, 1)
        assert found.weights == (0, 0, 0, 0.5, 0.5, 0, 0, 0, 0)

    def test_a_lost_rollout_is_missing_not_zero(self) -> None:
        found = grpo.group_advantages([[1.0, None, 0.0]], CONFIG)
        assert found.values[1] == 0.0 and found.weights == (0.5, 0.0, 0.5)
        assert (found.values[0], found.values[2]) == grpo.group_advantages([[1.0, 0.0]], CONFIG).values

    def test_nan_rewards_are_refused(self) -> None:
        with pytest.raises(ValueError, match="finite"):
            grpo.group_advantages([[float("nan"), 1.0]], CONFIG)

    @given(st.lists(st.floats(-5, 5), min_size=2, max_size=8), st.randoms(use_true_random=False))
    def test_centred_and_permuted_with_the_rewards(self, rewards: list[float], rng: random.Random) -> None:
        found = grpo.group_advantages([rewards], CONFIG)
        assert sum(found.values) == pytest.approx(0, abs=1e-6)
        order = list(range(len(rewards)))
        rng.shuffle(order)
        permuted = grpo.group_advantages([[rewards[i] for i in order]], CONFIG)
        assert permuted.values == pytest.approx([found.values[i] for i in order])


def reference_loss(
    logprobs: list[list[float]],
    old: list[list[float]],
    mask: list[list[int]],
    trajectory: list[int],
    advantages: grpo.Advantages,
    config: GrpoConfig,
    reference: list[list[float]],
    entropy: list[list[float]],
) -> float:
    """docs/method.md §7 written out, token by token."""
    total = 0.0
    for i, (advantage, weight) in enumerate(zip(advantages.values, advantages.weights, strict=True)):
        mine = [s for s, owner in enumerate(trajectory) if owner == i]
        length = sum(sum(mask[s]) for s in mine)
        if config.loss_type == "dr_grpo":
            length = config.max_completion_length
        inner = 0.0
        for s in mine:
            places = [t for t, on in enumerate(mask[s]) if on]
            mean_change = sum(logprobs[s][t] - old[s][t] for t in places) / max(1, len(places))
            for t in places:
                change = mean_change if config.importance_sampling_level == "sequence" else logprobs[s][t] - old[s][t]
                r = math.exp(change)
                top = 1 + (config.epsilon if config.epsilon_high is None else config.epsilon_high)
                clipped = min(max(r, 1 - config.epsilon), top)
                inner -= min(r * advantage, clipped * advantage)
                d = reference[s][t] - logprobs[s][t]
                inner += config.beta * (math.exp(d) - d - 1)
                inner -= config.entropy_coef * entropy[s][t]
        total += weight * inner / max(1, length)
    return total


def batch(seed: int, samples: int = 6, length: int = 5) -> dict[str, torch.Tensor]:
    rng = torch.Generator().manual_seed(seed)
    old = -torch.rand(samples, length, generator=rng, dtype=torch.float64) * 3
    return {
        "logprobs": old + torch.randn(samples, length, generator=rng, dtype=torch.float64) * 0.4,
        "old": old,
        "mask": (torch.rand(samples, length, generator=rng) < 0.8).long(),
        "reference": old + torch.randn(samples, length, generator=rng, dtype=torch.float64) * 0.3,
        "entropy": torch.rand(samples, length, generator=rng, dtype=torch.float64),
    }


class TestLoss:
    def test_worked_by_hand(self) -> None:
        # one trajectory, advantage 2, ratios 1.5 (clipped to 1.2) and 0.5 (min takes it): -(2*1.2 + 2*0.5)/2
        logprobs = torch.log(torch.tensor([[0.6, 0.2]], dtype=torch.float64))
        old = torch.log(torch.tensor([[0.4, 0.4]], dtype=torch.float64))
        parts = grpo.grpo_loss(logprobs, old, torch.ones(1, 2), [0], one_group([2.0]), [2], CONFIG)
        assert float(parts.loss) == pytest.approx(-1.7)
        assert (parts.clip_high, parts.clip_low) == (0.5, 0.0) and parts.ratio == pytest.approx(1.0)
        # advantage -2: the pessimistic side is 1.5 itself, and 0.5 is clipped to 0.8: (2*1.5 + 2*0.8)/2
        parts = grpo.grpo_loss(logprobs, old, torch.ones(1, 2), [0], one_group([-2.0]), [2], CONFIG)
        assert float(parts.loss) == pytest.approx(2.3)
        assert (parts.clip_high, parts.clip_low) == (0.0, 0.5)
        # the ratio of the reply is the geometric mean sqrt(1.5 * 0.5) = 0.866
        config = CONFIG.changed(importance_sampling_level="sequence")
        parts = grpo.grpo_loss(logprobs, old, torch.ones(1, 2), [0], one_group([2.0]), [2], config)
        assert float(parts.loss) == pytest.approx(-2 * math.sqrt(0.75))

    @pytest.mark.parametrize("loss_type", ["grpo", "dr_grpo"])
    @pytest.mark.parametrize("level", ["token", "sequence"])
    @pytest.mark.parametrize("extras", [{}, {"beta": 0.3, "entropy_coef": 0.1, "epsilon_high": 0.28}])
    def test_equals_the_float64_reference(self, loss_type: str, level: str, extras: dict[str, Any]) -> None:
        config = CONFIG.changed(loss_type=loss_type, importance_sampling_level=level, max_completion_length=9, **extras)
        trajectory = [0, 1, 1, 2, 3, 3]  # trajectories of 1, 2, 1 and 2 steps
        for seed in range(5):
            data = batch(seed)
            advantages = grpo.group_advantages([[0.1, 0.9], [1.0, 0.2]], config)
            counts = [int(data["mask"][[s for s, o in enumerate(trajectory) if o == i]].sum()) for i in range(4)]
            parts = grpo.grpo_loss(
                data["logprobs"],
                data["old"],
                data["mask"],
                trajectory,
                advantages,
                counts,
                config,
                reference_SL=data["reference"],
                entropy_SL=data["entropy"],
            )
            expected = reference_loss(
                data["logprobs"].tolist(),
                data["old"].tolist(),
                data["mask"].tolist(),
                trajectory,
                advantages,
                config,
                data["reference"].tolist(),
                data["entropy"].tolist(),
            )
            assert float(parts.loss) == pytest.approx(expected, abs=1e-12)

    def test_micro_batches_add_up_in_loss_and_gradient(self) -> None:
        data, trajectory = batch(3), [0, 1, 1, 2, 3, 3]
        advantages = grpo.group_advantages([[0.1, 0.9, 0.3, 0.3]], CONFIG)
        counts = [int(data["mask"][[s for s, o in enumerate(trajectory) if o == i]].sum()) for i in range(4)]

        def gradient(cuts: list[list[int]]) -> tuple[float, torch.Tensor]:
            logprobs = data["logprobs"].clone().requires_grad_()
            losses = [
                grpo.grpo_loss(
                    logprobs[cut],
                    data["old"][cut],
                    data["mask"][cut],
                    [trajectory[s] for s in cut],
                    advantages,
                    counts,
                    CONFIG,
                ).loss
                for cut in cuts
            ]
            total = torch.stack(losses).sum()
            total.backward()
            assert logprobs.grad is not None
            return float(total.detach()), logprobs.grad

        whole, parts = gradient([[0, 1, 2, 3, 4, 5]]), gradient([[s] for s in range(6)])
        assert parts[0] == pytest.approx(whole[0], abs=1e-14)
        torch.testing.assert_close(parts[1], whole[1])

    def test_on_policy_gradient_is_minus_weighted_advantage(self) -> None:
        logprobs = torch.full((2, 3), -1.0, dtype=torch.float64, requires_grad=True)
        parts = grpo.grpo_loss(
            logprobs,
            logprobs.detach(),
            torch.tensor([[1, 1, 1], [1, 0, 0]]),
            [0, 1],
            one_group([1.0, -1.0]),
            [3, 1],
            CONFIG,
        )
        parts.loss.backward()
        # -A / (G |τ|): -1/6 on three tokens, +1/2 on one
        torch.testing.assert_close(logprobs.grad, torch.tensor([[-1 / 6] * 3, [0.5, 0.0, 0.0]], dtype=torch.float64))

    def test_padding_never_matters(self) -> None:
        data = batch(1)
        advantages, counts = one_group([1.0, -0.5, 0.3, 0.2, -1.0, 0.1]), data["mask"].sum(1).tolist()
        arguments = (list(range(6)), advantages, counts, CONFIG.changed(beta=0.1, entropy_coef=0.1))
        clean = grpo.grpo_loss(
            data["logprobs"],
            data["old"],
            data["mask"],
            *arguments,
            reference_SL=data["reference"],
            entropy_SL=data["entropy"],
        )
        spoiled = {
            name: torch.where(data["mask"].bool(), tensor, torch.full_like(tensor, -torch.inf))
            for name, tensor in data.items()
            if name != "mask"
        }
        logprobs = spoiled["logprobs"].requires_grad_()
        dirty = grpo.grpo_loss(
            logprobs,
            spoiled["old"],
            data["mask"],
            *arguments,
            reference_SL=spoiled["reference"],
            entropy_SL=spoiled["entropy"],
        )
        assert float(dirty.loss.detach()) == float(clean.loss)
        dirty.loss.backward()
        assert logprobs.grad is not None and bool(torch.isfinite(logprobs.grad).all())

    def test_skipped_groups_give_no_gradient(self) -> None:
        advantages = grpo.group_advantages([[1.0, 1.0], [0.0, 1.0]], CONFIG)
        logprobs = torch.full((4, 2), -1.0, requires_grad=True)
        grpo.grpo_loss(
            logprobs,
            logprobs.detach(),
            torch.ones(4, 2),
            [0, 1, 2, 3],
            advantages,
            [2] * 4,
            CONFIG.changed(beta=0.5),
            reference_SL=torch.full((4, 2), -2.0),
        ).loss.backward()
        assert logprobs.grad is not None
        assert logprobs.grad[:2].abs().sum() == 0 and bool((logprobs.grad[2:].abs() > 0).all())

    def test_stale_rollouts_are_weighed_and_capped(self) -> None:
        logprobs = torch.zeros(1, 2, dtype=torch.float64)
        behaviour = -torch.log(torch.tensor([[1.5, 9.0]], dtype=torch.float64))  # prox/behaviour = 1.5 and 9 -> 2
        parts = grpo.grpo_loss(
            logprobs, logprobs, torch.ones(1, 2), [0], one_group([1.0]), [2], CONFIG, behaviour_SL=behaviour
        )
        assert float(parts.loss) == pytest.approx(-(1.5 + 2.0) / 2)

    @settings(max_examples=30, deadline=None)
    @given(st.integers(0, 10_000), st.integers(0, 10_000))
    def test_the_order_of_samples_does_not_matter(self, seed: int, shuffle: int) -> None:
        data, trajectory = batch(seed), [0, 1, 1, 2, 3, 3]
        advantages, counts = one_group([1.0, -1.0, 0.5, -0.5]), [5, 10, 5, 10]
        order = random.Random(shuffle).sample(range(6), 6)
        losses = [
            grpo.grpo_loss(
                data["logprobs"][o],
                data["old"][o],
                data["mask"][o],
                [trajectory[s] for s in o],
                advantages,
                counts,
                CONFIG,
            ).loss
            for o in (list(range(6)), order)
        ]
        assert float(losses[0]) == pytest.approx(float(losses[1]), abs=1e-12)

    def test_the_kl_estimate_is_right_on_average(self) -> None:
        p, q = torch.tensor([0.5, 0.3, 0.2]).double(), torch.tensor([0.2, 0.2, 0.6]).double()
        advantages = grpo.Advantages((0.0,) * 3, tuple(p.tolist()), 1, 0, 0)  # each token at its own probability
        parts = grpo.grpo_loss(
            p.log().unsqueeze(1),
            p.log().unsqueeze(1),
            torch.ones(3, 1),
            [0, 1, 2],
            advantages,
            [1, 1, 1],
            CONFIG.changed(beta=1.0),
            reference_SL=q.log().unsqueeze(1),
        )
        assert float(parts.loss) == pytest.approx(float((p * (p / q).log()).sum()))


class TestParts:
    def test_entropy_coefficient_decays(self) -> None:
        assert grpo.entropy_coefficient(0.1, 0.5, 3) == pytest.approx(0.0125)
        with pytest.raises(ValueError, match="decay"):
            grpo.entropy_coefficient(0.1, 1.5, 3)

    @pytest.mark.parametrize(
        "options",
        [{"loss_type": "ppo"}, {"importance_sampling_level": "word"}, {"scale_rewards": "all"}, {"epsilon": 0}],
    )
    def test_unknown_options_are_refused(self, options: dict[str, object]) -> None:
        with pytest.raises(ValueError):
            GrpoConfig(**options)  # type: ignore[arg-type]

    def test_missing_inputs_are_refused(self) -> None:
        arguments = (torch.zeros(1, 1), torch.zeros(1, 1), torch.ones(1, 1), [0], one_group([1.0]), [1])
        with pytest.raises(ValueError, match="reference"):
            grpo.grpo_loss(*arguments, CONFIG.changed(beta=0.1))
        with pytest.raises(ValueError, match="entropies"):
            grpo.grpo_loss(*arguments, CONFIG.changed(entropy_coef=0.1))
