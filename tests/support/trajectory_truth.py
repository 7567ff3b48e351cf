"""The truth about runs in worlds without a browser, for `bench/trajectory_samples.py`: where they erred, what answers
do.

Nothing here asks what made the samples: each answer is read from its row and carried out in a fresh world.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from generators.generation.run_replays import open_for_replay
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import ScreenElement, World, WorldError
from generators.worlds.evaluators import holds
from generators.worlds.fsm.machine import SiteState
from generators.worlds.fsm.plan import ElementAct, NoPlan, Planner
from generators.worlds.fsm.sites import make_site
from generators.worlds.graph.screen_graph import make_graph
from pipelines.derivers.base import role_word, squash
from pipelines.derivers.trajectory import JudgedTrajectory
from pipelines.prompts import prompt_text
from schemas.action_types import POINTED, Click, Finished, Scroll, Type
from schemas.actions import Action, parse, parse_reply
from schemas.coordinates import contains
from schemas.ids import digest
from schemas.rows import SampleRow

FAR = 10**6
"""Of a goal that is out of reach."""
LEVELS = {"region": "region", "app": "page", "page_function": "page"} | dict.fromkeys(
    ("inverse_dynamics", "effect", "opened_by", "changed_by"), "action"
)
"""Deriver → level of EDGE; grounding and perception beside these are of elements."""
_AIMED = re.compile(r'(\w+) (?:into )?the (?:(.+?) )?"(.*)"', re.DOTALL)
_TYPED = re.compile(r'Type "(.*?)"(?: into the (?:(.+?) )?"(.*)")?', re.DOTALL)


@dataclass(frozen=True)
class MeasuredRun:
    """A run as it was judged and carried out again, with the (turn, kind) of the errors that were planted in it."""

    contract: TaskSpec
    run: JudgedTrajectory
    planted: Sequence[tuple[int, str]]

    @property
    def actions(self) -> list[Action]:
        """What was done, in order."""
        return [parse(row["action_text"]) for row in self.run.steps if row["action_text"] is not None]

    def world(self, actions: Iterable[Action]) -> World:
        """A world of its own after some actions from the run's start."""
        with open_for_replay(self.contract.world) as world:  # neither kind has anything to close
            world.reset(self.contract.initial_state)
            for action in actions:
                world.act(action)
            return world

    def distance(self, actions: Sequence[Action]) -> int:
        """Clicks and, twice as much, texts from after some actions to the goal on a shortest way."""
        return _distance(self.contract, self.world(actions).state())


def _distance(contract: TaskSpec, state: Mapping[str, object]) -> int:
    start = contract.initial_state
    if contract.world == "graph":
        graph = make_graph(start["seed"], start["screens"], start["icons"])
        here, goal = (graph.names.index(str(name)) for name in (state["screen"], contract.evaluator["screen"]))
        return len(graph.path(here, goal))
    acts = _plan(contract, state)
    return FAR if acts is None else sum(1 if act.text is None else 2 for act in acts)


def _plan(contract: TaskSpec, state: Mapping[str, object]) -> list[ElementAct] | None:
    """A shortest way to the goal of a site's task; None where there is none."""
    planner = _planner(contract.initial_state["kind"], contract.initial_state["seed"])
    conditions = contract.evaluator["conditions"]
    page = next((operand for path, _, operand in conditions if path == "page"), "")
    atoms = [
        (path.removeprefix("variables."), operator, operand) for path, operator, operand in conditions if path != "page"
    ]
    values = state["variables"]
    assert isinstance(values, Mapping)
    at = SiteState(str(state["page"]), tuple(values[name] for name in planner.machine.place))
    try:
        return planner.plan(at, atoms, page)
    except NoPlan:
        return None


@cache
def _planner(kind: str, seed: int) -> Planner:
    return Planner(make_site(kind, seed))


def true_error(one: MeasuredRun) -> int | None:
    """The first step at which a planted error took the run no nearer to its goal; None if none did. A double click
    errs, if at all, with its second one."""
    actions = one.actions
    for turn, kind in one.planted:
        for step in (turn, turn + 1) if kind == "clicked_twice" else (turn,):
            if step >= len(actions):
                continue
            if isinstance(actions[step], Finished) or one.distance(actions[: step + 1]) >= one.distance(actions[:step]):
                if step == turn and kind == "clicked_twice":
                    continue  # the click that was right: it may have gone into a field, which is no nearer by itself
                return step
    return None


def same(one: World, other: World) -> bool:
    """Whether two worlds stand at the same state and show the same."""
    return digest(one.state()) == digest(other.state()) and one.observe().sha256 == other.observe().sha256


class Answers:
    """Whether samples are true. `runs`: by episode id; `right` and `whole` count by kind, `examples` has one of each
    kind that isn't."""

    def __init__(self, runs: Mapping[str, MeasuredRun]) -> None:
        self.runs = runs
        self.right: Counter[str] = Counter()
        self.whole: Counter[str] = Counter()
        self.examples: dict[str, str] = {}
        self._checks: dict[str, Callable[[MeasuredRun, int, SampleRow], bool]] = {
            "correction": self._correction,
            "way_back": self._way_back,
            "reversal": self._way_back,
            "retry": self._retry,
            "verification": self._verification,
            "first_action": self._first_action,
            "next_screen": self._next_screen,
            "opened_by": self._used,
            "changed_by": self._used,
            "page_function": self._page_function,
            "plan_done": self._plan_done,
            "subgoals": self._subgoals,
        }

    def count(self, rows: Iterable[SampleRow]) -> None:
        """Add rows of `Samples` of kinds that a world can tell the truth about."""
        for row in rows:
            said = json.loads(row["provenance"])
            kind, step = said["kind"], said["step"]
            if kind not in self._checks:
                continue
            self.whole[kind] += 1
            fine = self._checks[kind](self.runs[said["episode"]], step, row)
            self.right[kind] += fine
            if not fine:
                words = prompt_text(row["messages"])[:200]
                self.examples.setdefault(kind, f"{said['episode']}/{step} {words!r}: {row['answer']!r}")

    # --- errors
    def _correction(self, one: MeasuredRun, step: int, row: SampleRow) -> bool:
        return self._helps(one, one.actions[:step], _action(row))

    def _way_back(self, one: MeasuredRun, step: int, row: SampleRow) -> bool:
        done = one.actions
        return same(one.world([*done[:step], _action(row)]), one.world(done[: step - 1]))

    def _retry(self, one: MeasuredRun, step: int, row: SampleRow) -> bool:
        """By what the history in the prompt says was tried and taken back."""
        tried = [parse(text) for text in re.findall(r"^\d+\. (.*)$", prompt_text(row["messages"]), re.MULTILINE)[-2:]]
        before = one.actions[:step]
        again, first = [*before, *tried, _action(row)], [*before, _action(row)]
        return (
            tried[0] == one.actions[step]
            and self._helps(one, before, _action(row))
            and (same(one.world(again), one.world(first)))
        )

    def _helps(self, one: MeasuredRun, before: Sequence[Action], action: Action) -> bool:
        """Whether an action leads nearer to the goal, or prepares for what does: a scroll, or a click into a field that
        the shortest way fills."""
        there = one.world(before)
        if isinstance(action, Finished):
            return holds(one.contract.evaluator, there.state())
        now, then = one.distance(before), one.distance([*before, action])
        if then != now or one.contract.world != "fsm":
            return then < now
        filled = {act.element for act in _plan(one.contract, there.state()) or () if act.text is not None}
        fields = [e for e in there.observe().elements if e.key in filled]
        return isinstance(action, Scroll) or (
            isinstance(action, Click) and any(contains(e.box, action.box) for e in fields)
        )

    # --- reflection
    def _verification(self, one: MeasuredRun, step: int, row: SampleRow) -> bool:
        """The step before the second screen did what is asked if doing that there leads where the step led."""
        words = prompt_text(row["messages"]).partition("Did it do this? ")[2]
        there = one.world(one.actions[: step - 1])
        led = carry_out(there, words, look_around=False) and same(there, one.world(one.actions[:step]))
        return led == (row["answer"] == "yes")

    # --- dynamics
    def _first_action(self, one: MeasuredRun, step: int, row: SampleRow) -> bool:
        """It leads where the run went, and the second picture is one that the run came to so many steps later."""
        text = prompt_text(row["messages"])
        number = re.search(r"(\d) (?:step|actions)", text)
        apart = int(number[1]) if number else 1
        steps = one.run.steps
        pictures = [steps[step]["screenshot_sha256"], steps[step + apart]["screenshot_sha256"]]
        done = one.actions
        led = one.world([*done[:step], _action(row)])
        return row["images"] == pictures and same(led, one.world(done[: step + 1]))

    def _next_screen(self, one: MeasuredRun, step: int, row: SampleRow) -> bool:
        """The numbered picture is the one that came, and no other of them shows the same as it."""
        came = one.world(one.actions[: step + 1]).observe().sha256
        shown = {r["screenshot_sha256"]: n for n, r in enumerate(one.run.steps)}
        seen = [one.world(one.actions[: shown[sha]]).observe().sha256 for sha in row["images"][1:]]
        return [n for n, sha in enumerate(seen, 1) if sha == came] == [int(row["answer"])]

    # --- pages
    def _used(self, one: MeasuredRun, step: int, row: SampleRow) -> bool:
        """Using the element that is named, and at whose place it is, leads where the run went."""
        words, _, place = row["answer"].rpartition(" ")
        x, y = json.loads(place)
        there, done = one.world(one.actions[:step]), one.actions[step]
        aimed = [e for e in there.observe().elements if contains(e.box, (x, y))]
        if isinstance(done, Type):
            there.act(Click((x, y)))
            there.act(done)
        else:
            there.act(type(done)((x, y)) if isinstance(done, POINTED) else done)
        called = {f'{role_word(e.role)} "{named(e)}"' for e in aimed}
        return words in called and same(there, one.world(one.actions[: step + 1]))

    def _page_function(self, one: MeasuredRun, step: int, row: SampleRow) -> bool:
        """Each line's names are on the page, and with those that it only counts they are all that can be worked."""
        elements = one.world(one.actions[:step]).observe().elements
        names = {named(e) for e in elements}
        lines = [line for line in row["answer"].split("\n") if not line.startswith("Title: ")]
        listed = [name for line in lines for name in re.findall(r'"(.*?)"(?:,| and|$)', line)]
        more = sum(int(number) for number in re.findall(r" and (\d+) more", row["answer"]))
        workable = {(role_word(e.role), named(e)) for e in elements if e.clickable and named(e)}
        return set(listed) <= names and len(listed) + more <= len(workable)

    # --- plans
    def _plan_done(self, one: MeasuredRun, step: int, row: SampleRow) -> bool:
        state = one.world(one.actions[:step]).state()
        return holds(one.contract.evaluator, state) == (row["answer"] == "yes")

    def _subgoals(self, one: MeasuredRun, step: int, row: SampleRow) -> bool:
        return achieved(one, plan_of(row))


def _action(row: SampleRow) -> Action:
    action = parse_reply(row["answer"]).action
    assert action is not None, row["answer"]
    return action


def plan_of(row: SampleRow) -> list[str]:
    """The lines of a numbered answer."""
    return [line.partition(". ")[2] for line in row["answer"].split("\n")]


def achieved(one: MeasuredRun, plan: Sequence[str]) -> bool:
    """Whether a plan in words, carried out by somebody who only reads the screen, reaches the goal."""
    world = one.world([])
    return all(carry_out(world, words) for words in plan) and holds(one.contract.evaluator, world.state())


def broken_plans(rows: Iterable[SampleRow]) -> Iterator[tuple[SampleRow, list[str]]]:
    """Each plan with one of its subgoals left out, one copy for each."""
    for row in rows:
        if json.loads(row["provenance"])["kind"] == "subgoals":
            plan = plan_of(row)
            yield from ((row, plan[:n] + plan[n + 1 :]) for n in range(len(plan)))


def named(element: ScreenElement) -> str:
    """What an element is called in words."""
    return squash(element.name) or squash(element.text)


def carry_out(world: World, words: str, *, look_around: bool = True) -> bool:
    """Do what words say: `Click the button "Add"`, `Type "Ann" into the text field "Name"`. False where that isn't
    possible; with `look_around` the page is scrolled for the element."""
    typed = _TYPED.fullmatch(words)
    if typed and typed[3] is None:
        world.act(Type(typed[1]))
        return True
    aimed = (typed[2], typed[3]) if typed else None
    if aimed is None and (found := _AIMED.fullmatch(words)):
        aimed = found[2], found[3]
    if aimed is None:
        return False
    for scroll in ("", *["down"] * 8, *["up"] * 8) if look_around else ("",):
        try:
            if scroll:
                world.act(Scroll(direction=scroll))
        except WorldError:
            return False
        for element in world.observe().elements:
            if (role_word(element.role) or None, named(element)) == (aimed[0] or None, aimed[1]):
                world.act(Click(element.centre))
                if typed:
                    world.act(Type(typed[1]))
                return True
    return False


def levels(rows: Iterable[SampleRow], pictures: Iterable[str]) -> int:
    """How many pictures samples show at three and more of EDGE's levels."""
    found: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        name = json.loads(row["provenance"])["deriver"]
        level = LEVELS.get(name) or ("element" if row["objective"] in ("grounding", "perception") else "")
        for sha in row["images"]:
            found[sha].add(level)
    return sum(len(found[sha] - {""}) >= 3 for sha in pictures)
