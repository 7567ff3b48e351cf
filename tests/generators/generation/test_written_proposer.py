"""Tasks that a model writes whole: which are read, and which a desktop shows to be decided rightly."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.written_tasks import KINDS, plain_of, spoilt
from generators.generation.proposing.catalogue import Catalogue
from generators.generation.proposing.written_proposer import WrittenTaskProposer, writable
from generators.generation.task_worlds.registry import open_task_world
from generators.worlds.desktop.desktop_task import failed_checks, sha256_of
from generators.worlds.desktop.sealing import why_not_sealed
from generators.worlds.desktop.session import find_base_missing
from generators.worlds.desktop.written_tasks import FIELDS, read_task, written_form
from quality.model_client.client import ModelClient
from quality.model_client.retry import Retry
from tests.support.scripted_judge import Question, ScriptedJudge

UNREADABLE = ("reads outside", "raises", "code", "without end", "depends on the time", "opens a terminal")
SOUND = {
    "goal": "Replace everything in the open memo by the one line “Ada is ill” and save it.",
    "start": {"program": "mousepad", "files": {"memo.txt": "x\n", "other.txt": "y\n"}, "open": "memo.txt"},
    "checks": [{"check": "file", "path": "memo.txt", "text": "Ada is ill\n"}],
    "plan": [["key", "ctrl", "a"], ["type", "Ada is ill\n"], ["key", "ctrl", "s"]],
    "near_miss": [["type", "Ada is ill\n"], ["key", "ctrl", "s"]],
}


def written(**changed: object) -> dict[str, str]:
    plain = {**SOUND, **changed}
    return {field: str(plain[field]) if field == "goal" else json.dumps(plain[field]) for field in FIELDS}


def test_what_is_written_is_read_as_a_task_whose_other_files_must_stay() -> None:
    made = read_task("memo", written())
    held = [{"path": path, "text": text, "sha256": sha256_of(text)} for path, text in SOUND["start"]["files"].items()]
    done = {"path": "memo.txt", "text": "Ada is ill\n", "sha256": ""}
    state = {"files": held, "window": {}}
    assert failed_checks(made.evaluator(), state)
    assert failed_checks(made.evaluator(), {**state, "files": [done, held[1]]}) == []
    assert failed_checks(made.evaluator(), {**state, "files": [done]}), "the other file is gone"
    assert made.contract().target == "desktop/mousepad" and made.expected_steps == 3


def test_tasks_of_this_tree_come_back_as_they_were_written() -> None:
    for made in writable():
        again = read_task(made.name, written_form(made))
        assert (again.goal, again.start, again.plan) == (made.goal, made.start, made.plan)
        assert plain_of(again) == plain_of(made)


@pytest.mark.parametrize("kind", UNREADABLE)
def test_what_is_no_data_of_the_form_is_refused_before_anything_is_carried_out(kind: str) -> None:
    for one in spoilt(kind, 12):
        with pytest.raises(ValueError, match="expected"):
            read_task(kind, one)
    assert set(UNREADABLE) < set(KINDS)


@given(st.sampled_from(FIELDS[1:]), st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists))
def test_nothing_that_is_written_breaks_the_reading(field: str, odd: Any) -> None:
    for value in (odd, [odd], {"check": odd}, [{"check": "file", "path": "a", "text": odd}], [["key", odd]]):
        try:
            read_task("odd", written(**{field: value}))
        except ValueError as error:
            assert len(str(error)) < 800


@pytest.mark.slow(seconds=30)
@pytest.mark.real_parts
@pytest.mark.skipif(bool(find_base_missing() or why_not_sealed()), reason="no desktop can be sealed off here")
def test_of_what_a_model_writes_only_what_is_decided_rightly_is_proposed(tmp_path: Path) -> None:
    weak = [{"check": "has", "path": "other.txt", "lines": ["y"]}]
    answers = [
        written(),
        written(goal="Do nothing at all."),
        written(checks=weak),
        written(start={"program": "terminal"}),
    ]
    answers[1]["checks"] = json.dumps([{"check": "file", "path": "memo.txt", "text": "something else\n"}])

    def script(question: Question) -> Mapping[str, Any]:
        assert question.blocks["knowledge"]["examples"], "the model is shown tasks of this tree"
        return answers[min(len(server.questions), len(answers)) - 1]

    task_world = open_task_world("desktop", 100)
    with ScriptedJudge(script) as server:
        client = ModelClient(server.url, "m", tmp_path, retry=Retry(attempts=1))
        proposer = WrittenTaskProposer(task_world, Catalogue(), client)
        [found] = proposer.propose("desktop/mousepad", "easy", Random(0))
        client.close()
    assert found.contract.instruction == SOUND["goal"] and found.arm == "written"
    reasons = ("start.program: expected data of the form", "the plan doesn't reach the goal", "its goal holds")
    assert proposer.refused.total() == 3
    assert all(any(said.startswith(reason) for said in proposer.refused) for reason in reasons), proposer.refused
