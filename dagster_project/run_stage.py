"""One stage in a process of its own, started through Dagster Pipes: `python -m dagster_project.run_stage <asset key>`.

The process leads its own group, so that whatever it starts (ranks, loaders) ends with it. It dies with its parent, even
if that is killed with -9 (Linux; elsewhere a thread looks). It holds its output's lock for as long as it lives.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import fcntl
import io
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
LOG_EVERY_S = 10.0
"""Events come several times a second; the log of a run is read by people."""
PICTURE_EVERY_S = 300.0
PICTURE_PX, PICTURE_BYTES = (1600, 160), 150_000
"""Pictures go into Dagster's database: few, and small."""


def own_group() -> None:
    """Lead a process group, and end all of it on SIGTERM or when the parent dies."""
    parent = os.getppid()
    with contextlib.suppress(PermissionError):  # already the leader of a session
        os.setpgid(0, 0)

    def end(number: int, frame: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.getpgrp() == os.getpid():
            os.killpg(os.getpid(), signal.SIGKILL)
        os._exit(128 + number)

    signal.signal(signal.SIGTERM, end)
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    # The parent may have died before prctl took hold; other systems have no prctl; and a SIGTERM waits while a long
    # operation holds the main thread. So a thread looks, too.
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


@contextlib.contextmanager
def output_lock(home: Path, key: str) -> Iterator[None]:
    """Hold the output's lock, which ends with the process, however that ends. Raises `RuntimeError` if it is held."""
    path = home / "cache" / "locks" / f"{key.replace('/', '-')}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+") as stream:
        for attempt in range(11):  # a killed process gives its lock back when the last of its threads has ended
            try:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if attempt < 10:
                    time.sleep(0.1)
        else:
            stream.seek(0)
            raise RuntimeError(f"{key}: process {stream.read().strip() or '?'} is making it already")
        stream.truncate(0)
        stream.write(str(os.getpid()))
        stream.flush()
        yield


class Reporter:
    """Events of a stage → lines of the run's log: those that are rare all, steps now and then. An event's `picture`
    (PNG) goes to `show`, as a message of plain values, at most once in `PICTURE_EVERY_S`."""

    def __init__(self, log: Any, show: Callable[[dict[str, Any]], None] | None = None) -> None:
        self._log, self._show = log, show
        self._last = 0.0
        self._shown = -PICTURE_EVERY_S

    def __call__(self, event: Mapping[str, Any]) -> None:
        kind = event.get("kind", "event")
        if kind in ("step", "update") and time.monotonic() - self._last < LOG_EVERY_S:
            return
        self._last = time.monotonic()
        said = {key: value for key, value in event.items() if key != "picture"}
        line = f"{kind}: " + ", ".join(f"{k} {_short(v)}" for k, v in said.items() if k != "kind")
        self._log(line)
        if "picture" in event and self._show is not None and self._last - self._shown >= PICTURE_EVERY_S:
            self._shown = self._last
            if small := _small(event["picture"]):
                self._show({"picture": base64.b64encode(small).decode("ascii"), "caption": line})
        if os.environ.get("VESPER_LINES") and "of" not in event:  # someone watches who has no terminal for bars
            print(f"      {kind} " + " ".join(f"{k}={_short(v)}" for k, v in list(said.items())[1:6]), flush=True)


def _small(png: bytes) -> bytes:
    """The picture in few colours and at most `PICTURE_PX`; b"" for one that is larger than `PICTURE_BYTES` even so."""
    from PIL import Image

    with Image.open(io.BytesIO(png)) as image:
        image.thumbnail(PICTURE_PX)
        buffer = io.BytesIO()
        image.convert("RGB").quantize(64).save(buffer, "PNG", optimize=True)
    return buffer.getvalue() if buffer.tell() <= PICTURE_BYTES else b""


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)[:200]


def run(key: str, report: Any) -> Any:
    """Run the stage `key`; returns its manifest. Raises `ValueError` for an unknown key."""
    from dagster_project import deployment, graph
    from pipelines.store import Store

    settings = deployment.load()
    stages = graph.stages(settings)
    stage, _, partition = key.rpartition("/")
    if key in stages and not stages[key].by_round:
        stage, partition = key, ""
    elif stage not in stages or not stages[stage].by_round:
        raise ValueError(f"unknown stage {key[:80]!r}")
    judge = graph.JudgeSettings(
        os.environ.get("VESPER_JUDGE") or "rules",
        os.environ.get("VESPER_JUDGE_BASE_URL") or None,
        os.environ.get("VESPER_JUDGE_MODEL") or None,
    )
    store = Store(deployment.home())
    with output_lock(store.home, key):
        return stages[stage].run(graph.Work(store, settings, judge, report, sys.stderr.isatty(), partition))


def main() -> None:
    """Entry of the process."""
    from dagster_pipes import open_dagster_pipes

    own_group()
    with open_dagster_pipes() as pipes:
        manifest = run(sys.argv[1], Reporter(pipes.log.info, pipes.report_custom_message))
        pipes.report_custom_message({"version": manifest.version})


if __name__ == "__main__":
    main()
