"""What demonstrations are worth to a policy that can read them: sibling tasks on sites without a browser."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from random import Random

from bench.figures import Figure, share
from generators.execution.device_pool import LocalPool
from generators.execution.journal import Journal
from generators.execution.scheduling import run_all
from generators.policies.agent_prompt import template
from generators.policies.demonstrations import DemonstrationMemory
from generators.policies.oracles.oracle import click_on
from generators.policies.policy import Decision, PolicyView
from generators.policies.policy_maker import PolicyMaker
from generators.policies.registry import scripted, with_demonstrations
from generators.tasks.task_spec import TaskSpec
from generators.tasks.trajectory import ExecutedTrajectory
from generators.tasks.world_interface import ScreenElement
from generators.worlds.evaluators import holds
from generators.worlds.fsm.fsm_tasks import TaskMaker
from generators.worlds.fsm.interpreted import InterpretedWorld
from generators.worlds.fsm.sites import TEMPLATES, make_site
from pipelines.prompts import reply_text
from quality.evidence.words import plain
from schemas.action_types import Click, Finished, Scroll, Type
from schemas.actions import Action, parse
from trainer.statistics import paired

LEAST_GAIN = 20.0
"""Points of success that one demonstration has to add."""
SCROLLS = 3
"""How often a wanted element is looked for further down."""
_BEHIND = template("demonstrations").partition("{goal}")[2].partition("{demonstrations}")[0]
_STEP = re.compile(r" +\d+\) (.+?)(?: – (.*))?")


@dataclass(frozen=True)
class Shown:
    """A demonstration as a goal shows it: its goal and, of each step, (its action, the name that was acted on)."""

    goal: str
    steps: tuple[tuple[Action, str], ...]


def read(goal: str) -> tuple[str, Shown | None]:
    """(the task's own goal, the first demonstration beside it)."""
    own, mark, rest = goal.partition(_BEHIND.rstrip("\n"))
    lines = rest.strip("\n").splitlines()
    if not mark or not lines:
        return goal, None
    steps = []
    for found in filter(None, map(_STEP.fullmatch, lines[1:])):
        named = re.search(r'"(.+)"', found[2] or "")
        steps.append((parse(found[1]), named[1] if named else ""))
    return own.strip(), Shown(lines[0].partition(". ")[2], tuple(steps))


def exchanged(theirs: str, ours: str) -> dict[str, str]:
    """Words of one goal that stand for others in a second one of the same kind."""
    one, other = theirs.split(), ours.split()
    pairs = [part for part in SequenceMatcher(None, one, other, autojunk=False).get_opcodes() if part[0] == "replace"]
    ends = ' .,;:"“”'
    return {" ".join(one[a:b]).strip(ends): " ".join(other[c:d]).strip(ends) for _, a, b, c, d in pairs}


class Reader:
    """Does what the first demonstration beside its goal did, with its own goal's names in the place of the other's;
    without one it clicks what resembles its goal. It never sees the world's truth."""

    name, needs_tree = "reader", True

    def begin(self, goal: str, platform: str, seed: int) -> None:
        """See `Policy.begin`."""
        self._done = self._looked = 0
        self._clicked: set[tuple[str, str]] = set()

    def recall(self, view: PolicyView, action: Action | None) -> None:
        """A turn that is carried out again."""
        self.decide(view)

    def decide(self, view: PolicyView) -> Decision:
        """See `Policy.decide`."""
        own, shown = read(view.goal)
        action = self._by_goal(own, view.elements) if shown is None else self._by_steps(own, shown, view.elements)
        return Decision(reply_text(action, view.platform), action)

    def _by_steps(self, own: str, shown: Shown, elements: Sequence[ScreenElement]) -> Action:
        names = exchanged(shown.goal, own)
        while self._done < len(shown.steps):
            action, name = shown.steps[self._done]
            if isinstance(action, Type):
                self._done += 1
                return Type(_renamed(action.content, names))
            if isinstance(action, Click) and name:
                wanted = plain(_renamed(name, names))
                same = [one for one in elements if one.clickable and wanted in (plain(one.name), plain(one.text))]
                if not same and self._looked < SCROLLS:
                    self._looked += 1
                    return Scroll(direction="down")
                self._looked = 0
                if same:
                    self._done += 1
                    return click_on(same[0])
            self._done += 1  # a scroll of theirs, or what isn't here
        return Finished()

    def _by_goal(self, own: str, elements: Sequence[ScreenElement]) -> Action:
        wanted = set(plain(own).split())
        fresh = [one for one in elements if one.clickable and (one.role, one.name) not in self._clicked]
        likeness = [(len(wanted & set(plain(f"{one.name} {one.text}").split())), -n) for n, one in enumerate(fresh)]
        best = max(likeness, default=(0, 0))
        if not best[0]:
            return Finished()
        element = fresh[-best[1]]
        self._clicked.add((element.role, element.name))
        return click_on(element)


def _renamed(text: str, names: dict[str, str]) -> str:
    for theirs, ours in names.items():
        if theirs:
            text = re.sub(rf"(?<!\w){re.escape(theirs)}(?!\w)", lambda _, ours=ours: ours, text, flags=re.IGNORECASE)
    return text


def figures(sites: int = 12, each: int = 12, seed: int = 0) -> list[Figure]:
    """Every other goal of each site is in the memory, done by the scripted policy; the reader does the rest."""
    kinds = sorted(TEMPLATES)
    remembered, tested = list[TaskSpec](), list[TaskSpec]()
    for number in range(sites):
        maker = TaskMaker(make_site(kinds[number % len(kinds)], seed + number // len(kinds)))
        tasks = [task.contract() for task in maker.tasks(2 * each, seed) if len(task.goals) == 1]
        Random(seed).shuffle(tasks)
        remembered += tasks[::2]
        tested += tasks[1::2]
    memory = DemonstrationMemory()
    for run in executed(remembered, scripted()):
        if succeeded(run):
            memory.add(run)
    reader = PolicyMaker("reader", lambda contract, world: Reader())
    plain_runs = executed(tested, reader)
    shown_runs = executed(tested, with_demonstrations(reader, memory, 1))
    without, one = ([float(succeeded(run)) for run in runs] for runs in (plain_runs, shown_runs))
    gain = paired(one, without, [run.contract.target for run in plain_runs])
    own = sum(
        found.task_id == task.task_id
        for task in tested
        for found in memory.nearest(task.instruction, "web", task.target, 1, task.task_id)
    )
    said = f"{gain.n} tasks, [{100 * gain.low:.1f}, {100 * gain.high:.1f}] over sites"
    return [
        share("a reader's tasks done without a demonstration", round(sum(without)), len(without)),
        share("with the nearest one beside the goal", round(sum(one)), len(one)),
        Figure("points that it adds", 100 * gain.mean, said, LEAST_GAIN),
        Figure("demonstrations of the very task", own, f"{len(tested)} tasks", most=0),
    ]


def executed(tasks: Sequence[TaskSpec], policies: PolicyMaker) -> list[ExecutedTrajectory]:
    """Each task once, on its site without a browser."""
    pool = LocalPool({"fsm": lambda: nullcontext(InterpretedWorld(make_site))})
    with tempfile.TemporaryDirectory() as folder, Journal(Path(folder) / "journal") as journal:
        return run_all(tasks, pool, policies, journal)


def succeeded(run: ExecutedTrajectory) -> bool:
    """By the task's own rule, at an end that the policy declared."""
    return run.failure_kind is None and run.ended == "finished" and holds(run.contract.evaluator, run.end_state)
