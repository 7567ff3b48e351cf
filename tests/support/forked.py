"""Processes of a test's own that begin at once: forked from a server that has imported the trainer, which takes five
seconds of a core, and that has no threads whose locks a fork would inherit (the tests' process has)."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable
from typing import Any

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    [
        "pandas",  # which pyarrow loads with its first array
        "torch",
        "transformers.models.qwen3_vl.modeling_qwen3_vl",
        "trainer.midtrain.train",
        "trainer.offline.train",
        "trainer.stages.run",
        "pipelines.unify.unify",
        "quality.refinement.gold",
    ]
)


def run_until_killed(target: Callable[..., None], *arguments: Any, limit_s: float = 240) -> None:
    """Run a function of a test file in such a process, which must end by SIGKILL: `kill_myself` is for that."""
    process = CONTEXT.Process(target=target, args=arguments)
    process.start()
    process.join(limit_s)
    if process.is_alive():
        process.kill()
        process.join(10)
        raise AssertionError(f"{target.__name__} still ran after {limit_s:g} s")
    assert process.exitcode == -signal.SIGKILL, f"{target.__name__} ended with {process.exitcode}"


def kill_myself() -> None:
    """As `kill -9` from outside: nothing is flushed, nothing is cleaned up."""
    os.kill(os.getpid(), signal.SIGKILL)
