"""Tasks of a site: its goals, alone and joined, each with a path that was carried out and a rule that decides it.

`expected_steps` counts the actions of the path on the screen (clicks, typing, scrolls), without the closing Finished.
A single goal's path is the planner's shortest; a joined one's is the cheapest order of its goals' shortest paths, each
from where the one before ended. Every path is carried out in the interpreter, and only those that reach the goal stay.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations
from random import Random
from typing import Any

from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import WorldError
from generators.worlds.fsm.evaluate import evaluator, holds
from generators.worlds.fsm.interpreted import InterpretedWorld
from generators.worlds.fsm.plan import NoPlan, Planner, perform
from generators.worlds.fsm.spec import Atom, Goal, SiteSpec
from schemas.actions import Action, format

LARGEST_ORDERED = 3
"""Goals of which all orders are tried; more are taken as they come."""
JOINED = (2, 3, 3, 4, 6, 8)
"""How many goals a joined task has."""
OPENINGS = ("", "On {site}: ", "Open {site} and do this. ", "Using the {site} website, ")


@dataclass(frozen=True)
class FsmTask:
    """An executable contract with its verified path."""

    instruction: str
    target: str
    start: dict[str, Any]
    rule: dict[str, Any]
    path: tuple[Action, ...]
    goals: tuple[str, ...]
    capabilities: tuple[str, ...]

    @property
    def expected_steps(self) -> int:
        return len(self.path)

    def contract(self) -> TaskSpec:
        """What the generation loop executes."""
        return TaskSpec(
            self.instruction, "web", self.target, self.start, self.rule, self.expected_steps, self.capabilities
        )


class TaskMaker:
    """Makes a site's tasks; `skipped` says why goals were left out."""

    def __init__(self, site: SiteSpec) -> None:
        self.site = site
        self.planner = Planner(site)
        self.world = InterpretedWorld(lambda kind, seed: site)
        self.skipped: dict[str, str] = {}

    def start(self) -> dict[str, object]:
        return {"world": "fsm", "kind": self.site.kind, "seed": self.site.seed}

    def single(self, goal: Goal, rng: Random) -> FsmTask | None:
        """The task of one goal; None (with the reason in `skipped`) if no path reaches it."""
        return self.joined([goal], rng)

    def joined(self, goals: Sequence[Goal], rng: Random) -> FsmTask | None:
        """The task of several goals at once; None if they contradict one another or no path was found."""
        atoms = [atom for goal in goals for atom in goal.when]
        # The last page that is asked for is where the task ends.
        page = next((goal.page for goal in reversed(goals) if goal.page), "")
        name = "+".join(goal.id for goal in goals)
        if contradict(atoms):
            self.skipped[name] = "the goals contradict one another"
            return None
        # All orders of up to three goals, 6 at most: a shortest path may need the second goal first.
        orders = permutations(goals) if len(goals) <= LARGEST_ORDERED else [tuple(goals)]
        found = [done for order in orders if (done := self._path(order, atoms, page)) is not None]
        if not found:
            self.skipped[name] = "no path reaches it"
            return None
        # Of equal lengths the first order: permutations come in a fixed one.
        order, path = min(found, key=lambda item: len(item[1]))
        kinds = sorted({format(action).partition("(")[0] for action in path})
        return FsmTask(
            phrase(self.site, order, rng),
            self.site.target,
            self.start(),
            evaluator(atoms, page),
            tuple(path),
            tuple(goal.id for goal in order),
            tuple(kinds),
        )

    def _path(
        self, order: Sequence[Goal], atoms: Sequence[Atom], page: str
    ) -> tuple[Sequence[Goal], list[Action]] | None:
        """Goals one after the other, in the interpreter; None unless all hold at the end and not before."""
        self.world.reset(self.start())
        rule = evaluator(atoms, page)
        # Holds already: nothing would be asked.
        if holds(self.world.state(), rule):
            return None
        actions: list[Action] = []
        kept: list[Atom] = []
        try:
            for goal in order:
                # All goals so far must still hold at the end of each leg.
                kept += goal.when
                actions += perform(self.world, self.planner.plan(self.world.moment, kept, goal.page))
        except (NoPlan, WorldError):
            return None
        # Proved by carrying it out: a plan that the interpreter doesn't confirm is no task.
        return (order, actions) if actions and holds(self.world.state(), rule) else None

    def tasks(self, count: int, seed: int = 0) -> Iterator[FsmTask]:
        """Up to `count` tasks: every goal alone, then two to eight goals joined, drawn by the seed; no task twice."""
        rng = Random(f"fsm-tasks/{self.site.target}/{seed}")
        instructions: set[str] = set()
        made = 0
        goals = list(self.site.goals)
        # Every goal once, in random order; then joined ones, four draws for
        # each that is wanted, since many contradict.
        draws = [[goal] for goal in rng.sample(goals, len(goals))]
        goals = [goal for goal in goals if not goal.alone]
        draws += [rng.sample(goals, min(rng.choice(JOINED), len(goals))) for _ in range(4 * count)]
        for drawn in draws:
            if made == count:
                return
            task = self.joined(drawn, rng)
            if task is not None and task.instruction not in instructions:
                instructions.add(task.instruction)
                made += 1
                yield task


def contradict(atoms: Sequence[Atom]) -> bool:
    """Whether two equalities give one variable two values."""
    given: dict[str, Any] = {}
    return any(given.setdefault(name, operand) != operand for name, operator, operand in atoms if operator == "eq")


def phrase(site: SiteSpec, goals: Sequence[Goal], rng: Random) -> str:
    """The goals in words, as one instruction."""
    texts = [rng.choice(goal.texts) for goal in goals]
    # Ways in which people join wishes.
    joint = rng.choice((". Then ", "; also ", ", and then "))
    words = joint.join(text if n == 0 else _lower(text) for n, text in enumerate(texts))
    # Some sites' names begin with "The".
    opening = rng.choice(OPENINGS).format(site=site.name).replace("the The ", "The ")
    lowered = opening.endswith((": ", ", "))
    return opening + (_lower(words) if lowered else words)


def _lower(text: str) -> str:
    """A sentence that goes on: its first letter small, unless it begins with I or a name in capitals."""
    first = text.split(" ", 1)[0]
    return text if first in ("I",) or first.isupper() or not first.isalpha() else text[0].lower() + text[1:]
