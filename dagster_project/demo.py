"""`vesper demo`: the whole graph in this process, on embedded data, with a report of what improved at each stage."""

from __future__ import annotations

import logging
import os
import sys
import time
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dagster_project import deployment, graph, instance, report
from dagster_project.assets import sources
from pipelines.store import Store

JOBS = ("refresh_sources", "collect_rounds", "build_corpus", "train")
"""One after the other; rounds of the generation loop come before those that use them."""
ROUNDS = 2


class Progress:
    """A line for each stage: its place in the graph, its seconds, its rows."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.number = 0
        self.seconds: dict[str, float] = {}
        self.failed: dict[str, str] = {}
        self._began = 0.0

    def __call__(self, what: str, key: str, facts: Mapping[str, Any]) -> None:
        if what == "start":
            self.number += 1
            self._began = time.monotonic()
            if sys.stdout.isatty():
                print(f"[{self.number:2}/{self.total}] {key} …", end="\r", flush=True)
            return
        took = self.seconds[key] = time.monotonic() - self._began
        if what == "failed":
            self.failed[key] = facts["reason"]
            told = f"FAILED: {facts['reason'].splitlines()[0][:160]}"
        elif not facts["passed"]:
            self.failed[key] = "a check failed"
            told = "CHECKS FAILED: nothing downstream runs on it"
        else:
            told = f"{facts['rows']:>8,} rows"
        print(f"[{self.number:2}/{self.total}] {key:30} {took:7.1f} s  {told}", flush=True)


def run(report_path: Path) -> int:
    """Run all three jobs; print and write the report. Returns the exit code: 1 if anything failed."""
    began = time.monotonic()
    logging.getLogger().setLevel(logging.ERROR)
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)  # a failed stage has its own line
    os.environ.setdefault("VESPER_LINES", "" if sys.stderr.isatty() else "1")
    home = deployment.home()
    instance.prepare(home)
    settings = deployment.load()
    stages = graph.stages(settings)
    runs = sum(ROUNDS if stage.by_round else 1 for stage in stages.values())
    print(f"Vesper demo: {len(stages)} assets into {home}", flush=True)
    progress = Progress(runs)
    _execute(progress)
    names = sources.enabled(settings)
    made = report.make(Store(home), names, [key for key, stage in stages.items() if not stage.by_round])
    made["failed"] = progress.failed
    made["seconds"] = {"total": round(time.monotonic() - began, 1),
                       "stages": {key: round(value, 2) for key, value in progress.seconds.items()}}  # fmt: skip
    report.write(made, report_path)
    print(report.text(made))
    for key, reason in progress.failed.items():
        print(f"failed: {key}: {reason.splitlines()[0]}", file=sys.stderr)
    left = runs - progress.number
    print(
        f"{made['seconds']['total']:.0f} s; figures in {report_path}; `make dev` shows the graph and this run's history"
    )
    if left:
        print(f"{left} assets did not run because of what failed before them", file=sys.stderr)
    return 1 if progress.failed or left else 0


def _execute(progress: Progress) -> None:
    """The jobs one after the other, each as a run of its own in the instance's history."""
    import dagster as dg

    from dagster_project import definitions
    from dagster_project.assets import factory

    warnings.filterwarnings("ignore", category=dg.PreviewWarning)
    loaded = definitions.build(deployment.load())
    factory.listeners.append(progress)
    quiet = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
    try:
        with dg.DagsterInstance.get() as history:
            for name in JOBS:
                if name == "collect_rounds":
                    _generate(loaded, history, quiet)
                print(f"--- {name}", flush=True)
                job = loaded.resolve_job_def(name)
                result = job.execute_in_process(instance=history, run_config=quiet, raise_on_error=False)
                if not result.success and name in ("build_corpus", "train"):
                    return  # what comes after would train on a corpus of before
    finally:
        factory.listeners.remove(progress)


def _generate(loaded: Any, history: Any, quiet: dict[str, Any]) -> None:
    """Rounds of the generation loop, each promoted before the next begins, as the sensors do."""
    from generators.generation.loop import round_name

    for number in range(1, ROUNDS + 1):
        name = round_name(number)
        print(f"--- generate_round {name}", flush=True)
        history.add_dynamic_partitions("round", [name])
        for job, key in (("generate_round", name), ("promote_verified", None)):
            result = loaded.resolve_job_def(job).execute_in_process(
                instance=history, run_config=quiet, raise_on_error=False, partition_key=key
            )
            if not result.success:
                return
