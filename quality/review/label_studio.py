"""Label Studio, both ways: tasks with the judge's word as predictions out, its JSON or JSON-MIN export in.

Format: https://labelstud.io/guide/task_format and https://labelstud.io/guide/predictions. A task's `data` holds the
item id, goal, steps and pictures; the labelling interface is written beside the tasks. What comes in is checked whole
before any of it is kept, and the same file twice counts once.
"""

import base64
import json
import math
import re
import urllib.parse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from quality.judges.judge import route
from quality.review.queue import OpenQueue
from quality.review.trajectories import ReviewTrajectory
from quality.review.verdict_store import DECISIONS, HumanVerdict, ReviewError, VerdictStore, check_name
from schemas.ids import digest

Pictures = Literal["none", "files", "data"]
MAX_FILE_BYTES = 2 << 30
EXPORT_SIDE_PX = 1024
_TYPES = {"decision": "choices", "first_wrong_step": "number", "note": "textarea"}
"""Control tag → type of its results."""


def interface(pictures: Pictures) -> str:
    """The labelling interface (XML): paste it into the project's settings."""
    image = '  <Image name="screens" valueList="$images"/>\n' if pictures != "none" else ""
    choices = "".join(f'    <Choice value="{name}" hotkey="{key}"/>\n' for key, name in enumerate(DECISIONS, 1))
    return (
        "<View>\n"
        '  <Header value="Goal"/>\n  <Text name="goal" value="$goal" valueType="text"/>\n'
        f"{image}"
        '  <Header value="Steps"/>\n  <Text name="steps" value="$steps" valueType="text"/>\n'
        '  <Choices name="decision" toName="goal" choice="single-radio" required="true">\n'
        f"{choices}  </Choices>\n"
        '  <Header value="First wrong step, from 1"/>\n  <Number name="first_wrong_step" toName="goal" min="1"/>\n'
        '  <TextArea name="note" toName="goal" rows="2" maxSubmissions="1" placeholder="note"/>\n'
        "</View>\n"
    )


# --- out --------------------------------------------------------------------------------------------------------------
def export_tasks(
    queue: OpenQueue, verdicts: Iterable[HumanVerdict], path: Path, pictures: Pictures = "files", answers: bool = False
) -> dict[str, object]:
    """Write the queue as tasks to `path`, the interface to `<stem>.xml`, and with "files" pictures to
    `<stem>-pictures/`; returns counts. `answers` adds people's own as annotations (Label Studio takes those of users
    that it knows by their email). Adjudications aren't exported: they are no independent answers."""
    path.parent.mkdir(parents=True, exist_ok=True)
    said: dict[str, list[HumanVerdict]] = {}
    for verdict in verdicts if answers else ():
        if verdict.role == "annotator":
            said.setdefault(verdict.item_id, []).append(verdict)
    tasks: list[dict[str, Any]] = []
    for place, (item_id, trajectory) in enumerate(queue.trajectories.items()):
        task: dict[str, Any] = {
            "id": place + 1,
            "data": _data(trajectory, place, path, pictures),
            "predictions": _predictions(queue.rows[item_id]),
        }
        if item_id in said:
            task["annotations"] = [_annotation(verdict) for verdict in said[item_id]]
        tasks.append(task)
    path.write_text(json.dumps(tasks, indent=1, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")
    xml = path.with_suffix(".xml")
    xml.write_text(interface(pictures), encoding="utf-8")
    written = sum(len(task.get("annotations", ())) for task in tasks)
    return {"tasks": len(tasks), "annotations": written, "interface": str(xml)}


def _data(trajectory: ReviewTrajectory, place: int, path: Path, pictures: Pictures) -> dict[str, Any]:
    lines, images = [], []
    for number, step in enumerate(trajectory.steps):
        message = " · ".join(text for text in (step.instruction, step.thought, step.conclusion) if text)
        # Counted from 1, as the people see them.
        line = f"{number + 1}. {step.says or 'last screen'}" + (f"  {message}" if message else "")
        drawn = trajectory.picture(number, EXPORT_SIDE_PX) if pictures != "none" else None
        if drawn is not None:
            images.append(_image(drawn, f"{place:05d}-{number:03d}.jpg", path, pictures))
            line += f"  [picture {len(images)}]"
        lines.append(line)
    plain: dict[str, Any] = {
        "item_id": trajectory.item_id,
        "content": trajectory.digest,
        "source": trajectory.source,
        "platform": trajectory.platform,
        "kind": trajectory.kind,
        "goal": trajectory.goal,
        "steps": "\n".join(lines),
    }
    return plain | ({"images": images} if pictures != "none" else {})


def _image(data: bytes, name: str, path: Path, pictures: Pictures) -> str:
    """A data URI, or a file's address below Label Studio's local storage whose root is the folder of the tasks."""
    if pictures == "data":
        return "data:image/jpeg;base64," + base64.b64encode(data).decode("ascii")
    folder = path.with_name(f"{path.stem}-pictures")
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(data)
    return "/data/local-files/?d=" + urllib.parse.quote(f"{folder.name}/{name}")


def _predictions(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The judge's disposition as a choice and its score 0..10 as 0..1; none where it abstained or wasn't asked."""
    if row["score"] is None:
        return []
    result = [_result("decision", {"choices": [route(row["score"])]})]
    return [{"model_version": "vesper judge", "score": row["score"] / 10, "result": result}]


def _result(name: str, value: Any) -> dict[str, Any]:
    return {"id": name, "from_name": name, "to_name": "goal", "type": _TYPES[name], "value": value}


def _annotation(verdict: HumanVerdict) -> dict[str, Any]:
    result = [_result("decision", {"choices": [verdict.decision]})]
    if verdict.first_wrong_step is not None:
        result.append(_result("first_wrong_step", {"number": verdict.first_wrong_step + 1}))
    if verdict.note:
        result.append(_result("note", {"text": [verdict.note]}))
    created = datetime.fromtimestamp(verdict.created, UTC).isoformat().replace("+00:00", "Z")
    return {
        "completed_by": {"email": verdict.annotator},
        "result": result,
        "was_cancelled": False,
        "ground_truth": False,
        "lead_time": verdict.seconds,
        "created_at": created,
        "updated_at": created,
    }


# --- in ---------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Imported:
    """How many answers were read, new, there already, and skipped by their annotator (`was_cancelled`). `gone` are
    answered items that the queue doesn't hold any more, or not as they were shown: their answers are kept, too."""

    answers: int
    new: int
    there_already: int
    skipped_by_annotator: int
    gone: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Shown:
    """What an annotator saw: the item, how many steps it had, and the digest of its content."""

    item_id: str
    steps: int
    content: str


def import_tasks(path: Path, queue: OpenQueue, answers: VerdictStore, queued: Iterable[str] = ()) -> Imported:
    """Read a JSON export → answers, all or none, also those about an earlier draw of the queue.

    `queued` are ids of items that earlier draws held (`quality.review.queue.ever_queued`). Raises `ReviewError` that
    names the task on anything that isn't as expected, and for an item that was never queued here."""
    held = {one.item_id: (one.digest, len(one.steps)) for one in queue.trajectories.values()}
    known = held.keys() | set(queued)
    # All are looked at before the first is written: an import is whole or not at all.
    tasks = [_task(task, held, f"{path.name}, task {number + 1}") for number, task in enumerate(_load(path))]
    for where, one, _ in tasks:
        if one.item_id not in known:
            raise ReviewError(
                f"{where}: item {one.item_id[:80]!r} was never in this review queue; import into the store it came from"
            )
    # Counted and kept: what people said about an earlier content isn't said about this one.
    gone = {one.item_id for _, one, _ in tasks if held.get(one.item_id, ("",))[0] != one.content}
    found, cancelled = [], 0
    for where, one, said in tasks:
        for place, annotation in enumerate(said):
            at = f"{where}, annotation {place + 1}"
            if _expect(annotation, dict, at).get("was_cancelled"):
                cancelled += 1
            else:
                found.append(_verdict(annotation, one, at))
    before = answers.count()
    # In the order in which they were given, so that the last one counts.
    answers.add_all(sorted(found, key=lambda verdict: verdict.created))
    new = answers.count() - before
    answered = tuple(sorted({verdict.item_id for verdict in found} & gone))
    return Imported(len(found), new, len(found) - new, cancelled, answered)


def _task(task: Any, held: Mapping[str, tuple[str, int]], where: str) -> tuple[str, _Shown, list[Any]]:
    """(where, what was shown, annotations). How many steps an item had that isn't held as it was says its own text."""
    task = _unfolded(_expect(task, dict, where))
    data = _expect(task.get("data"), dict, f"{where}: data")
    item_id = _expect(data.get("item_id"), str, f"{where}: data.item_id")
    content = _expect(data.get("content"), str, f"{where}: data.content")
    digest_now, steps = held.get(item_id, ("", 0))
    if content != digest_now:
        text = _expect(data.get("steps"), str, f"{where}: data.steps")
        steps = len(re.findall(r"^\d+\. ", text, re.MULTILINE))
    annotations = _expect(task.get("annotations", []), list, f"{where}: annotations")
    return where, _Shown(item_id, steps, content), annotations


def _unfolded(task: dict[str, Any]) -> dict[str, Any]:
    """A row of the JSON-MIN export (one annotation beside the data that it is about) as a task; a task is itself."""
    if "data" in task or "annotation_id" not in task:
        return task
    result = []
    for name, kind in _TYPES.items():
        # one value stands bare, several in their result, and a number always in a list of results
        value = task.get(name)
        value = value[0] if isinstance(value, list) and len(value) == 1 else value
        value = value.get(_key(name)) if isinstance(value, dict) else value
        if value is not None:
            value = [value] if name == "decision" and isinstance(value, str) else value
            result.append({"from_name": name, "type": kind, "value": {_key(name): value}})
    return {"data": task, "annotations": [{**task, "completed_by": task.get("annotator"), "result": result}]}


def _load(path: Path) -> list[Any]:
    if not path.is_file():
        raise ReviewError(f"{path}: expected the JSON export of Label Studio, found no file")
    if path.stat().st_size > MAX_FILE_BYTES:
        raise ReviewError(
            f"{path.name}: expected at most {MAX_FILE_BYTES >> 30} GiB, found {path.stat().st_size} bytes"
        )
    try:
        plain = json.loads(path.read_text(encoding="utf-8-sig"), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ReviewError(f"{path.name}: expected the JSON export of Label Studio: {str(error)[:200]}") from error
    return list(_expect(plain, list, path.name))


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _expect(value: Any, kind: type, where: str) -> Any:
    if not isinstance(value, kind):
        raise ReviewError(f"{where}: expected {kind.__name__}, found {type(value).__name__}")
    return value


def _verdict(plain: Mapping[str, Any], shown: _Shown, where: str) -> HumanVerdict:
    values: dict[str, Any] = {}
    for one in _expect(plain.get("result"), list, f"{where}: result"):
        name = _expect(one, dict, f"{where}: result").get("from_name")
        if name not in _TYPES:
            continue  # a region or a tag that somebody added to the interface
        if one.get("type") != _TYPES[name] or name in values:
            raise ReviewError(f"{where}: expected {name} once, of type {_TYPES[name]}, found {one.get('type')!r}")
        values[name] = _expect(one.get("value"), dict, f"{where}: {name}").get(_key(name))
    choices = values.get("decision")
    if not isinstance(choices, list) or len(choices) != 1 or choices[0] not in DECISIONS:
        raise ReviewError(f"{where}: expected one choice of {', '.join(DECISIONS)}, found {str(choices)[:80]}")
    # The time of the last change: an edited annotation is a newer answer.
    created = _time(plain.get("updated_at") or plain.get("created_at"), where)
    verdict = HumanVerdict(
        shown.item_id,
        _annotator(plain.get("completed_by"), where),
        "annotator",
        choices[0],
        _step(values.get("first_wrong_step"), shown.steps, where),
        _note(values.get("note"), where),
        _seconds(plain.get("lead_time"), where),
        created,
        content=shown.content,
    )
    # All that was said names the answer: the same file twice adds nothing.
    named = [
        shown.item_id,
        shown.content,
        verdict.annotator,
        verdict.decision,
        verdict.first_wrong_step,
        verdict.note,
        repr(created),
    ]
    verdict = replace(verdict, request=f"label-studio:{digest(named)[:40]}")
    try:
        verdict.check()
    except ReviewError as error:
        raise ReviewError(f"{where}: {error}") from error
    return verdict


def _key(name: str) -> str:
    return {"decision": "choices", "first_wrong_step": "number", "note": "text"}[name]


def _annotator(value: Any, where: str) -> str:
    """A user id, a record with id and email, or (of older exports) an email."""
    if isinstance(value, dict):
        # Older exports give an email, newer ones a record.
        value = value.get("email") or value.get("id")
    if isinstance(value, int) and not isinstance(value, bool):
        value = f"label-studio-{value}"
    if not isinstance(value, str):
        raise ReviewError(f"{where}: completed_by: expected a user's id or email, found {type(value).__name__}")
    try:
        return check_name(value)
    except ReviewError as error:
        raise ReviewError(f"{where}: completed_by: {error}") from error


def _step(value: Any, steps: int, where: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1 or not 1 <= value <= steps:
        raise ReviewError(f"{where}: first_wrong_step: expected a step from 1 to {steps}, found {str(value)[:40]}")
    return int(value) - 1


def _note(value: Any, where: str) -> str:
    if value is None:
        return ""
    lines = value if isinstance(value, list) else [value]
    return "\n".join(_expect(line, str, f"{where}: note") for line in lines)


def _seconds(value: Any, where: str) -> float:
    if value is None:
        return 0.0
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ReviewError(f"{where}: lead_time: expected seconds, found {str(value)[:40]}")
    return float(value)


def _time(value: Any, where: str) -> float:
    """ISO 8601 → Unix time; 0 for none (the time of the import is taken)."""
    if value is None:
        return 0.0
    try:
        moment = datetime.fromisoformat(_expect(value, str, f"{where}: updated_at"))
        # Without a zone it is taken for UTC, as Label Studio writes it.
        return max(0.0, (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError) as error:
        raise ReviewError(f"{where}: updated_at: expected a time (ISO 8601), found {value[:40]!r}") from error
