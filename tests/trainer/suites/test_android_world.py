"""AndroidWorld: our actions in its words, our view of its state, its own verdict; by stand-ins of its interface."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from generators.policies.policy import Decision, PolicyView
from schemas import action_types
from schemas.actions import Action, format
from trainer.suites.android_world import (
    MISSING,
    AndroidWorldConfig,
    HarnessAgent,
    about_tasks,
    record_of,
    run_android_world,
    summarise,
)


@dataclass
class JSONAction:
    """The fields of the harness' class; it refuses what that refuses."""

    action_type: str
    x: int | None = None
    y: int | None = None
    text: str | None = None
    direction: str | None = None
    app_name: str | None = None

    def plain(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if value is not None}


@dataclass
class Env:
    """The harness' `AsyncEnv`: a landscape screen of 2400 x 1080, its picture drawn smaller."""

    logical_screen_size: tuple[int, int] = (2400, 1080)
    done: list[Any] = field(default_factory=list)
    controller: str = "controller"

    def get_state(self, wait_to_stabilize: bool = False) -> Any:
        pixels = np.zeros((108, 240, 3), np.uint8)
        pixels[:, :120, 0] = 255  # the left half is red
        return SimpleNamespace(pixels=pixels, forest=None, ui_elements=[])

    def reset(self, go_home: bool = False) -> Any:
        self.done.append(("reset", go_home))

    def execute_action(self, action: JSONAction) -> None:
        if action.app_name == "nonesuch":
            raise ValueError("no such app")
        self.done.append(action.plain())

    def close(self) -> None:
        self.done.append("closed")


class Says:
    """A policy of set replies."""

    name, needs_tree = "says", False

    def __init__(self, *actions: Action | None) -> None:
        self._actions = list(actions)
        self.views: list[PolicyView] = []
        self.begun: list[tuple[str, str, int]] = []

    def begin(self, goal: str, platform: str, seed: int) -> None:
        self.begun.append((goal, platform, seed))

    def decide(self, view: PolicyView) -> Decision:
        self.views.append(view)
        action = self._actions[len(view.past)]
        return Decision(format(action) if action else "hm", action)


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch) -> Env:
    """The modules of the harness that are asked for, as its documentation has them; episodes of one task."""
    env = Env()
    adb = SimpleNamespace(
        type_text=lambda text, controller, timeout_sec: env.done.append(("type", text)),
        generate_swipe_command=lambda x1, y1, x2, y2, ms: f"shell input swipe {x1} {y1} {x2} {y2} {ms}",
        issue_generic_request=lambda command, controller: env.done.append(command),
    )

    def run(suite: Any, agent: Any, checkpointer: Any, demo_mode: bool = False) -> list[dict[str, Any]]:
        assert Path(checkpointer).is_dir() and not agent.output_path
        found = []
        for name, goals in suite.items():
            for instance, goal in enumerate(goals):
                agent.reset(go_home=True)
                agent.set_max_steps(4)
                steps = [agent.step(goal)]
                while not steps[-1].done and len(steps) < 4:
                    steps.append(agent.step(goal))
                found.append(
                    {
                        "task_template": name,
                        "instance_id": instance,
                        "goal": goal,
                        "exception_info": None,
                        "is_successful": float(steps[-1].done),
                        "episode_length": len(steps),
                    }
                )
        broken = {
            "task_template": "Broken",
            "instance_id": 0,
            "goal": "",
            "is_successful": float("nan"),
            "exception_info": "Traceback\nRuntimeError: no emulator",
            "episode_length": None,
        }
        return [*found, broken]

    class Suite(dict):  # type: ignore[type-arg]
        suite_family = ""

    def create_suite(tasks_by_name: Any, n_task_combinations: int, seed: int, tasks: Any, env: Any = None) -> Suite:
        chosen = tasks or tasks_by_name
        return Suite({name: [f"{name} {i}" for i in range(n_task_combinations)] for name in chosen})

    modules = {
        "android_world": {},
        "android_world.env": {},
        "android_world.env.adb_utils": vars(adb),
        "android_world.env.json_action": {"JSONAction": JSONAction},
        "android_world.env.env_launcher": {"load_and_setup_env": lambda **given: env},
        "android_world.registry": {"TaskRegistry": lambda: SimpleNamespace(get_registry=lambda family: ["A", "B"])},
        "android_world.suite_utils": {"create_suite": create_suite, "run": run},
        "android_world.checkpointer": {"IncrementalCheckpointer": lambda folder: folder},
    }
    for name, members in modules.items():
        module = ModuleType(name)
        module.__dict__.update(members)
        module.__spec__ = ModuleSpec(name, None)
        monkeypatch.setitem(sys.modules, name, module)
        parent, _, last = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], last, module)
    return env


EXPECTED: list[tuple[Action, Any]] = [
    (action_types.Click((500, 1000)), {"action_type": "click", "x": 1200, "y": 1079}),  # inside the screen
    (action_types.LongPress((0, 0)), {"action_type": "long_press", "x": 0, "y": 0}),
    (action_types.DoubleClick((250, 500)), {"action_type": "double_tap", "x": 600, "y": 540}),
    (action_types.Scroll(direction="down"), {"action_type": "scroll", "direction": "down"}),
    (action_types.Scroll((500, 700), (500, 300)), "shell input swipe 1200 756 1200 324 500"),
    (action_types.Drag((0, 0), (1000, 1000)), "shell input swipe 0 0 2399 1079 1500"),
    (action_types.Type("a b'; rm -rf /"), ("type", "a b'; rm -rf /")),
    (action_types.Launch(app="Clock"), {"action_type": "open_app", "app_name": "Clock"}),
    (action_types.Wait(), {"action_type": "wait"}),
    (action_types.PressBack(), {"action_type": "navigate_back"}),
    (action_types.PressHome(), {"action_type": "navigate_home"}),
    (action_types.PressEnter(), {"action_type": "keyboard_enter"}),
    (action_types.PressRecent(), "shell input keyevent KEYCODE_APP_SWITCH"),
]


def test_every_action_in_the_harness_words(harness: Env) -> None:
    for action, expected in EXPECTED:
        agent = HarnessAgent(harness, Says(action))
        result = agent.step("x")
        assert harness.done[-1] == expected and not result.done and result.data["error"] == "", action
    before = len(harness.done)
    for action in (
        action_types.Hover((1, 1)),
        action_types.Hotkey(("ctrl", "c")),
        action_types.Launch(url="https://example.org"),
    ):
        result = HarnessAgent(harness, Says(action)).step("x")
        assert "a phone" in result.data["error"] and not result.done
    refused = HarnessAgent(harness, Says(action_types.Launch(app="nonesuch"))).step("x")
    assert refused.data["error"] == "the harness refused it: no such app" and len(harness.done) == before


def test_the_end_is_the_agents_word_and_an_answer_is_passed_on(harness: Env) -> None:
    finished = HarnessAgent(harness, Says(action_types.Finished())).step("x")
    assert finished.done and harness.done == []
    assert HarnessAgent(harness, Says(action_types.CallUser("seven"))).step("x").done
    assert harness.done == [{"action_type": "answer", "text": "seven"}]


def test_the_view_is_the_screen_and_the_past(harness: Env) -> None:
    policy = Says(action_types.Click((1, 1)), None, action_types.Finished())
    agent = HarnessAgent(harness, policy, seed=4)
    for _ in range(3):
        agent.step("find it")
    assert policy.begun == [("find it", "mobile", 4)]
    view = policy.views[-1]
    assert view.size_px == (240, 108) and [said.action for said in view.past] == [action_types.Click((1, 1)), None]
    with Image.open(io.BytesIO(view.png)) as picture:
        assert picture.size == (240, 108) and picture.getpixel((10, 10)) == (255, 0, 0)
    agent.reset()
    agent.step("another")
    assert policy.views[-1].past == () and policy.begun[-1][0] == "another"


def test_unreadable_replies_end_it_as_not_done(harness: Env) -> None:
    policy = Says(None, None, None)
    agent = HarnessAgent(harness, policy)
    results = [agent.step("x") for _ in range(5)]
    assert [r.done for r in results] == [False] * 5 and len(policy.views) == 3  # it isn't asked any more
    assert results[2].data["error"] == "3 unreadable replies in a row" and results[4].data["error"] == "given up"


def test_the_harness_runs_and_its_verdict_is_told(harness: Env) -> None:
    report = run_android_world(
        Says(action_types.Click((1, 1)), action_types.Finished()), AndroidWorldConfig(n_task_combinations=2)
    )
    assert [(r["task"], r["success"]) for r in report["records"]] == [
        ("A", 1.0),
        ("A", 1.0),
        ("B", 1.0),
        ("B", 1.0),
        ("Broken", None),
    ]
    assert report["summary"]["success"]["mean"] == 1.0 and report["summary"]["success"]["clusters"] == 2
    assert report["summary"]["not_counted"] == 1 and report["summary"]["why"] == ["RuntimeError: no emulator"]
    assert harness.done[-1] == "closed"
    lazy = run_android_world(Says(*[action_types.Wait()] * 4), AndroidWorldConfig(tasks=("B",)))
    assert lazy["summary"]["by_task"] == {"B": 0.0}
    assert summarise([record_of({"task_template": "T", "is_successful": 0.4})])["success"]["mean"] == 0.0


def test_venusbench_mobile_has_rounds_and_numb_screens(harness: Env) -> None:
    """Its `run_episode` gives each round's goal to the same agent, and takes its end as the round's."""
    policy = Says(action_types.Click((500, 500)), action_types.CallUser("one"), action_types.Finished())
    agent = HarnessAgent(harness, policy)
    assert not agent.step("first", True).done and harness.done == [], "a numb screen feels nothing"
    assert agent.step("first", False).done and harness.done == [{"action_type": "answer", "text": "one"}]
    assert agent.step("second", True).done, "who is done is done"
    assert [view.goal for view in policy.views] == ["first", "first", "second"]
    assert [len(view.past) for view in policy.views] == [0, 1, 2], "what was done in earlier rounds is remembered"
    assert agent.get_post_transition_state().pixels.shape == (108, 240, 3)


def test_what_the_harness_says_of_its_tasks_is_counted_by(
    harness: Env, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The list beside the package, as VenusBench-Mobile's: tags, a difficulty, abilities; variants have none of it."""
    said = {"tags": ["GSA"], "app": ["clock"], "difficulty": "easy", "ability": {"p": 4, "u": 2}}
    variant = {"tags": [], "app": [], "difficulty": ""}
    (tmp_path / "task_metadata.json").write_text(
        json.dumps([{"task_name": "A", **said}, {"task_name": "ACHS", **variant}, {"task_name": "B", "tags": [""]}])
    )
    spec = ModuleSpec("android_world", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    monkeypatch.setattr(sys.modules["android_world"], "__spec__", spec)
    report = run_android_world(
        Says(action_types.Finished()), AndroidWorldConfig(suite_family="venus", tasks=("A", "ACHS", "B"))
    )
    summary = report["summary"]
    assert report["config"]["suite_family"] == "venus" and summary["success"]["n"] == 2
    assert summary["variants"]["n"] == 1 and set(summary["by_task"]) == {"A", "ACHS", "B"}
    assert {kind: list(of) for kind, of in summary["by"].items()} == {
        "tag": ["GSA"],
        "difficulty": ["easy"],
        "perception": ["4"],
        "understanding": ["2"],
    }
    assert "variants" not in summarise(report["records"]) and about_tasks()["A"]["ability"]["p"] == 4


def test_a_missing_harness_is_told_in_one_line() -> None:
    with pytest.raises(ImportError, match="isn't installed") as told:
        run_android_world(Says())
    assert str(told.value) == MISSING and "\n" not in MISSING
