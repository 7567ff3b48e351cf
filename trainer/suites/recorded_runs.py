"""Runs of others on OSWorld, WindowsAgentArena, macOSWorld, AndroidLab and VenusBench-Mobile, scored from the folders
that their harnesses write.

OSWorld and WindowsAgentArena leave DOMAIN/TASK/result.txt (a number in 0..1) beside traj.jsonl, a line a step with its
`action`; macOSWorld leaves CATEGORY/TASK_TASKLANGUAGE_ENVLANGUAGE/eval_result.txt (0 to 100, or `eval_failed` above
it). AndroidLab leaves APP_NUMBER_TIME/traces/trace.jsonl, a line a step, and its evaluation results.jsonl, a line a
task with the points that it judged; VenusBench-Mobile result.csv, a row a task with the mean of its trials. Nothing is
played again. Scores are as the harness wrote them; what it could not score is counted, not 0.
"""

import csv
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipelines.mapping.items import ItemError
from pipelines.native.pyautogui import gestures, parse_script
from trainer.statistics import interval

RESULT, MACOS_RESULT, STEPS = "result.txt", "eval_result.txt", "traj.jsonl"
POINTS, TRACE, TABLE = "results.jsonl", "traces/trace.jsonl", "result.csv"
FAILED, UNSCORED = "eval_failed", "its harness could not score it"
MAX_BYTES = 64 << 20
SCREEN = (1920, 1080)
_WORDS = frozenset({"WAIT", "DONE", "FAIL"})


@dataclass(frozen=True)
class RecordedRun:
    """A run of one task. `score` in 0..1, None where the harness wrote none (`why`); of its `steps` (0: no file of
    them) so many `unread`: code that holds no call of pyautogui that has a counterpart here. `success` where the
    harness decides it apart from the score; `more`: its further figures, by its own names."""

    task: str
    domain: str
    score: float | None
    why: str = ""
    steps: int = 0
    unread: int = 0
    refused: bool = False
    success: bool | None = None
    more: Mapping[str, float] = field(default_factory=dict)


def runs_in(folder: Path) -> Iterator[RecordedRun]:
    """The runs below a folder, in the order of their paths; a task's folder without a result is one that didn't end."""
    yield from _of_points(folder)
    for table in sorted(folder.rglob(TABLE)):
        yield from _of_table(table)
    ended = {path.parent for name in (RESULT, MACOS_RESULT) for path in folder.rglob(name)}
    begun = {path.parent for path in folder.rglob(STEPS)}
    for place in sorted(ended | begun):
        macos = (place / MACOS_RESULT).is_file()
        name = MACOS_RESULT if macos else RESULT
        score, why = _score(place / name, 100.0 if macos else 1.0)
        steps, unread, last = _steps(place / STEPS)
        # One task in several languages is one cluster: its id ends before the first of two underscores.
        task = place.name.rsplit("_", 2)[0] if macos else place.name
        yield RecordedRun(task, place.parent.name, score, why, steps, unread, last == "FAIL")


def _score(path: Path, whole: float) -> tuple[float | None, str]:
    """(score in 0..1, why there is none)."""
    if not path.is_file():
        return None, "no result: the run didn't end"
    said = path.read_text("utf-8", "replace").strip().splitlines() if path.stat().st_size < MAX_BYTES else []
    if not said or said[0] == FAILED:
        return None, UNSCORED
    try:
        value = float({"True": "1", "False": "0"}.get(said[0], said[0]))
    except ValueError:
        return None, "no number in its result"
    return (value / whole, "") if 0 <= value <= whole else (None, f"a score outside of 0..{whole:g}")


def _of_points(folder: Path) -> Iterator[RecordedRun]:
    """AndroidLab's runs by task: the last evaluation of each, and those that none has evaluated. A score is 1 where all
    was as asked (`complete`), else the share of the judged points that held."""
    rows = [(path, number, row) for path in sorted(folder.rglob(POINTS)) for number, row in enumerate(_rows(path), 1)]
    found = {str(row.get("task_id") or f"{path}, line {number}"): row for path, number, row in rows}
    traces = {"_".join(path.parts[-3].split("_")[:2]): len(_rows(path)) for path in sorted(folder.rglob(TRACE))}
    for task in sorted({*found, *traces}):
        domain, row, steps = task.partition("_")[0], found.get(task), traces.get(task, 0)
        result = row.get("result") if row is not None else None
        if row is None or not isinstance(result, dict):
            yield RecordedRun(task, domain, None, "no result: not evaluated" if row is None else UNSCORED, steps)
            continue
        whole = result.get("complete") is True
        points = [bool(held) for name, held in result.items() if name not in ("complete", "judge_page")]
        more = {name: value for name, value in row.items() if isinstance(value, float | int) and 0 <= value < math.inf}
        score = 1.0 if whole else sum(points) / max(len(points), 1)
        yield RecordedRun(task, domain, score, steps=steps, success=whole, more=more)


def _rows(path: Path) -> list[dict[str, Any]]:
    """The lines of a file that should be objects; an empty one in the place of each that is none."""
    found: list[dict[str, Any]] = []
    for line in _lines(path):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        found.append(row if isinstance(row, dict) else {})
    return found


def _lines(path: Path) -> list[str]:
    return path.read_text("utf-8", "replace").splitlines() if path.stat().st_size <= MAX_BYTES else []


def _of_table(path: Path) -> Iterator[RecordedRun]:
    """The tasks of AndroidWorld's harness in the form that VenusBench-Mobile writes, by their tag; its Chinese and
    reworded variants have none. Raises `ValueError` for a file that is no table."""
    try:
        rows = list(csv.DictReader(_lines(path)))
    except csv.Error as error:
        raise ValueError(f"{path}: expected rows of a table, found {error}") from None
    for row in rows:
        if task := row.get("task_template"):
            tags = re.findall(r"\w+", row.get("tags") or "")
            score, steps = (_number(row.get(name)) for name in ("mean_success_rate", "mean_episode_length"))
            score = score if score is None or score <= 1 else None
            why = UNSCORED if score is None else ""
            yield RecordedRun(task, tags[0] if tags else "untagged", score, why, int(steps or 0))


def _number(text: str | None) -> float | None:
    """A number from 0 on; None for anything else."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value < math.inf else None


def _steps(path: Path) -> tuple[int, int, str]:
    """(steps, those that can't be read, the last action if it is a word)."""
    if not path.is_file() or path.stat().st_size > MAX_BYTES:
        return 0, 0, ""
    steps, unread, last = 0, 0, ""
    for line in path.read_text("utf-8", "replace").splitlines():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            unread, steps = unread + 1, steps + 1
            continue
        if not isinstance(row, dict) or "action" not in row:
            continue  # an error that the harness noted, no step
        action = row["action"]
        named = action.get("action_type", action) if isinstance(action, dict) else action
        last = named if named in _WORDS else ""
        steps, unread = steps + 1, unread + (not last and not _readable(action))
    return steps, unread, last


def _readable(action: object) -> bool:
    """Whether an action is code with at least one call that has a counterpart here."""
    try:
        found = list(gestures(parse_script(action), SCREEN)) if isinstance(action, str) else []
    except ItemError:
        return False
    return any(one.error is None for one in found)


def report_of(runs: Sequence[RecordedRun]) -> dict[str, Any]:
    """Figures with their intervals over tasks: mean `score`, share of whole scores (`success`), both by domain, and
    what isn't counted. Raises `ValueError` for no runs."""
    if not runs:
        known = f"{RESULT} or {MACOS_RESULT} in folders DOMAIN/TASK, {POINTS} or {TABLE}"
        raise ValueError(f"expected runs with {known}, found none")
    counted = [run for run in runs if run.score is not None]
    steps = sum(run.steps for run in runs)
    why = [run.why for run in runs if run.score is None]
    more = sorted({name for run in counted for name in run.more})
    return {
        "score": _over(counted, whole=False),
        "success": _over(counted, whole=True),
        "by_domain": {
            domain: _over([run for run in counted if run.domain == domain], whole=False)
            for domain in sorted({run.domain for run in counted})
        },
        "more": {name: _mean([run for run in counted if name in run.more], name) for name in more},
        "runs": len(runs),
        "not_counted": {reason: why.count(reason) for reason in sorted(set(why))},
        "steps": steps,
        "unread_share": sum(run.unread for run in runs) / steps if steps else None,
        "refused": sum(run.refused for run in runs),
    }


def _over(runs: Sequence[RecordedRun], whole: bool) -> Mapping[str, Any]:
    scores = [run.score or 0.0 for run in runs]
    ended = [run.success if run.success is not None else score >= 1 for run, score in zip(runs, scores, strict=True)]
    return interval([float(one) for one in ended] if whole else scores, [run.task for run in runs]).plain()


def _mean(runs: Sequence[RecordedRun], name: str) -> Mapping[str, Any]:
    return interval([run.more[name] for run in runs], [run.task for run in runs]).plain()
