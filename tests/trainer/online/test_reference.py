"""When the reference follows, and how."""

from __future__ import annotations

import math

import pytest
import torch
from choice_world import task

from trainer.online.config import ReferenceConfig
from trainer.online.reference import compare, validation_tasks
from trainer.rl.learner import blend


def test_it_follows_a_clear_and_significant_gain_alone() -> None:
    config = ReferenceConfig(margin=0.1, min_episodes=20)
    clear = compare([True] * 40, [True] * 20 + [False] * 20, config)
    assert clear.gain == 0.5 and clear.follows
    assert clear.standard_error == pytest.approx(math.sqrt(0.25 * 40 / 39 / 40))
    assert not compare([True] * 4, [False] * 4, config).follows  # too few episodes
    noisy = compare([True] * 13 + [False] * 10, [False] * 10 + [True] * 10 + [False] * 3, config)
    assert noisy.gain >= 0.1 and noisy.gain < 2 * noisy.standard_error and not noisy.follows
    small = compare([True] * 95 + [True] * 5, [True] * 95 + [False] * 5, ReferenceConfig(margin=0.06))
    assert small.gain >= 2 * small.standard_error and not small.follows  # below the margin
    assert not compare([False] * 40, [True] * 40, config).follows
    assert not compare([True] * 40, [True] * 40, ReferenceConfig(margin=0.0)).follows


def test_lost_episodes_leave_the_pair_out() -> None:
    found = compare([True, None, True, False], [False, True, None, False], ReferenceConfig())
    assert (found.episodes, found.policy, found.reference) == (2, 0.5, 0.0)
    assert not compare([None], [True], ReferenceConfig()).follows
    with pytest.raises(ValueError, match="same episodes"):
        compare([True], [], ReferenceConfig())


def test_the_blend_in_closed_form() -> None:
    torch.manual_seed(0)
    reference, policy = torch.nn.BatchNorm1d(3), torch.nn.BatchNorm1d(3)
    with torch.no_grad():
        for tensor in (*reference.parameters(), *policy.parameters()):
            tensor.normal_()
    policy.num_batches_tracked = torch.tensor(7)
    before = {name: tensor.clone() for name, tensor in reference.state_dict().items()}
    blend(reference, policy, 0.25)
    for name, tensor in reference.state_dict().items():
        if tensor.is_floating_point():
            torch.testing.assert_close(tensor, 0.75 * before[name] + 0.25 * policy.state_dict()[name])
        else:
            assert tensor == policy.state_dict()[name]
    blend(reference, policy, 1.0)
    assert all(torch.equal(t, policy.state_dict()[name]) for name, t in reference.state_dict().items())


def test_a_tied_weight_is_blended_once() -> None:
    reference, policy = (torch.nn.ModuleDict({"in": torch.nn.Embedding(2, 2), "out": torch.nn.Linear(2, 2, bias=False)})
                         for _ in range(2))  # fmt: skip
    for model in (reference, policy):
        model["out"].weight = model["in"].weight
    before = reference["in"].weight.detach().clone()
    blend(reference, policy, 0.5)
    torch.testing.assert_close(reference["out"].weight, (before + policy["in"].weight) / 2)


def test_validation_is_apart_from_training() -> None:
    train, held = [task(1, n) for n in range(4)], [task(1, n) for n in range(4, 12)]
    chosen = validation_tasks(held, train, 5, 0)
    assert len(chosen) == 5 and chosen == validation_tasks(held[::-1], train, 5, 0)
    with pytest.raises(ValueError, match="1 shared"):
        validation_tasks([*held, train[2]], train, 5, 0)
