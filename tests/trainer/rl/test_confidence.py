"""Stated confidence: how it is read, by hand and by property; and a policy that learns how often it misses.

The policy clicks with a known shake for each of four kinds of questions and says one of eleven confidences; logits and
aim are its numbers. Replies are text, rewards, advantages and loss the trainer's own.
"""

from __future__ import annotations

import math
from statistics import mean

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from quality.proving.calibration import calibration_error, reliability
from schemas.actions import parse_reply
from trainer.proving.methods import MethodCheck
from trainer.rl.confidence import confidence_reward, target_confidence, without_confidence
from trainer.rl.grpo import group_advantages, grpo_loss
from trainer.rl.region_consistency import region_consistency
from trainer.rl.reward_figures import totals
from trainer.rl.rewards import ReplyTarget, bounds, group_scores, point_hit, reward, score, succeeds
from trainer.settings.grpo import GrpoConfig
from trainer.settings.rewards import RewardConfig

BOX = (100.0, 200.0, 300.0, 300.0)
GROUND, REFUSE = ReplyTarget("grounding", boxes=(BOX,)), ReplyTarget("grounding", refusal=True)
SURE = RewardConfig(w_confidence=0.5)

PLAIN = RewardConfig(w_format=0.0, w_answer=1.0)
CALIBRATED = RewardConfig(w_format=0.0, w_answer=1.0, w_confidence=1.0)
LEVELS, PROMPTS, GROUP, UPDATES = 11, 16, 8, 200
SHAKE = torch.tensor([0.25, 0.5, 1.0, 2.0])
"""Standard deviation of a click in half sides of the element, by kind of question."""

BOXES = st.tuples(*[st.integers(0, 500)] * 2, *[st.integers(501, 1000)] * 2).map(lambda box: tuple(map(float, box)))


@pytest.mark.parametrize(
    ("text", "point", "confidence"),
    [
        ("[200,250] 0.8", (200, 250), 0.8),
        (" [ 200, 250 ]  1.00 ", (200, 250), 1.0),
        ("[-1,-1] 0.35", (-1, -1), 0.35),
        ("[100,200,300,300] 0.0", (200, 250), 0.0),
        ("<think></think><action>[200,250] 0.8</action><conclusion></conclusion>", (200, 250), 0.8),
        ("[200,250]", (200, 250), None),
        ("[200,250] 1.5", None, None),
        ("[200,250] -0.5", None, None),
        ("[200,250] 1", None, None),
        ("[200,250]0.8", None, None),
        ("[2000,250] 0.8", None, None),
    ],
)
def test_read_behind_the_point(text: str, point: tuple[int, int] | None, confidence: float | None) -> None:
    found = parse_reply(text)
    assert (found.point, found.confidence, found.action) == (point, confidence, None)


@pytest.mark.parametrize(
    ("text", "s"),
    [
        ("[200,250] 0.8", 1.0),  # the middle
        ("[300,250] 0.8", math.exp(-1 / 2)),  # the middle of a border: one standard deviation
        ("[300,300] 0.8", math.exp(-1)),  # a corner: one in both directions
        ("[150,250] 0.8", math.exp(-1 / 8)),
        ("[301,250] 0.8", 0.0),  # outside, however near
        ("[-1,-1] 0.8", 0.0),
    ],
)
def test_worked_by_hand(text: str, s: float) -> None:
    assert target_confidence(parse_reply(text).point, [BOX]) == pytest.approx(s)
    assert confidence_reward(text, [BOX]) == pytest.approx(1 - (0.8 - s) ** 2)
    found = score(text, GROUND, SURE)
    assert found["total"] == pytest.approx(0.1 + 0.9 * (s > 0) + 0.5 * (1 - (0.8 - s) ** 2))


def test_several_boxes_a_line_and_refusals() -> None:
    assert target_confidence((200, 250), [BOX, (190.0, 200.0, 400.0, 400.0)]) == 1.0
    assert target_confidence((5, 7), [(0.0, 7.0, 10.0, 7.0)]) == 1.0 and target_confidence(None, [BOX]) == 0.0
    assert confidence_reward("[-1,-1] 0.9", [], True) == pytest.approx(0.99)
    assert confidence_reward("[5,5] 0.1", [], True) == pytest.approx(0.99)
    assert target_confidence((300, 250), [BOX], spread=0.5) == pytest.approx(math.exp(-2))


def test_the_form_is_that_of_the_weight_and_other_judges_read_through_it() -> None:
    assert [score(text, GROUND, SURE)["format"] for text in ("[1,1] 0.5", "[1,1]", "0.5", "[1,1] x 0.5")] == [
        1,
        0,
        0,
        0,
    ]
    assert score("[200,250]", GROUND, SURE)["total"] == pytest.approx(0.9)  # the hit counts, the missing word doesn't
    assert reward("[200,250]", GROUND) == pytest.approx(1.0) and set(score("[1,1]", GROUND)) == {
        "format",
        "point",
        "total",
    }
    assert score("[200,250] 0.8", GROUND) == {"format": 0.0, "point": 1.0, "total": 0.9}
    assert bounds("grounding", SURE) == (0.0, pytest.approx(1.5)) and bounds("navigation", SURE) == bounds("navigation")
    both = RewardConfig(w_box_size=0.5, w_confidence=0.5)
    assert score("[100,200,300,300] 1.0", GROUND, both)["total"] == pytest.approx(1.5)
    assert succeeds("[200,250] 0.8", GROUND, SURE) and succeeds("[-1,-1] 0.8", REFUSE, SURE) and SURE.wide
    assert region_consistency(["[200,250] 0.8", "[200,250]"]) == [1.0, 1.0]
    assert without_confidence("[1,1] 0.5") == "[1,1]" and without_confidence("[1,1]") is None
    for bad in ({"w_confidence": -1.0}, {"spread": 0.0}):
        with pytest.raises(ValueError, match="RewardConfig"):
            RewardConfig(**bad)


@given(BOXES, st.tuples(st.integers(0, 1000), st.integers(0, 1000)), st.floats(0.1, 3), st.integers(0, 100))
def test_bounded_and_best_for_the_target(
    box: tuple[float, ...], point: tuple[int, int], spread: float, percent: int
) -> None:
    s = target_confidence(point, [box], spread=spread)
    assert 0 <= s <= 1 and (s > 0 or not point_hit(point, [box]) or spread < 1)
    said = [confidence_reward(f"[{point[0]},{point[1]}] {c:.6f}", [box], spread=spread) for c in (percent / 100, s)]
    assert 0 <= said[0] <= said[1] + 1e-6 <= 1 + 1e-6


# --- the ablation -----------------------------------------------------------------------------------------------------


def _replies(
    logits: torch.Tensor, aim: torch.Tensor, kinds: torch.Tensor, size: torch.Tensor, group: int, draws: torch.Generator
) -> tuple[list[list[str]], torch.Tensor]:
    """Groups of replies about elements around (500, 500), and their log-probabilities [N, G] up to a constant."""
    mean_, shake = aim[kinds][:, None], SHAKE[kinds][:, None, None]
    clicks = mean_.detach() + shake * torch.randn(len(kinds), group, 2, generator=draws)
    log_p = torch.log_softmax(logits[kinds], -1)
    said = torch.multinomial(log_p.detach().exp(), group, replacement=True, generator=draws)
    whole = log_p.gather(1, said) - (((clicks - mean_) / shake) ** 2).sum(-1) / 2
    points = (500 + clicks * size[:, None] / 2).round().clamp(0, 1000).tolist()
    texts = [
        [f"[{x:.0f},{y:.0f}] {word / 10:.1f}" for (x, y), word in zip(some, words, strict=True)]
        for some, words in zip(points, said.tolist(), strict=True)
    ]
    return texts, whole


def _truths(size: torch.Tensor) -> list[ReplyTarget]:
    return [
        ReplyTarget("grounding", boxes=((500 - w / 2, 500 - h / 2, 500 + w / 2, 500 + h / 2),))
        for w, h in size.tolist()
    ]


def _trained(config: RewardConfig, seed: int, updates: int = UPDATES) -> tuple[float, float]:
    """(expected calibration error, hit rate) after training under a reward; the start is confident and off centre."""
    draws, grpo = torch.Generator().manual_seed(seed), GrpoConfig()
    logits = (0.6 * torch.arange(LEVELS)).repeat(len(SHAKE), 1).requires_grad_()
    aim = torch.full((len(SHAKE), 2), 0.5, requires_grad=True)
    optimiser = torch.optim.Adam([logits, aim])
    for update in range(updates):
        optimiser.param_groups[0]["lr"] = 0.1 * (1 - update / updates)
        kinds = torch.randint(len(SHAKE), (PROMPTS,), generator=draws)
        size = 60 + 100 * torch.rand(PROMPTS, 2, generator=draws)
        texts, log_p = _replies(logits, aim, kinds, size, GROUP, draws)
        scores = [group_scores(some, truth, config) for some, truth in zip(texts, _truths(size), strict=True)]
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
    same = torch.Generator().manual_seed(99)
    kinds, size = torch.arange(len(SHAKE)).repeat(250), 60 + 100 * torch.rand(250 * len(SHAKE), 2, generator=same)
    texts, _ = _replies(logits.detach(), aim.detach(), kinds, size, 1, same)
    found = [parse_reply(text) for [text] in texts]
    hits = [point_hit(one.point, truth.boxes) for one, truth in zip(found, _truths(size), strict=True)]
    bins = reliability([one.confidence or 0.0 for one in found], hits)
    return calibration_error(bins), mean(hits)


REWARDED = {"hits": PLAIN, "hits and confidence": CALIBRATED}


def run(member: str, seed: int, share: float = 1.0) -> dict[str, float]:
    """Expected calibration error, and hits in percent."""
    error, hits = _trained(REWARDED[member], seed, max(1, round(UPDATES * share)))
    return {"calibration_error": error, "hits": 100 * hits}


CHECK = MethodCheck(
    name="stated_confidence",
    system="HyperClick",
    asks="expected calibration error (wanted: half, at hits no lower by more than a point)",
    members=tuple(REWARDED),
    reference="hits",
    figures=("calibration_error", "hits"),
    run=run,
)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_knowing_when_it_misses_halves_the_calibration_error_and_costs_no_hits(seed: int) -> None:
    plain, calibrated = _trained(PLAIN, seed), _trained(CALIBRATED, seed)
    assert calibrated[0] <= plain[0] / 2
    assert calibrated[1] >= plain[1] - 0.01
