"""Curricula: the contract of each, what each is for, how tasks are drawn by weights, and a run that goes on."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import pytest
from choice_world import task
from hypothesis import given, settings
from hypothesis import strategies as st
from online_runs import settings as run_settings
from online_runs import train

from schemas.settings import SettingsError
from trainer.online.curricula import MEMBERS, TaskRecord
from trainer.online.curricula.assign import TaskCurriculum, curriculum, drawn, task_weights
from trainer.settings.online import CurriculumConfig


@st.composite
def records(draw: st.DrawFn) -> list[TaskRecord]:
    def one() -> TaskRecord:
        attempts = draw(st.floats(0, 40))
        done = attempts * draw(st.floats(0, 1))
        return TaskRecord(draw(st.integers(1, 9)), draw(st.sampled_from("abc")), attempts, done)

    return [one() for _ in range(draw(st.integers(1, 12)))]


def tried(steps: int, attempts: float, successes: float, about: str = "a") -> TaskRecord:
    return TaskRecord(steps, about, attempts, successes)


@pytest.mark.parametrize("name", MEMBERS)
class TestEveryCurriculum:
    @settings(max_examples=60, deadline=None)
    @given(given_records=records(), updates=st.integers(0, 200), floor=st.floats(0, 1))
    def test_weights_sum_to_1_over_a_floor(
        self, name: str, given_records: list[TaskRecord], updates: int, floor: float
    ) -> None:
        config = CurriculumConfig(name=name, floor=floor)
        found = task_weights(given_records, updates, config)
        assert math.fsum(found) == pytest.approx(1.0)
        assert all(one >= floor / len(given_records) - 1e-12 for one in found)
        assert found == task_weights(list(given_records), updates, config)

    def test_no_task_is_special_by_its_place(self, name: str) -> None:
        some = [tried(steps, 8, steps % 3, "ab"[steps % 2]) for steps in range(1, 8)]
        config = CurriculumConfig(name=name)
        forth, back = task_weights(some, 3, config), task_weights(some[::-1], 3, config)
        assert forth == pytest.approx(back[::-1])

    def test_refuses_an_option_that_it_does_not_know(self, name: str) -> None:
        with pytest.raises((ValueError, TypeError), match="makr"):
            TaskCurriculum([task(1, 0)], CurriculumConfig(name=name, options={"makr": 1}), (1, 2), 0)


class TestStaged:
    SOME = (tried(2, 8, 0), tried(2, 8, 0), tried(4, 0, 0), tried(4, 0, 0), tried(6, 0, 0), tried(6, 0, 0))

    def test_the_next_stage_opens_at_the_mark(self) -> None:
        assert curriculum("staged")(self.SOME, 0) == [1, 1, 0, 0, 0, 0]
        passed = [tried(2, 8, 6), tried(2, 8, 4), *self.SOME[2:]]  # 10 of 16 are above 0.6
        assert curriculum("staged")(passed, 0) == [0.25, 0.25, 1, 1, 0, 0]
        assert curriculum("staged")(passed, 0, mark=0.7) == [1, 1, 0, 0, 0, 0]

    def test_a_stage_without_enough_tries_is_not_passed(self) -> None:
        assert curriculum("staged")([tried(2, 2, 2), tried(4, 0, 0)], 0, stages=2) == [1, 0]

    def test_the_last_stage_stays(self) -> None:
        assert curriculum("staged")([tried(2, 9, 9), tried(4, 9, 9)], 0, stages=2, review=0.5) == [0.5, 1]


def test_the_horizon_grows_by_updates_alone() -> None:
    some = [tried(steps, 9, 0) for steps in (2, 3, 4)]
    found = [curriculum("growing_horizon")(some, update, start=2, by=1, every=5) for update in (0, 4, 5, 10)]
    assert found == [[1, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert curriculum("growing_horizon")([tried(7, 0, 0), tried(9, 0, 0)], 0) == [1, 0]


class TestFrontier:
    def test_the_middle_weighs_most(self) -> None:
        found = curriculum("frontier")([tried(2, 40, 40), tried(4, 40, 20), tried(6, 40, 0)], 0)
        assert found[1] > 3 * max(found[0], found[2])

    def test_what_was_never_tried_is_judged_by_its_length_and_its_subject(self) -> None:
        known = [tried(2, 40, 40), tried(6, 40, 0), tried(2, 40, 36, "b")]
        both = curriculum("frontier")([*known, tried(2, 0, 0, "c"), tried(6, 0, 0, "b")], 0)
        # short of an unknown subject: all but certain; long of a subject that goes well: in between, so it weighs more
        assert both[4] > both[3]


class TestDraws:
    def test_by_their_weights(self) -> None:
        counts = Counter(drawn(["a", "b", "c"], [0.6, 0.3, 0.1], 1, 0, number)[0] for number in range(2000))
        assert [round(counts[name] / 2000, 1) for name in "abc"] == [0.6, 0.3, 0.1]

    @given(st.integers(1, 5), st.integers(1, 12), st.integers(0, 9))
    def test_each_once_before_one_comes_again(self, count: int, size: int, number: int) -> None:
        names = [f"t{place}" for place in range(count)]
        weights = [1.0 / (place + 1) for place in range(count)]
        found = drawn(names, weights, size, 3, number)
        assert len(found) == size and len(set(found[:count])) == min(count, size)
        assert found == drawn(names[::-1], weights[::-1], size, 3, number)


def test_a_record_fades_and_a_lost_rollout_says_nothing() -> None:
    one = task(1, 0)
    made = TaskCurriculum([one, task(2, 1)], CurriculumConfig(name="uniform"), (1, 2), 0)
    made.learn(one, [True, None, False])
    made.learn(one, [None, None])
    made.learn(one, [True, True])
    assert made.state() == {"tallies": {one.task_id: pytest.approx([0.7 * 2 + 2, 0.7 * 1 + 2])}}


def test_what_is_saved_is_gone_on_from() -> None:
    tasks = [task(1 + place % 2, place) for place in range(8)]
    made, again = (TaskCurriculum(tasks, CurriculumConfig(name="staged", floor=0.0), (1, 2), 0) for _ in range(2))
    for update in range(3):
        for one in made.batch(update, 4):
            made.learn(one, [True] * 4)
    assert {one.expected_steps for one in again.batch(3, 4)} == {1}
    again.load(json.loads(json.dumps(made.state())))
    assert again.batch(3, 4) == made.batch(3, 4) and 2 in {one.expected_steps for one in made.batch(3, 4)}


@pytest.mark.parametrize("beside", [{"mode": "async"}, {"platforms": {"phase": 2}}])
def test_a_curriculum_is_refused_where_it_could_not_decide(beside: dict[str, object]) -> None:
    with pytest.raises(SettingsError, match="expected no curriculum in mode async"):
        run_settings(curriculum={"name": "staged"}, **beside)


@pytest.mark.slow
def test_a_run_draws_by_its_curriculum_and_says_so(start: Path, tmp_path: Path) -> None:
    named = {"name": "staged", "options": {"stages": 2, "tries": 4.0, "mark": 0.1}, "floor": 0.0}
    config = run_settings(updates=3, eval_steps=0, replay_per_task=0, curriculum=named)
    whole = train(start, tmp_path / "whole", config)
    steps = [row["curriculum/steps"] for row in whole.metrics["curve"]]
    assert steps[0] == 1.0 and all(0 < row["curriculum/tried"] <= 1 for row in whole.metrics["curve"])
    plain = train(start, tmp_path / "plain", run_settings(updates=1, eval_steps=0))
    assert not any(key.startswith("curriculum") for key in plain.metrics["curve"][0])
