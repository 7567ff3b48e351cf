"""When the reference follows, and how."""

from __future__ import annotations

import math
import statistics
from random import Random

import pytest
import torch
from choice_world import task
from hypothesis import given, settings
from hypothesis import strategies as st

from trainer.modeling.sampler import POLICY, REFERENCE
from trainer.online.reference import Comparison, compare, validation_jobs, validation_tasks
from trainer.rl.learner import blend
from trainer.settings.online import ReferenceConfig


def test_it_follows_a_clear_and_significant_gain_alone() -> None:
    config = ReferenceConfig(margin=0.1, min_episodes=20)
    clear = compare([True] * 40, [True] * 20 + [False] * 20, names(40), config)
    assert clear.gain == 0.5 and clear.follows and clear.tasks == clear.episodes == 40
    assert clear.standard_error == pytest.approx(math.sqrt(0.25 * 40 / 39 / 40))
    assert not compare([True] * 4, [False] * 4, names(4), config).follows  # too few episodes
    noisy = compare([True] * 13 + [False] * 10, [False] * 10 + [True] * 10 + [False] * 3, names(23), config)
    assert noisy.gain >= 0.1 and noisy.gain < 2 * noisy.standard_error and not noisy.follows
    few = ReferenceConfig(margin=0.06, min_episodes=20)
    small = compare([True] * 95 + [True] * 5, [True] * 95 + [False] * 5, names(100), few)
    assert small.gain >= 2 * small.standard_error and not small.follows  # below the margin
    assert compare([True] * 95 + [True] * 5, [True] * 95 + [False] * 5, names(100), few.changed(margin=0.05)).follows
    assert not compare([False] * 40, [True] * 40, names(40), config).follows
    assert not compare([True] * 40, [True] * 40, names(40), config.changed(margin=0.0)).follows


def names(count: int, tasks: int | None = None) -> list[str]:
    """The task of each episode: one of its own, or `tasks` in turn."""
    return [f"task {number % (tasks or count)}" for number in range(count)]


def test_tasks_that_come_again_count_as_what_they_are() -> None:
    # twelve tasks, twenty times each: nine where the policy always wins, three where it always loses
    policy = [number % 12 < 9 for number in range(240)]
    reference = [not one for one in policy]
    found = compare(policy, reference, names(240, 12), ReferenceConfig())
    assert (found.episodes, found.tasks, found.gain) == (240, 12, 0.5)
    # residuals of a task: 20 · (±1 − 0.5); the variance is 12/11 · 400 · (9 · 0.25 + 3 · 2.25) / 240²
    assert found.standard_error == pytest.approx(math.sqrt(12 / 11 * 400 * 9 / 240**2))
    alone = compare(policy[:12], reference[:12], names(12), ReferenceConfig())
    assert found.standard_error == pytest.approx(alone.standard_error), "the same episode again tells nothing new"
    assert not found.follows, "1.9 standard errors"
    naive = compare(policy, reference, names(240), ReferenceConfig())
    assert naive.follows and naive.standard_error < found.standard_error / 4
    won = [True] * 240
    assert compare(won, [False] * 240, names(240, 10), ReferenceConfig()).follows
    assert not compare(won, [False] * 240, names(240, 9), ReferenceConfig()).follows, "too few tasks"


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 5)), min_size=2, max_size=40), st.randoms())
def test_the_comparison_by_its_laws(pairs: list[tuple[bool, bool, int]], shuffled: Random) -> None:
    def found(some: list[tuple[bool, bool, int]]) -> Comparison:
        policy, reference = [pair[0] for pair in some], [pair[1] for pair in some]
        return compare(policy, reference, [str(pair[2]) for pair in some], ReferenceConfig(min_episodes=2))

    one = found(pairs)
    again = list(pairs)
    shuffled.shuffle(again)
    other, back = found(again), found([(reference, policy, task) for policy, reference, task in pairs])
    assert (one.gain, one.standard_error) == pytest.approx((other.gain, other.standard_error))
    assert (one.gain, one.standard_error) == pytest.approx((-back.gain, back.standard_error))
    assert not (one.follows and back.follows)
    if one.tasks == len(pairs):  # each task once: the standard error of a mean
        gaps = [float(policy) - float(reference) for policy, reference, _ in pairs]
        assert one.standard_error == pytest.approx(statistics.stdev(gaps) / math.sqrt(len(gaps)))


def test_tasks_come_again_until_there_are_enough_episodes() -> None:
    tasks = [task(1, number) for number in range(3)]
    jobs = validation_jobs(tasks, 4, POLICY, episodes=8, seed=1)
    assert [job.contract.task_id for job in jobs] == [tasks[n % 3].task_id for n in range(8)]
    assert [job.greedy for job in jobs] == [True] * 3 + [False] * 5 and all(job.validation for job in jobs)
    assert len({job.key for job in jobs}) == 8 and len({job.seed for job in jobs[3:]}) == 5
    later = validation_jobs(tasks, 9, REFERENCE, episodes=8, seed=1)
    assert [job.seed for job in later] == [job.seed for job in jobs], "a pair has the same task and seed"
    assert not {job.key for job in later} & {job.key for job in jobs}
    assert [job.seed for job in validation_jobs(tasks, 4, POLICY, episodes=8, seed=2)][3:] != [j.seed for j in jobs][3:]
    assert len(validation_jobs(tasks, 0, POLICY)) == 3 and validation_jobs([], 0, POLICY, episodes=8) == []


def test_lost_episodes_leave_the_pair_out() -> None:
    found = compare([True, None, True, False], [False, True, None, False], names(4), ReferenceConfig())
    assert (found.episodes, found.tasks, found.policy, found.reference) == (2, 2, 0.5, 0.0)
    assert not compare([None], [True], ["a"], ReferenceConfig()).follows
    for policy, reference, tasks in (([True], [], ["a"]), ([True], [True], [])):
        with pytest.raises(ValueError, match="same episodes"):
            compare(policy, reference, tasks, ReferenceConfig())


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
    reference, policy = (
        torch.nn.ModuleDict({"in": torch.nn.Embedding(2, 2), "out": torch.nn.Linear(2, 2, bias=False)})
        for _ in range(2)
    )
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
