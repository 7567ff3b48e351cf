"""`new_raw_files`: a source is refreshed when the files in its native folder have changed."""

import contextlib
import json
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
from dagster_project.stages.stage import GraphStage
from pipelines.raw.unpacked import FOLDER as UNPACKED
from schemas.ids import digest

ARRIVING = (".part", ".incomplete")
"""Endings of files that a pull (ours, the hub's client's) or a download is writing; they get their names when whole."""
LEFT_AFTER_S = 3600.0
"""A file that a pull was writing and that hasn't grown for so long counts as left of one that was killed: between its
attempts a pull waits for seconds."""


def new_files_sensor(names: list[str], stages: Mapping[str, GraphStage], refresh: Any) -> Any:
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
class FolderCheck:
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
        """Why nothing is requested."""
        said = f"still changing: {', '.join(self.waiting)}" if self.waiting else "no native files have changed"
        return "; ".join([said, *(f"{name}: a pull left {file} unfinished" for name, file in self.left.items())])


def look(names: list[str], known: Mapping[str, Mapping[str, Any]], now_s: float) -> FolderCheck:
    """Look at the sources' folders at a time (seconds since 1970); `known` is what the last look remembered. A folder
    must look the same twice in a row, with no file coming in, so that a copy or a pull under way isn't read."""
    settings = deployment.load()
    found = FolderCheck({}, {}, [], {})
    # Of one whose folder is away nothing is remembered but the count, which goes on: no run key may come again.
    found.now.update({name: {"seen": "", "done": "", "asked": one.get("asked", 0)} for name, one in known.items()})
    for name in names:
        folder, before = settings.native_folder(name), known.get(name, {})
        done, requested = before.get("done", ""), before.get("asked", 0)
        if folder is None:
            continue
        state = folder_state(folder, now_s)
        # While a file comes in there is nothing that could be compared.
        seen = "" if state.arriving else state.mark
        # The same as at the last look, and not what was already refreshed.
        if seen and seen == before.get("seen") and seen != done:
            found.requests[name] = done = seen
            requested += 1
        elif state.arriving or (seen and seen != done):
            found.waiting.append(f"{name} ({state.arriving} comes in)" if state.arriving else name)
        if state.left:
            found.left[name] = state.left
        # Remembered whether or not anything was requested, so that the next look can compare.
        found.now[name] = {"seen": seen, "done": done, "asked": requested}
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
            # Links and folders are no data.
            if not stat.S_ISREG(status.st_mode):
                continue
            # Hidden files are a pull's own records.
            if not any(part.startswith(".") for part in inside.parts):
                data.append([inside.as_posix(), status.st_size, status.st_mtime_ns])
            if path.name.endswith(ARRIVING) or _being_unpacked(inside):
                unfinished.append((status.st_mtime, inside.as_posix()))
    mark = digest(data)[:16] if data else ""
    # The newest of the unfinished: as long as one grows, the pull is alive.
    newest_s, name = max(unfinished, default=(0.0, ""))
    arrives = now_s - newest_s < LEFT_AFTER_S
    return FolderState(mark, name if arrives else "", "" if arrives else name)


def _being_unpacked(inside: Path) -> bool:
    """Whether this is a member of an archive that isn't unpacked to its end (`pipelines.raw.unpacked`): these get their
    names together, and the lists beside the folder that they wait in stay."""
    return inside.is_relative_to(UNPACKED) and len(inside.relative_to(UNPACKED).parts) > 2


def chain_of(stages: Mapping[str, GraphStage], name: str) -> list[dg.AssetKey]:
    """A source's raw to gold; for a companion its own raw and the chains of the sources that use it. What is upstream
    of its raw files is looked at first."""
    own = [key for key in (f"{part}/{name}" for part in ("raw", "unified", "verdicts", "gold")) if key in stages]
    # Of a companion: the sources that read it are refreshed with it.
    users = [s.key.partition("/")[2] for s in stages.values() if s.group == "unified" and f"raw/{name}" in s.deps]
    others = [f"{part}/{user}" for user in users if user != name for part in ("unified", "verdicts", "gold")]
    return [upstream.key_of(name), *map(asset_key, (*own, *others))]
