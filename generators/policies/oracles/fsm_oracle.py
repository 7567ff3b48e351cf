"""The oracle of FSM sites: searches the site's spec for a way from the world's true state to the contract's conditions.

A way is kept as (situation → act) and followed as long as the world stands on it; anywhere else a new one is searched,
so it recovers from whatever was done wrong. Where none exists it says so: the goal is out of reach from there.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import permutations
from typing import Any

from generators.policies.oracles.oracle import Advice, Search, click_on, hits, named
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import ScreenElement
from generators.worlds.fsm.evaluate import RULE, holds
from generators.worlds.fsm.layout import lay_out
from generators.worlds.fsm.machine import SiteState
from generators.worlds.fsm.plan import ElementAct, NoPlan, Planner, Situation
from generators.worlds.fsm.sites import make_site
from generators.worlds.fsm.spec import KINDS, Atom
from schemas.action_types import Type
from schemas.actions import Action

LARGEST_ORDERED = 3
"""Parts of a goal of which all orders are tried; of more, the one they are listed in and its reverse."""
Part = tuple[tuple[Atom, ...], str]
"""Conditions that belong together, and the page they are reached on ("" = any)."""


class FsmOracle:
    """See `Oracle`."""

    def begin(self, contract: TaskSpec) -> None:
        """Raises `ValueError` for another evaluator than conditions on a site's state."""
        start = contract.initial_state
        if "kind" not in start or "seed" not in start:
            raise ValueError(f"fsm oracle: expected a start with kind and seed, found {sorted(start)}")
        self.planner = _planner(start["kind"], start["seed"])
        self._rule = contract.evaluator
        self._atoms, self._page, self._foreign = _conditions(contract, self.planner)
        self._parts = self._divide()
        self._way: dict[Situation, ElementAct] = {}
        self._no_way: dict[Situation, str] = {}
        self._search = Search()
        self._entered: tuple[Situation, str] | None = None

    def next(self, elements: Sequence[ScreenElement], state: Mapping[str, Any], last: Action | None) -> Advice:
        """See `Oracle.next`."""
        # The world's own rule first: whatever way led here, an episode that is done must not go on.
        if holds(state, self._rule):
            return Advice(done=True)
        # What no way of this site can meet; looking for one would only cost turns.
        if self._foreign:
            return Advice(reason=self._foreign)
        variables = state["variables"]
        # A situation is page and variables: all that the future of a site depends on.
        here: Situation = (state["page"], tuple(variables[name] for name in self.planner.machine.place))
        # Remembered, so that an agent who looks around is told again without another search.
        if here in self._no_way:
            return Advice(reason=self._no_way[here])
        # Off the way that was planned (an error, or a page that reacted otherwise): plan anew from here.
        if here not in self._way:
            try:
                self._way = self._follow(here, self._plan(here))
            except NoPlan:
                self._no_way[here] = f"no way to {self._words(here)} from the page {here[0]!r}"
                return Advice(reason=self._no_way[here])
        act = self._way[here]
        element = self._find(here, act, elements)
        if element is None:
            return self._seek(here, act, elements)
        self._search.forget()
        # Offered beside the step, for agents that skip one by mistake.
        then = self._then(here, act, elements)
        if act.text is not None:
            # the click before must have been meant for the field: what stood there on another page is none
            entered, self._entered = self._entered, (here, act.element)
            if entered == self._entered and hits(last, element):
                return Advice(Type(act.text), element.role, element.name, then=then)
        return Advice(click_on(element), element.role, element.name, then=then)

    # --- on the screen
    def _find(self, here: Situation, act: ElementAct, elements: Sequence[ScreenElement]) -> ScreenElement | None:
        """The element by its key; by role and name on a device that gives no keys of sites."""
        # Keys are exact; names may occur twice on a page.
        found = next((visible for visible in elements if visible.key == act.element), None)
        element = self.planner.site.element(here[0], act.element)
        if found is not None or element is None:
            return found
        return named(elements, KINDS[element.kind], self.planner.machine.text(here[1], element.text))

    def _seek(self, here: Situation, act: ElementAct, elements: Sequence[ScreenElement]) -> Advice:
        """A scroll towards an element that isn't on the screen."""
        site, machine = self.planner.site, self.planner.machine
        # Where things lie is computed as the page does it, so the direction is known without looking.
        placed = lay_out(site, machine.visible(SiteState(*here)))[0]
        tops = {one.element.id: one.top for one in placed}
        shown = [tops[visible.key] for visible in elements if visible.key in tops]
        # Up only where something that shows lies below the element; else down, where most of a page is.
        way = "up" if shown and tops.get(act.element, 0) < max(shown) else "down"
        scroll = self._search.step((here[0], act.element), elements, way)
        element = site.element(here[0], act.element)
        name = machine.text(here[1], element.text) if element is not None else act.element
        return Advice(scroll) if scroll is not None else Advice(reason=f"{name!r} isn't on the page {here[0]!r}")

    def _then(self, here: Situation, act: ElementAct, elements: Sequence[ScreenElement]) -> Action | None:
        after = self._way.get(self._after(here, act))
        element = self._find(here, after, elements) if after is not None else None
        return click_on(element) if element is not None else None

    # --- planning
    def _divide(self) -> list[Part]:
        """The conditions as the goals of the site that they consist of; what belongs to none is one part."""
        parts: list[Part] = []
        rest = list(self._atoms)
        goals = [(tuple(goal.when), goal.page) for goal in self.planner.site.goals if goal.when]
        # Longest first: a goal whose conditions begin another's must not take them away.
        goals.sort(key=lambda goal: -len(goal[0]))
        while rest:
            found = next((goal for goal in goals if tuple(rest[: len(goal[0])]) == goal[0]), None)
            if found is None:
                # No goal of the site begins here (a reworded or foreign rule): the rest stays together.
                return [*parts, (tuple(rest), "")]
            parts.append(found)
            rest = rest[len(found[0]) :]
        return parts

    def _plan(self, here: Situation) -> list[ElementAct]:
        """Acts to the whole goal: part after part in the cheapest order, else all at once. Raises `NoPlan`."""
        machine = self.planner.machine
        # Parts that hold already are conditions of every leg, so that no leg undoes them.
        kept = [atom for atoms, _ in self._parts if machine.holds(here[1], atoms) for atom in atoms]
        missing = [part for part in self._parts if not machine.holds(here[1], part[0])]
        if len(missing) > 1:
            orders: Iterable[Sequence[Part]] = (
                permutations(missing) if len(missing) <= LARGEST_ORDERED else (missing, missing[::-1])
            )
            found = [acts for order in orders if (acts := self._in_order(here, kept, order)) is not None]
            if found:
                return min(found, key=_cost)
        # Nothing in parts was found: the search over all conditions at once, slower but complete.
        return self.planner.plan(SiteState(*here), self._atoms, self._page)

    def _in_order(self, here: Situation, kept: Sequence[Atom], order: Sequence[Part]) -> list[ElementAct] | None:
        atoms, acts = list(kept), list[ElementAct]()
        try:
            # At the end all conditions again with the page: an order may end on another one.
            for more, page in [*order, (self._atoms, self._page)]:
                atoms = list(dict.fromkeys([*atoms, *more]))
                leg = self.planner.plan(SiteState(*here), atoms, page)
                for act in leg:
                    here = self._after(here, act)
                acts += leg
        except NoPlan:
            return None
        return acts

    def _follow(self, here: Situation, acts: Sequence[ElementAct]) -> dict[Situation, ElementAct]:
        way: dict[Situation, ElementAct] = {}
        for act in acts:
            way[here] = act  # where a way comes by twice, the later act leads on
            # Predicted by the same machine as the page runs; where the
            # page does otherwise, `next` plans anew.
            here = self._after(here, act)
        return way

    def _after(self, here: Situation, act: ElementAct) -> Situation:
        machine = self.planner.machine
        element = self.planner.site.element(here[0], act.element)
        if element is None:
            return here
        if act.text is not None:
            place = machine.place[element.variable]
            # Typing changes the variable alone; nothing happens until something is pressed.
            return here[0], (*here[1][:place], act.text, *here[1][place + 1 :])
        number = machine.choose(here[1], element)
        # The edge whose guards hold now; none means that a click does nothing.
        return machine.take(*here, element.edges[number]) if number >= 0 else here

    def _words(self, here: Situation) -> str:
        """What is still missing, as conditions."""
        missing = [atom for atom in self._atoms if not self.planner.machine.holds(here[1], [atom])]
        words = [f"{name} {operator} {operand!r}"[:60] for name, operator, operand in missing[:3]]
        return " and ".join(words) or f"the page {self._page!r}"


def _cost(acts: Sequence[ElementAct]) -> int:
    # A text costs two actions, the click into its field and the typing.
    return sum(1 if act.text is None else 2 for act in acts)


@lru_cache(maxsize=64)
def _planner(kind: str, seed: int) -> Planner:
    """It holds nothing of an episode, so agents share it."""
    return Planner(make_site(kind, seed))


def _conditions(contract: TaskSpec, planner: Planner) -> tuple[tuple[Atom, ...], str, str]:
    """(atoms, page, why they can't be met by any way) of an evaluator: it may require what the site doesn't have."""
    rule = contract.evaluator
    if rule.get("rule") != RULE or not rule.get("conditions"):
        raise ValueError(f"fsm oracle: expected the rule {RULE!r} with conditions, found {rule.get('rule')!r:.60}")
    atoms: list[Atom] = []
    pages: list[str] = []
    foreign = ""
    for path, operator, operand in rule["conditions"]:
        name = path.removeprefix("variables.")
        # The first page asked for; a second one can't be open as well.
        if path == "page" and operator == "eq" and operand in planner.site.page and operand not in pages:
            pages.append(operand)
        elif path != name and name in planner.machine.place:
            # Only variables that the site has; anything else is noted as foreign and never holds.
            atoms.append((name, operator, operand))
        elif path != "page" or operand not in pages:
            foreign = foreign or f"there is no {str(operand) or path!r:.60} on {planner.site.name}"
    if len(pages) > 1:
        foreign = foreign or f"two pages can't be open at once, {pages[0]!r} and {pages[1]!r}"
    return tuple(atoms), pages[0] if pages else "", foreign
