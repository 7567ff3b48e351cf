"""Many actions are right and one is labelled: what plain GRPO unlearns, a trust region and shrunk negatives keep.

A table of logits stands for the policy; advantages, loss and gradients are the trainer's own.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainer.proving.methods import MethodCheck
from trainer.rl.grpo import group_advantages, grpo_loss, shrunk_negatives
from trainer.settings.grpo import GrpoConfig

STATES, ACTIONS, VALID, GROUP, UPDATES = 32, 8, 3, 8, 120
PLAIN = GrpoConfig()


def _trained(config: GrpoConfig, seed: int = 0, updates: int = UPDATES) -> tuple[float, float]:
    """(probability of the labelled action, share of their probability that the valid others keep), after training.

    In each state `VALID` actions would do and begin likelier than the rest; the first of them is labelled.
    """
    draws = torch.Generator().manual_seed(seed)
    start = torch.zeros(STATES, ACTIONS)
    start[:, :VALID] = 1.0
    logits = start.clone().requires_grad_()
    optimiser = torch.optim.Adam([logits], lr=0.05)
    for _ in range(updates):
        with torch.no_grad():
            actions = torch.multinomial(torch.softmax(logits, -1), GROUP, replacement=True, generator=draws)
        hit = (actions == 0).tolist()
        advantages = group_advantages([[float(one) for one in group] for group in hit], config)
        if not advantages.used:
            continue
        advantages = shrunk_negatives(advantages, hit, config.negative_floor)
        log_p = torch.log_softmax(logits, -1).gather(1, actions).reshape(-1, 1)
        reference = torch.log_softmax(start, -1).gather(1, actions).reshape(-1, 1)
        count = len(log_p)
        part = grpo_loss(
            log_p,
            log_p.detach(),
            torch.ones(count, 1, dtype=torch.bool),
            range(count),
            advantages,
            [1] * count,
            config,
            reference_SL=reference if config.beta else None,
        )
        optimiser.zero_grad()
        part.loss.backward()
        optimiser.step()
    after, before = torch.softmax(logits.detach(), -1), torch.softmax(start, -1)
    return float(after[:, 0].mean()), float((after[:, 1:VALID].sum(1) / before[:, 1:VALID].sum(1)).mean())


REGIONS = {
    "plain": PLAIN,
    "negative_floor": PLAIN.changed(negative_floor=0.2),
    "beta": PLAIN.changed(beta=1.0),
    "both": PLAIN.changed(beta=1.0, negative_floor=0.2),
}


def run(member: str, seed: int, share: float = 1.0) -> dict[str, float]:
    """In percent: what the valid others keep of their probability, and the probability of the label."""
    label, kept = _trained(REGIONS[member], seed, round(UPDATES * share))
    return {"others_keep": 100 * kept, "label": 100 * label}


CHECK = MethodCheck(
    name="one_label_of_three",
    system="GUI-Libra",
    asks="what valid actions without a label keep of their probability, percent (wanted: 50; plain GRPO at most 20)",
    members=tuple(REGIONS),
    reference="plain",
    figures=("others_keep", "label"),
    run=run,
)


def test_valid_alternatives_outlive_a_label_that_is_one_of_many() -> None:
    labelled, kept = _trained(PLAIN)
    assert labelled > 0.8
    assert kept < 0.2  # what plain GRPO leaves of actions that would do as well
    steady, spared = _trained(PLAIN.changed(beta=1.0, negative_floor=0.2))
    assert spared >= 0.5
    assert steady > 0.5  # and the label is still learned: it began at 0.2


def test_shrunk_negatives_help_within_a_trust_region_and_hardly_without() -> None:
    """Without one the label's own rise takes all probability, however little the others are blamed."""
    kept = {name: _trained(config)[1] for name, config in REGIONS.items()}
    assert abs(kept["negative_floor"] - kept["plain"]) < 0.05
    assert kept["plain"] + 0.3 < kept["beta"] < kept["both"] - 0.05


def test_worked_by_hand_and_positives_are_left_alone() -> None:
    config = PLAIN.changed(advantage_epsilon=1e-12)
    found = group_advantages([[1.0, 0.0, 0.0, 0.0], [1.0, None, 0.0]], config)
    shrunk = shrunk_negatives(found, [[True, False, False, False], [True, None, False]], 0.2)
    assert shrunk.values[0] == found.values[0]
    assert shrunk.values[1:4] == pytest.approx([value * (0.2 + 0.8 / 4) for value in found.values[1:4]])
    assert shrunk.values[5] == 0.0
    assert shrunk.values[6] == pytest.approx(found.values[6] * (0.2 + 0.8 / 2))  # a lost one doesn't count
    assert shrunk.weights == found.weights


@given(st.lists(st.booleans(), min_size=2, max_size=8), st.floats(0, 1))
def test_it_only_shrinks_and_floor_one_is_plain(hit: list[bool], floor: float) -> None:
    found = group_advantages([[float(one) for one in hit]], PLAIN)
    shrunk = shrunk_negatives(found, [hit], floor)
    for before, after in zip(found.values, shrunk.values, strict=True):
        assert after == before if before >= 0 else before <= after <= 0
    assert shrunk_negatives(found, [hit], 1.0) == found


def test_bad_settings_are_named() -> None:
    with pytest.raises(ValueError, match=r"negative_floor: expected a number, 0 or more and at most 1, found 1\.5"):
        GrpoConfig(negative_floor=1.5)
    with pytest.raises(ValueError, match="expected 2 outcomes, found 1"):
        shrunk_negatives(group_advantages([[0.0, 1.0]], PLAIN), [[True]], 0.5)
