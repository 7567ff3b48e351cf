"""Label Studio out and in: round trip, pictures, idempotence, hostile files."""

from __future__ import annotations

import base64
import io
import json
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import goldmaker
import pytest

from pipelines.store import Store
from quality.review.label_studio import Imported, export_tasks, import_tasks
from quality.review.queue import OpenQueue, build_queue, ever_queued, open_earlier, open_queue
from quality.review.sampling import QueueConfig
from quality.review.verdict_store import HumanVerdict, ReviewError, VerdictStore

GOAL = "<View> & \"quotes\" 'n' {{x}} ]]> $goal 中文 </Text>"


@pytest.fixture(scope="module")
def queue(tmp_path_factory: pytest.TempPathFactory) -> OpenQueue:
    store = goldmaker.gold(tmp_path_factory.mktemp("home"), count=3, instructions=[GOAL, "two", "three"])
    build_queue(Store(store.home), ["toy"])
    opened = open_queue(store)
    CONTENT.update({item_id: one.digest for item_id, one in opened.trajectories.items()})
    return opened


@pytest.fixture
def answers(tmp_path: Path) -> VerdictStore:
    return VerdictStore(tmp_path / "review.sqlite")


CONTENT: dict[str, str] = {}


def exported(annotations: list[dict[str, Any]], item_id: str = "episode:toy/e0000") -> list[dict[str, Any]]:
    """A task as Label Studio exports it."""
    data = {"item_id": item_id, "content": CONTENT.get(item_id), "goal": "g"}
    return [{"id": 1, "project": 3, "data": data, "annotations": annotations}]


def annotation(**more: Any) -> dict[str, Any]:
    decision = {
        "id": "Dx_aB91ISN",
        "from_name": "decision",
        "to_name": "goal",
        "type": "choices",
        "origin": "manual",
        "value": {"choices": ["keep"]},
    }
    return {
        "id": 1001,
        "completed_by": 10,
        "result": [decision],
        "was_cancelled": False,
        "lead_time": 4.288,
        "created_at": "2026-03-09T22:16:08.728353Z",
        "updated_at": "2026-03-09T22:16:08.728378Z",
        **more,
    }


def write(tmp_path: Path, plain: Any) -> Path:
    path = tmp_path / "export.json"
    path.write_text(plain if isinstance(plain, str) else json.dumps(plain))
    return path


def test_round_trip(queue: OpenQueue, answers: VerdictStore, tmp_path: Path) -> None:
    said = [
        HumanVerdict(
            "episode:toy/e0000",
            "ann@example.org",
            "annotator",
            "discard",
            2,
            "wrong\n<b>page</b>",
            3.25,
            1.7e9 + 0.125,
            "request-1",
        ),
        HumanVerdict("episode:toy/e0000", "bob", "annotator", "keep", None, "", 1.0, 1.7e9, "request-2"),
        HumanVerdict("episode:toy/e0001", "bob", "annotator", "unsure", None, "", 0.0, 1.7e9 + 5, "request-3"),
    ]
    path = tmp_path / "out" / "tasks.json"
    written = export_tasks(queue, said, path, "none", answers=True)
    assert written["tasks"] == 3 and written["annotations"] == 3
    read = import_tasks(path, queue, answers)
    assert read == Imported(answers=3, new=3, there_already=0, skipped_by_annotator=0)

    def plain(verdict: HumanVerdict) -> tuple[Any, ...]:
        return (
            verdict.item_id,
            verdict.annotator,
            verdict.decision,
            verdict.first_wrong_step,
            verdict.note,
            verdict.seconds,
            verdict.created,
        )

    assert sorted(map(plain, answers.verdicts())) == sorted(map(plain, said))
    assert import_tasks(path, queue, answers).new == 0  # the same file again


def test_tasks_hold_the_judge_and_the_interface_fits_them(queue: OpenQueue, tmp_path: Path) -> None:
    judged = OpenQueue({k: {**row, "score": 5} for k, row in queue.rows.items()}, queue.items, "1")
    export_tasks(judged, [], tmp_path / "tasks.json", "data")
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    assert [task["predictions"][0]["score"] for task in tasks] == [0.5] * 3
    assert GOAL in {task["data"]["goal"] for task in tasks}
    root = ET.parse(tmp_path / "tasks.xml").getroot()
    controls = {node.get("name") for node in root.iter() if node.get("toName")}
    assert {one["from_name"] for task in tasks for one in task["predictions"][0]["result"]} <= controls
    used = {
        node.get(name, "")[1:]
        for node in root.iter()
        for name in ("value", "valueList")
        if node.get(name, "").startswith("$")
    }
    assert all(used <= set(task["data"]) for task in tasks)  # Label Studio refuses tasks that lack one
    export_tasks(queue, [], tmp_path / "tasks.json", "none")
    assert all(not task["predictions"] for task in json.loads((tmp_path / "tasks.json").read_text()))


def test_pictures_as_data_and_as_files(queue: OpenQueue, tmp_path: Path) -> None:
    from PIL import Image

    export_tasks(queue, [], tmp_path / "tasks.json", "data")
    [uri, *others] = json.loads((tmp_path / "tasks.json").read_text())[0]["data"]["images"]
    head, _, body = uri.partition(",")
    assert head == "data:image/jpeg;base64" and len(others) == 2
    assert Image.open(io.BytesIO(base64.b64decode(body))).format == "JPEG"
    export_tasks(queue, [], tmp_path / "tasks.json", "files")
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    names = [name.partition("?d=")[2] for task in tasks for name in task["data"]["images"]]
    assert len(names) == 9 and all((tmp_path / name).is_file() for name in names)


def test_annotators_times_and_skipped_ones(queue: OpenQueue, answers: VerdictStore, tmp_path: Path) -> None:
    noise = {"from_name": "box", "type": "rectanglelabels", "value": {"x": 1}}
    step = {"from_name": "first_wrong_step", "to_name": "goal", "type": "number", "value": {"number": 3}}
    rows = [
        annotation(),
        annotation(completed_by={"id": 4, "email": "eve@example.org", "first_name": "<b>"}, was_cancelled=None),
        annotation(completed_by=11, was_cancelled=True, result=[]),
        annotation(
            completed_by=12,
            lead_time=None,
            updated_at=None,
            created_at=None,
            result=[*annotation()["result"], noise, step],
        ),
    ]
    assert import_tasks(write(tmp_path, exported(rows)), queue, answers).skipped_by_annotator == 1
    found = {one.annotator: one for one in answers.verdicts()}
    assert set(found) == {"label-studio-10", "eve@example.org", "label-studio-12"}
    assert found["label-studio-12"].first_wrong_step == 2 and found["label-studio-12"].created > 1.7e9
    assert found["label-studio-10"].created == pytest.approx(1773094568.728378)
    changed = annotation(
        result=[{**annotation()["result"][0], "value": {"choices": ["discard"]}}], updated_at="2026-03-10T00:00:00Z"
    )
    assert import_tasks(write(tmp_path, exported([changed])), queue, answers).new == 1
    assert {one.annotator: one.decision for one in answers.verdicts()}["label-studio-10"] == "discard"


def test_rows_of_json_min_are_the_same_answers(queue: OpenQueue, answers: VerdictStore, tmp_path: Path) -> None:
    """As Label Studio's own converter folds them: one value bare, several in their result, a number in a list."""
    step = {"from_name": "first_wrong_step", "type": "number", "value": {"number": 3}}
    notes = [{"from_name": "note", "type": "textarea", "value": {"text": text}} for text in (["a"], ["a", "b"])]
    found = [annotation(completed_by=n, result=[*annotation()["result"], step, note]) for n, note in enumerate(notes)]
    [task] = exported(found)
    kept = {key: found[0][key] for key in ("created_at", "updated_at", "lead_time")}
    rows = [
        {**task["data"], **kept, "id": 1, "annotation_id": 7 + n, "annotator": n, "note": note, "decision": "keep"}
        for n, note in enumerate(("a", {"text": ["a", "b"]}))
    ]
    folded = json.dumps([{**row, "first_wrong_step": [{"number": 3}]} for row in rows])
    assert import_tasks(write(tmp_path, "\ufeff" + folded), queue, answers).new == 2
    assert import_tasks(write(tmp_path, [task]), queue, answers) == Imported(2, 0, 2, 0)


def with_result(**more: Any) -> dict[str, Any]:
    return annotation(result=[{**annotation()["result"][0], **more}])


BAD: dict[str, Callable[[], Any]] = {
    "expected list, found dict": lambda: {"tasks": []},
    "Expecting value": lambda: "",
    "recursion": lambda: "[" * 100_000,
    "NaN is no JSON number": lambda: '[{"data": NaN}]',
    "task 1: expected dict": lambda: ["x"],
    "task 1: data: expected dict": lambda: [{"data": "x"}],
    "data.item_id: expected str": lambda: [{"data": {}}],
    "never in this review queue": lambda: [{"data": {"item_id": "episode:other/1", "content": "0", "steps": ""}}],
    "data.steps: expected str": lambda: [{"data": {"item_id": "episode:toy/e0001", "content": "0" * 64}}],
    "annotations: expected list": lambda: [{**exported([])[0], "annotations": {}}],
    "annotation 1: expected dict": lambda: exported([3]),  # type: ignore[list-item]
    "result: expected list": lambda: exported([annotation(result="x")]),
    "expected one choice of keep": lambda: exported([with_result(value={"choices": ["maybe"]})]),
    "of type choices": lambda: exported([with_result(type="rating")]),
    "decision once": lambda: exported([annotation(result=annotation()["result"] * 2)]),
    "completed_by: expected a user": lambda: exported([annotation(completed_by=None)]),
    "completed_by: annotator: expected": lambda: exported([annotation(completed_by="'; DROP TABLE verdicts; --")]),
    "lead_time: expected seconds": lambda: exported([annotation(lead_time="long")]),
    "updated_at: expected a time": lambda: exported([annotation(updated_at="yesterday")]),
    "first_wrong_step: expected a step from 1 to 3": lambda: exported(
        [
            annotation(
                result=[
                    *annotation()["result"],
                    {"from_name": "first_wrong_step", "type": "number", "value": {"number": 4}},
                ]
            )
        ]
    ),
    "note: expected str": lambda: exported(
        [
            annotation(
                result=[*annotation()["result"], {"from_name": "note", "type": "textarea", "value": {"text": [{}]}}]
            )
        ]
    ),
    "note: expected at most": lambda: exported(
        [
            annotation(
                result=[
                    *annotation()["result"],
                    {"from_name": "note", "type": "textarea", "value": {"text": ["n" * 5000]}},
                ]
            )
        ]
    ),
}


@pytest.mark.parametrize("told", BAD)
def test_hostile_files_are_refused_in_one_line_and_nothing_is_kept(
    queue: OpenQueue, answers: VerdictStore, tmp_path: Path, told: str
) -> None:
    plain = BAD[told]()
    if isinstance(plain, list) and plain != ["x"]:  # a good task before the bad one isn't kept either
        plain = [*exported([annotation(completed_by=99)]), *plain]
        told = told.replace("task 1", "task 2")
    with pytest.raises(ReviewError) as caught:
        import_tasks(write(tmp_path, plain), queue, answers)
    assert told in str(caught.value) and "\n" not in str(caught.value)
    assert answers.count() == 0


def test_a_file_that_is_not_there(queue: OpenQueue, answers: VerdictStore, tmp_path: Path) -> None:
    with pytest.raises(ReviewError, match="found no file"):
        import_tasks(tmp_path / "none.json", queue, answers)
    (tmp_path / "latin.json").write_bytes(b"[\xff]")
    with pytest.raises(ReviewError, match="latin.json"):
        import_tasks(tmp_path / "latin.json", queue, answers)


def test_what_was_annotated_before_the_queue_was_drawn_again_is_taken(tmp_path: Path) -> None:
    """Two of six items are queued; the next draw, with another seed, holds others: no answer is lost."""
    store = Store(goldmaker.gold(tmp_path / "home", count=6, instructions=[f"task {n}" for n in range(6)]).home)
    build_queue(store, ["toy"], QueueConfig(size=2, seed=1))
    before = open_queue(store)
    export_tasks(before, [], tmp_path / "tasks.json", "none")
    seeds = (build_queue(store, ["toy"], QueueConfig(size=2, seed=seed)) and open_queue(store) for seed in range(2, 30))
    now = next(queue for queue in seeds if not queue.items.keys() & before.items.keys())
    tasks = json.loads((tmp_path / "tasks.json").read_text())
    step = {"from_name": "first_wrong_step", "type": "number", "value": {"number": 3}}
    for task in tasks:
        task["annotations"] = [annotation(result=[*annotation()["result"], step])]
    answers = VerdictStore(tmp_path / "review.sqlite")
    read = import_tasks(write(tmp_path, tasks), now, answers, ever_queued(store))
    assert (read.answers, read.new, read.gone) == (2, 2, tuple(sorted(before.items)))
    said = {one.item_id: one.content for one in answers.verdicts()}
    earlier = open_earlier(store, said)  # as promoting reads them
    assert {item_id for queue in earlier for item_id in queue.items} == set(before.items)
    assert import_tasks(tmp_path / "export.json", now, answers, ever_queued(store)).new == 0
    step["value"] = {"number": 99}
    with pytest.raises(ReviewError, match="expected a step from 1 to 3"):
        import_tasks(write(tmp_path, tasks), now, answers, ever_queued(store))
