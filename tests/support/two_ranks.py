"""Processes that train together (gloo, a thread each), mostly two."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from forked import CONTEXT
from torch.distributed import TCPStore

ROOT = Path(__file__).parents[2]
LIMIT_S = 240.0


def torchrun(*arguments: str | Path) -> str:
    """What two ranks print who run a module with "-m" under torchrun."""
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--nproc-per-node",
            "2",
            "--rdzv-backend",
            "c10d",
            "--rdzv-endpoint",
            "127.0.0.1:0",
            *map(str, arguments),
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def on_two_ranks(on_a_rank: Callable[..., None], *arguments: Any) -> None:
    """`on_ranks` of two."""
    on_ranks(2, on_a_rank, *arguments)


def on_ranks(world: int, on_a_rank: Callable[..., None], *arguments: Any) -> None:
    """Each of `world` ranks calls the function; they find each other as torchrun's do, by the environment."""
    meeting = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    processes = [
        CONTEXT.Process(target=_rank, args=(rank, world, meeting.port, on_a_rank, arguments)) for rank in range(world)
    ]
    for process in processes:
        process.start()
    try:
        end = time.monotonic() + LIMIT_S
        while running := [process for process in processes if process.exitcode is None]:
            assert wait([process.sentinel for process in running], max(0, end - time.monotonic())), (
                f"a rank still runs after {LIMIT_S:g} s"
            )
            _check_ended(processes)
        _check_ended(processes)
    finally:
        for process in processes:
            process.kill()
            process.join()


def _check_ended(processes: list[Any]) -> None:
    failed = [process.exitcode for process in processes if process.exitcode]
    assert not failed, f"a rank ended with {failed[0]}: see its error above"


def _rank(rank: int, world: int, port: int, on_a_rank: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(world),
        "LOCAL_WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    on_a_rank(*arguments)
