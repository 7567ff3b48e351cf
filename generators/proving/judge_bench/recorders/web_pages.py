"""Real pages that others wrote, as a recorder of the judge bench: any folder of static html pages.

Every trace is performed a second time before it is handed out: screenshots and states must be equal. What falls out is
counted in `WebPages.losses`, as are pages that don't look the same twice.
"""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from generators.proving.judge_bench.recorders.losses import Losses
from generators.proving.judge_bench.recorders.web_pages_grounding import screen
from generators.proving.judge_bench.recorders.web_pages_oracle import Clause, WebPageOracle
from generators.proving.judge_bench.recorders.web_pages_skills import SKILLS
from generators.proving.judge_bench.recorders.web_pages_words import joined, thinks
from generators.proving.judge_bench.trace import GroundingScreen, Trace, perform, reached
from generators.tasks.world_interface import WorldError
from generators.worlds.pages.page_task import evaluator
from generators.worlds.static_pages.static_pages_world import WebWorld, open_web, pages_of

THOUGHTFUL = 1 / 3
MOST_MOVES = 8
NEAR_MISSES = 6
LARGEST_BYTES = 1_500_000
"""A page with more html takes ten times as long to load as the others."""
ALONE = ("follow_menu", "tab", "answer", "expand", "tick", "show", "pick", "tip", "send", "fill")
FORM, ON_PAGE = ("fill", "tick"), ("fill", "tick", "tab", "expand", "answer", "pick", "show", "tip", "send")
PLANS: tuple[tuple[tuple[str, ...], ...], ...] = (
    (FORM, FORM),
    (FORM, FORM, FORM),
    (("follow_menu", "follow"), ON_PAGE),
    (("tab",), ON_PAGE),
    (("expand",), ON_PAGE),
    (("answer",), ("tick", "fill", "tab", "tip", "pick")),
    (("pick",), ON_PAGE),
    (("fill",), ("tick",)),
    (("follow_menu", "follow"), FORM, FORM),
    (("follow_menu",), ("follow_menu", "follow")),
    (("tick",), ("tick",), ("send", "tick")),
    (("fill",), ("fill", "tick"), ("send", "fill")),
    (("follow_menu", "follow"), ON_PAGE, ON_PAGE),
    (("tab", "expand"), ("answer", "tick", "fill"), ("tip", "show")),
)
"""What an episode does one after another: for each place the skills that may stand there."""


def group_of(page: str) -> str:
    """A page's group: the first word of its relative name (a page in a subfolder belongs to the subfolder)."""
    return re.split(r"[-_/.]", page, maxsplit=1)[0].lower()


class WebPages:
    """Recorder of a folder of static html pages. `name` is the world's name in the bench."""

    def __init__(self, folder: Path, name: str = "tabler") -> None:
        self.folder, self.name = folder.resolve(), name
        self.groups: dict[str, list[str]] = {}
        self.losses = Losses()
        self.unsteady: set[str] = set()
        """Pages that differed between two visits: nothing starts from them."""
        for page in pages_of(self.folder):
            if (self.folder / page).stat().st_size > LARGEST_BYTES:
                self.losses.left_out[self._family(page), f"more than {LARGEST_BYTES} bytes"] += 1
                continue
            self.groups.setdefault(group_of(page), []).append(page)

    def _family(self, page: str) -> str:
        return f"{self.name}/{group_of(page)}"

    def _differs(self, page: str) -> None:
        """Start from this page no more."""
        if page not in self.unsteady:
            self.unsteady.add(page)
            self.losses.unsteady[self._family(page), "the first screen"] += 1

    @contextmanager
    def open(self) -> Iterator[WebWorld]:
        with open_web(self.folder, self.name) as world:
            yield world

    def turns(self, seed: int, what: str) -> Iterator[tuple[str, Random]]:
        """Pages with a source of randomness each, group by group in an order drawn by the seed, without end
        (but where no page is steady)."""
        number = 0
        while len(self.unsteady) < sum(map(len, self.groups.values())):
            order = Random(f"{self.name}/{what}/{seed}/{number}").sample(sorted(self.groups), len(self.groups))
            for group in order:
                pages = self.groups[group]
                # The seed shifts the page within its group, so that another seed
                # sees other pages in the same order of groups.
                page = pages[(seed + number) % len(pages)]
                if page not in self.unsteady:
                    yield page, Random(f"judge-bench/{self.name}/{what}/{page}/{seed}/{number}")
            number += 1

    # --- episodes
    def record(self, world: WebWorld, count: int, seed: int) -> Iterator[Trace]:
        """See `Recorder.record`."""
        built, turns, seen = 0, self.turns(seed, "episodes"), Counter[str]()
        for number, (page, rng) in enumerate(turns):
            # A bound on the tries: on a folder of poor pages fewer traces come rather than none ever.
            if built == count or number >= 4 * count + 2 * len(self.groups):
                return
            try:
                trace = self._one(world, page, seed + number, rng, seen)
            except WorldError:
                self.losses.drop(self._family(page), "the oracle failed")
                continue
            if trace is not None and self.again(world, trace):
                built += 1
                yield trace

    def _one(self, world: WebWorld, page: str, seed: int, rng: Random, seen: Counter[str]) -> Trace | None:
        start, family = {"page": page, "seed": seed}, self._family(page)
        world.reset(start)
        before = world.state()
        oracle = WebPageOracle(world, rng)
        clauses = self._perform_plan(oracle, seen)
        if not clauses:
            self.losses.drop(family, "the page offers nothing to do")
            return None
        oracle.finish()
        end, rule = world.state(), evaluator(check for clause in clauses for check in clause.checks)
        # A clause that held before anything was done is done by doing nothing, so its goal proves nothing.
        if not reached(end, rule) or any(reached(before, evaluator(clause.checks)) for clause in clauses):
            self.losses.drop(family, "the end doesn't prove the goal")
            return None
        if not 2 <= len(oracle.moves) <= MOST_MOVES:
            self.losses.drop(family, f"more than {MOST_MOVES} moves")
            return None
        goal, near = _goal(clauses, end, rng)
        return Trace(
            f"{self.name}/{page.removesuffix('.html')}/{seed}",
            self.name,
            family,
            world.platform,
            world.size_px,
            goal,
            _with_thoughts(oracle, goal, rng),
            tuple(oracle.shots),
            start,
            rule,
            end,
            self.name.capitalize(),
            near,
        )

    def _perform_plan(self, oracle: WebPageOracle, seen: Counter[str]) -> list[Clause]:
        """The first thing to do is the one done least often so far among those the page offers; then what fits it."""
        plans = [((skill,),) for skill in ALONE] + list(PLANS)
        oracle.rng.shuffle(plans)
        plans.sort(key=lambda plan: seen[str(plan)])
        for plan in [*plans, (("follow",),)]:
            clauses: list[Clause] = []
            seen[str(plan)] += 1  # counted as tried, so that what fails doesn't come first again
            for options in plan:
                clause = _any_of(oracle, options, seen)
                if clause is None:
                    break
                clauses.append(clause)
            if clauses:  # where a later part had nothing to work on, what was done is an episode of its own
                return clauses
            if oracle.moves:
                raise WorldError("moves without a clause")
        return []

    def again(self, world: WebWorld, trace: Trace) -> bool:
        """Whether performing the trace again gives the same screenshots and states; else it is counted as dropped."""
        try:
            shots, end = perform(world, trace)
        except WorldError:
            self.losses.drop(trace.family, "it can't be performed again")
            return False
        same = [(one.sha256, one.state) == (two.sha256, two.state) for one, two in zip(shots, trace.shots, strict=True)]
        if all(same) and end == trace.end_state:
            return True
        if not same[0]:
            self._differs(trace.start["page"])
        self.losses.drop(trace.family, "it looks different the second time")
        return False

    # --- grounding
    def grounding(self, world: WebWorld, count: int, seed: int) -> Iterator[GroundingScreen]:
        """See `Recorder.grounding`: screens with at least eight expressions, equal on two visits."""
        built = 0
        for number, (page, rng) in enumerate(self.turns(seed, "grounding")):
            if built == count or number >= 3 * count + 2 * len(self.groups):
                return
            try:
                found = screen(world, page, rng, f"{self.name}/grounding/{page.removesuffix('.html')}/{seed + number}")
            except WorldError as error:
                differs = "differs" in str(error)
                self.losses.drop(self._family(page), f"grounding: {error if differs else 'the page failed'}")
                if differs:
                    self._differs(page)
                continue
            if found is None:
                self.losses.drop(self._family(page), "grounding: fewer than eight expressions")
                continue
            built += 1
            yield replace(found, family=self._family(page))


def _any_of(oracle: WebPageOracle, options: tuple[str, ...], seen: Counter[str]) -> Clause | None:
    """One of the skills that the page as it stands has something for; the rarest first."""
    offers = oracle.world.see(everything=True)
    order = oracle.rng.sample(list(options), len(options))
    for skill in sorted(order, key=lambda name: seen[name]):
        moves = len(oracle.moves)
        try:
            clause = SKILLS[skill](oracle, offers)
        finally:
            seen[skill] += len(oracle.moves) > moves
        if clause is not None:
            return clause
    return None


def _goal(clauses: list[Clause], end: dict[str, Any], rng: Random) -> tuple[str, tuple[str, ...]]:
    """The goal in words, and goals with one entity changed that the end state doesn't reach."""
    ways, way = [rng.randrange(3) for _ in clauses], rng.randrange(3)
    parts = [clause.say(template) for clause, template in zip(clauses, ways, strict=True)]
    near = []
    for at, clause in enumerate(clauses):
        for slots, checks in clause.others:
            # Only where the end state contradicts it: some other entities
            # end up in the wanted state all the same.
            if not reached(end, evaluator(checks)):
                near.append(joined([*parts[:at], clause.say(ways[at], slots), *parts[at + 1 :]], way))
    goal = joined(parts, way)
    # Another clause of equal words can give the goal itself, which is no miss.
    near = [other for other in dict.fromkeys(near) if other != goal]
    return goal, tuple(rng.sample(near, min(len(near), NEAR_MISSES)))


def _with_thoughts(oracle: WebPageOracle, goal: str, rng: Random) -> tuple[Any, ...]:
    if rng.random() >= THOUGHTFUL:
        return tuple(oracle.moves)
    return tuple(
        replace(move, thought=thinks(move.action, goal, name, rng))
        for move, name in zip(oracle.moves, oracle.names, strict=True)
    )
