"""Runs in the folders of WebVoyager's harness, decided by a model on loopback that sees screenshot and answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dagster_project import cli
from tests.support.native_benchmarks import png
from tests.support.scripted_judge import Question, ScriptedJudge
from trainer.online.success import ENDPOINT
from trainer.suites.webvoyager import tasks_of

TASKS = {
    "Amazon--0": "Find a green controller.",
    "Amazon--1": "Find a lamp.",
    "ArXiv--2": "Count papers.",
    "ESPN--3": "Who won?",
    "GitHub--4": "How many stars?",
    "GitHub--5": "Who made it?",
}


@pytest.fixture
def task_file(tmp_path: Path) -> Path:
    rows = [
        {"web_name": name.partition("--")[0], "id": name, "ques": words, "web": "https://a.example/"}
        for name, words in TASKS.items()
    ]
    path = tmp_path / "WebVoyager_data.jsonl"
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows) + "\n")
    return path


def wrote(folder: Path, task: str, last: str, shots: int = 2) -> None:
    """What the harness leaves of a run."""
    place = folder / "20240101" / f"task{task}"
    place.mkdir(parents=True)
    replies = ["Thought: x\n\nAction: Click [2]", last]
    told = [
        {"role": "user", "content": "Now given a task"},
        *({"role": "assistant", "content": one} for one in replies),
    ]
    (place / "interact_messages.json").write_text(json.dumps(told))
    for number in range(1, shots + 1):
        (place / f"screenshot{number}.png").write_bytes(png(8 + number, 8))
        (place / f"screenshot{number}_no_box.png").write_bytes(b"not this one")


def test_runs_are_decided_by_the_last_screenshot_and_the_answer(
    tmp_path: Path, task_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = tmp_path / "results"
    wrote(runs, "Amazon--0", "Action: ANSWER; [The green one, 4.7 stars]", shots=11)
    wrote(runs, "Amazon--1", "Action: ANSWER; There is no lamp.")
    wrote(runs, "ArXiv--2", "Thought: ANSWER it later\n\nAction: Wait")
    wrote(runs, "ESPN--3", "Action: ANSWER; Nobody", shots=0)
    broken = runs / "taskGitHub--4"
    broken.mkdir()
    (broken / "interact_messages.json").write_text("[[]]")

    def script(question: Question) -> Mapping[str, Any]:
        assert question.pictures == 1
        right = question.blocks["answer"] == "The green one, 4.7 stars"
        return {"success": "yes" if right else "no", "confidence": 9, "reason": "seen"}

    with ScriptedJudge(script) as server:
        monkeypatch.setenv(ENDPOINT, server.url)
        out = tmp_path / "report.json"
        asked = ["eval", "recorded", str(runs), "--webvoyager", str(task_file), "--judge", "eyes", "--out", str(out)]
        assert cli.main(asked) == 0
        assert [question.blocks["goal"] for question in server.questions] == [*TASKS.values()][:2]
    report = json.loads(out.read_text())
    assert [(one["task"], one["score"]) for one in report["records"]] == [
        *zip(TASKS, (1.0, 0.0, 0.0, None, None), strict=False)
    ]
    assert report["success"]["mean"] == pytest.approx(1 / 3) and report["by_domain"]["Amazon"]["mean"] == 0.5
    assert report["not_counted"] == {"no replies that can be read": 1, "no screenshot": 1}
    assert report["not_played"] == {"GitHub": 1} and "no run of GitHub 1" in capsys.readouterr().out


def test_a_file_that_is_none_is_told_by_its_line(task_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [task.id for task in tasks_of(task_file)] == [*TASKS]
    assert cli.main(["eval", "recorded", "nowhere", "--webvoyager", str(task_file)]) == 2
    assert "--judge" in capsys.readouterr().err
    for odd in ('{"id": "a"}', "[]", '{"id": 1, "web_name": "a", "ques": "b", "web": "c"}', "{", "[" * 9999):
        task_file.write_text(f'{{"id": "a", "web_name": "a", "ques": "b", "web": "c"}}\n{odd}\n')
        with pytest.raises(ValueError, match=r"line 2: expected texts id, web_name, ques, web"):
            tasks_of(task_file)
