"""Agreement of replies: by hand, by counting pixels, by property; and what training on it alone does.

The ablation's policy weighs eight cues of each element on a screen, chooses one and clicks around its middle. One cue
tells the element that is meant, one a decoy, six tell nothing. Replies are text, rewards, advantages and loss the
trainer's own; all training but that with labels reads no truth, and hits are counted on questions that are new.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from statistics import mean

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from schemas.actions import parse_reply
from trainer.proving.methods import MethodCheck
from trainer.rl.grpo import group_advantages, grpo_loss
from trainer.rl.region_consistency import region_consistency
from trainer.rl.rewards import DEFAULT, ReplyTarget, bounds, group_scores, point_hit, reward
from trainer.settings.grpo import GrpoConfig
from trainer.settings.rewards import REGION_SIDE, RewardConfig

Judge = Callable[[list[str], ReplyTarget], list[float]]
"""Rewards of the replies to one question."""

UNKNOWN = ReplyTarget("grounding", refusal=True)
"""Stands where nobody knows the truth."""

AGREEMENT = RewardConfig(w_format=0.1, w_answer=0.0, w_consistency=0.9)
EXACT = RewardConfig(w_format=0.1, w_answer=0.0, w_consistency=0.9, region=1.0)
NOTHING = RewardConfig(w_format=0.1, w_answer=0.0)

CUES, ELEMENTS, HALF_SIDE, SHAKE, MISLED = 8, 5, 30.0, 15.0, 0.4
PROMPTS, GROUP, UPDATES = 16, 8, 60
RIGHT, WRONG = (3.0, 1.0), (1.0, 3.0)
"""Weights of the true cue and of the decoy's that a policy begins with."""

POINTS = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=6)


def _say(*points: tuple[int, int]) -> list[str]:
    return [f"[{x},{y}]" for x, y in points]


def test_worked_by_hand() -> None:
    # squares of 60: the second covers half of the first, the third is elsewhere
    found = region_consistency(_say((100, 100), (130, 100), (900, 900)), 60)
    assert found == pytest.approx([(1 + 0.5) / 3, (1 + 0.5) / 3, 1 / 3])
    assert region_consistency(["[500,500]", "nothing", "[-1,-1]", "[-1,-1]"], 60) == [0.25, 0.0, 0.5, 0.5]
    with pytest.raises(ValueError, match="a side > 0, found 0"):
        region_consistency(["[1,1]"], 0)


@given(POINTS)
def test_it_equals_a_count_of_votes_on_a_grid_of_pixels(points: list[tuple[int, int]]) -> None:
    side = 40
    votes = np.zeros((1100, 1100))
    cuts = [(slice(y + 20, y + 60), slice(x + 20, x + 60)) for x, y in points]  # shifted, so that none is cut off
    for cut in cuts:
        votes[cut] += 1
    expected = [votes[cut].mean() / len(points) for cut in cuts]
    assert region_consistency(_say(*points), side) == pytest.approx(expected)


@given(POINTS, st.randoms(use_true_random=False))
def test_bounded_and_the_same_in_any_order(points: list[tuple[int, int]], rng: random.Random) -> None:
    found = region_consistency(_say(*points))
    assert all(1 / len(points) - 1e-9 <= one <= 1 + 1e-9 for one in found)
    order = list(range(len(points)))
    rng.shuffle(order)
    assert region_consistency(_say(*(points[i] for i in order))) == pytest.approx([found[i] for i in order])


def _rewards(texts: list[str], truth: ReplyTarget, config: RewardConfig = DEFAULT) -> list[float]:
    return [one["total"] for one in group_scores(texts, truth, config)]


def test_as_a_reward_it_reads_no_truth_and_adds_by_its_weight() -> None:
    texts = ["[100,100]", "[100,100]", "[800,800]", "no point"]
    blind = RewardConfig(w_format=0.1, w_answer=0.0, w_consistency=0.9)
    truths = [ReplyTarget("grounding", boxes=((90.0, 90.0, 110.0, 110.0),)), ReplyTarget("grounding", refusal=True)]
    first, other = (_rewards(texts, truth, blind) for truth in truths)
    assert first == other == pytest.approx([0.1 + 0.9 * 0.5] * 2 + [0.1 + 0.9 * 0.25, 0.0])
    assert bounds("grounding", blind) == (0.0, pytest.approx(1.0)) and bounds("navigation", blind)[1] == 0.1
    plain = RewardConfig()
    assert _rewards(texts, truths[0], plain) == [reward(text, truths[0], plain) for text in texts]
    assert [one["consistency"] for one in group_scores(texts, truths[0], blind)] == [0.5, 0.5, 0.25, 0.0]
    assert "consistency" not in group_scores(texts, truths[0], plain)[0]
    with pytest.raises(ValueError, match="region"):
        RewardConfig(region=0)


# --- the ablation -----------------------------------------------------------------------------------------------------


def _screens(count: int, draws: torch.Generator) -> tuple[torch.Tensor, torch.Tensor, list[ReplyTarget]]:
    """Cues [N, element, cue] of elements, their middles [N, element, 2], and the truths: 0 is meant, 1 the decoy."""
    cues = MISLED * torch.randn(count, ELEMENTS, CUES, generator=draws)
    cues[:, 0, 0] += 1
    cues[:, 1, 1] += 1
    middles = 100 + 800 * torch.rand(count, ELEMENTS, 2, generator=draws)
    boxes = torch.cat([middles[:, 0] - HALF_SIDE, middles[:, 0] + HALF_SIDE], 1).tolist()
    return cues, middles, [ReplyTarget("grounding", boxes=(tuple(box),)) for box in boxes]


def _replies(
    weights: torch.Tensor, cues: torch.Tensor, middles: torch.Tensor, draws: torch.Generator
) -> tuple[list[list[str]], torch.Tensor]:
    """Groups of replies and their log-probabilities [N, G] up to a constant."""
    log_p = torch.log_softmax(cues @ weights, -1)
    chosen = torch.multinomial(log_p.detach().exp(), GROUP, replacement=True, generator=draws)
    clicks = middles.gather(1, chosen[..., None].expand(-1, -1, 2))
    clicks = clicks + SHAKE * torch.randn(clicks.shape, generator=draws)
    return [[f"[{x:.0f},{y:.0f}]" for x, y in group] for group in clicks.tolist()], log_p.gather(1, chosen)


def _voted(texts: list[str]) -> tuple[int, int]:
    """The point that replies agree on: the mean of those whose squares meet that of the most votes."""
    points, votes = [parse_reply(text).point for text in texts], region_consistency(texts)
    best = points[votes.index(max(votes))]
    assert best is not None
    near = [one for one in points if one and max(abs(a - b) for a, b in zip(best, one, strict=True)) < REGION_SIDE]
    return round(mean(x for x, _ in near)), round(mean(y for _, y in near))


def _measured(weights: torch.Tensor) -> tuple[float, float, float]:
    """Hit rates on questions that no training asks: of sampled replies, of their vote, of the likeliest choice."""
    draws = torch.Generator().manual_seed(99)
    cues, middles, truths = _screens(400, draws)
    texts, _ = _replies(weights, cues, middles, draws)
    one, agreed = [], []
    for group, truth in zip(texts, truths, strict=True):
        points = [parse_reply(text).point for text in group]
        one.append(mean(point_hit(point, truth.boxes) for point in points))
        agreed.append(point_hit(_voted(group), truth.boxes))
    return mean(one), mean(agreed), float(((cues @ weights).argmax(-1) == 0).float().mean())


def _begun(start: tuple[float, float], seed: int) -> torch.Tensor:
    draws = torch.Generator().manual_seed(1000 + seed)
    return torch.cat([torch.tensor(start), 0.5 * torch.randn(CUES - 2, generator=draws)])


def _trained(judge: Judge, start: tuple[float, float], seed: int, updates: int = UPDATES) -> tuple[float, float, float]:
    """What `_measured` finds after training."""
    draws, grpo, weights = torch.Generator().manual_seed(seed), GrpoConfig(), _begun(start, seed).requires_grad_()
    optimiser = torch.optim.Adam([weights], lr=0.08)
    for _ in range(updates):
        cues, middles, truths = _screens(PROMPTS, draws)
        texts, log_p = _replies(weights, cues, middles, draws)
        rewards = [judge(group, truth) for group, truth in zip(texts, truths, strict=True)]
        advantages, flat = group_advantages(rewards, grpo), log_p.reshape(-1, 1)
        part = grpo_loss(
            flat,
            flat.detach(),
            torch.ones_like(flat, dtype=torch.bool),
            range(len(flat)),
            advantages,
            [1] * len(flat),
            grpo,
        )
        optimiser.zero_grad()
        part.loss.backward()
        optimiser.step()
    return _measured(weights.detach())


def _blind(config: RewardConfig) -> Judge:
    return lambda texts, _: _rewards(texts, UNKNOWN, config)


def _chance(seed: int) -> Judge:
    rng = random.Random(seed)
    return lambda texts, _: [rng.random() for _ in texts]


def run(member: str, seed: int, share: float = 1.0) -> dict[str, float]:
    """Hits of drawn replies in percent, where most votes are right at the start and where most are wrong."""
    judge = {"chance": _chance(seed), "labels": _rewards, "agreement": _blind(AGREEMENT)}[member]
    starts = {"right_votes": RIGHT, "wrong_votes": WRONG}
    return {name: 100 * _trained(judge, start, seed, round(UPDATES * share))[0] for name, start in starts.items()}


CHECK = MethodCheck(
    name="agreement",
    system="GUI-RCPO",
    asks="hits of drawn replies, percent, where most votes are right at first, and where most are wrong",
    members=("chance", "labels", "agreement"),
    reference="chance",
    figures=("right_votes", "wrong_votes"),
    run=run,
)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_agreement_teaches_what_labels_would_where_most_votes_are_right(seed: int) -> None:
    before, agreed = _measured(_begun(RIGHT, seed)), _trained(_blind(AGREEMENT), RIGHT, seed)
    assert agreed[0] > before[0] + 0.15 and agreed[1] > before[1] + 0.1 and agreed[2] > before[2] + 0.07
    assert agreed[0] > before[1]  # one reply is now worth more than the vote of eight was
    assert agreed[0] > _trained(_chance(seed), RIGHT, seed)[0] + 0.1
    assert agreed[0] > _trained(_rewards, RIGHT, seed)[0] - 0.03  # the default reward reads the labels


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_agreement_unlearns_what_is_right_where_most_votes_are_wrong(seed: int) -> None:
    before, agreed = _measured(_begun(WRONG, seed)), _trained(_blind(AGREEMENT), WRONG, seed)
    assert all(after < one - 0.05 for after, one in zip(agreed, before, strict=True))
    assert agreed[0] < before[0] / 2


@pytest.mark.slow
def test_votes_for_the_exact_point_teach_less_and_without_a_reward_nothing_changes() -> None:
    before, exact = _measured(_begun(RIGHT, 0)), _trained(_blind(EXACT), RIGHT, 0)
    assert exact[0] < before[0] + 0.12
    assert _trained(_blind(NOTHING), RIGHT, 0) == before
