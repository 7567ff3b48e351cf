"""Runs of others on OSWorld, WindowsAgentArena and macOSWorld, scored from the folders that their harnesses write.

OSWorld and WindowsAgentArena leave DOMAIN/TASK/result.txt (a number in 0..1) beside traj.jsonl, a line a step with its
`action`; macOSWorld leaves CATEGORY/TASK_TASKLANGUAGE_ENVLANGUAGE/eval_result.txt (0 to 100, or `eval_failed` above
it). Nothing is played again. Scores are as the harness wrote them; what it could not score is counted, not 0.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.mapping.items import ItemError
from pipelines.native.pyautogui import gestures, parse_script
from trainer.statistics import interval

RESULT, MACOS_RESULT, STEPS = "result.txt", "eval_result.txt", "traj.jsonl"
FAILED = "eval_failed"
MAX_BYTES = 64 << 20
SCREEN = (1920, 1080)
_WORDS = frozenset({"WAIT", "DONE", "FAIL"})


@dataclass(frozen=True)
class RecordedRun:
    """A run of one task. `score` in 0..1, None where the harness wrote none (`why`); of its `steps` (0: no file of
    them) so many `unread`: code that holds no call of pyautogui that has a counterpart here."""

    task: str
    domain: str
    score: float | None
    why: str = ""
    steps: int = 0
    unread: int = 0
    refused: bool = False


def runs_in(folder: Path) -> Iterator[RecordedRun]:
    """The runs below a folder, in the order of their paths; a task's folder without a result is one that didn't end."""
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
        return None, "its harness could not score it"
    try:
        value = float({"True": "1", "False": "0"}.get(said[0], said[0]))
    except ValueError:
        return None, "no number in its result"
    return (value / whole, "") if 0 <= value <= whole else (None, f"a score outside of 0..{whole:g}")


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
        raise ValueError(f"expected runs with {RESULT} or {MACOS_RESULT} in folders DOMAIN/TASK, found none")
    counted = [run for run in runs if run.score is not None]
    steps = sum(run.steps for run in runs)
    why = [run.why for run in runs if run.score is None]
    return {
        "score": _over(counted, whole=False),
        "success": _over(counted, whole=True),
        "by_domain": {
            domain: _over([run for run in counted if run.domain == domain], whole=False)
            for domain in sorted({run.domain for run in counted})
        },
        "runs": len(runs),
        "not_counted": {reason: why.count(reason) for reason in sorted(set(why))},
        "steps": steps,
        "unread_share": sum(run.unread for run in runs) / steps if steps else None,
        "refused": sum(run.refused for run in runs),
    }


def _over(runs: Sequence[RecordedRun], whole: bool) -> Mapping[str, Any]:
    scores = [run.score or 0.0 for run in runs]
    values = [float(score >= 1) for score in scores] if whole else scores
    return interval(values, [run.task for run in runs]).plain()
