"""Web sites made from finite-state specs as a task world: what shops have elsewhere is asked of shops nobody has seen.

The functional map comes from reference sites of the same kind (other seeds). Whether a target has what is asked of it,
only its spec knows (`fsm.transfer`); a task about what it hasn't got can be proposed and run, and fails.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from random import Random
from typing import Any

from generators.generation.task_worlds.task_world import Idea, Name, TaskWorld
from generators.tasks.task_spec import TaskSpec
from generators.worlds.fsm.evaluate import evaluator, holds, passes
from generators.worlds.fsm.fsm_tasks import TaskMaker, contradict, phrase
from generators.worlds.fsm.interpreted import InterpretedWorld
from generators.worlds.fsm.sites import TEMPLATES, make_site
from generators.worlds.fsm.spec import Goal, SiteSpec
from generators.worlds.fsm.transfer import asked_of, function_of, reworded, thing_of, unasked
from schemas.ids import canonical_json

REFERENCE_SEED = 9_000
REFERENCES = 4
"""Sites of each kind that the functional map is drawn from."""
NOWHERE = "variables.nothing"
"""A path that no state has: what a site lacks never comes true."""


class FsmTaskWorld(TaskWorld):
    """`count` sites, kinds in turn, from `seed` on."""

    platform = "web"
    joins = True

    def __init__(self, name: str, count: int, seed: int = 0) -> None:
        self.name = name
        kinds = sorted(TEMPLATES)
        # Kinds in turn, so that any count has all kinds as evenly as possible.
        self.targets = tuple(f"fsm/{kinds[n % len(kinds)]}/{seed + n // len(kinds)}" for n in range(count))

    def functions(self, target: str) -> tuple[str, ...]:
        kind = site_of(target).kind
        return tuple(sorted({f"{kind}/{function_of(goal)}" for _, goal in _map(kind)}))

    def needs(self, target: str, function: str) -> tuple[str, ...]:
        kind, _, name = function.partition("/")
        return tuple(f"{kind}/{first}" for first in sorted(_done_first(kind).get(name, ())))

    def ideas(self, target: str, rng: Random) -> Iterator[Idea]:
        kind = site_of(target).kind
        functions: dict[str, list[tuple[int, Goal]]] = {}
        for donor, goal in _map(kind):
            functions.setdefault(function_of(goal), []).append((donor, goal))
        while True:
            # Function first, then one of its goals: functions that many sites offer aren't drawn more often.
            donor, goal = rng.choice(functions[rng.choice(sorted(functions))])
            thing = thing_of(goal, make_site(kind, donor))
            yield self._idea(target, donor, goal, rng.choice(goal.texts), thing, "elsewhere" if thing else "none")

    def about(self, target: str, names: Sequence[Name], rng: Random) -> Iterator[Idea]:
        kind = site_of(target).kind
        fitting = [(donor, goal) for donor, goal in _map(kind) if thing_of(goal, make_site(kind, donor))]
        while names and fitting:
            donor, goal = rng.choice(fitting)
            # The donor's thing is replaced in the wording by the name that was seen here.
            own, name = thing_of(goal, make_site(kind, donor)), rng.choice(list(names))
            text = reworded(rng.choice(goal.texts), own, name.text)
            yield self._idea(target, donor, goal, text, name.text, "seen", "dynamic", name.role)

    def _idea(
        self,
        target: str,
        donor: int,
        goal: Goal,
        text: str,
        thing: str,
        basis: str,
        arm: str = "static",
        role: str = "",
    ) -> Idea:
        kind = site_of(target).kind
        key = canonical_json({"donor": donor, "goal": goal.id})
        return Idea(target, f"{kind}/{function_of(goal)}", text, 0, thing, arm, basis, role, key)

    def contract(self, ideas: Sequence[Idea], rng: Random) -> TaskSpec | None:
        """Evaluator: the conditions of what the site has; for what it hasn't, one that never holds. Expected steps:
        what the ideas take on their reference sites."""
        site = site_of(ideas[0].target)
        found = [self._asked(site, idea) for idea in ideas]
        goals = [goal for goal in found if goal is not None]
        atoms = [atom for goal in goals for atom in goal.when]
        alone = any(self._donated(site, idea)[1].alone for idea in ideas)
        asks = [(idea.function, idea.thing, goal.when if goal else ()) for idea, goal in zip(ideas, found, strict=True)]
        # a third of the joined tasks asked for one thing twice at first: done in a few steps, they were refused as too
        # short
        # Contradicting, alone or implied: joined, such parts would make a
        # goal that can't be done or asks for less.
        if contradict(atoms) or (alone and len(ideas) > 1) or len(set(asks)) < len(asks) or _implied(goals):
            return None
        page = next((goal.page for goal in reversed(goals) if goal.page), "")
        rule = evaluator(atoms, page)
        # Steps on the reference sites: the target's own would tell what its truth is.
        elsewhere = [_steps(*self._reference(site, idea)) for idea in ideas]
        if not all(elsewhere):
            return None
        missing = [idea for idea, goal in zip(ideas, found, strict=True) if goal is None]
        # What the site lacks stays in the rule as a condition that never
        # holds: the task can be run, and fails.
        rule["conditions"] += [[NOWHERE, "eq", f"{idea.function} {idea.thing}".strip()] for idea in missing]
        # Goals only carry the words here; `phrase` joins them as people would.
        words = phrase(site, [Goal(str(n), (), (idea.text,)) for n, idea in enumerate(ideas)], rng)
        return TaskSpec(
            words,
            self.platform,
            site.target,
            self.start(site.target),
            rule,
            sum(elsewhere),
            tuple(sorted({idea.function for idea in ideas})),
            "static" if ideas[0].arm == "static" else "dynamic",
        )

    def _reference(self, site: SiteSpec, idea: Idea) -> tuple[str, int, str]:
        key = json.loads(idea.key)
        return site.kind, key["donor"], key["goal"]

    def _donated(self, site: SiteSpec, idea: Idea) -> tuple[SiteSpec, Goal]:
        kind, seed, name = self._reference(site, idea)
        donor = make_site(kind, seed)
        return donor, next(goal for goal in donor.goals if goal.id == name)

    def _asked(self, site: SiteSpec, idea: Idea) -> Goal | None:
        donor, goal = self._donated(site, idea)
        return asked_of(site, donor, goal, idea.thing)

    def shortest(self, contract: TaskSpec) -> int | None:
        found = _solved(contract.target, canonical_json(contract.evaluator))
        return None if found is None else found[0]

    def true(self, contract: TaskSpec, end_state: Mapping[str, object], answer: str) -> bool:
        """The evaluator holds, and no goal of the site came true that the shortest path doesn't make true as well."""
        # An empty state comes from a device that died before it was read.
        if not end_state or not holds(end_state, contract.evaluator):
            return False
        found = _solved(contract.target, canonical_json(contract.evaluator))
        site = site_of(contract.target)
        # The shortest path's side effects are allowed: without them the task can't be done.
        allowed = unasked(site, found[1], (), ()) if found else ()
        asked = [
            Goal(
                "",
                tuple(
                    (path.partition(".")[2], operator, operand)
                    for path, operator, operand in contract.evaluator["conditions"]
                ),
                (),
            )
        ]
        # Anything else that came true was not asked for.
        return not unasked(site, end_state, asked, allowed)

    def start(self, target: str) -> dict[str, object]:
        site = site_of(target)
        return {"world": "fsm", "kind": site.kind, "seed": site.seed}

    def offline(self) -> InterpretedWorld:
        return InterpretedWorld(make_site)

    def passing(self, target: str, path: str) -> bool:
        return passes(site_of(target))(path)


def _implied(goals: Sequence[Goal]) -> bool:
    """Whether one of several goals comes true with another: it asks for nothing of its own."""
    atoms = [set(goal.when) for goal in goals]
    # Subset either way: doing the larger one does the smaller one, too.
    return any(a <= b for n, a in enumerate(atoms) for m, b in enumerate(atoms) if n != m)


def site_of(target: str) -> SiteSpec:
    """The site of a target ("fsm/shop/3"). Raises `ValueError`."""
    world, _, rest = target.partition("/")
    kind, _, seed = rest.partition("/")
    if world != "fsm" or not seed.isdigit():
        raise ValueError(f"target: expected fsm/<kind>/<seed>, found {target!r:.60}")
    return make_site(kind, int(seed))


@lru_cache(maxsize=32)
def _map(kind: str) -> tuple[tuple[int, Goal], ...]:
    """(reference seed, goal) of all that reference sites of a kind can do."""
    found = []
    for donor in range(REFERENCE_SEED, REFERENCE_SEED + REFERENCES):
        found += [(donor, goal) for goal in make_site(kind, donor).goals]
    return tuple(found)


@lru_cache(maxsize=32)
def _done_first(kind: str) -> Mapping[str, frozenset[str]]:
    """Function → functions of which a goal comes true on the shortest way to each of its goals, before its end, on the
    first reference site."""
    site, maker = make_site(kind, REFERENCE_SEED), _maker(kind, REFERENCE_SEED)
    rules = [(function_of(goal), evaluator(goal.when, goal.page)) for goal in site.goals]
    found: dict[str, frozenset[str]] = {}
    for goal in site.goals:
        task = maker.single(goal, Random(0))
        if task is None:
            continue
        maker.world.reset(task.start)
        begun = maker.world.state()
        open_ones = [(name, rule) for name, rule in rules if not holds(begun, rule)]
        first, own = set[str](), function_of(goal)
        for action in task.path[:-1]:
            maker.world.act(action)
            state = maker.world.state()
            first |= {name for name, rule in open_ones if holds(state, rule)}
        found[own] = found.get(own, frozenset(first)) & first - {own}
    return found


@lru_cache(maxsize=64)
def _maker(kind: str, seed: int) -> TaskMaker:
    return TaskMaker(make_site(kind, seed))


@lru_cache(maxsize=16_384)
def _steps(kind: str, seed: int, goal: str) -> int:
    """Steps of the planner's path to a goal on its own site; 0 where there is none."""
    found = next(one for one in make_site(kind, seed).goals if one.id == goal)
    task = _maker(kind, seed).single(found, Random(0))
    return task.expected_steps if task else 0


@lru_cache(maxsize=16_384)
def _solved(target: str, rule: str) -> tuple[int, Mapping[str, Any]] | None:
    """(steps, end state) of the planner's path to what an evaluator asks; None where there is none."""
    conditions = json.loads(rule)["conditions"]
    # Known without a search.
    if any(path == NOWHERE for path, _, _ in conditions):
        return None
    site = site_of(target)
    atoms = [
        (path.removeprefix("variables."), operator, operand)
        for path, operator, operand in conditions
        if path.startswith("variables.")
    ]
    page = next((operand for path, _, operand in conditions if path == "page"), "")
    maker = _maker(site.kind, site.seed)
    task = maker.joined([Goal("asked", tuple(atoms), ("",), page)], Random(0))
    if task is None:
        return None
    # Walked once to learn the end state; `true` compares side effects with it.
    maker.world.reset(task.start)
    for action in task.path:
        maker.world.act(action)
    return task.expected_steps, maker.world.state()
