"""Room to train is looked for where the graph trains: on one device, or on as many as there are ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dagster_project.preflight import training_memory
from dagster_project.preflight.training_memory import Training, missing, parameters
from trainer.presets import PUBLISHED

GB = 10**9
VLLM = {"online": {"rollout_engine": "vllm"}}


@pytest.mark.parametrize(
    ("training", "on_gpus", "in_memory"),
    [
        (Training(10, "cpu"), [], 160),
        (Training(10, "cpu", reference=True), [], 200),
        (Training(10, "cpu", 2), [], 160 + 40),  # the first rank's whole model
        (Training(10, "cpu", 2, reference=True, samples=True), [], 200 + 80),  # and its whole reference
        (Training(10, "cuda"), [160], 0),
        (Training(10, "cuda:1", reference=True, samples=True), [200], 0),
        (Training(10, "cuda", 4), [40] * 4, 40),
        (Training(10, "cuda", 4, samples=True), [40 + 40, 40, 40, 40], 0),  # replies are made on its GPU
        (Training(10, "cuda", 4, reference=True, samples=True), [50 + 40, 50, 50, 50], 40),
        (Training(10, "cuda", 4, reference=True), [50] * 4, 80),  # servers make them
    ],
)
def test_what_training_takes_and_where(training: Training, on_gpus: list[int], in_memory: int) -> None:
    assert training.on_gpus == on_gpus and training.in_memory == in_memory


# 8b has 8.6 thousand million parameters as they are counted here: 137.6 GB of state, 34.4 GB a whole copy
@pytest.mark.parametrize(
    ("stage", "config", "gpus", "memory", "said"),
    [
        (
            "mid_trained",
            {},
            [80] * 8,
            64,
            "device cpu and ranks 1 takes 137.6 GB of memory, found 64.0 GB; set device to",
        ),
        ("mid_trained", {}, [], 256, ""),
        (
            "mid_trained",
            {"device": "cuda"},
            [80] * 8,
            64,
            "137.6 GB on GPU 0, found 80.0 GB; set device to cuda and ranks to 2 or more",
        ),
        ("mid_trained", {"device": "cuda:1"}, [144, 80], 64, "137.6 GB on GPU 1, found 80.0 GB"),
        ("mid_trained", {"device": "cuda:1"}, [80, 144], 64, ""),
        ("mid_trained", {"device": "cuda:2"}, [144, 144], 64, "need 3 visible GPUs, found 2; set another device"),
        ("mid_trained", {"device": "cuda", "ranks": 2}, [80] * 2, 64, ""),
        (
            "mid_trained",
            {"device": "cuda", "ranks": 2},
            [80] * 2,
            32,
            "takes 34.4 GB of memory, found 32.0 GB; give it",
        ),
        ("mid_trained", {"device": "cuda", "ranks": 2}, [80, 40], 64, "takes 68.8 GB on GPU 1, found 40.0 GB"),
        (
            "mid_trained",
            {"device": "cuda", "ranks": 8},
            [80] * 2,
            64,
            "need 8 visible GPUs, found 2; set ranks to 2 or",
        ),
        ("mid_trained", {"device": "cuda", "ranks": 2}, [], 64, "need 2 visible GPUs, found 0; set device to cpu"),
        ("mid_trained", {"ranks": 2}, [80] * 8, 160, "device cpu and ranks 2 takes 172.0 GB of memory"),
        (
            "offline_web",
            {"device": "cuda", "ranks": 2},
            [80] * 8,
            64,
            "103.2 GB on GPU 0, found 80.0 GB; set device to cuda and ranks to 4 or more",
        ),
        ("offline_web", {"device": "cuda", "ranks": 4}, [80] * 8, 64, ""),
        (
            "offline_web",
            {"device": "cuda", "ranks": 8},
            [24] * 8,
            64,
            "take a smaller preset ($VESPER_TRAINER), or larger",
        ),
        ("online_web", {"device": "cuda", "ranks": 8}, [55] * 8, 64, "55.9 GB on GPU 0"),
        ("online_web", {"device": "cuda", "ranks": 8} | VLLM, [24] * 8, 96, ""),
        ("online_web", {"device": "cuda", "ranks": 8} | VLLM, [24] * 8, 64, "takes 68.8 GB of memory, found 64.0 GB"),
        ("base", {"device": "cuda", "ranks": 8}, [], 1, ""),  # it is loaded, where ever the others train
        ("linear", {"device": "cuda", "ranks": 8}, [], 1, ""),
        ("unified", {"device": "cuda", "ranks": 8}, [80], 1, ""),  # one process, which answers validation rows
        (
            "evaluations/base",
            {"device": "cuda", "ranks": 8},
            [],
            1,
            "device cuda and ranks 1 need 1 visible GPU, found 0",
        ),
    ],
)
def test_what_is_lacking_is_named_with_what_to_set(
    stage: str, config: dict[str, Any], gpus: list[int], memory: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_memory, "_gpus", lambda: [gb * GB for gb in gpus])
    monkeypatch.setattr(training_memory, "_memory", lambda: memory * GB)
    key = stage if "/" in stage else f"checkpoints/{stage}"
    found = missing(key, "8b", config)
    assert said in found and bool(said) == bool(found)
    assert not found or found.startswith(key)
    if "GPU" not in said:  # nano fits anywhere
        assert missing(key, "nano", config) == ""


def test_the_table_counts_8b_as_it_says() -> None:
    assert round(parameters(PUBLISHED["8b"]) / GB, 1) == 8.6


def test_a_containers_limit_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(training_memory, "CGROUP_LIMIT", limit)
    machine = training_memory._memory()
    limit.write_text("max\n")
    assert training_memory._memory() == machine > 1_000_000
    limit.write_text("1000000\n")
    assert training_memory._memory() == 1_000_000
