"""One stage in a process of its own, started through Pipes: `python -m dagster_project.execution.run_stage KEY`.

The process leads its own group, so that whatever it starts (loaders, browsers) ends with it. It dies with its parent,
even if that is killed with -9 (Linux; elsewhere a thread looks). It holds its output's lock for as long as it lives.

With a number after the key the process is torchrun's agent, and starts the stage in as many: the first of these ranks
does all of the above and speaks to Dagster, the others train along and say no more than why they failed.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import io
import math
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pipelines.processes import die_with_parent
from trainer.runtime.tracking import scalars_of

if TYPE_CHECKING:
    from dagster_pipes import PipesContext

LOG_EVERY_S = 10.0
"""Events come several times a second; the log of a run is read by people."""
PICTURE_EVERY_S = 300.0
PICTURE_PX, PICTURE_BYTES = (1600, 160), 150_000
"""Pictures go into Dagster's database: few, and small."""
REASON = 2000
"""Characters of an error that go into Dagster's database; all of it is in the process's stderr."""
FIGURES_EVERY_S = 300.0
FIGURES = (
    "train/loss",
    "train/reward",
    "train/success",
    "train/tokens_per_second",
    "eval/all_loss",
    "eval/reward",
    "eval/success",
    "eval/step_success",
    "eval/trace_success",
)
"""Tags of `trainer.runtime.tracking` that show on the asset while it is made; TensorBoard has all of them."""


def own_group() -> None:
    """Lead a process group, and end all of it on SIGTERM or when the parent dies."""
    parent = os.getppid()
    with contextlib.suppress(PermissionError):  # already the leader of a session
        # A group of its own, so that one signal ends loaders and browsers with it.
        os.setpgid(0, 0)

    signal.signal(signal.SIGTERM, lambda number, frame: _end(128 + number))
    # The parent may die by -9, which tells nobody; the kernel sends the signal then.
    die_with_parent(parent, signal.SIGTERM, lambda: _end(1))


def _end(code: int) -> NoReturn:
    """Kill the group, and this process with it; one that leads none exits with `code`."""
    # SIGKILL to all: what is whole has its receipt, and what isn't is done again.
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(code)


@contextlib.contextmanager
def output_lock(home: Path, key: str) -> Iterator[None]:
    """Hold the output's lock, which ends with the process, however that ends. Raises `RuntimeError` if it is held."""
    path = home / "cache" / "locks" / f"{key.replace('/', '-')}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    # "a+" makes the file and keeps what stands in it: the number of the process that holds it.
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
        # Whoever is refused reads from here who holds the lock.
        stream.truncate(0)
        stream.write(str(os.getpid()))
        stream.flush()
        yield


class Reporter:
    """Events of a stage → lines of the run's log: those that are rare all, steps now and then. To `show` go, as
    messages of plain values, an event's `picture` (PNG) at most once in `PICTURE_EVERY_S`, and at most once in
    `FIGURES_EVERY_S` what the last events measured: `figures`, tag → number, with the `step` that training is at. A
    figure is shown once; one that isn't finite is in the log alone."""

    def __init__(self, log: Any, show: Callable[[dict[str, Any]], None] | None = None) -> None:
        self._log, self._show = log, show
        self._last = 0.0
        self._shown = -PICTURE_EVERY_S
        self._told = -FIGURES_EVERY_S
        self._figures: dict[str, float] = {}

    def __call__(self, event: Mapping[str, Any]) -> None:
        kind = event.get("kind", "event")
        self._measured(event)
        # Steps come several times a second; everything else is worth a line each.
        if kind in ("step", "update", "world_success", "part") and time.monotonic() - self._last < LOG_EVERY_S:
            return
        self._last = time.monotonic()
        # Bytes of a picture would fill the log.
        said = {key: value for key, value in event.items() if key != "picture"}
        line = f"{kind}: " + ", ".join(f"{k} {_short(v)}" for k, v in said.items() if k != "kind")
        self._log(line)
        if "picture" in event and self._show is not None and self._last - self._shown >= PICTURE_EVERY_S:
            self._shown = self._last
            if small := _small(event["picture"]):
                self._show({"picture": base64.b64encode(small).decode("ascii"), "caption": line})
        if os.environ.get("VESPER_LINES") and "of" not in event:  # someone watches who has no terminal for bars
            print(f"      {kind} " + " ".join(f"{k}={_short(v)}" for k, v in list(said.items())[1:6]), flush=True)

    def _measured(self, event: Mapping[str, Any]) -> None:
        found = scalars_of(event)
        # JSON has no NaN, and one would end the plot.
        new = {tag: float(found[tag]) for tag in FIGURES if tag in found and math.isfinite(found[tag])}
        if not new or self._show is None:
            return
        # Collected between two reports, newest first: fast stages report what was last measured.
        self._figures |= {"step": float(event.get("step", event.get("update", 0))), **new}
        if time.monotonic() - self._told >= FIGURES_EVERY_S:
            self._told, stated, self._figures = time.monotonic(), self._figures, {}
            self._show({"figures": stated})


def _small(png: bytes) -> bytes:
    """The picture in few colours and at most `PICTURE_PX`; b"" for one that is larger than `PICTURE_BYTES` even so."""
    from PIL import Image

    with Image.open(io.BytesIO(png)) as image:
        image.thumbnail(PICTURE_PX)
        # In place, and only ever smaller.
        buffer = io.BytesIO()
        # 64 colours are enough for a screenshot to be recognised, in a tenth of the bytes.
        image.convert("RGB").quantize(64).save(buffer, "PNG", optimize=True)
    return buffer.getvalue() if buffer.tell() <= PICTURE_BYTES else b""


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)[:200]


def run(key: str, report: Any) -> Any:
    """Run the stage `key`; returns its manifest. Raises `ValueError` for an unknown key."""
    from dagster_project.lineage import openlineage_client
    from dagster_project.lineage.id_index import index_version
    from dagster_project.settings import deployment
    from dagster_project.settings.environment import Environment
    from dagster_project.stages import experiments, graph
    from dagster_project.stages.stage import JudgeSettings, StageWork
    from pipelines.store import Store

    settings = deployment.load()
    # Before the stage begins, as its start is an event as well.
    openlineage_client.follow()
    # Experiments beside the mainline: this process is told a key of either.
    stages = {**graph.stages(settings), **experiments.stages(settings)}
    # The last part of a key may be a round or an experiment.
    stage, _, partition = key.rpartition("/")
    if key in stages and not stages[key].partitioned:
        stage, partition = key, ""
    elif stage not in stages or not stages[stage].partitioned:
        raise ValueError(f"unknown stage {key[:80]!r}")
    said = Environment.read()
    judge = JudgeSettings(said.judge, said.judge_base_url or None, said.judge_model or None)
    store = Store(deployment.home())
    with output_lock(store.home, key):
        manifest = stages[stage].run(StageWork(store, settings, judge, report, sys.stderr.isatty(), partition))
        # Items of the new version are found by `vesper explain` from here on.
        index_version(manifest)
        return manifest


def start_ranks(count: int, words: Sequence[str]) -> None:
    """Be torchrun's agent for `count` ranks of `python <words>`; returns when all have ended well.

    Each rank leads a group of its own, to which the agent passes on what ends it (cancel, timeout, a parent that died).
    Where a rank or the agent is ended by a signal this process is, too, as a stage of one process would be: `factory`
    then tries again. Exits with 1 if a rank fails.
    """
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.run import parse_args
    from torch.distributed.run import run as torchrun

    # one machine, and no name of it that would have to be looked up
    where = ["--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node", str(count)]
    try:
        torchrun(parse_args([*where, *words]))
    except SignalException:
        # Cancelled or timed out: as a stage of one process would, this one ends by the same signal.
        _end(1)
    except ChildFailedError as error:
        print(error, file=sys.stderr, flush=True)
        # Killed from outside, so the asset is to be tried again; a rank that failed by itself isn't.
        if killed(failure.exitcode for failure in error.failures.values()):
            _end(1)
        sys.exit(1)


def killed(codes: Iterable[int]) -> bool:
    """Whether ranks with these exit codes, none of them 0, were ended by a signal from outside: when one rank fails the
    agent itself ends those that are left, by SIGTERM."""
    found = set(codes)
    return all(code < 0 for code in found) or any(code < 0 and code != -signal.SIGTERM for code in found)


def _rank(key: str) -> None:
    """What each process that `start_ranks` starts does."""
    from dagster_pipes import open_dagster_pipes

    from dagster_project.settings import deployment
    from dagster_project.stages.training import trainer_config
    from trainer.stages.launch import on_ranks
    from trainer.stages.settings import stage_settings

    # Pipes speaks to Dagster only where a rank opens it.
    def report(error: Exception) -> None:
        with open_dagster_pipes() as pipes:
            _report_failure(pipes, error)

    config = trainer_config()
    device = stage_settings("", config).device
    on_ranks(deployment.home(), config, lambda led: _run_and_report(key, led), device=device, failed=report)


def _run_and_report(key: str, wrapped: Callable[[Reporter], Any]) -> None:
    """Run the stage and tell Dagster the version that it made, or why it failed: Pipes itself hands on no more than the
    exit code."""
    from dagster_pipes import open_dagster_pipes

    with open_dagster_pipes() as pipes:
        try:
            manifest = run(key, wrapped(Reporter(pipes.log.info, pipes.report_custom_message)))
        except Exception as error:
            _report_failure(pipes, error)
            raise
        pipes.report_custom_message({"version": manifest.version})


def _report_failure(pipes: PipesContext, error: Exception) -> None:
    pipes.report_custom_message({"failed": f"{type(error).__name__}: {error}"[:REASON]})


def main() -> None:
    """Entry of the process: `<asset key> [ranks]`."""
    key, *count = sys.argv[1:]
    own_group()
    if count:
        start_ranks(int(count[0]), ["-m", "dagster_project.execution.run_stage", key])
    elif int(os.environ.get("WORLD_SIZE", "1")) > 1:
        # torchrun has started this process as one of its ranks.
        _rank(key)
    else:
        _run_and_report(key, lambda report: report)


if __name__ == "__main__":
    main()
