"""Runs on sites that claim success and have none by the world's state, though their last screens look right, and true
ones beside them: what evidence of the process is measured on.

| kind | what was done |
|---|---|
| `never_sent` | everything but the last act: the form is filled in and shown |
| `only_shown` | the page of what was asked for is opened, and nothing is done there |
| `skipped` | one required act on the way is left out, the rest is done |
| `other_record` | all of it, with another one of the list than the goal names |
| `undone` | all of it, and then one more act that takes it back |
| `sound` | the way of the oracle, every other one after a look elsewhere |
"""

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from PIL import Image

from generators.policies.oracles.oracle import click_on, named
from generators.policies.oracles.site_walk import site_walk
from generators.tasks.task_spec import TaskSpec
from generators.tasks.trajectory import ExecutedTrajectory, ExecutedTurn
from generators.tasks.world_interface import Observation, ScreenElement, WorldError
from generators.worlds.fsm.evaluate import holds as rule_holds
from generators.worlds.fsm.interpreted import InterpretedWorld
from generators.worlds.fsm.sites import make_site
from quality.evidence.words import holds
from schemas.action_types import Finished, PressBack
from schemas.actions import Action

FALSE_KINDS = ("never_sent", "only_shown", "skipped", "other_record", "undone")
MOST_TRIED = 12
"""Clicks that are tried in search of one that takes the goal back."""


@dataclass(frozen=True, slots=True)
class SiteAct:
    """An act by the element that it is on; `changes`: the site's variables, not the page alone."""

    action: Action
    role: str
    name: str
    changes: bool


@dataclass(frozen=True, slots=True)
class ClaimedSuccess:
    """A run with what it is (`kind`) and whether the world's state meets the task's rule."""

    kind: str
    done: ExecutedTrajectory
    true: bool


class DrawnScreens:
    """A `ScreenSource` for worlds without pictures: a small picture for each hash."""

    def screen_bytes(self, sha256: str) -> bytes:
        """A PNG whose colour is of the hash."""
        buffer = io.BytesIO()
        colour = (int(sha256[:2], 16), int(sha256[2:4], 16), int(sha256[4:6], 16))
        Image.new("RGB", (96, 64), colour).save(buffer, "PNG")
        return buffer.getvalue()


class _Recorder:
    """A site without a browser, and the turns done in it."""

    def __init__(self, contract: TaskSpec) -> None:
        self.contract, self.world = contract, InterpretedWorld(make_site)
        self.world.reset(contract.initial_state)
        self.turns: list[ExecutedTurn] = []

    def do(self, action: Action) -> bool:
        """Act; False where the site has no such action."""
        seen = self.world.observe()
        try:
            self.world.act(action)
        except WorldError:
            return False
        self.turns.append(_turn(seen, action, self.world.size_px))
        return True

    def follow(self, act: SiteAct) -> bool:
        """Do an act on the element of its name, wherever that lies now; False where it doesn't show."""
        if not act.name:
            return self.do(act.action)
        element = named(self.world.observe().elements, act.role, act.name)
        return element is not None and self.do(click_on(element))

    def claimed(self, kind: str, seed: int) -> ClaimedSuccess:
        """The run, ended by the claim that all is done."""
        end = self.world.observe()
        turns = (*self.turns, _turn(end, Finished(), self.world.size_px))
        state = self.world.state()
        done = ExecutedTrajectory(self.contract, kind, "site", seed, turns, None, state, "", "finished")
        return ClaimedSuccess(kind, done, rule_holds(state, self.contract.evaluator))


def _turn(seen: Observation, action: Action, size_px: tuple[int, int]) -> ExecutedTurn:
    elements: tuple[Mapping[str, Any], ...] = tuple(one.as_element() for one in seen.elements)
    return ExecutedTurn(seen.sha256, size_px, elements, "", action)


def sound_acts(contract: TaskSpec) -> list[SiteAct]:
    """The acts of the oracle's way, by the elements that they are on."""
    acts = []
    for step in site_walk(contract):
        role, name = (step.element.role, step.element.name or step.element.text) if step.element else ("", "")
        acts.append(SiteAct(step.action, role, name, step.changes))
    return acts


def claimed_successes(contracts: Sequence[TaskSpec], kinds: Sequence[str], seed: int) -> Iterator[ClaimedSuccess]:
    """Runs of the kinds, of each task those that can be made and are what their kind says: false ones by the world's
    state, sound ones true."""
    for number, contract in enumerate(contracts):
        acts = sound_acts(contract)
        for kind in kinds:
            rng = Random(f"claims/{seed}/{kind}/{contract.task_id}")
            run = _run(kind, contract, acts, number, rng)
            if run is not None and run.true == (kind == "sound") and len(run.done.turns) > 1:
                yield run


def _run(kind: str, contract: TaskSpec, acts: Sequence[SiteAct], number: int, rng: Random) -> ClaimedSuccess | None:
    """A run of a kind; None where the task has no room for it."""
    recorder = _Recorder(contract)
    if kind == "sound" and number % 2:
        _look_elsewhere(recorder, rng)
    planned = {
        "sound": lambda: list(acts),
        "undone": lambda: list(acts),
        "never_sent": lambda: list(acts[:-1]),
        "only_shown": lambda: [act for act in acts if not act.changes and act.role in ("link", "button")],
        "skipped": lambda: _without_one(acts, rng),
        "other_record": lambda: list(acts),
    }[kind]()
    swapped = kind != "other_record"
    for act in planned:
        if not swapped and act.role in ("link", "radio", "option") and holds(contract.instruction, act.name):
            other = _sibling(recorder.world.observe().elements, act, contract.instruction, rng)
            if other is not None:
                swapped = recorder.do(click_on(other))
                continue
        recorder.follow(act)
    if not swapped or (kind == "undone" and not _take_back(recorder, rng)):
        return None
    return recorder.claimed(kind, number)


def _without_one(acts: Sequence[SiteAct], rng: Random) -> list[SiteAct]:
    """The acts without one that changes something, never the last: that is `never_sent`."""
    places = [place for place, act in enumerate(acts[:-1]) if act.changes]
    left_out = rng.choice(places) if places else len(acts) - 1
    return [act for place, act in enumerate(acts) if place != left_out]


def _sibling(elements: Sequence[ScreenElement], act: SiteAct, goal: str, rng: Random) -> ScreenElement | None:
    """Another element of the same role in line with an act's own, which the goal doesn't name; None without one."""
    own = named(elements, act.role, act.name)
    if own is None:
        return None
    alike = [
        one
        for one in elements
        if one.role == act.role
        and one.clickable
        and one.name != own.name
        and not holds(goal, one.name or one.text)
        and (abs(one.box[0] - own.box[0]) < 5 or abs(one.box[1] - own.box[1]) < 5)
    ]
    return rng.choice(alike) if alike else None


def _take_back(recorder: _Recorder, rng: Random) -> bool:
    """Do one act after which the goal no longer holds; False where none of those that show takes it back."""
    elements = [one for one in recorder.world.observe().elements if one.clickable]
    for element in rng.sample(elements, min(MOST_TRIED, len(elements))):
        tried = _Recorder(recorder.contract)
        for turn in recorder.turns:
            if turn.action is not None:
                tried.do(turn.action)
        tried.do(click_on(element))
        if not rule_holds(tried.world.state(), recorder.contract.evaluator):
            return recorder.do(click_on(element))
    return False


def _look_elsewhere(recorder: _Recorder, rng: Random) -> None:
    """Open some page and come back, as people do."""
    links = [one for one in recorder.world.observe().elements if one.role == "link" and one.clickable]
    if links and recorder.do(click_on(rng.choice(links))):
        recorder.do(PressBack())
