"""Box rewards by hand and by property; and what a box policy does with each: shrinks, inflates, or keeps the size.

The policy is four numbers: how far from where it suspects an element it puts the sides of its box. Replies are text,
rewards, advantages and loss the trainer's own.
"""

from __future__ import annotations

from statistics import mean, median

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from schemas.actions import parse_reply
from trainer.modeling.generation import GROUNDING_TOKENS, reply_limit
from trainer.proving.methods import MethodCheck
from trainer.rl.box_reward import area, best_iou, box_of, difficulty_weights, floored_iou, size_agreement
from trainer.rl.grpo import group_advantages, grpo_loss, scaled_groups
from trainer.rl.reward_figures import totals
from trainer.rl.rewards import ReplyTarget, bounds, group_scores, point_hit, reward, score
from trainer.settings.grpo import GrpoConfig
from trainer.settings.offline import OfflineConfig
from trainer.settings.rewards import RewardConfig

BOX = (100.0, 200.0, 300.0, 300.0)
GROUND = ReplyTarget("grounding", boxes=(BOX,))
REFUSE = ReplyTarget("grounding", refusal=True)
SIZED = RewardConfig(w_iou=0.5, w_box_size=0.25)

HIT = RewardConfig(w_format=0.0, w_answer=1.0)
IOU = RewardConfig(w_format=0.0, w_answer=0.0, w_iou=1.0)
CONSTRAINED = RewardConfig(w_format=0.0, w_answer=1.0, w_box_size=0.5)
PROMPTS, GROUP, UPDATES, NOISE = 16, 8, 140, 0.35

CORNERS = st.tuples(st.integers(0, 999), st.integers(0, 999), st.integers(1, 500), st.integers(1, 500)).map(
    lambda c: (c[0], c[1], min(1000, c[0] + c[2]), min(1000, c[1] + c[3]))
)


def _say(box: tuple[float, ...]) -> str:
    return "[" + ",".join(f"{side:.0f}" for side in box) + "]"


@pytest.mark.parametrize(
    ("text", "hit", "overlaps", "size"),
    [
        ("[100,200,300,300]", 1, 1.0, 0.0),
        ("[150,225,250,275]", 1, 0.25, 0.25 - 1),  # 100·50 of 200·100
        ("[0,150,400,350]", 1, 0.25, 0.25 - 1),  # 400·200: four times as large costs what a quarter does
        ("[200,200,400,300]", 1, 1 / 3, 0.0),  # half of it beside: 10 000 / 30 000; the centre on the border
        ("[500,500,700,600]", 0, 0.0, 0.0),  # the size is right, wherever it is
        ("[200,250]", 1, 0.0, -1.0),  # a point has no size
        ("[300,300,100,200]", 1, 0.0, -1.0),  # sides swapped
        ("[200,250,200,250]", 1, 0.0, 1 / 20_000 - 1),
        ("nothing", 0, 0.0, -1.0),
    ],
)
def test_worked_by_hand(text: str, hit: int, overlaps: float, size: float) -> None:
    found = score(text, GROUND, SIZED)
    assert (found["point"], found["iou"], found["box_size"]) == (hit, pytest.approx(overlaps), pytest.approx(size))
    asked = box_of(text) is not None or text == "[300,300,100,200]"
    assert found["total"] == pytest.approx(0.1 * asked + 0.9 * hit + 0.5 * overlaps + 0.25 * size)


def test_of_several_boxes_the_one_that_is_hit_is_meant() -> None:
    small = (600.0, 600.0, 620.0, 620.0)
    assert size_agreement("[605,605,615,615]", [BOX, small]) == pytest.approx(0.25 - 1)
    assert size_agreement("[800,800,1000,900]", [BOX, small]) == 0.0  # none is hit: the size of either will do
    assert best_iou("[600,600,620,620]", [BOX, small]) == 1.0 and best_iou("[600,600,620,620]", []) == 0.0


def test_a_refusal_is_asked_for_as_before() -> None:
    assert score("[-1,-1]", REFUSE, SIZED) == {"format": 1.0, "point": 1.0, "iou": 0.0, "box_size": 0.0, "total": 1.0}
    assert reward("[1,1,2,2]", REFUSE, SIZED) == pytest.approx(0.1)
    assert score("[-1,-1]", GROUND, SIZED)["total"] == pytest.approx(0.1 - 0.25)


def test_without_weights_nothing_is_changed() -> None:
    plain = RewardConfig()
    assert set(score("[200,250]", GROUND)) == {"format", "point", "total"} and not plain.wide
    assert bounds("grounding") == (0.0, 1.0) and bounds("navigation", SIZED) == bounds("navigation")
    assert bounds("grounding", SIZED) == pytest.approx((-0.25, 1.5))
    assert reply_limit(112, "grounding", plain.wide) == GROUNDING_TOKENS
    assert reply_limit(112, "grounding", SIZED.wide) == 2 * GROUNDING_TOKENS
    with pytest.raises(ValueError, match="w_box_size: expected a number, 0 or more, found -1"):
        RewardConfig(w_box_size=-1)


@given(CORNERS, CORNERS)
def test_terms_are_bounded_symmetric_and_best_for_the_truth(one: tuple[int, ...], other: tuple[int, ...]) -> None:
    shared = floored_iou(one, other)
    assert 0 <= shared <= 1 and shared == pytest.approx(floored_iou(other, one)) and floored_iou(one, one) == 1
    assert shared <= min(area(one), area(other)) / max(area(one), area(other)) + 1e-9
    punished = size_agreement(_say(one), [other])
    assert -1 <= punished <= 0 and punished == pytest.approx(size_agreement(_say(other), [one]))
    truth = ReplyTarget("grounding", boxes=(tuple(map(float, other)),))
    low, high = bounds("grounding", SIZED)
    assert low <= reward(_say(one), truth, SIZED) <= reward(_say(other), truth, SIZED) + 1e-9 <= high + 2e-9


def test_smaller_targets_weigh_more_and_the_mean_stays() -> None:
    small, large = (0.0, 0.0, 10.0, 10.0), (0.0, 0.0, 20.0, 20.0)
    assert difficulty_weights([[small], [large], []], 0.5) == pytest.approx([4 / 3, 2 / 3, 1.0])  # sides 1 : 2
    assert difficulty_weights([[small, large], [large]], 1.0) == [1.0, 1.0]  # the easiest of several counts
    assert difficulty_weights([[small], [large], []], 0.0) == [1.0, 1.0, 1.0]
    found = scaled_groups(group_advantages([[1.0, 0.0], [1.0, 0.0, 1.0]], GrpoConfig()), [2, 3], [2.0, 0.5])
    plain = group_advantages([[1.0, 0.0], [1.0, 0.0, 1.0]], GrpoConfig())
    factors = [2.0, 2.0, 0.5, 0.5, 0.5]
    assert found.values == tuple(value * factor for value, factor in zip(plain.values, factors, strict=True))
    with pytest.raises(ValueError, match="groups of 5 members, found 4"):
        scaled_groups(plain, [2, 2], [1.0, 1.0])
    for bad in (lambda: difficulty_weights([], -1.0), lambda: OfflineConfig(domain="grounding", difficulty=-1.0)):
        with pytest.raises(ValueError, match="difficulty"):
            bad()


# --- the ablation -----------------------------------------------------------------------------------------------------


def _screens(count: int, draws: torch.Generator) -> tuple[torch.Tensor, list[ReplyTarget], torch.Tensor]:
    """Sizes [N, 2] of elements, their truths, and where the policy suspects each [N, 2]: mostly left of its middle."""
    size = 60 * torch.exp2(2 * torch.rand(count, 2, generator=draws))
    corner = 150 + 500 * torch.rand(count, 2, generator=draws)
    suspected = corner + size * (torch.tensor([0.3, 0.5]) + 0.4 * torch.randn(count, 2, generator=draws))
    boxes = torch.cat([corner, corner + size], 1).tolist()
    return size, [ReplyTarget("grounding", boxes=(tuple(box),)) for box in boxes], suspected


def _replies(
    reach: torch.Tensor, size: torch.Tensor, suspected: torch.Tensor, draws: torch.Generator | None
) -> tuple[list[list[str]], torch.Tensor]:
    """Groups of replies and their log-probabilities [N, G] up to a constant; without `draws` the likeliest, alone."""
    mean_ = reach + torch.log(size / 2)[:, None, :, None]  # [N, 1, axis, side]
    shape = (len(size), GROUP, 2, 2)
    drawn = mean_.detach() + (NOISE * torch.randn(shape, generator=draws) if draws else 0.0)
    far = drawn.exp()
    sides = torch.cat([suspected[:, None] - far[..., 0], suspected[:, None] + far[..., 1]], -1).clamp(0, 1000)
    texts = [[_say(box) for box in group] for group in sides.round().tolist()]
    return texts, -((drawn - mean_) ** 2).sum((-1, -2)) / (2 * NOISE**2)


def _trained(config: RewardConfig, seed: int, updates: int = UPDATES) -> tuple[float, float]:
    """(median of predicted / true area, hit rate) of the likeliest boxes, after training under a reward."""
    draws, grpo = torch.Generator().manual_seed(seed), GrpoConfig(loss_type="dr_grpo", max_completion_length=1)
    reach = torch.zeros(2, 2, requires_grad=True)
    optimiser = torch.optim.Adam([reach], lr=0.025)
    for _ in range(updates):
        size, truths, suspected = _screens(PROMPTS, draws)
        texts, log_p = _replies(reach, size, suspected, draws)
        scores = [group_scores(some, truth, config) for some, truth in zip(texts, truths, strict=True)]
        advantages, flat = group_advantages(totals(scores), grpo), log_p.reshape(-1, 1)
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
    size, truths, suspected = _screens(400, torch.Generator().manual_seed(99))
    texts, _ = _replies(reach.detach(), size, suspected, None)
    ratios, hits = [], []
    for [text, *_], truth in zip(texts, truths, strict=True):
        found = box_of(text)
        assert found is not None
        ratios.append(area(found) / area(truth.boxes[0]))
        hits.append(point_hit(parse_reply(text).point, truth.boxes))
    return median(ratios), mean(hits)


REWARDED = {"hits": HIT, "overlap": IOU, "hits and size": CONSTRAINED}


def run(member: str, seed: int, share: float = 1.0) -> dict[str, float]:
    """Median of predicted / true area, and hits in percent."""
    ratio, hits = _trained(REWARDED[member], seed, round(UPDATES * share))
    return {"area_ratio": ratio, "hits": 100 * hits}


CHECK = MethodCheck(
    name="box_sizes",
    system="GUI-G1",
    asks="predicted / true area (wanted: 0.8 to 1.25 with the size, below 0.7 by hits, above 1.3 by overlap alone)",
    members=tuple(REWARDED),
    reference="hits",
    figures=("area_ratio", "hits"),
    run=run,
)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_hits_alone_shrink_boxes_overlap_alone_inflates_them_and_the_constraint_keeps_them(seed: int) -> None:
    shrunk, inflated, kept = (_trained(config, seed) for config in (HIT, IOU, CONSTRAINED))
    assert shrunk[0] < 0.7
    assert inflated[0] > 1.3
    assert 0.8 < kept[0] < 1.25
    assert kept[1] >= max(shrunk[1], inflated[1]) - 0.01  # it gives up no hits for that
