"""What starts by itself: the nightly refresh, new native files, the training tail, suites (corpus: `after_refresh`).

The refresh runs nightly, the corpus when refreshes have ended in whatever state, and the training tail by a condition
on its inputs' data versions; suites too, where somebody switched them on. No asset has both a schedule and a condition.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg

from dagster_project.assets import upstream
from dagster_project.assets.keys import asset_key
from dagster_project.automation.requested_runs import read_cursor
from dagster_project.settings import deployment
from dagster_project.stages.stage import Stage
from pipelines.raw.unpacked import FOLDER as UNPACKED
from schemas.ids import digest

DEFAULT_CRON, HOURLY = "0 2 * * *", "0 * * * *"
RETRIES = {"observe_upstream": 0, "train": 5}
"""How often a run of a job is taken up again when its process died; all others as `dagster.yaml` says."""
ONE_AT_A_TIME = "vesper/one_at_a_time"
"""Runs whose tag has the same value wait for each other (`dagster.yaml`): two runs of a job would make the same assets,
and the second one would find their locks taken."""

ARRIVING = (".part", ".incomplete")
"""Endings of files that a pull (ours, the hub's client's) or a download is writing; they get their names when whole."""
LEFT_AFTER_S = 3600.0
"""A file that a pull was writing and that hasn't grown for so long counts as left of one that was killed: between its
attempts a pull waits for seconds."""


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
        name: dg.define_asset_job(name, dg.AssetSelection.assets(*chosen[name]), description=text, tags=tags_of(name))
        for name, text in told.items()
    }


def tags_of(job: str) -> dict[str, str]:
    """Tags of a job's runs: which of them wait for each other, and how often one that died is taken up again."""
    return {ONE_AT_A_TIME: job, **({"dagster/max_retries": str(RETRIES[job])} if job in RETRIES else {})}


def nightly(refresh: Any) -> dg.ScheduleDefinition:
    """The refresh, by default at two in the morning ($VESPER_NIGHTLY_CRON)."""
    return dg.ScheduleDefinition(
        name="nightly_refresh",
        job=refresh,
        cron_schedule=os.environ.get("VESPER_NIGHTLY_CRON") or DEFAULT_CRON,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="All sources from native files to gold.",
    )


def hourly(observe: Any) -> dg.ScheduleDefinition:
    """Looks for new revisions, by default at every full hour ($VESPER_UPSTREAM_CRON)."""
    return dg.ScheduleDefinition(
        name="look_upstream",
        job=observe,
        cron_schedule=os.environ.get("VESPER_UPSTREAM_CRON") or HOURLY,
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description="New revisions of the sources: what they make stale shows in the UI, the next refresh takes them.",
    )


def new_files_sensor(names: list[str], stages: Mapping[str, Stage], refresh: Any) -> Any:
    """Refresh a source when the files in its folder have changed and then rested for one look."""

    @dg.sensor(
        name="new_raw_files",
        job=refresh,
        minimum_interval_seconds=30,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="Looks at the sources' native folders; asks for a refresh of those whose files changed.",
    )
    def sensor(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        found = look(names, read_cursor(context.cursor), time.time())
        runs = [
            dg.RunRequest(
                run_key=f"{name}-{mark}-{found.now[name]['asked']}",  # why a number: see `asked`
                tags={"source": name, "because": "new_raw_files"},
                asset_selection=chain_of(stages, name),
            )
            for name, mark in found.requests.items()
        ]
        for name in set(found.left) & set(found.requests):
            context.log.warning(
                f"{name}: refreshed without {found.left[name]}, which a pull left unfinished: pull again"
            )
        cursor = json.dumps(found.now, sort_keys=True)
        return dg.SensorResult(runs, None if runs else found.reason(), cursor)

    return sensor


@dataclass(frozen=True)
class Looked:
    """What a look at all folders found."""

    requests: dict[str, str]
    """Source → mark of those to refresh now."""
    now: dict[str, dict[str, Any]]
    """What to remember of each source: the mark `seen` ("" while files come in), the mark `done` that a refresh was
    asked for last, and how many were `asked` for in all."""
    waiting: list[str]
    """Sources whose files are still changing."""
    left: dict[str, str]
    """Source → a file that a pull left unfinished long ago."""

    def reason(self) -> str:
        """Why nothing is asked for."""
        said = f"still changing: {', '.join(self.waiting)}" if self.waiting else "no native files have changed"
        return "; ".join([said, *(f"{name}: a pull left {file} unfinished" for name, file in self.left.items())])


def look(names: list[str], known: Mapping[str, Mapping[str, Any]], now_s: float) -> Looked:
    """Look at the sources' folders at a time (seconds since 1970); `known` is what the last look remembered. A folder
    must look the same twice in a row, with no file coming in, so that a copy or a pull under way isn't read."""
    settings = deployment.load()
    found = Looked({}, {}, [], {})
    # Of one whose folder is away nothing is remembered but the count, which goes on: no run key may come again.
    found.now.update({name: {"seen": "", "done": "", "asked": one.get("asked", 0)} for name, one in known.items()})
    for name in names:
        folder, before = settings.native_folder(name), known.get(name, {})
        done, asked = before.get("done", ""), before.get("asked", 0)
        if folder is None:
            continue
        state = folder_state(folder, now_s)
        seen = "" if state.arriving else state.mark
        if seen and seen == before.get("seen") and seen != done:
            found.requests[name] = done = seen
            asked += 1
        elif state.arriving or (seen and seen != done):
            found.waiting.append(f"{name} ({state.arriving} comes in)" if state.arriving else name)
        if state.left:
            found.left[name] = state.left
        found.now[name] = {"seen": seen, "done": done, "asked": asked}
    return found


@dataclass(frozen=True)
class FolderState:
    """What lies in a native folder."""

    mark: str
    """A digest of names, sizes and times of all files; "" if there are none. What is hidden, such as a pull's own
    record, isn't data."""
    arriving: str
    """A file that is being written, hidden or not, relative to the folder; "" for none."""
    left: str
    """One that hasn't grown for `LEFT_AFTER_S`; "" for none, or while others come in."""


def folder_state(folder: Path, now_s: float) -> FolderState:
    """The state of a folder at a time (seconds since 1970)."""
    data, unfinished = [], []
    for path in sorted(folder.rglob("*")):
        with contextlib.suppress(FileNotFoundError):  # a pull gives its files their names, and removes others
            status, inside = path.stat(), path.relative_to(folder)
            if not stat.S_ISREG(status.st_mode):
                continue
            if not any(part.startswith(".") for part in inside.parts):
                data.append([inside.as_posix(), status.st_size, status.st_mtime_ns])
            if path.name.endswith(ARRIVING) or _being_unpacked(inside):
                unfinished.append((status.st_mtime, inside.as_posix()))
    mark = digest(data)[:16] if data else ""
    newest_s, name = max(unfinished, default=(0.0, ""))
    arrives = now_s - newest_s < LEFT_AFTER_S
    return FolderState(mark, name if arrives else "", "" if arrives else name)


def _being_unpacked(inside: Path) -> bool:
    """Whether this is a member of an archive that isn't unpacked to its end (`pipelines.raw.unpacked`): these get their
    names together, and the lists beside the folder that they wait in stay."""
    return inside.is_relative_to(UNPACKED) and len(inside.relative_to(UNPACKED).parts) > 2


def chain_of(stages: Mapping[str, Stage], name: str) -> list[dg.AssetKey]:
    """A source's raw to gold; for a companion its own raw and the chains of the sources that use it. What is upstream
    of its raw files is looked at first."""
    own = [key for key in (f"{part}/{name}" for part in ("raw", "unified", "verdicts", "gold")) if key in stages]
    users = [s.key.partition("/")[2] for s in stages.values() if s.group == "unified" and f"raw/{name}" in s.deps]
    others = [f"{part}/{user}" for user in users if user != name for part in ("unified", "verdicts", "gold")]
    return [upstream.key_of(name), *map(asset_key, (*own, *others))]


def tail_sensor(stages: Mapping[str, Stage]) -> dg.AutomationConditionSensorDefinition:
    """Evaluates the training tail's condition. Its runs are of no job, so they are given the tags of `train` here."""
    keys = [asset_key(s.key) for s in stages.values() if s.job == "train"]
    return dg.AutomationConditionSensorDefinition(
        "training_tail",
        target=dg.AssetSelection.assets(*keys),
        default_status=dg.DefaultSensorStatus.RUNNING,
        minimum_interval_seconds=60,
        description="Trains and evaluates when an input's data has changed.",
        run_tags=tags_of("train"),
    )


def suites_sensor(stages: Mapping[str, Stage]) -> dg.AutomationConditionSensorDefinition:
    """The same condition for the suites, which take longer than anybody may want after each training: off until it is
    switched on."""
    keys = [asset_key(s.key) for s in stages.values() if s.job == "evaluate_suites"]
    return dg.AutomationConditionSensorDefinition(
        "suites_after_training",
        target=dg.AssetSelection.assets(*keys),
        default_status=dg.DefaultSensorStatus.STOPPED,
        minimum_interval_seconds=60,
        description="Runs suites of evaluation when the merged agent, or a benchmark's files, have changed.",
        run_tags=tags_of("evaluate_suites"),
    )
