"""Settings from JSON, and batches in proportion to the strata."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from choice_world import task
from hypothesis import given, settings
from hypothesis import strategies as st

from generators.task_pool import STRATA, stratum
from trainer.online.config import OnlineConfig, config_from
from trainer.online.strata import StratifiedBatches


def test_a_config_comes_back_from_its_json() -> None:
    config = config_from({"mode": "async", "edges": [3, 5], "grpo": {"beta": 0.1}, "limits": {"step_extra": 0}})
    assert config.grpo.beta == 0.1 and config.grpo.std_floor == OnlineConfig().grpo.std_floor
    assert config.limits.step_extra == 0 and config.limits.retries == OnlineConfig().limits.retries
    assert config_from(json.loads(json.dumps(config.plain()))) == config


@pytest.mark.parametrize(
    ("plain", "message"),
    [({"lr": 1}, "unknown"), ({"grpo": {"gamma": 1}}, "online RL grpo: unknown"), ({"mode": "fast"}, "sync, async"),
     ({"num_generations": 1}, "num_generations of 2"), ({"edges": [4, 2]}, "edges"), ({"entropy_decay": 0}, "decay"),
     ({"temperature": 0}, "temperature"), ({"reference": {"alpha": 0}}, "alpha")],
)  # fmt: skip
def test_a_wrong_config_is_told(plain: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        config_from(plain)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(1, 8), min_size=3, max_size=24), st.integers(1, 9), st.integers(0, 3))
def test_every_batch_is_drawn_in_proportion(steps: list[int], size: int, seed: int) -> None:
    tasks = [task(n, number) for number, n in enumerate(steps)]
    batches = StratifiedBatches(tasks, (2, 4), seed)
    sizes = Counter(stratum(n, (2, 4)) for n in steps)
    assert batches.sizes == {name: sizes[name] for name in STRATA}
    for number in range(4):
        drawn = Counter(stratum(one.expected_steps, (2, 4)) for one in batches.batch(number, size))
        for name in STRATA:
            assert abs(drawn[name] - size * sizes[name] / len(tasks)) < 2
    lap = Counter(one.task_id for number in range(len(tasks)) for one in batches.batch(number, size))
    assert set(lap.values()) == {size}  # each task its turn


def test_batches_depend_on_seed_and_number_alone() -> None:
    tasks = [task(1 + number % 5, number) for number in range(10)]
    first, again = StratifiedBatches(tasks, (2, 4), 0), StratifiedBatches(tasks[::-1], (2, 4), 0)
    assert [first.batch(k, 4) for k in range(5)] == [again.batch(k, 4) for k in range(5)]
    assert first.batch(0, 4) != StratifiedBatches(tasks, (2, 4), 1).batch(0, 4)
    with pytest.raises(ValueError, match="each task once"):
        StratifiedBatches([tasks[0], tasks[0]], (2, 4), 0)
