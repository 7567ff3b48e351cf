"""AndroidWorld by its own harness: its tasks, its initialisation and its checks; ours are the agent's eyes and hands.
So is VenusBench-Mobile, whose harness is a fork of that one with another family of tasks.

The harness (package `android_world`, an emulator with its apps) isn't a dependency; where it is missing one line says
so. `HarnessAgent` speaks its agent interface: `reset`, `set_max_steps`, `step(goal)` → `.done` and `.data`. Coordinates
go from 0..1000 to pixels of the logical screen. Two things go past the harness' `JSONAction` to its `adb_utils`, since
it can't say them: typing without a tap before and an Enter after, and strokes from point to point. Success is the
harness' own: the task's check, and the agent must have said that it is done.
"""

import io
import json
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from generators.policies.policy import PastTurn, Policy, PolicyView
from schemas import action_types
from schemas.actions import Action, Point, format
from trainer.statistics import interval

MISSING = (
    "AndroidWorld isn't installed: expected the package android_world, found none; install it from "
    "https://github.com/google-research/android_world in an environment of its own, start its emulator, and run this "
    "there; VenusBench-Mobile is the fork of it in the branch of that name of https://github.com/inclusionAI/UI-Venus"
)
ABILITIES = {"p": "perception", "u": "understanding", "d": "decision", "a": "action", "m": "memory"}
"""What VenusBench-Mobile says that a task asks of an agent, each from 1 to 4."""
# milliseconds that a finger takes from point to point; Android takes slow strokes for drags
STROKE_MS, DRAG_MS = 500, 1500
UNREADABLE = 3
"""Replies in a row that can't be read end an episode."""
RECENT = "shell input keyevent KEYCODE_APP_SWITCH"


class HarnessHands:
    """What the agent does on the device, by the installed harness. Raises `ImportError` where it isn't."""

    def __init__(self, env: Any) -> None:
        require_harness()
        from android_world.env import adb_utils, json_action  # type: ignore[import-not-found, unused-ignore]

        self._env, self._adb, self._action = env, adb_utils, json_action.JSONAction

    def act(self, **action: object) -> None:
        """Carry out a `JSONAction` of these fields."""
        self._env.execute_action(self._action(**action))

    def type_text(self, text: str) -> None:
        """Type into the focused field; no tap, no Enter."""
        self._adb.type_text(text, self._env.controller, timeout_sec=10)

    def stroke(self, start: tuple[int, int], end: tuple[int, int], ms: int) -> None:
        """A finger from point to point, in pixels."""
        self.request(self._adb.generate_swipe_command(*start, *end, ms))

    def request(self, command: str) -> None:
        """A fixed command for adb."""
        self._adb.issue_generic_request(command, self._env.controller)


@dataclass
class StepResult:
    """What `step` gives the harness (the fields of its `AgentInteractionResult`)."""

    done: bool
    data: dict[str, Any] = field(default_factory=dict)


class CantAct(ValueError):
    """An action that a phone hasn't, or that lacks what it needs."""


class HarnessAgent:
    """A policy as an agent of the harness. `env` is its `AsyncEnv`; the screen is waited for until it rests. A reply
    that can't be read, and an action that a phone hasn't, do nothing and count as steps; three unreadable replies in a
    row end the episode as not done. `CallUser` answers the harness and ends it, or the round where a task has several:
    the next one has another goal."""

    output_path = ""
    """Where agents of VenusBench-Mobile keep pictures; this one keeps none."""

    def __init__(self, env: Any, policy: Policy, *, seed: int = 0) -> None:
        self.env, self.policy, self.name = env, policy, policy.name
        self._hands = HarnessHands(env)
        self._seed = seed
        self._past: list[PastTurn] = []
        self._max_steps: int | None = None
        self._given_up = False

    def set_max_steps(self, max_steps: int) -> None:
        """The harness' limit for this episode; it ends the episode itself."""
        self._max_steps = max_steps

    def reset(self, go_home: bool = False) -> None:
        """Before each episode."""
        self.env.reset(go_home=go_home)
        self._past.clear()
        self._given_up = False

    def get_post_transition_state(self) -> Any:
        """The screen once it rests; VenusBench-Mobile's models judge the last one."""
        return self.env.get_state(wait_to_stabilize=True)

    def step(self, goal: str, step_numb: bool = False) -> StepResult:
        """One turn: look, decide, act. Nothing any more once it has given up. `step_numb`: VenusBench-Mobile makes a
        numb screen of it, on which no action has an effect."""
        if self._given_up:
            return StepResult(False, {"goal": goal, "reply": "", "action": "", "error": "given up", "unreadable": True})
        if not self._past:
            self.policy.begin(goal, "mobile", self._seed)
        view = self.view(goal)
        said = self.policy.decide(view)
        error, done = "", False
        try:
            # the end is no touch of the screen
            felt = not step_numb or isinstance(said.action, action_types.Finished)
            done = said.action is not None and felt and self.act(said.action)
        except CantAct as wrong:
            error = str(wrong)
        except ValueError as wrong:  # the harness refuses it (an app it doesn't know)
            error = f"the harness refused it: {wrong}"
        self._past.append(PastTurn(said.action, said.thought, said.conclusion))
        # Counted from the end: a readable reply in between starts the count anew.
        # never "done": a state that holds by chance would count as the agent's success
        self._given_up = len(self._past) >= UNREADABLE and all(turn.action is None for turn in self._past[-UNREADABLE:])
        if self._given_up:
            error = f"{UNREADABLE} unreadable replies in a row"
        data = {
            "goal": goal,
            "reply": said.reply,
            "action": format(said.action) if said.action else "",
            "error": error,
            "unreadable": said.action is None,
        }
        return StepResult(done, data)

    def view(self, goal: str) -> PolicyView:
        """The current screen as a policy sees it: PNG of the RGB array."""
        from PIL import Image

        state = self.get_post_transition_state()
        out = io.BytesIO()
        Image.fromarray(state.pixels).convert("RGB").save(out, "PNG")
        height, width = state.pixels.shape[:2]
        return PolicyView(goal, out.getvalue(), (int(width), int(height)), "mobile", tuple(self._past))

    def act(self, action: Action) -> bool:
        """Carry out an action; whether the episode is over. Raises `CantAct` for one that a phone hasn't."""
        if isinstance(action, action_types.Finished):
            return True
        if isinstance(action, action_types.CallUser):
            self._hands.act(action_type="answer", text=action.content)
            return True
        handler = _ACTS.get(type(action))
        if handler is None:
            raise CantAct(f"a phone has no {type(action).__name__}")
        handler(self, action)
        return False

    def pixel(self, point: Point) -> tuple[int, int]:
        """A point of 0..1000 in pixels of the logical screen, inside it."""
        width, height = self.env.logical_screen_size
        # 1000 is the far border, which has no pixel of its own
        return min(round(point[0] * width / 1000), width - 1), min(round(point[1] * height / 1000), height - 1)

    def _touch(self, kind: str, point: Point) -> None:
        x, y = self.pixel(point)
        self._hands.act(action_type=kind, x=x, y=y)

    def _scroll(self, action: action_types.Scroll) -> None:
        if action.start is not None and action.end is not None:
            self._hands.stroke(self.pixel(action.start), self.pixel(action.end), STROKE_MS)
        else:  # both say what the view does: down shows what lies below
            self._hands.act(action_type="scroll", direction=action.direction)

    def _launch(self, action: action_types.Launch) -> None:
        if not action.app:
            raise CantAct("a phone launches apps by name, not addresses")
        self._hands.act(action_type="open_app", app_name=action.app)


_ACTS: Mapping[type, Callable[[HarnessAgent, Any], None]] = {
    action_types.Click: lambda agent, action: agent._touch("click", action.box),
    action_types.LongPress: lambda agent, action: agent._touch("long_press", action.box),
    action_types.DoubleClick: lambda agent, action: agent._touch("double_tap", action.box),
    action_types.Drag: lambda agent, action: agent._hands.stroke(
        agent.pixel(action.start), agent.pixel(action.end), DRAG_MS
    ),
    action_types.Scroll: HarnessAgent._scroll,
    action_types.Type: lambda agent, action: agent._hands.type_text(action.content),
    action_types.Launch: HarnessAgent._launch,
    action_types.Wait: lambda agent, _: agent._hands.act(action_type="wait"),
    action_types.PressBack: lambda agent, _: agent._hands.act(action_type="navigate_back"),
    action_types.PressHome: lambda agent, _: agent._hands.act(action_type="navigate_home"),
    action_types.PressEnter: lambda agent, _: agent._hands.act(action_type="keyboard_enter"),
    action_types.PressRecent: lambda agent, _: agent._hands.request(RECENT),
    action_types.TakeNote: lambda agent, _: None,
}


@dataclass(frozen=True, slots=True)
class AndroidWorldConfig:
    """How the harness is run, by its own names; `folder` keeps its checkpoints, so that a run goes on."""

    adb_path: str = "adb"
    console_port: int = 5554
    suite_family: str = "android_world"
    tasks: tuple[str, ...] | None = None
    n_task_combinations: int = 1
    task_random_seed: int = 30
    folder: str = ""


def require_harness() -> None:
    """Raises `ImportError` where the harness isn't installed, in one line that says what to do."""
    import importlib.util

    # Looked for, not imported: the harness sets up logging and flags as it is imported.
    if importlib.util.find_spec("android_world") is None:
        raise ImportError(MISSING)


def about_tasks() -> dict[str, Mapping[str, Any]]:
    """Task → what the installed harness' own list says of it: `tags`, `difficulty`, of VenusBench-Mobile also `ability`
    and `app`, which is empty for the variants of a task. {} where it has no such list."""
    import importlib.util

    found = importlib.util.find_spec("android_world")
    for folder in (found.submodule_search_locations or ()) if found else ():
        path = Path(folder) / "task_metadata.json"
        if path.is_file():
            return {str(row["task_name"]): row for row in json.loads(path.read_text("utf-8"))}
    return {}


def run_android_world(policy: Policy, config: AndroidWorldConfig | None = None) -> dict[str, object]:
    """Run the harness' suite with a policy → `{"summary", "records", "config"}`.

    Raises `ImportError` where the harness isn't installed, and what it raises where no emulator answers or it hasn't
    the family.
    """
    import inspect
    from dataclasses import asdict

    require_harness()
    from android_world import checkpointer, registry, suite_utils  # type: ignore[import-not-found, unused-ignore]
    from android_world.env import env_launcher  # type: ignore[import-not-found, unused-ignore]

    config = config or AndroidWorldConfig()
    env = env_launcher.load_and_setup_env(
        console_port=config.console_port, emulator_setup=False, adb_path=config.adb_path
    )
    with closing(env), tempfile.TemporaryDirectory() as spare:
        # older versions of the harness build a suite without the environment
        more = {"env": env} if "env" in inspect.signature(suite_utils.create_suite).parameters else {}
        suite = suite_utils.create_suite(
            registry.TaskRegistry().get_registry(family=config.suite_family),
            n_task_combinations=config.n_task_combinations,
            seed=config.task_random_seed,
            tasks=list(config.tasks) if config.tasks is not None else None,
            **more,
        )
        # The harness reads the family from the suite itself.
        suite.suite_family = config.suite_family
        # with a folder the harness goes on where it stopped; VenusBench-Mobile's writes a table there in any case
        kept = checkpointer.IncrementalCheckpointer(config.folder or spare)
        agent = HarnessAgent(env, policy, seed=config.task_random_seed)
        found = suite_utils.run(suite, agent, demo_mode=False, checkpointer=kept)
    records = [record_of(episode) for episode in found]
    summary = summarise(records, about_tasks())
    return {"policy": policy.name, "records": records, "summary": summary, "config": asdict(config)}


def record_of(episode: Mapping[str, Any]) -> dict[str, object]:
    """An episode's metadata as the harness returns it → a record; `success` is None where set-up or check failed."""
    broken = episode.get("exception_info")
    success = episode.get("is_successful")
    return {
        "task": str(episode["task_template"]),
        "instance": int(episode.get("instance_id") or 0),
        "goal": str(episode.get("goal", "")),
        "steps": episode.get("episode_length"),
        "success": None if broken is not None or success is None else float(success > 0.5),
        "why": "" if broken is None else str(broken).strip().splitlines()[-1][:300],
    }


def summarise(
    records: Sequence[Mapping[str, Any]], about: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, object]:
    """Success over the episodes that the harness could run and check, and by what `about_tasks` says; bootstrap over
    task templates. Variants (in Chinese, in other words) stand apart: most of their tasks are counted already."""
    about = about or {}
    counted = [record for record in records if record["success"] is not None]
    variants = [record for record in counted if about.get(record["task"], {}).get("app") == []]
    counted = [record for record in counted if record not in variants]
    found = _success(counted)
    groups: dict[str, dict[str, list[Mapping[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for record in counted:
        for kind, name in _groups(about.get(record["task"], {})):
            groups[kind][name].append(record)
    by_task = defaultdict(list)
    for record in counted + variants:
        by_task[record["task"]].append(record["success"])
    return {
        "headline": found,
        "headline_of": "success",
        "success": found,
        **({"variants": _success(variants)} if variants else {}),
        "by": {kind: {name: _success(ones) for name, ones in sorted(of.items())} for kind, of in groups.items()},
        "by_task": {task: sum(values) / len(values) for task, values in sorted(by_task.items())},
        "not_counted": sum(record["success"] is None for record in records),
        "why": sorted({r["why"] for r in records if r["success"] is None}),
    }


def _success(records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    # instances of one template are not independent
    return interval([r["success"] for r in records], [r["task"] for r in records]).plain()


def _groups(about: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What a task is counted by: (kind, name)."""
    yield from (("tag", tag) for tag in about.get("tags") or () if tag)
    if about.get("difficulty"):
        yield "difficulty", about["difficulty"]
    yield from ((ABILITIES.get(name, name), str(level)) for name, level in (about.get("ability") or {}).items())
