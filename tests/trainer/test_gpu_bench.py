"""The bench for GPUs runs on a CPU with nano, so that it is known to run before anyone pays for a GPU."""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from rollout_servers import rollout_server

BENCH = Path(__file__).parents[2] / "bench"


def script(name: str) -> Any:
    """A script of the bench as a module."""
    spec = importlib.util.spec_from_file_location(name, BENCH / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # its dataclasses look there for their types
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def bench() -> Any:
    return script("gpu_midtrain")


@pytest.mark.slow
def test_mid_training_and_a_step_of_rl_are_measured(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    words = [
        "--preset",
        "nano",
        "--device",
        "cpu",
        "--steps",
        "4",
        "--sequences",
        "1",
        "--threads",
        "1",
        "--replies",
        "4",
        "--group",
        "2",
        "--beta",
        "0.1",
    ]
    assert bench.main(words) == 0
    found = json.loads(capsys.readouterr().out)
    step = found["grpo"]
    assert found["tokens_per_s"] > 0 and found["mfu"] is None and found["peak_memory_gib"] is None, "no GPU, no MFU"
    assert step["seconds"] > 0 and step["tokens_per_s"] == pytest.approx(step["tokens"] / step["seconds"], rel=1e-2)
    assert step["replies"] == 4 and step["tokens"] > 4 * step["reply_tokens"] and step["reference"]
    assert math.isfinite(step["grad_norm"]) and step["grad_norm"] > 0, "there was something to learn"


def test_what_cannot_be_measured_is_told(
    bench: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for words, said in (
        (["--preset", "nano"], "expected a CUDA device"),
        (["--steps", "3"], "--steps above 3"),
        (["--replies", "9"], "in whole groups"),
    ):
        assert bench.main(words) == 2 and said in capsys.readouterr().err


def test_replies_are_held_against_the_learner(bench: Any, capsys: pytest.CaptureFixture[str]) -> None:
    sampling = script("gpu_sampling")
    assert sampling.main(["--preset", "nano", "--device", "cpu", "--prompts", "5", "--tokens", "6"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["tokens"] == 30 and found["difference_max"] < 1e-4, "on a CPU both are computed alike"
    assert found["mean_nats"] > 0.1, "a distribution that is sure of nothing, and not nearly uniform"


@pytest.mark.slow
def test_a_server_is_asked_as_online_rl_asks(bench: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    script("gpu_sampling")
    asking = script("gpu_vllm")
    words = argparse.Namespace(preset="nano", picture=(224, 160), layers=None, device="cpu", checkpoint=None)
    model, processor = asking.loaded(words, tmp_path / "model")
    (tmp_path / "weights").mkdir()
    with rollout_server(tmp_path / "model", tmp_path / "weights") as (_, url):
        given = ["--preset", "nano", "--device", "cpu", "--prompts", "4", "--tokens", "5", "--endpoint", url]
        given += ["--checkpoint", str(tmp_path / "model"), "--weights-dir", str(tmp_path / "weights")]
        assert asking.main(given) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["tokens"] == 20 and found["difference_max"] < 1e-4 and len(found["update_s"]) == 2
    assert asking.main(["--endpoint", url]) == 2 and "--checkpoint and --weights-dir" in capsys.readouterr().err


def test_without_vllm_that_is_what_it_says(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asking = script("gpu_vllm")
    monkeypatch.setattr(asking, "executable", lambda: None)
    assert asking.main([]) == 0 and "make serve" in json.loads(capsys.readouterr().out)["skipped"]


def test_the_report_holds_what_was_found_and_why_a_part_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = script("gpu")
    page = tmp_path / "report.md"
    assert gpu.main(["--only", "ceilings,experts", "--device", "cpu", "--out", str(page)]) == 0
    said = page.read_text()
    assert (
        "| product_tflops |" in said and "Not here: it takes 60 GB" in said and said.strip() in capsys.readouterr().out
    )
    assert json.loads(page.with_suffix(".json").read_text())["ceilings"]["device"] == "cpu"
    broken = subprocess.CompletedProcess([], 1, "", "loading\nRuntimeError: out of memory\n")
    monkeypatch.setattr(gpu.subprocess, "run", lambda *given, **named: broken)
    assert (
        gpu.main(["--only", "grpo", "--out", str(page)]) == 1
        and "Failed: RuntimeError: out of memory" in page.read_text()
    )
    assert gpu.main(["--only", "speed"]) == 2 and "found 'speed'" in capsys.readouterr().err


def test_a_small_card_gets_smaller_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = script("gpu")
    asked: dict[str, list[str]] = {}

    def run(words: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        asked[Path(words[1]).stem] = words
        return subprocess.CompletedProcess(words, 0, json.dumps({"memory_gib": 79.6, "mfu": 0.4}), "")

    monkeypatch.setattr(gpu.subprocess, "run", run)
    assert gpu.main(["--only", "ceilings,midtrain", "--out", str(tmp_path / "report.md")]) == 0
    assert asked["gpu_midtrain"][-4:] == list(gpu.SMALLER) and "--preset" not in asked["gpu_ceilings"]
    assert "MFU wanted: 45%, found 40.0%" in (tmp_path / "report.md").read_text()
