"""Contracts of FSM sites with their paths, worlds without a browser that fail on purpose, and a policy of set skill.

`python executing.py FOLDER SEED`: the run that tests kill; its devices fail at random, its policy notes every decision.
"""

from __future__ import annotations

import hashlib
import io
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from generators.execution.device_pool import LocalPool
from generators.execution.journal import Journal
from generators.execution.limits import AttemptLimits
from generators.execution.scheduling import run_all
from generators.policies.policy import Decision, PolicyView
from generators.policies.policy_maker import PolicyMaker
from generators.tasks.task_spec import TaskSpec
from generators.tasks.trajectory import ExecutedTrajectory, ExecutedTurn
from generators.tasks.world_interface import Observation, World
from generators.worlds.fsm.fsm_tasks import FsmTask, TaskMaker
from generators.worlds.fsm.interpreted import InterpretedWorld
from generators.worlds.fsm.sites import make_site
from schemas.action_types import Click, Finished, LongPress
from schemas.actions import Action, format

KINDS = ("shop", "survey", "forum")
PATIENT = AttemptLimits(retries=100, pause_s=0.001)


@cache
def fsm_tasks() -> tuple[FsmTask, ...]:
    """Four tasks of each of `KINDS`."""
    return tuple(task for kind in KINDS for task in TaskMaker(make_site(kind, 0)).tasks(4))


def contract_of(task: FsmTask) -> TaskSpec:
    start = {"world": "fsm", **task.start}
    return TaskSpec(task.instruction, "web", task.target, start, task.rule, task.expected_steps, task.capabilities)


def fsm_contracts(count: int = 12) -> list[TaskSpec]:
    return [contract_of(task) for task in fsm_tasks()[:count]]


class PathPolicy:
    """Follows a task's path and errs at a rate, by (seed, goal, turn) alone. `log` gets a line for each decision."""

    needs_tree = True
    name = "path"

    def __init__(self, error_rate: float = 0.0, log: Path | None = None, pause_s: float = 0.0) -> None:
        self._rate, self._log, self._pause_s = error_rate, log, pause_s
        self._paths = {task.instruction: (*task.path, Finished()) for task in fsm_tasks()}

    def begin(self, goal: str, platform: str, seed: int) -> None:
        self._seed = seed

    def decide(self, view: PolicyView) -> Decision:
        if self._log is not None:
            note = os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(note, f"{self._seed} {len(view.past)} {view.goal}\n".encode())
            os.close(note)
        time.sleep(self._pause_s)
        path, at = self._paths[view.goal], 0
        for said in view.past:
            at += at < len(path) - 1 and said.action == path[at]
        rng = Random(f"{self._seed}/{view.goal}/{len(view.past)}")
        if rng.random() < self._rate:
            return self._err(view, rng)
        return Decision(format(path[at]), path[at])

    def _err(self, view: PolicyView, rng: Random) -> Decision:
        wrong: list[Action | None] = [None, LongPress((500, 500)), Click(rng.choice(view.elements).centre)]
        action = rng.choice(wrong)
        return Decision("I don't know" if action is None else format(action), action)


def path_policies(error_rate: float = 0.0, log: Path | None = None, pause_s: float = 0.0) -> PolicyMaker:
    return PolicyMaker("path", lambda contract, world: PathPolicy(error_rate, log, pause_s))


class Faults:
    """When devices fail: before or after the calls whose numbers are in `at`, or at random. Shared by threads."""

    def __init__(self, at: tuple[int, ...] = (), rate: float = 0.0, seed: int = 0) -> None:
        self.calls = 0
        self._at, self._rate, self._rng = set(at), rate, Random(seed)
        self._lock = threading.Lock()

    def strike(self) -> str:
        """ "" or how this call fails: "before" it does anything, or "after"."""
        with self._lock:
            self.calls += 1
            if self.calls in self._at or self._rng.random() < self._rate:
                return self._rng.choice(("before", "after"))
            return ""


class FaultyWorld:
    """A world that dies for good at a fault; its picture is a real PNG that is drawn from what it shows."""

    name, platform, size_px = "fsm", "web", InterpretedWorld.size_px

    def __init__(self, faults: Faults | None = None) -> None:
        self.inner = InterpretedWorld(make_site)
        self._faults = faults or Faults()
        self._dead = False

    def _do(self, work: Callable[..., Any], *given: Any) -> Any:
        if self._dead:
            raise RuntimeError("the browser has gone")
        fault = self._faults.strike()
        self._dead = bool(fault)
        if fault == "before":
            raise RuntimeError("the browser has gone")
        done = work(*given)
        if fault == "after":
            raise RuntimeError("the browser has gone")
        return done

    def reset(self, start: Mapping[str, Any]) -> None:
        self._do(self.inner.reset, start)

    def observe(self) -> Observation:
        seen: Observation = self._do(self.inner.observe)
        return replace(seen, png=draw(seen.png))

    def act(self, action: Action) -> None:
        self._do(self.inner.act, action)

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = self._do(self.inner.state)
        return state


@cache
def draw(text: bytes) -> bytes:
    """A PNG of blocks of colour, another for every text."""
    from PIL import Image

    out = io.BytesIO()
    digest = hashlib.sha256(text).digest()
    Image.frombytes("RGB", (16, 10), (digest * 15)[:480]).resize((512, 320), Image.Resampling.NEAREST).save(out, "PNG")
    return out.getvalue()


def pool(make: Callable[[], World] = FaultyWorld, most: int | None = None) -> LocalPool:
    """Devices made by a function."""

    @contextmanager
    def opened() -> Iterator[World]:
        yield make()

    opener: Callable[[], AbstractContextManager[World]] = opened
    return LocalPool({"fsm": opener}, most)


def what_was_done(done: ExecutedTrajectory) -> dict[str, Any]:
    """All of a trajectory that doesn't depend on devices, time and luck."""
    kept = ("policy", "seed", "end_state", "answer", "ended", "failure_kind", "failure")
    turns = [_still(turn) for turn in done.turns]
    return {name: getattr(done, name) for name in kept} | {
        "task": done.contract.task_id,
        "turns": turns,
        "end": done.end and _still(done.end),
    }


def _still(turn: ExecutedTurn) -> ExecutedTurn:
    return replace(turn, observe_s=0.0, decide_s=0.0, act_s=0.0)


def run_noted(folder: Path, seed: int) -> list[ExecutedTrajectory]:
    """A run with failing devices whose policy notes what it decides."""
    faults = Faults(rate=0.01, seed=seed)
    with Journal(folder) as journal:
        policies = path_policies(0.2, folder / "decisions", 0.002)
        devices = pool(lambda: FaultyWorld(faults))
        return run_all(fsm_contracts(), devices, policies, journal, workers=3, limits=PATIENT)


if __name__ == "__main__":
    run_noted(Path(sys.argv[1]), int(sys.argv[2]))
