"""Real programs on a real desktop: plans reach their goals by the rules, and the rules refuse what isn't done."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from generators.daas.device import Endpoint
from generators.environments.desktop.tasks import TASKS, DesktopTask, failed_checks, perform
from generators.environments.desktop.world import DesktopWorld
from generators.environments.world import World, WorldError


@pytest.fixture(scope="module")
def world(desktop: Endpoint) -> Iterator[DesktopWorld]:
    with DesktopWorld(desktop) as opened:
        yield opened


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_plan_fulfils_rule_and_doing_nothing_does_not(world: DesktopWorld, task: DesktopTask) -> None:
    world.reset(task.start)
    assert failed_checks(task.evaluator(), world.state(), world.answer)
    perform(task, world)
    assert failed_checks(task.evaluator(), world.state(), world.answer) == []


def test_reset_gives_a_fresh_home(world: DesktopWorld) -> None:
    assert isinstance(world, World)
    start: dict[str, Any] = {"program": "mousepad", "files": {"a/b.txt": "one"}, "open": "a/b.txt"}
    world.reset({**start, "files": {**start["files"], "other.txt": "x"}})
    world.reset(start)
    assert [(file["path"], file["text"]) for file in world.state()["files"]] == [("a/b.txt", "one")]
    assert world.state()["window"]["app"] == "mousepad"


@pytest.mark.parametrize("path", ["../out.txt", "/etc/passwd", "a/../../b", "", ".disposable-home"])
def test_files_stay_inside_the_home(world: DesktopWorld, path: str) -> None:
    with pytest.raises(WorldError, match="inside the home folder"):
        world.reset({"program": "galculator", "files": {path: "x"}})


def test_a_start_without_a_program_is_refused(world: DesktopWorld) -> None:
    with pytest.raises(WorldError, match="name of a program"):
        world.reset({"files": {}})
    with pytest.raises(WorldError, match="no program named 'rm -rf"):
        world.reset({"program": "rm -rf /"})


@pytest.mark.parametrize("kind", ["file", "untouched", "window", "answer"])
def test_every_kind_of_check_can_fail(kind: str) -> None:
    check = {"check": kind, "path": "a", "text": "1", "sha256": "0", "app": "x", "role": "text", "is": "1"}
    state = {"files": [{"path": "a", "text": "2", "sha256": "9"}], "window": {"app": "x", "texts": []}}
    assert len(failed_checks({"rule": "desktop_state", "checks": [check]}, state, "2")) == 1


def test_unknown_rules_and_checks_are_errors() -> None:
    with pytest.raises(ValueError, match="expected the rule 'desktop_state'"):
        failed_checks({"rule": "other", "checks": []}, {})
    with pytest.raises(ValueError, match="unknown check 'magic'"):
        failed_checks({"rule": "desktop_state", "checks": [{"check": "magic"}]}, {"files": [], "window": {}})
