"""The bench for GPUs runs on a CPU with nano, so that it is known to run before anyone pays for a GPU."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

BENCH = Path(__file__).parents[2] / "bench" / "gpu_midtrain.py"


@pytest.fixture
def bench() -> Any:
    spec = importlib.util.spec_from_file_location("gpu_midtrain", BENCH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


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
