"""Settings from JSON, and batches in proportion to the strata."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import groupby

import pytest
from choice_world import task
from hypothesis import given, settings
from hypothesis import strategies as st

from generators.execution.device_pool import LocalPool
from generators.tasks.strata import STRATA, stratum
from trainer.online.collect import in_device_order
from trainer.online.strata import StratifiedBatches
from trainer.settings.grpo import VllmConfig
from trainer.settings.online import OnlineConfig
from trainer.vllm.client import VllmClient
from trainer.vllm.servers import endpoints, weight_update


def test_a_config_comes_back_from_its_json() -> None:
    config = OnlineConfig.parsed({"mode": "async", "edges": [3, 5], "grpo": {"beta": 0.1}, "limits": {"step_extra": 0}})
    assert config.grpo.beta == 0.1 and config.grpo.std_floor == OnlineConfig().grpo.std_floor
    assert config.limits.step_extra == 0 and config.limits.retries == OnlineConfig().limits.retries
    assert OnlineConfig.parsed(config.plain()) == config


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"lr": 1}, "unknown"),
        ({"grpo": {"gamma": 1}}, "grpo: unknown"),
        ({"mode": "fast"}, "mode: expected sync or async, found 'fast'"),
        ({"num_generations": 1}, "num_generations: expected a whole number, 2 or more, found 1"),
        ({"edges": [4, 2]}, "edges"),
        ({"entropy_decay": 0}, "decay"),
        ({"temperature": 0}, "temperature"),
        ({"reference": {"alpha": 0}}, "alpha"),
        ({"rollout_engine": "sglang"}, "in_process or vllm"),
        ({"vllm": {"weight_update": "ipc"}}, "weight_transfer"),
        ({"vllm": {"endpoints": "http://x"}}, "list of URLs"),
        ({"vllm": {"wait_s": 0}}, "vllm.wait_s: expected a number, more than 0, found 0"),
        ({"vllm": {"port": 1}}, "vllm: unknown 'port'"),
    ],
)
def test_a_wrong_config_is_told(plain: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        OnlineConfig.parsed(plain)


def test_where_servers_stand_is_no_part_of_what_a_run_is(monkeypatch: pytest.MonkeyPatch) -> None:
    config = OnlineConfig.parsed(
        {"rollout_engine": "vllm", "vllm": {"endpoints": ["http://a:8000"], "weights_dir": "w"}}
    )
    assert config.run_part() == OnlineConfig.parsed({"rollout_engine": "vllm"}).run_part() != OnlineConfig().run_part()
    assert not {"vllm", "rollout_engine"} & set(OnlineConfig().run_part())
    assert endpoints(config.vllm) == ["http://a:8000"]
    with pytest.raises(ValueError, match="VESPER_VLLM_ENDPOINTS=http"):
        endpoints(VllmConfig())
    with pytest.raises(ValueError, match="VESPER_VLLM_WEIGHTS_DIR"):
        weight_update(VllmConfig(), "run")
    monkeypatch.setenv("VESPER_VLLM_ENDPOINTS", "http://b:8000, http://c:8000/v1")
    assert endpoints(VllmConfig()) == ["http://b:8000", "http://c:8000/v1"]
    assert VllmClient("http://c:8000/v1/").endpoint == "http://c:8000"
    with pytest.raises(ValueError, match="http:// or https://"):
        VllmClient("c:8000")


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


def test_tasks_of_one_kind_of_device_follow_one_another() -> None:
    worlds = ("fsm", "miniwob", "phone")
    tasks = [replace(task(1, number), initial_state={"world": worlds[number % 3]}) for number in range(9)]
    pool = LocalPool(dict.fromkeys(worlds))  # type: ignore[arg-type]  # none is opened
    kinds = []
    for batch in range(4):
        ordered = in_device_order(pool, tasks, batch)
        assert sorted(one.task_id for one in ordered) == sorted(one.task_id for one in tasks)
        kinds += [one.world for one in ordered]
    assert [kind for kind, _ in groupby(kinds)] == [*worlds, "miniwob", "fsm", "miniwob", "phone", "miniwob", "fsm"]
