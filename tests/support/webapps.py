"""What the tests of all web apps share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

import pytest

from generators.devices.browser import BrowserMissing, find_chromium
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import UnsupportedAction, World
from generators.worlds.evaluators import holds
from generators.worlds.webapps.server import AppMissing
from generators.worlds.webapps.web_app_task import AppTask, steps
from generators.worlds.webapps.web_app_world import WebAppWorld
from schemas.actions import CallUser, Launch, PressBack, PressHome


def open_or_skip(opened: Callable[[], AbstractContextManager[WebAppWorld]]) -> Iterator[WebAppWorld]:
    """An open world, or a skip that says what is missing."""
    try:
        find_chromium()
        with opened() as world:
            yield world
    except (BrowserMissing, AppMissing) as missing:
        pytest.skip(str(missing))


def check_tasks(world: WebAppWorld, tasks: Sequence[AppTask]) -> None:
    """Every plan reaches its goal with its last step and not before, and not where other data changed too."""
    assert len(tasks) == len({task.name for task in tasks}) == 10
    for task in tasks:
        contract = TaskSpec.from_row(task.as_row())
        assert contract.world == task.app and contract.expected_steps == len(task.plan)
        answer, count = "", 0
        for action in steps(task, world):
            count += 1
            if count in (1, len(task.plan)):
                assert not holds(contract.evaluator, world.state(), answer), f"{task.name}: done before step {count}"
            answer = action.content if isinstance(action, CallUser) else answer
        state = world.state()
        assert count == len(task.plan)
        assert holds(contract.evaluator, state, answer), task.name
        state["data"][next(iter(state["data"]))]["other"] = {}
        assert not holds(contract.evaluator, state, answer), task.name


def check_snapshot(world: WebAppWorld, task: AppTask) -> None:
    """What a task changed is gone after a reset: the same picture, elements and truth."""
    world.reset(task.start)
    first, truth = world.observe(), world.state()
    assert world.name == task.app and world.size_px == (1280, 800) and first.png.startswith(b"\x89PNG")
    for _ in steps(task, world):
        pass
    assert world.state() != truth
    world.reset(task.start)
    assert world.observe() == first and world.state() == truth
    other = {**task.start, "seed": int(task.start["seed"]) + 1}
    world.reset(other)
    assert world.state()["data"] != truth["data"]


def check_leaving(world: WebAppWorld, page: str) -> None:
    """Nothing leads out of the app, back leads back, and what a page doesn't have is refused."""
    assert isinstance(world, World)
    world.reset({"page": page})
    here = world.path
    assert here.startswith(page)
    for away in ("https://example.org/", "file:///etc/passwd", "//example.org/", "javascript:alert(1)", "http://[news"):
        world.act(Launch(url=away))
        assert world.path == here, away
    world.act(PressBack())
    assert world.path == here
    world.act(Launch(url="/"))
    assert world.path == "/"
    world.act(PressBack())
    assert world.path == here
    with pytest.raises(UnsupportedAction, match="PressHome"):
        world.act(PressHome())
