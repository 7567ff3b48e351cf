"""`vesper demo`: the whole graph on embedded data, with a report of what improved at each stage.

The static tasks, the judge bench with what is built from it, and the staircase need nothing of the rest: they run
beside it, in a second process, which then evaluates checkpoints while this one goes on training. All else runs in this
one, the trainer's stages too, so that torch is loaded once. Suites, probes and checkpoints beside the agent's
(`NOT_RUN`) are left out. How it trains stands in `demo.training`.
"""

import logging
import multiprocessing
import os
import sqlite3
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dagster_project.demo import report, report_page, training
from dagster_project.execution.run_stage import output_lock, own_group
from dagster_project.settings import dagster_home, deployment
from dagster_project.stages import graph, judges, sources
from generators.generation.round_names import round_name
from generators.tasks.task_pool import STATIC
from pipelines.store import Store
from trainer.proving.staircase.stage import ASSET as STAIRCASE
from trainer.suites.leaderboard import ASSET as STANDINGS

JOBS = ("refresh_sources", "collect_rounds", "build_corpus", "train")
"""One after the other; rounds of the generation loop come before those that use them."""
NOT_RUN = ("train_others", "evaluate_suites", "measure_worth")
"""What nobody waits for; suites and probes would take as long as all of the others."""
ROUNDS = 2
"""Of the generation loop; a first look has one, which shows how tasks come about, and not what the next one learns."""
MARK = "vesper/demo"
"""Tag of a demo's runs."""


class DemoProgress:
    """A line for each stage: its place in the graph, its seconds, its rows."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.number = 0
        self.seconds: dict[str, float] = {}
        self.failed: dict[str, str] = {}
        self.warned: dict[str, list[str]] = {}
        self._began: dict[str, float] = {}
        self._lock = threading.Lock()

    def __call__(self, what: str, key: str, facts: Mapping[str, object]) -> None:
        # Two processes tell of what they make.
        with self._lock:
            self._tell(what, key, facts)

    def _tell(self, what: str, key: str, facts: Mapping[str, Any]) -> None:
        if what == "start":
            self._began[key] = time.monotonic()
            # Only where a line can be written over.
            if sys.stdout.isatty():
                print(f"[{self.number:2}/{self.total}] {key} …", end="\r", flush=True)
            return
        self.number += 1
        took = self.seconds[key] = time.monotonic() - self._began[key]
        if what == "failed":
            self.failed[key] = facts["reason"]
            # One line for each; the whole reason comes at the end.
            text = f"FAILED: {facts['reason'].splitlines()[0][:160]}"
        elif not facts["passed"]:
            self.failed[key] = "a check failed"
            text = "CHECKS FAILED: nothing downstream runs on it"
        else:
            number, of = facts["amount"]
            text = f"{number:>8,} {of}"
            if facts["warned"]:
                self.warned[key] = facts["warned"]
                text += f", with a warning: {', '.join(facts['warned'])}"
        print(f"[{self.number:2}/{self.total}] {key:30} {took:7.1f} s  {text}", flush=True)


def run(report_path: Path) -> int:
    """Run all jobs; print and write the report. Returns the exit code: 1 if anything failed."""
    began = time.monotonic()
    # Without a terminal libraries write lines instead of bars.
    os.environ.setdefault("VESPER_LINES", "" if sys.stderr.isatty() else "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # nothing is downloaded; read as transformers is loaded
    home = deployment.home()
    dagster_home.prepare(home)
    # Read before the stages: a first look shortens what they do.
    brief = deployment.load().embedded.size == "tiny"
    training.train_as(training.FIRST_LOOK if brief else training.WHOLE)
    _one_thread()
    settings = deployment.load()
    stages = {key: stage for key, stage in graph.stages(settings).items() if stage.job not in NOT_RUN}
    left_out = _apart() if brief else frozenset()
    stages = {key: stage for key, stage in stages.items() if key not in left_out}
    # A stage of rounds runs once a round.
    rounds = 1 if brief else ROUNDS
    runs = sum(rounds if stage.by_round else 1 for stage in stages.values())
    print(f"Vesper demo: {len(stages)} assets into {home}", flush=True)
    progress = DemoProgress(runs)
    # Two demos in one folder would run each other's stages.
    with output_lock(home, "demo"):
        end_killed()
        _execute(progress, brief, rounds)
    names = sources.enabled(settings)
    built = report.make(Store(home), names, [key for key, stage in stages.items() if not stage.by_round])
    built["failed"] = progress.failed
    built["warned"] = progress.warned
    built["seconds"] = {
        "total": round(time.monotonic() - began, 1),
        "stages": {key: round(value, 2) for key, value in progress.seconds.items()},
    }
    report.write(built, report_path)
    print(report.text(built))
    shown_path = report_path.with_suffix(".html")
    report_page.write(Store(home), built, stages, shown_path)
    for key, reason in progress.failed.items():
        print(f"failed: {key}: {reason.splitlines()[0]}", file=sys.stderr)
    if left_out:
        print(
            f"A first look: few steps of training, one round of generation, and without "
            f"{', '.join(sorted(left_out))}; `vesper demo` makes all."
        )
    left = runs - progress.number
    print(
        f"{built['seconds']['total']:.0f} s; to look at: {shown_path}; figures in {report_path}; "
        "`make dev` shows the graph and this run's history"
    )
    if left:
        print(f"{left} assets did not run because of what failed before them", file=sys.stderr)
    return 1 if progress.failed or left else 0


def quiet() -> None:
    """Libraries say what went wrong, and nothing else."""
    logging.getLogger().setLevel(logging.ERROR)
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)  # a failed stage has its own line


def end_killed() -> None:
    """End the runs of a demo that was killed: in Dagster's history they would go on for ever. The caller holds the
    demo's lock, so none of them lives."""
    import dagster as dg

    left = dg.RunsFilter(tags={MARK: ""}, statuses=[dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED])
    with dg.DagsterInstance.get() as history:
        for run in history.get_runs(left):
            history.report_run_canceled(run, "the demo that made it was killed")


def _execute(progress: DemoProgress, brief: bool, rounds: int) -> None:
    """The jobs one after the other, each as a run of its own in the instance's history; the second process beside.
    `rounds`: of the generation loop."""
    context = multiprocessing.get_context("spawn")
    stated: Any = context.Queue()
    waiting: Any = context.Queue()
    tried = context.Event()
    other = context.Process(target=_beside, args=(stated, waiting, tried, frozenset() if brief else _apart()))
    listening = threading.Thread(target=_listen, args=(stated, progress))
    evaluations = EvaluationsAsMade(_evaluations(), waiting)
    with _runs(progress, evaluations, left_out=_apart() | evaluations.keys | {STATIC, STANDINGS}) as runs:
        listening.start()
        other.start()
        try:
            for name in JOBS:
                # Rounds are collected from what the loop makes, so it runs first.
                if name == "collect_rounds":
                    while not tried.wait(1) and other.is_alive():
                        pass
                    _generate(runs, rounds)
                print(f"--- {name}", flush=True)
                done = runs.job(name)
                # Everything else is built from gold.
                if name == JOBS[0] and not _any_gold():
                    print("no source has come to gold: there is nothing to go on with", file=sys.stderr)
                    return
                if not done and name in ("build_corpus", "train"):
                    break  # what comes after would train on a corpus of before
            evaluations.end()
            _evaluate(runs, waiting)
            other.join()
            if not evaluations.keys & progress.failed.keys() and evaluations.keys <= progress.seconds.keys():
                runs.job("train", only=frozenset({STANDINGS}))
        finally:
            other.kill()  # it has ended, or this process is ending early
            other.join()
            # Ends the listener, which waits for ever otherwise.
            stated.put(None)
            listening.join()


class EvaluationsAsMade:
    """Lets the evaluation of each checkpoint into a queue, from which whichever process is free takes it; None in the
    queue ends one of the two."""

    def __init__(self, keys: frozenset[str], waiting: Any) -> None:
        self.keys, self._waiting = keys, waiting
        self._made: list[str] = []

    def __call__(self, what: str, key: str, facts: Mapping[str, Any]) -> None:
        """Hears of this process's stages."""
        # When the next stage begins the one before stands in Dagster's history: what was read is known to be that.
        if what == "start":
            self._let_in()
        name = key.replace("checkpoints/", "evaluations/")
        if what == "done" and facts["passed"] and name != key and name in self.keys:
            self._made.append(name)

    def end(self) -> None:
        """No checkpoint comes any more."""
        self._let_in()
        for _ in range(2):
            self._waiting.put(None)

    def _let_in(self) -> None:
        for name in self._made:
            self._waiting.put(name)
        self._made.clear()


def _evaluate(runs: "Runs", waiting: Any) -> None:
    for name in iter(waiting.get, None):
        runs.job("train", only=frozenset({name}))


def _evaluations() -> frozenset[str]:
    """Evaluations of the checkpoints that a demo makes."""
    stages = graph.stages(deployment.load())
    made = (key.replace("checkpoints/", "evaluations/") for key in stages if key.startswith("checkpoints/"))
    return frozenset(key for key in made if key in stages and stages[key].job not in NOT_RUN)


def _apart() -> frozenset[str]:
    """What only proves things, and needs nothing of the rest."""
    return frozenset({STAIRCASE, *(stage.key for stage in judges.stages())})


def _any_gold() -> bool:
    store = Store(deployment.home())
    return any(store.current(f"gold/{name}") for name in sources.enabled(deployment.load()))


def _beside(stated: Any, waiting: Any, tried: Any, apart: frozenset[str]) -> None:
    """A process of its own (Dagster's runs aren't safe side by side in one); what it does goes into the queue."""
    own_group()
    with _runs(lambda *event: stated.put(event)) as runs:
        runs.job(JOBS[0], only=frozenset({STATIC}))
        tried.set()
        for name in ("build_corpus", "train") if apart else ():
            runs.job(name, only=apart)
        _evaluate(runs, waiting)


def _one_thread() -> None:
    """For this process and those that it starts: two with a thread for every core wait for each other's at every sum,
    and a first look's batches are too small for a second one."""
    os.environ["OMP_NUM_THREADS"] = "1"  # read as torch is loaded


def _listen(stated: Any, progress: DemoProgress) -> None:
    for event in iter(stated.get, None):
        progress(*event)


@contextmanager
def _runs(*listeners: Any, left_out: frozenset[str] = frozenset()) -> "Iterator[Runs]":
    """What runs the jobs' assets in this process and tells the listeners of each."""
    import dagster as dg
    import sqlalchemy

    for kind in (dg.PreviewWarning, dg.BetaWarning):
        warnings.filterwarnings("ignore", category=kind)
    from dagster_project import definitions
    from dagster_project.assets import factory

    quiet()
    # Each of some thousand events is a commit of its own: waiting for the disk is a tenth of a first look and more.
    sqlalchemy.event.listen(sqlalchemy.Engine, "connect", _without_waiting)
    settings = deployment.load()
    loaded = definitions.build(settings, here=graph.stages(settings))
    # Taken off again below: the process may go on with something else.
    factory.listeners.extend(listeners)
    try:
        with dg.DagsterInstance.get() as history:
            yield Runs(loaded, history, left_out)
    finally:
        for listener in listeners:
            factory.listeners.remove(listener)
        sqlalchemy.event.remove(sqlalchemy.Engine, "connect", _without_waiting)


def _without_waiting(connection: object, _: object) -> None:
    """Dagster's history in SQLite is handed to the system, not to the disk: a killed demo loses nothing of it, a power
    cut may. The store's files are synced as ever."""
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")


@dataclass(frozen=True)
class Runs:
    """Runs of the graph's jobs in this process, without the assets that are left out."""

    loaded: Any
    history: Any
    left_out: frozenset[str]

    def job(self, name: str, partition: str | None = None, only: frozenset[str] | None = None) -> bool:
        """Run a job's assets, or those of them that are named; True if all were made."""
        job = self.loaded.resolve_job_def(name)
        keys = {key.to_user_string(): key for key in job.asset_layer.executable_asset_keys}
        chosen = keys.keys() - self.left_out if only is None else keys.keys() & only
        done = job.execute_in_process(
            instance=self.history,
            raise_on_error=False,
            partition_key=partition,
            # So that no sensor builds the corpus once more for the sources that a demo made.
            tags={MARK: "", dagster_home.WHOLE_CORPUS: ""} if only is None else {MARK: ""},
            run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
            asset_selection=[keys[name] for name in chosen],
        )
        return bool(done.success)


def _generate(runs: Runs, rounds: int) -> None:
    """Rounds of the generation loop, each promoted before the next begins, as the sensors do."""
    for number in range(1, rounds + 1):
        name = round_name(number)
        print(f"--- generate_round {name}", flush=True)
        # Partitions must be known to Dagster before a run names one.
        runs.history.add_dynamic_partitions("round", [name])
        for job, key in (("generate_round", name), ("promote_verified", None)):
            if not runs.job(job, key):
                return
