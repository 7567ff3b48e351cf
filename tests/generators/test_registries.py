"""Every world of the registry opens, resets from a task of its own, and its rule tells what isn't done from what is."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any

import pytest

from generators.generation.functional_maps import Attempts, MapConfig, proven_tasks
from generators.tasks.world_interface import World, WorldError
from generators.worlds.evaluators import RULES, holds
from generators.worlds.registry import WORLDS, open_world
from schemas.actions import CallUser, Hotkey

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("shared_chromium")]


@dataclass(frozen=True)
class Example:
    """A task of a world, and what does it on the open world."""

    start: dict[str, Any]
    evaluator: dict[str, Any]
    do: Callable[[Any], object]


def phone() -> Example:
    from generators.worlds.phone.phone_tasks import make_task
    from generators.worlds.phone.plan import perform

    task = next(t for seed in range(60, 70) if (t := make_task("calendar.ask", seed)))
    return Example(task.start, task.evaluator(), lambda world: perform(world, task.plan))


def fsm() -> Example:
    from generators.worlds.fsm.fsm_tasks import TaskMaker
    from generators.worlds.fsm.sites import make_site

    task = next(TaskMaker(make_site("streaming", 5)).tasks(1))
    return Example(task.start, task.rule, lambda world: [world.act(action) for action in task.path])


def pages(kind: str) -> Example:
    from generators.proving.judge_bench.recorders.own_pages import PageOracle, task_of

    config = MapConfig(page_platforms=(kind,), families=("todo.tick",))
    row = next(proven_tasks(config, Attempts()))

    def do(world: Any) -> None:
        task = task_of("todo.tick", world.state(), row["instruction"])
        assert task is not None, "the start shows another screen than the one the task was made on"
        if world.state()["app"] != "todo":  # it begins outside the app
            from dataclasses import replace

            task = replace(task, entry=True)
        PageOracle(world, row["instruction"], Random(0)).run(task, by_name=False)

    return Example(row["initial_state"], row["evaluator"], do)


def miniwob() -> Example:
    from generators.proving.judge_bench.recorders.miniwob_tasks import record_one

    row = next(proven_tasks(MapConfig(page_seeds=0, families=("click-link",)), Attempts()))

    def do(world: Any) -> None:
        trace = record_one(world, "click-link", row["initial_state"]["seed"])
        assert trace is not None and trace.goal == row["instruction"]

    return Example(row["initial_state"], row["evaluator"], do)


def care(family: str) -> Example:
    from generators.proving.care_bench import inner_care, played
    from generators.worlds.care.care_cases import make_case

    case = make_case(family, 1, "yes")
    assert case is not None
    task = case.contract()
    return Example(
        dict(task.initial_state), dict(task.evaluator), lambda world: played(inner_care(world), case, "careful")
    )


def desktop() -> Example:
    from generators.worlds.desktop.desktop_tasks import TASKS
    from generators.worlds.desktop.plan import perform

    return Example(TASKS[0].start, TASKS[0].evaluator(), lambda world: perform(TASKS[0], world))


def osworld() -> Example:
    from generators.worlds.desktop.plan import IntentPerformer
    from generators.worlds.osworld.osworld_tasks import read_folder
    from tests.support.osworld_solutions import SOLUTIONS

    name = "6a08-either-place"
    [task] = read_folder(Path(__file__).parents[1] / "fixtures" / "osworld", [name]).playable

    def do(world: Any) -> None:
        world.reset(task.initial_state)
        performer = IntentPerformer(world)
        for intent in SOLUTIONS[name][0]:
            performer.do(intent)

    return Example(dict(task.initial_state), dict(task.evaluator), do)


def graph() -> Example:
    from generators.worlds.graph.graph_tasks import plan, tasks
    from generators.worlds.webapps.web_app_task import action_of

    task = tasks(0)[2]

    def do(world: Any) -> None:
        for intent in plan(task):
            world.act(action_of(intent, world.observe().elements))

    return Example(dict(task.initial_state), dict(task.evaluator), do)


def web_app(name: str) -> Example:
    """The first of an app's tasks that asks for no answer."""
    from generators.worlds.webapps.web_app_task import perform

    tasks = import_module(f"generators.worlds.webapps.{name}.{name}_tasks").make_tasks(0)
    task = next(task for task in tasks if all(intent[0] != "answer" for intent in task.plan))
    return Example(dict(task.start), task.evaluator(), lambda world: perform(task, world))


EXAMPLES: dict[str, Callable[[], Example]] = {
    "phone": phone,
    "fsm": fsm,
    "pages/phone": lambda: pages("phone"),
    "pages/desktop": lambda: pages("desktop"),
    "pages/web": lambda: pages("web"),
    "miniwob": miniwob,
    "desktop": desktop,
    "graph": graph,
    "osworld": osworld,
    "care/phone": lambda: care("phone.disclose"),
    "care/web": lambda: care("web.papers"),
    "care/computer": lambda: care("computer.publish"),
}
"""A new world's example goes here; a web app's are in `webapps.<name>.tasks`."""
STRICT = ("phone", "fsm", "pages/phone", "pages/desktop", "pages/web", "miniwob", "care/phone", "care/web")
"""Worlds that refuse a start of another world; the others ignore its entry "world"."""
KEYED = ("fsm", "pages/phone", "pages/desktop", "pages/web", "miniwob", "datasette", "django_admin", "dagster_ui")
"""Worlds in a browser that take any key."""


SLOW = {"dagster_ui": "VESPER_TEST_DAGSTER_UI"}
"""Worlds that take a minute to open: they are where this variable is 1."""


@contextmanager
def opened(name: str) -> Iterator[World]:
    from generators.devices.browser import BrowserMissing
    from generators.worlds.desktop.session import DesktopMissing
    from generators.worlds.webapps.server import AppMissing

    if name in SLOW and os.environ.get(SLOW[name]) != "1":
        pytest.skip(f"set {SLOW[name]}=1")
    try:
        with open_world(name) as world:
            yield world
    except (AppMissing, BrowserMissing, DesktopMissing) as missing:
        pytest.skip(str(missing))


@pytest.mark.parametrize("name", WORLDS)
def test_a_world_resets_from_a_task_and_its_rule_holds_only_after_the_plan(name: str) -> None:
    example = EXAMPLES[name]() if name in EXAMPLES else web_app(name)
    assert example.start["world"] == name and example.evaluator["rule"] in RULES
    with opened(name) as world:
        assert isinstance(world, World)
        assert (world.name, world.platform) == (name, WORLDS[name].platform)
        world.reset(example.start)
        first = world.state()
        assert not holds(example.evaluator, first, getattr(world, "answer", ""))
        example.do(world)
        assert holds(example.evaluator, world.state(), getattr(world, "answer", ""))
        world.act(CallUser("I don't know"))  # every world takes an answer
        world.reset(example.start)
        assert world.state() == first and world.observe().elements
        if name in KEYED:
            world.act(Hotkey(("Tab",)))
            with pytest.raises(WorldError, match="no key is named 'nonsense'"):
                world.act(Hotkey(("nonsense",)))
        if name in STRICT:
            with pytest.raises(WorldError, match="expected a start of this world, found one of 'elsewhere'"):
                world.reset({**example.start, "world": "elsewhere"})


def test_unknown_names_and_unreadable_rules_are_errors() -> None:
    with pytest.raises(ValueError, match="unknown name 'mars'; known are .*fsm.*phone"):
        open_world("mars")
    with pytest.raises(ValueError, match="unknown rule 'eval'; known are phone_state"):
        holds({"rule": "eval"}, {})
    with pytest.raises(ValueError, match="unknown rule"):
        holds({"rule": ["phone_state"]}, {})
    for rule in RULES:
        with pytest.raises(ValueError):
            holds({"rule": rule}, {})


def test_a_reward_counts_only_from_what_the_task_asks() -> None:
    rule = {"rule": "miniwob_raw_reward", "at_least": 1}
    assert [holds(rule, {"reward": reward}) for reward in (None, -1, 0.99, 1.0)] == [False, False, False, True]
    assert not holds({"rule": "page_state", "checks": []}, {"a": 1})  # a task without checks is never done
