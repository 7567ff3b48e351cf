"""Runs of online RL in the two-box world, and how to kill one."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from choice_world import GOAL, LEFT, RIGHT, SIZE, ChoiceWorld, picture, pool, task

from generators.policies.policy import PolicyView
from generators.tasks.task_spec import TaskSpec
from pipelines.prompts import reply_text
from schemas.actions import Click
from trainer.modeling.checkpoint import Checkpoint
from trainer.modeling.model import reply_logprobs
from trainer.online.learner import learn
from trainer.online.rollouts import ReplySample, Rollout
from trainer.online.train import OnlineResult, train_online
from trainer.rl.grpo import Advantages
from trainer.rl.learner import Learner
from trainer.serving.checkpoint_policy import CheckpointPolicy
from trainer.settings.online import OnlineConfig


def settings(**changes: Any) -> OnlineConfig:
    plain: dict[str, Any] = {
        "updates": 4,
        "tasks_per_update": 2,
        "num_generations": 4,
        "learning_rate": 1e-3,
        "warmup_steps": 1,
        "edges": [1, 2],
        "workers": 8,
        "eval_steps": 2,
        "save_steps": 1,
        "grpo": {"max_completion_length": 24},
        "reference": {"min_episodes": 2, "episodes": 4},
        "limits": {"step_factor": 1, "step_extra": 0, "pause_s": 0.01},
    }
    return OnlineConfig.parsed({**plain, **changes})


def train(
    start: Path,
    out: Path,
    config: OnlineConfig,
    *,
    state: Path | None = None,
    devices: Any = None,
    on_event: Callable[[dict[str, Any]], None] | None = None,
    validation: int = 2,
    tasks: Sequence[TaskSpec] | None = None,
) -> OnlineResult:
    tasks = tasks or [task(1 + number % 2, number) for number in range(6)]
    held = [task(1 + number % 2, number) for number in range(10, 10 + validation)]
    return train_online(
        start, tasks, out, config, pool=devices or pool(), validation=held, state_dir=state, on_event=on_event
    )


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


def two_rollouts(loaded: Checkpoint, shift: float = 0.0, version: int = 0) -> list[Rollout]:
    """Two trajectories of two turns and of one; recorded log-probabilities are those of now plus `shift`."""
    row = CheckpointPolicy(loaded).row(PolicyView(GOAL, picture(1, 0), SIZE, "web"))
    made = []
    for key, box, turns in (("a", LEFT, 2), ("b", RIGHT, 1)):
        ids = loaded.processor.answer(reply_text(Click(box), "web"))
        with torch.no_grad():
            batch = loaded.processor.reply_batch([row], [ids])
            now = reply_logprobs(loaded.model, batch, never=loaded.processor.never).logprobs[0].tolist()
        sample = ReplySample(
            str(row["messages"]), row["images"][0], "web", tuple(ids), tuple(x + shift for x in now), version
        )
        made.append(Rollout(key, "t", (sample,) * turns, key == "a", turns, 0, "finished"))
    return made


def plain_grpo(**values: Any) -> OnlineConfig:
    """Settings in which the loss is that of docs/method.md §7 alone."""
    grpo = {"beta": 0.0, "entropy_coef": 0.0, "stale_cap": 2.0}
    return OnlineConfig.parsed({"learning_rate": 1e-9, "grpo": grpo, **values})


def update(learner: Learner, made: Sequence[Rollout], advantages: Advantages, version: int) -> dict[str, float]:
    """An update of a learner of online RL by these rollouts, its weights having that version."""
    config = learner.config
    assert isinstance(config, OnlineConfig)
    return learn(learner, config, made, advantages, version)
