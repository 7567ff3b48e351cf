"""A code location whose sensor asks for a run for each word of the file that $TOY_EVENT names, by the shipped keys."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import dagster as dg

from dagster_project.automation.requested_runs import ask, read_cursor


@dg.job
def promote() -> None: ...


@dg.sensor(job=promote, minimum_interval_seconds=30, default_status=dg.DefaultSensorStatus.RUNNING)
def new(context: dg.SensorEvaluationContext) -> dg.SensorResult:
    event = Path(os.environ["TOY_EVENT"]).read_text(encoding="utf-8")
    kept, request, why = ask(context.instance, promote.name, event, read_cursor(context.cursor), time.time())
    return dg.SensorResult([request] if request else [], why or None, json.dumps(kept))


@dg.definitions
def defs() -> dg.Definitions:
    return dg.Definitions(jobs=[promote], sensors=[new])
