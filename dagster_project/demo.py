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

JOBS = ("refresh_sources", "build_corpus", "train")


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
    print(f"Vesper demo: {len(stages)} assets into {home}", flush=True)
    progress = Progress(len(stages))
    _execute(progress)
    names = sources.enabled(settings)
    made = report.make(Store(home), names, list(stages))
    made["failed"] = progress.failed
    made["seconds"] = {"total": round(time.monotonic() - began, 1),
                       "stages": {key: round(value, 2) for key, value in progress.seconds.items()}}  # fmt: skip
    report.write(made, report_path)
    print(report.text(made))
    for key, reason in progress.failed.items():
        print(f"failed: {key}: {reason.splitlines()[0]}", file=sys.stderr)
    left = len(stages) - progress.number
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
                print(f"--- {name}", flush=True)
                job = loaded.resolve_job_def(name)
                result = job.execute_in_process(instance=history, run_config=quiet, raise_on_error=False)
                if not result.success and name != "refresh_sources":
                    return  # what comes after would train on a corpus of before
    finally:
        factory.listeners.remove(progress)
