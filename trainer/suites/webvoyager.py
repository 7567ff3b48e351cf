"""Runs on WebVoyager's tasks, judged from the folders that its harness writes: taskID/ with `interact_messages.json`
and screenshotN.png.

The task file is as published, JSON lines of `web_name`, `id`, `ques` and `web`. All its sites are live ones, and none
is played here: a task without a folder is counted by site. A run succeeds by the word of a multimodal model that sees
the last screenshot and the answer (`trainer.online.success`); one without an answer fails, as in the harness.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from trainer.online.success import FinalFrameJudge
from trainer.suites.recorded_runs import MAX_BYTES, RecordedRun

MESSAGES = "interact_messages.json"
FIELDS = ("id", "web_name", "ques", "web")
_ANSWER = re.compile(r"Action:\s*ANSWER[;\s]+(.*)", re.DOTALL)
_SCREENSHOT = re.compile(r"screenshot(\d+)\.png")


@dataclass(frozen=True)
class WebTask:
    """A line of the task file: `web` is the address where it begins."""

    id: str
    web_name: str
    ques: str
    web: str


def tasks_of(path: Path) -> list[WebTask]:
    """The tasks of a file. Raises `ValueError` that names the first line which is none."""
    found = []
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        try:
            row = json.loads(line or "{}")
            if line.strip():
                found.append(WebTask(*(_text(row[name]) for name in FIELDS)))
        except (ValueError, KeyError, TypeError, RecursionError):
            expected = f"expected texts {', '.join(FIELDS)}"
            raise ValueError(f"{path}, line {number}: {expected}, found {line!r:.80}") from None
    return found


def _text(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError
    return value


def judged_runs(tasks: Sequence[WebTask], folder: Path, judge: FinalFrameJudge) -> Iterator[RecordedRun]:
    """The runs that are below a folder, in the order of the tasks."""
    places = {path.parent.name.removeprefix("task"): path.parent for path in sorted(folder.rglob(MESSAGES))}
    for task in tasks:
        if task.id in places:
            yield _judged(task, places[task.id], judge)


def not_played(tasks: Sequence[WebTask], runs: Sequence[RecordedRun]) -> dict[str, int]:
    """Site → its tasks without a run."""
    done = {run.task for run in runs}
    return dict(sorted(Counter(task.web_name for task in tasks if task.id not in done).items()))


def _judged(task: WebTask, place: Path, judge: FinalFrameJudge) -> RecordedRun:
    shots = {int(found[1]): path for path in place.iterdir() if (found := _SCREENSHOT.fullmatch(path.name))}
    said = _replies(place / MESSAGES)
    if not said or not shots:
        return RecordedRun(task.id, task.web_name, None, "no screenshot" if said else "no replies that can be read")
    if (answer := _ANSWER.search(said[-1])) is None:
        return RecordedRun(task.id, task.web_name, 0.0, steps=len(said))
    words = answer[1].strip().removeprefix("[").removesuffix("]")
    decided = judge.look(task.ques, words, shots[max(shots)].read_bytes())
    score = None if decided.success is None else float(decided.success)
    return RecordedRun(task.id, task.web_name, score, "" if score is not None else decided.why, len(said))


def _replies(path: Path) -> list[str]:
    """What the agent said, in order; nothing where the file isn't in its form."""
    try:
        told = json.loads(path.read_text("utf-8")) if path.stat().st_size <= MAX_BYTES else []
        return [str(one["content"]) for one in told if one["role"] == "assistant"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return []
