"""Real stages in a process of its own that stops for ever at a named point, so that a test can kill it there.

Nothing of what a stage does is replaced: the process is only halted, between two of its own operations.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from forked import CONTEXT
from tiny_training import SHAPE

TRAINER: dict[str, Any] = {
    "shape": SHAPE,
    "midtrain": {"max_steps": 8, "batch_size": 4, "warmup_steps": 2, "save_steps": 3, "eval_steps": 0, "threads": 1},
    "validation_share": 0.15,
}


def raw(home: Path, on_event: Any = None) -> Any:
    from generators.proving.embedded.build import build_raw
    from pipelines.store import Store

    return build_raw(Store(home), "rico", home / "raw" / "rico", size="tiny")


def unified(home: Path, on_event: Any = None) -> Any:
    """Each native file, and few rows, a part, so that every stage from here on has several."""
    from pipelines.engines.run_parts import Execution
    from pipelines.engines.settings import EngineSettings
    from pipelines.mapping.adapter import Raw
    from pipelines.store import Store
    from pipelines.unify import buckets
    from pipelines.unify.unify import unify_source

    with mock.patch.object(buckets, "BUCKET_ROWS", 5):
        by = Execution(EngineSettings(part_bytes=1))
        return unify_source(Store(home), "aitz", Raw(home / "raw" / "aitz"), execution=by)


def mapped(home: Path, on_event: Any = None) -> Any:
    from pipelines.store import Store

    unified(home)
    return Store(home).require("mapped/aitz")


def verdicts(home: Path, on_event: Any = None) -> Any:
    from pipelines.store import Store
    from quality.judges.rules import RulesJudge
    from quality.judges.verdicts import judge_source

    return judge_source(Store(home), "aitz", RulesJudge())


def gold(home: Path, on_event: Any = None) -> Any:
    from pipelines.store import Store
    from quality.judges.rules import RulesJudge
    from quality.refinement.gold import build_gold
    from quality.refinement.rewrite import ProofRewriter

    return build_gold(Store(home), "aitz", RulesJudge(), ProofRewriter())


def shards(home: Path, on_event: Any = None) -> Any:
    from pipelines.store import Store
    from pipelines.training_data.shards import build_shards

    return build_shards(Store(home), ["aitz"])


def mid_trained(home: Path, on_event: Any = None) -> Any:
    from trainer.stages.run import run_stage

    return run_stage("mid_trained", home, TRAINER, on_event or (lambda event: None), progress=False)


STAGES: dict[str, Callable[..., Any]] = {
    "raw/rico": raw,
    "mapped/aitz": mapped,
    "unified/aitz": unified,
    "verdicts/aitz": verdicts,
    "gold/aitz": gold,
    "mid_training/shards": shards,
    "checkpoints/mid_trained": mid_trained,
}


def halt_at(stage: str, point: str, sign: Path) -> Any:
    """Arrange for this process to stop at the point of the stage; returns a listener for the trainer's events."""
    from pipelines.store import parts, store

    def halt() -> None:
        sign.touch()
        while True:
            time.sleep(60)

    if point == "half a file":  # of the second part: what a process killed in the middle of a write leaves
        table, seen = parts.PartWriter.table, []

        def cut(self: Any, name: str, *args: Any, **more: Any) -> None:
            table(self, name, *args, **more)
            if not self._root.as_posix().endswith(f"assets/{stage}"):
                return
            seen.append(self._stem)
            if len(set(seen)) == 2:
                written = self._root / self._entries[-1][0]
                os.truncate(written, written.stat().st_size // 2)
                halt()

        parts.PartWriter.table = cut  # type: ignore[method-assign]
    elif point in ("no marker", "no manifest", "no pointer"):  # the file that isn't put any more
        put, markers = parts.put_text, []

        def stop(path: Path, text: str) -> None:
            ours = f"assets/{stage}/" in path.as_posix()
            markers.extend([path] if ours and path.parent.name == "parts" else [])
            if ours and point == {"manifest.json": "no manifest", "current.json": "no pointer"}.get(path.name):
                halt()
            if point == "no marker" and len(markers) == 2:
                halt()
            put(path, text)

        for module in (parts, store):
            module.put_text = stop  # type: ignore[attr-defined]
    elif point == "third picture":  # of the embedded data, with the browser open
        from generators.devices.browser import Camera

        shoot, taken = Camera.shoot, []

        def third(self: Any, **more: Any) -> bytes:
            taken.append(1)
            return shoot(self, **more) if len(taken) < 3 else halt()  # type: ignore[func-returns-value]

        Camera.shoot = third  # type: ignore[method-assign]
    elif point.startswith("step "):

        def listen(event: Any) -> None:
            if event.get("kind") == "step" and event["step"] == int(point.split()[1]):
                halt()

        return listen
    else:
        raise ValueError(f"unknown point {point!r}")
    return None


def _halted(stage: str, point: str, home: Path, sign: Path, temporary: str) -> None:
    os.setsid()  # what it starts is killed with it
    os.environ["TMPDIR"] = tempfile.tempdir = temporary
    STAGES[stage](home, halt_at(stage, point, sign))


def run_and_kill(stage: str, point: str, home: Path, scratch: Path) -> None:
    """Run the stage in a process group of its own and kill that with SIGKILL once it has come to the point."""
    scratch.mkdir()
    sign = scratch / "here"
    # What a killed browser leaves goes with this folder; its name is short, since a socket's path must be.
    temporary = tempfile.mkdtemp(prefix="vk-")
    child = CONTEXT.Process(target=_halted, args=(stage, point, home, sign, temporary))
    child.start()
    assert child.pid is not None
    deadline = time.monotonic() + 120
    try:
        while not sign.exists():
            assert child.is_alive(), f"{stage} ended with {child.exitcode} and never came to {point!r}"
            assert time.monotonic() < deadline, f"{stage} didn't come to {point!r}"
            time.sleep(0.01)
    finally:
        if child.is_alive():
            os.killpg(child.pid, signal.SIGKILL)
        child.join(30)
        while Path(temporary).exists() and time.monotonic() < deadline:  # the browser ends some moments later
            shutil.rmtree(temporary, ignore_errors=True)
            time.sleep(0.05)
    assert child.exitcode == -signal.SIGKILL
