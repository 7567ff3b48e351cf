"""What starts by itself: the nightly refresh, new native files, the training tail, suites (corpus: `after_refresh`).

The refresh runs nightly, the corpus when refreshes have ended in whatever state, and the training tail by a condition
on its inputs' data versions; suites too, where somebody switched them on. No asset has both a schedule and a condition.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import dagster as dg

from dagster_project import deployment
from dagster_project.assets import upstream
from dagster_project.graph import Stage
from schemas.ids import digest

TAIL = (
    dg.AutomationCondition.any_deps_match(dg.AutomationCondition.data_version_changed()).since_last_handled()
    & dg.AutomationCondition.all_deps_blocking_checks_passed().ignore(dg.AssetSelection.groups("suites"))
    & ~dg.AutomationCondition.in_progress()
).with_label("an input's data changed and its checks passed")
"""`eager()` would fire on every re-materialisation, even of the same data. Suites may never have been run, and the
standings take only what passed: nothing waits for them."""

DEFAULT_CRON, HOURLY = "0 2 * * *", "0 * * * *"
RETRIES = {"observe_upstream": 0, "train": 5}
"""How often a run of a job is taken up again when its process died; all others as `dagster.yaml` says."""
ONE_AT_A_TIME = "vesper/one_at_a_time"
"""Runs whose tag has the same value wait for each other (`dagster.yaml`): two runs of a job would make the same assets,
and the second one would find their locks taken."""


def jobs(stages: Mapping[str, Stage]) -> dict[str, Any]:
    """`observe_upstream` (new revisions), `refresh_sources` (raw to gold), `generate_round` and `collect_rounds` (the
    generation loop), `build_corpus` (what sees all sources), `train` (checkpoints, evaluations), `evaluate_suites`."""
    told = {
        "refresh_sources": "Native files to gold, source by source; what hasn't changed is skipped.",
        "generate_round": "One round of the generation loop: catalogue, tasks, trajectories, verdicts.",
        "collect_rounds": "Verified trajectories of all rounds into the corpus and the task pool.",
        "build_corpus": "Hygiene, shards, mixture, task pool, from each source's last good gold.",
        "train": "Checkpoints, evaluations, standings, the nano judge; and the staircase, which nothing else starts.",
        "evaluate_suites": "The merged agent on worlds, and on the benchmarks whose files are here.",
    }
    seen = [upstream.key_of(name) for name in upstream.names_of(stages)]
    chosen = {name: [asset_key(stage.key) for stage in stages.values() if stage.job == name] for name in told}
    chosen["refresh_sources"] += seen  # so that raw is made of what was seen last
    told["observe_upstream"] = "Looks for new revisions of the sources; makes nothing."
    chosen["observe_upstream"] = seen
    return {
        name: dg.define_asset_job(
            name, dg.AssetSelection.assets(*chosen[name]), description=text, tags=tags_of(name),
        )
        for name, text in told.items()
    }  # fmt: skip


def tags_of(job: str) -> dict[str, str]:
    """Tags of a job's runs: which of them wait for each other, and how often one that died is taken up again."""
    return {ONE_AT_A_TIME: job, **({"dagster/max_retries": str(RETRIES[job])} if job in RETRIES else {})}


def nightly(refresh: Any) -> dg.ScheduleDefinition:
    """The refresh, by default at two in the morning ($VESPER_NIGHTLY_CRON)."""
    return dg.ScheduleDefinition(
        name="nightly_refresh", job=refresh, cron_schedule=os.environ.get("VESPER_NIGHTLY_CRON") or DEFAULT_CRON,
        default_status=dg.DefaultScheduleStatus.RUNNING, description="All sources from native files to gold.",
    )  # fmt: skip


def hourly(observe: Any) -> dg.ScheduleDefinition:
    """Looks for new revisions, by default at every full hour ($VESPER_UPSTREAM_CRON)."""
    return dg.ScheduleDefinition(
        name="look_upstream", job=observe, cron_schedule=os.environ.get("VESPER_UPSTREAM_CRON") or HOURLY,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="New revisions of the sources: what they make stale shows in the UI, the next refresh takes them.",
    )  # fmt: skip


def new_files_sensor(names: list[str], stages: Mapping[str, Stage], refresh: Any) -> Any:
    """Refresh a source when the files in its folder have changed and then rested for one look."""

    @dg.sensor(
        name="new_raw_files", job=refresh, minimum_interval_seconds=30, default_status=dg.DefaultSensorStatus.RUNNING,
        description="Looks at the sources' native folders; asks for a refresh of those whose files changed.",
    )  # fmt: skip
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        known: dict[str, dict[str, str]] = json.loads(context.cursor or "{}")
        requests, now = look(names, known)
        runs = [
            dg.RunRequest(
                run_key=f"{name}-{mark}", tags={"source": name, "because": "new_raw_files"},
                asset_selection=chain_of(stages, name),
            )
            for name, mark in requests.items()
        ]  # fmt: skip
        if not runs:
            waiting = [name for name, entry in now.items() if entry["seen"] != entry["done"]]
            reason = f"still changing: {', '.join(waiting)}" if waiting else "no native files have changed"
            context.update_cursor(json.dumps(now, sort_keys=True))
            return dg.SkipReason(reason)
        return dg.SensorResult(run_requests=runs, cursor=json.dumps(now, sort_keys=True))

    return sensor


def look(names: list[str], known: Mapping[str, Mapping[str, str]]) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """(source → mark of those to refresh now, what to remember). A folder must look the same twice in a row, so that
    a copy under way isn't read."""
    settings = deployment.load()
    requests: dict[str, str] = {}
    now: dict[str, dict[str, str]] = {}
    for name in names:
        folder = settings.native_folder(name)
        if folder is None:
            continue
        mark, before = folder_mark(folder), known.get(name, {})
        done = before.get("done", "")
        if mark and mark == before.get("seen") and mark != done:
            requests[name] = done = mark
        now[name] = {"seen": mark, "done": done}
    return requests, now


def folder_mark(folder: Path) -> str:
    """A digest of names, sizes and times of all files below a folder; "" if there are none. What is hidden, such as a
    pull's own record, isn't data."""
    found = [
        [path.relative_to(folder).as_posix(), path.stat().st_size, path.stat().st_mtime_ns]
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]
    return digest(found)[:16] if found else ""


def chain_of(stages: Mapping[str, Stage], name: str) -> list[dg.AssetKey]:
    """A source's raw to gold; for a companion its own raw and the chains of the sources that use it. What is upstream
    of its raw files is looked at first."""
    own = [key for key in (f"{part}/{name}" for part in ("raw", "unified", "verdicts", "gold")) if key in stages]
    users = [s.key.partition("/")[2] for s in stages.values() if s.group == "unified" and f"raw/{name}" in s.deps]
    others = [f"{part}/{user}" for user in users if user != name for part in ("unified", "verdicts", "gold")]
    return [upstream.key_of(name), *map(asset_key, (*own, *others))]


def asset_key(key: str) -> dg.AssetKey:
    """`unified/aitw` → AssetKey(["unified", "aitw"])."""
    return dg.AssetKey(key.split("/"))


def tail_sensor(stages: Mapping[str, Stage]) -> dg.AutomationConditionSensorDefinition:
    """Evaluates the training tail's condition. Its runs are of no job, so they are given the tags of `train` here."""
    keys = [asset_key(s.key) for s in stages.values() if s.job == "train"]
    return dg.AutomationConditionSensorDefinition(
        "training_tail", target=dg.AssetSelection.assets(*keys), default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=60, description="Trains and evaluates when an input's data has changed.",
        run_tags=tags_of("train"),
    )  # fmt: skip


def suites_sensor(stages: Mapping[str, Stage]) -> dg.AutomationConditionSensorDefinition:
    """The same condition for the suites, which take longer than anybody may want after each training: off until it is
    switched on."""
    keys = [asset_key(s.key) for s in stages.values() if s.job == "evaluate_suites"]
    return dg.AutomationConditionSensorDefinition(
        "suites_after_training", target=dg.AssetSelection.assets(*keys),
        default_status=dg.DefaultSensorStatus.STOPPED, minimum_interval_seconds=60,
        description="Runs suites of evaluation when the merged agent, or a benchmark's files, have changed.",
        run_tags=tags_of("evaluate_suites"),
    )  # fmt: skip
