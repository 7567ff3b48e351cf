"""Tasks that the policy always or never does are left out before a run of offline RL."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from drawn import scroll_rows

from trainer.modeling.checkpoint import Checkpoint, load_checkpoint
from trainer.modeling.sampler import Sampler
from trainer.offline.pass_band import GRADES, grade_of, in_band, weights_of
from trainer.offline.tasks import tasks_of
from trainer.offline.train import train_offline
from trainer.settings.offline import OfflineConfig, PassBand

CONFIG = OfflineConfig(
    domain="web",
    updates=1,
    prompts=2,
    num_generations=2,
    validation_limit=3,
    held_out_limit=3,
    threads=1,
    pass_band=PassBand(tries=6),
)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0, 1.0, [0, 1, 1, 1, 0]),
        (0.25, 0.5, [0, 1, 1, 0, 0]),
        (0.3, 1.0, [0, 0, 1, 1, 0]),
        (0.0, 0.0, [0, 0, 0, 0, 0]),
    ],
)
def test_no_task_at_either_end_is_left_whatever_the_band(low: float, high: float, expected: list[float]) -> None:
    assert weights_of(range(5), PassBand(tries=4, low=low, high=high)) == expected


def test_grades_by_hand() -> None:
    assert [grade_of(count, 4) for count in range(5)] == [5, 4, 3, 2, 1]
    assert [grade_of(count, 8) for count in (0, 1, 2, 4, 7, 8)] == [5, 5, 4, 3, 1, 1]


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="expected 0 to 4 successes of 4 tries, found 5"):
        weights_of([0, 5], PassBand(tries=4))
    with pytest.raises(ValueError, match="expected low <= high"):
        PassBand(low=0.5, high=0.4)
    with pytest.raises(ValueError, match="pass_band beside semi_online"):
        CONFIG.changed(semi_online={})


@pytest.fixture(scope="module")
def start(habitual: Path) -> Path:
    return habitual


@pytest.fixture(scope="module")
def loaded(start: Path) -> Checkpoint:
    return load_checkpoint(start)


@pytest.mark.slow
def test_what_is_sometimes_done_is_trained_on(loaded: Checkpoint, start: Path, tmp_path: Path) -> None:
    tasks = tasks_of(scroll_rows(8, 2), "web", loaded.processor)[0]
    kept, successes, counted = in_band(Sampler(loaded.model, loaded.processor), tasks, CONFIG, PassBand(tries=6))
    assert sum(counted.values()) == len(tasks) == 24
    assert len(kept) == 24 - counted.get("0/6", 0) - counted.get("6/6", 0)
    assert 0 < len(kept) < 24
    assert in_band(Sampler(loaded.model, loaded.processor), tasks, CONFIG, PassBand(tries=6)) == (
        kept,
        successes,
        counted,
    )
    events: list[dict[str, Any]] = []
    metrics = train_offline(
        start, scroll_rows(12, 2), scroll_rows(4, 3), tmp_path / "out", CONFIG, on_event=events.append
    ).metrics
    tried = metrics["pass_band"]
    assert metrics["tasks"]["train"] == sum(tried.values()) - tried.get("0/6", 0) - tried.get("6/6", 0)
    assert events[0]["pass_band"] == tried
    grades = pq.read_table(tmp_path / "out" / GRADES).to_pylist()
    assert Counter(f"{one['successes']}/{one['tries']}" for one in grades) == tried
    assert all(one["grade"] == grade_of(one["successes"], 6) for one in grades)


@pytest.mark.slow
def test_a_band_without_a_task_is_told(loaded: Checkpoint) -> None:
    tasks = tasks_of(scroll_rows(3, 2), "web", loaded.processor)[0]
    with pytest.raises(ValueError, match=r"pass_band: no task of 9 lies within 0.0 to 0.0; found \{'"):
        in_band(Sampler(loaded.model, loaded.processor), tasks, CONFIG, PassBand(tries=6, high=0.0))
