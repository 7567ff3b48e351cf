"""Probes: a short training from the base on a plan of rows, and the answers to the same held-out questions.

A finished probe is a file named after all that decides its answers, so what is asked again is read; one that was killed
goes on from its last saved step.
"""

import json
import logging
import os
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from pipelines.store import Store
from pipelines.store.files import file_sha256
from pipelines.whole_files import put_json
from schemas.ids import digest
from trainer.data.window_rows import as_read
from trainer.evaluation.evaluate import evaluate
from trainer.midtrain.loss import validate
from trainer.midtrain.train import train
from trainer.modeling.batches import BadSample, Row
from trainer.modeling.checkpoint import load_checkpoint, load_processor
from trainer.modeling.processor import Processor
from trainer.modeling.seen_pictures import of_tower
from trainer.rl.unreadable import warn_unreadable
from trainer.runtime.deterministic import deterministic
from trainer.runtime.tracking import OnEvent
from trainer.settings.measuring import EvalConfig
from trainer.settings.supervised import MidtrainConfig
from trainer.settings.worth import WorthSettings
from trainer.worth.plan import Plan
from trainer.worth.pools import PoolRow

CODE_VERSION = "1"
"""Raised when equal plans give other answers."""
Record = Mapping[str, Any]
"""A question's `sample_id`, `cluster`, `domain`, `right` (0 or 1) and `loss` (of its true answer)."""


@dataclass(frozen=True)
class Probe:
    """A plan to train on, with a seed."""

    plan: Plan
    seed: int


@dataclass(frozen=True)
class ProbeResult:
    """The answers of a probe, one record a question, and how long it took when it was run."""

    records: Sequence[Record]
    seconds: float


class PlannedRows:
    """`RowSource` of a plan's rows in their order, again and again, with their pictures from the store."""

    def __init__(self, plan: Plan, store: Store) -> None:
        self._plan, self._store = plan, store

    def rows(self, start: int) -> Iterator[Row]:
        """See `trainer.data.row_sources.RowSource`."""
        while True:
            for one in self._plan.rows[start % len(self._plan.rows) :]:
                yield with_screens(self._store, one.row)
            start = 0

    def digest(self) -> str:
        """See `trainer.data.row_sources.RowSource`."""
        return digest(self._plan.digests)


def with_screens(store: Store, row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of `Samples` with the bytes of its pictures in place of their digests."""
    return {**row, "images": [store.screen_bytes(name) for name in row["images"]]}


class ProbeRunner:
    """Runs the probes of one base and one set of questions; what it has run lies in `folder`.

    `runs` counts those that had to be run.
    """

    def __init__(
        self,
        store: Store,
        base: Path,
        questions: Sequence[Row],
        settings: WorthSettings,
        *,
        on_event: OnEvent | None = None,
        progress: bool = False,
    ) -> None:
        self.settings = settings
        self._store, self._opened = store, (store.home, base, tuple(questions), settings)
        self.folder = store.home / "cache" / "worth" / "probes"
        self._on_event, self._progress = on_event, progress
        # of the base's very bytes: another folder with them is the same base
        files = {path.name: file_sha256(path) for path in sorted(base.iterdir()) if path.is_file()}
        deciding = {name: value for name, value in settings.plain().items() if name in DECIDES}
        asked = [[row["sample_id"], row["messages"], row["answer"]] for row in questions]
        self._common = digest([CODE_VERSION, files, deciding, asked])
        self._lengths: dict[str, int | None] = {}
        self.runs = 0

    @cached_property
    def _processor(self) -> Processor:
        return load_processor(self._opened[1])

    def length(self, one: PoolRow) -> int | None:
        """Tokens of a row's prompt and answer, as the base reads it; None if it can't."""
        if one.digest not in self._lengths:
            try:
                self._lengths[one.digest] = self._processor.length(with_screens(self._store, one.row))
            except BadSample:
                self._lengths[one.digest] = None
        return self._lengths[one.digest]

    def key(self, probe: Probe) -> str:
        """What a probe's answers depend on. Without rows nothing is trained, and the seed decides nothing."""
        rows = probe.plan.digests
        return digest([self._common, probe.seed if rows else 0, rows])

    def results(self, probes: Sequence[Probe]) -> list[ProbeResult]:
        """The answers of these probes in order, each run unless it was before."""
        # by key, so that variants which train on the same rows are run once
        wanted = {self.key(probe): probe for probe in probes}
        missing = {key: probe for key, probe in wanted.items() if not self._path(key).is_file()}
        self.runs += len(missing)
        self._run(missing)
        found = {key: json.loads(self._path(key).read_text(encoding="utf-8")) for key in wanted}
        return [ProbeResult(found[key]["records"], found[key]["seconds"]) for key in map(self.key, probes)]

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json"

    def _run(self, missing: Mapping[str, Probe]) -> None:
        from tqdm import tqdm

        done = 0
        with tqdm(total=len(missing), desc="probes", unit="probe", disable=not self._progress) as bar:
            for _ in self._each(missing, min(self.settings.processes, len(missing))):
                done += 1
                bar.update()
                if self._on_event:
                    self._on_event({"kind": "probe", "done": done, "of": len(missing)})

    def _each(self, missing: Mapping[str, Probe], processes: int) -> Iterator[None]:
        if processes < 2:
            for key, probe in missing.items():
                run_probe(*self._opened, probe, self._path(key))
                yield
            return
        with ProcessPoolExecutor(
            # spawned, as a fork would inherit torch's threads in an unknown state
            processes,
            mp_context=get_context("spawn"),
            initializer=_open,
            initargs=(os.getpid(), self._opened),
        ) as pool:
            futures = [pool.submit(_run_opened, probe, self._path(key)) for key, probe in missing.items()]
            try:
                for future in as_completed(futures):
                    # raises what a probe raised
                    future.result()
                    yield
            finally:
                pool.shutdown(cancel_futures=True)


DECIDES = ("batch_size", "learning_rate", "sigma", "freeze_vision", "grounding", "navigation", "threads")
"""Settings that decide a probe's answers beside its rows."""


def run_probe(
    home: Path, base: Path, questions: Sequence[Row], settings: WorthSettings, probe: Probe, path: Path
) -> None:
    """Train a probe and write its answers to `path`, whole or not at all."""
    began, state = time.perf_counter(), path.with_suffix(".state")
    loaded = load_checkpoint(base)
    config = midtrain_config(settings, probe)
    # no probe trains the tower, so all of a process share what it made of pictures
    tower = of_tower(loaded.model, loaded.processor) if settings.freeze_vision else None
    if probe.plan.rows:
        loaded.model.seen_pictures = tower
        source, _ = as_read(PlannedRows(probe.plan, Store(home)), (), loaded.processor, probe.seed)
        train(loaded.model, loaded.processor, source, config, state_dir=state, progress=False)
    loaded.model.seen_pictures = tower  # which training hasn't changed
    with deterministic("cpu", settings.threads):
        with _unwarned():
            report = evaluate(loaded, questions, eval_config(settings), progress=False)
        by_id = {row["sample_id"]: row for row in questions}
        records = []
        for record in report["records"]:
            loss = validate(loaded.model, loaded.processor, [by_id[record["sample_id"]]], config.spans)["all"]
            right = record["hit" if record["objective"] == "grounding" else "step"]
            named = {name: record[name] for name in ("sample_id", "cluster", "domain")}
            records.append({**named, "right": right, "loss": loss})
    # written only when every answer is there: a file is a finished probe
    put_json(path, {"records": records, "seconds": round(time.perf_counter() - began, 2)})
    shutil.rmtree(state, ignore_errors=True)


@contextmanager
def _unwarned() -> Iterator[None]:
    """Without the warning that a short training has not learned to answer: every probe would give it."""
    log = logging.getLogger(warn_unreadable.__module__)
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)


def midtrain_config(settings: WorthSettings, probe: Probe) -> MidtrainConfig:
    """How a probe trains: once through its plan."""
    return MidtrainConfig(
        max_steps=max(1, len(probe.plan.rows) // settings.batch_size),
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        sigma=settings.sigma,
        freeze_vision=settings.freeze_vision,
        threads=settings.threads,
        seed=probe.seed,
    )


def eval_config(settings: WorthSettings) -> EvalConfig:
    """How many questions every probe answers."""
    return EvalConfig(
        grounding=settings.grounding, navigation=settings.navigation, swapped=False, threads=settings.threads
    )


_opened: tuple[Path, Path, tuple[Row, ...], WorthSettings]
"""Of a process of the pool: what all of its probes share."""


def _open(parent: int, shared: tuple[Path, Path, tuple[Row, ...], WorthSettings]) -> None:
    global _opened
    _opened = shared
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: int) -> None:
    """A killed parent takes its probes along: nobody would read what they find."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(1)


def _run_opened(probe: Probe, path: Path) -> None:
    run_probe(*_opened, probe, path)
