"""Online RL on the web trains where its start sometimes succeeds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import trainer.online.train
from generators.tasks.task_spec import TaskSpec
from trainer.proving.staircase.choice import choose_tasks
from trainer.proving.staircase.config import StaircaseConfig
from trainer.proving.staircase.screening import SCREENED, Screened, screen, worth_training
from trainer.proving.staircase.tasks import family_of
from trainer.proving.staircase.training import Trainings


@pytest.mark.parametrize(
    ("shares", "kept"),
    [
        ({"a": 0.0, "b": 0.5, "c": 1.0, "d": 0.1}, ["b", "d"]),
        ({"a": 0.0, "b": 0.5, "c": 1.0}, ["a", "b", "c"]),  # too few: all of them
        ({}, []),
    ],
)
def test_what_is_always_or_never_solved_is_left_out(shares: dict[str, float], kept: list[str]) -> None:
    assert worth_training(shares, 2) == kept


def test_attempts_that_broke_down_do_not_count_and_nothing_is_tried_twice(
    tmp_path: Path, tiny: StaircaseConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def tried(checkpoint: Any, contracts: Any, pool: Any, **how: Any) -> dict[str, Any]:
        asked.append(how)
        found = [("boxes/one", 1.0), ("boxes/one", 0.0), ("boxes/one", None), ("boxes/two", None)]
        return {"records": [{"cluster": family, "success": success} for family, success in found]}

    monkeypatch.setattr("trainer.proving.staircase.screening.world_success", tried)
    monkeypatch.setattr("trainer.proving.staircase.screening.load_checkpoint", lambda path: path)
    for clock in (lambda: 7.5, lambda: 99.0):  # how long it took is known the next time too
        assert screen("start", [], tiny, tmp_path, clock) == ({"boxes/one": 0.5}, 7.5)
    assert len(asked) == 1 and asked[0]["attempts"] == tiny.screen_attempts and asked[0]["temperature"] == 1.0
    assert json.loads((tmp_path / SCREENED).read_text()) == {"shares": {"boxes/one": 0.5}, "seconds": 7.5}


def test_the_other_families_are_not_trained_on(
    tmp_path: Path, tiny: StaircaseConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    tasks = choose_tasks(tmp_path / "tasks", tiny.choice)
    one, other = tasks.families()
    given: list[list[TaskSpec]] = []
    really = trainer.online.train.train_online

    def watched(start: Any, contracts: list[TaskSpec], *more: Any, **how: Any) -> Any:
        given.append(contracts)
        return really(start, contracts, *more, **how)

    monkeypatch.setattr("trainer.proving.staircase.training.train_online", watched)
    monkeypatch.setattr(
        "trainer.proving.staircase.training.screen", lambda *given: Screened({one: 0.25, other: 1.0}, 0.0)
    )
    tiny = tiny.changed(screen_least=1, screen_each=1)
    row = {"split": "train", "sample_id": "a", "answer": "click", "messages": '[{"role": "user", "content": "red"}]'}
    start = Trainings(tmp_path / "start", tiny, tasks, [row]).random_weights()
    told = Trainings(tmp_path / "some", tiny, tasks, []).online(start).facts
    assert told["families"] == [one] and told["screened"][other] == 1.0
    everything = Trainings(tmp_path / "all", tiny.changed(screen_each=0), tasks, []).online(start).facts
    assert everything["families"] == [] and everything["screened"] == {}
    assert [{family_of(contract) for contract in some} for some in given] == [{one}, {one, other}]
