"""Runs of online RL in the two-box world, and how to kill one."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from choice_world import ChoiceWorld, pool, task

from trainer.online.config import OnlineConfig, config_from
from trainer.online.train import OnlineResult, train_online


def settings(**changes: Any) -> OnlineConfig:
    plain: dict[str, Any] = {
        "updates": 4, "tasks_per_update": 2, "num_generations": 4, "learning_rate": 1e-3, "warmup_steps": 1,
        "edges": [1, 2], "workers": 8, "validate_every": 2, "save_every": 1,
        "grpo": {"max_completion_length": 24}, "reference": {"min_episodes": 2},
        "limits": {"step_factor": 1, "step_extra": 0, "pause_s": 0.01},
    }  # fmt: skip
    return config_from({**plain, **changes})


def train(
    start: Path, out: Path, config: OnlineConfig, *, state: Path | None = None, devices: Any = None,
    on_event: Callable[[dict[str, Any]], None] | None = None, validation: int = 2,
) -> OnlineResult:  # fmt: skip
    tasks = [task(1 + number % 2, number) for number in range(6)]
    held = [task(1 + number % 2, number) for number in range(10, 10 + validation)]
    return train_online(start, tasks, out, config, pool=devices or pool(), validation=held, state_dir=state,
                        on_event=on_event)  # fmt: skip


def killed(start: Path, out: Path, config: OnlineConfig, state: Path, at: int) -> None:
    """A run in a process of its own that ends by SIGKILL in its `at`-th action. Raises if it ended otherwise."""

    def run() -> None:
        count = [0]

        def count_and_kill() -> None:
            count[0] += 1
            if count[0] == at:
                os.kill(os.getpid(), signal.SIGKILL)

        train(start, out, config, state=state, devices=pool(lambda: ChoiceWorld(on_act=count_and_kill)))

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    process.join(120)
    if process.exitcode != -signal.SIGKILL:
        process.kill()
        raise AssertionError(f"expected the run to be killed, found exit code {process.exitcode}")
