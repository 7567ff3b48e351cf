"""Finds the shortest way to a goal: a uniform-cost search over (page, variables), and its actions on the screen.

A click costs 1, filling a field 2 (click, type). The search leaves out acts that touch nothing the goal depends on
(its cone of influence) and pages that lie on no shortest way between pages it needs; where that finds nothing, it takes
all pages. So a plan is a shortest one among plans without detours, and it is always carried out before it counts.
"""

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter

from generators.tasks.world_interface import ScreenElement, WorldError
from generators.worlds.fsm.interpreted import InterpretedWorld
from generators.worlds.fsm.machine import Machine, SiteState, Values, true
from generators.worlds.fsm.spec import Atom, SiteElement, SiteSpec, Value
from schemas.action_types import Click, Scroll, Type
from schemas.actions import Action

MOST_STATES = 60_000
MOST_PLANS = 4_096
"""Plans that are remembered: the agents of a site stand at the same places, and each asks by itself."""
UNFIT = "no"
"""A text that meets no form, to try how a form refuses."""
Situation = tuple[str, Values]
Key = tuple[Value | tuple[Value, ...], ...]


@dataclass(frozen=True)
class ElementAct:
    """Work an element, or fill a field with `text`."""

    element: str
    text: str | None = None


class NoPlan(ValueError):
    """The goal can't be reached, or not within `MOST_STATES` situations."""


class Planner:
    """Searches in one site."""

    def __init__(self, site: SiteSpec) -> None:
        self.site = site
        self.machine = Machine(site)
        self._moves = [
            (page.id, element, number, edge)
            for page in site.pages
            for element in site.elements(page.id)
            for number, edge in enumerate(element.edges)
        ]
        self._graph: dict[str, set[str]] = {page.id: set() for page in site.pages}
        for page, _, _, edge in self._moves:
            # Which page leads to which at all, whatever the guards say.
            if edge.to:
                self._graph[page].add(edge.to)
        free: dict[str, set[str]] = {}
        # Links that are always there and always work: the pages they reach need no cone of their own.
        for page, element, number, edge in self._moves:
            if edge.to and not number and not edge.when and not element.shown:
                free.setdefault(page, set()).add(edge.to)
        self._distance = {page.id: self._distances(page.id, self._graph) for page in site.pages}
        self._free = {page.id: set(self._distances(page.id, free)) for page in site.pages}
        self._mentions = self._mentioned()
        self._planned = lru_cache(MOST_PLANS)(self._plan)

    def _mentioned(self) -> dict[str, dict[str, set[Value]]]:
        """Per variable, what guards ask of it: operator → operands. A copied variable is asked what its copies are."""
        atoms = [atom for _, element, _, edge in self._moves for atom in (*edge.when, *element.shown)]
        found: dict[str, dict[str, set[Value]]] = {name: {} for name in self.machine.place}
        for name, operator, operand in atoms:
            found[name].setdefault(operator, set()).add(operand)
        # Twice: a copy may be copied once more.
        for _ in range(2):
            for _, _, _, edge in self._moves:
                for to, what, source in edge.effects:
                    if what == "copy":
                        for operator, operands in found[to].items():
                            found[str(source)].setdefault(operator, set()).update(operands)
        return found

    @staticmethod
    def _distances(start: str, graph: dict[str, set[str]]) -> dict[str, int]:
        found, queue = {start: 0}, deque([start])
        while queue:
            page = queue.popleft()
            for to in sorted(graph.get(page, ())):
                if to not in found:
                    found[to] = found[page] + 1
                    queue.append(to)
        return found

    # --- what a goal depends on
    def cone(self, start: str, names: Iterable[str], pages: Iterable[str]) -> tuple[set[str], set[str]]:
        """(variables, pages) that reaching values of `names` on `pages` depends on, from a page."""
        wanted, needed = set(names), set(pages)
        local = {variable.name for variable in self.site.variables if variable.scope == "page"}
        size = (-1, -1)
        # Until nothing is added: variables bring pages, pages bring variables.
        while size != (len(wanted), len(needed)):
            size = len(wanted), len(needed)
            for page, element, number, edge in self._moves:
                touches = any(name in wanted and (page in needed or name not in local) for name, _, _ in edge.effects)
                # A page that can always be walked to needs nothing; one behind a guard brings its conditions.
                leads = edge.to in needed and edge.to != page and edge.to not in self._free[start]
                if touches or leads:
                    needed.add(page)
                    wanted.update(name for name, _, _ in element.shown)
                    # Earlier edges too: they must not hold for this one to fire.
                    wanted.update(name for other in element.edges[: number + 1] for name, _, _ in other.when)
                    wanted.update(
                        str(source) for name, what, source in edge.effects if what == "copy" and name in wanted
                    )
            for page_id in self.site.page:
                for element in self.site.elements(page_id):
                    # Text in a site's own variables is typed on pages that must be visited for it.
                    if element.kind == "field" and element.variable in wanted - local:
                        needed.add(page_id)
        return wanted, needed

    def changed(self, start: str, names: Iterable[str], pages: Iterable[str]) -> set[str]:
        """Variables that a way to values of `names` on `pages` may change, from a page: what it depends on, and what
        else its acts do (an order also fills the list of purchases)."""
        wanted, needed = self.cone(start, names, pages)
        behind = needed - self._free[start]
        acts = [({name for name, _, _ in edge.effects}, edge.to) for _, _, _, edge in self._moves]
        return wanted.union(*(effects for effects, to in acts if effects & wanted or to in behind))

    def _texts(self, name: str, atoms: Sequence[Atom], unfit: bool) -> list[str]:
        """Texts to type in a variable's field: what the goal names, else the first sample and exact demands."""
        reached = {name}
        for _ in range(2):
            reached |= {
                to
                for _, _, _, edge in self._moves
                for to, what, source in edge.effects
                if what == "copy" and source in reached
            }
        named = [str(operand) for variable, operator, operand in atoms if operator == "eq" and variable in reached]
        # Texts that a guard demands exactly; three or more are a search box, whose demands are all results.
        exact = [str(atom[2]) for _, _, _, edge in self._moves for atom in edge.when if atom[:2] == (name, "eq")]
        samples = [str(value) for value in self.site.variable[name].values[:1]]
        # What the goal names comes first: any other text would only widen the search.
        found = named or [*samples, *(exact if unfit or len(exact) < 3 else ())]
        return list(dict.fromkeys([*found, *([UNFIT] if unfit else [])]))

    # --- search
    def plan(self, moment: SiteState, atoms: Sequence[Atom], page: str = "") -> list[ElementAct]:
        """Acts from a moment until the atoms hold (on `page`, if given). Raises `NoPlan`."""
        found = self._planned((moment.page, moment.values), tuple(atoms), page)
        if isinstance(found, NoPlan):
            raise NoPlan(*found.args)
        return list(found)

    def _plan(self, start: Situation, atoms: Sequence[Atom], page: str) -> list[ElementAct] | NoPlan:
        def reached(situation: Situation) -> bool:
            return (not page or situation[0] == page) and self.machine.holds(situation[1], atoms)

        names = [name for name, _, _ in atoms]
        try:
            return self.search(SiteState(*start), reached, names, [page] if page else [], atoms)
        except NoPlan as error:  # remembered as well: nothing is looked for as long as a way that isn't there
            return error

    def search(
        self,
        moment: SiteState,
        reached: Callable[[Situation], bool],
        names: Iterable[str],
        pages: Iterable[str],
        atoms: Sequence[Atom],
        *,
        unfit: bool = False,
    ) -> list[ElementAct]:
        """Like `plan` for any predicate over (page, values) that looks at `names` and `pages`."""
        # Two attempts: pages between those that are needed, then all pages.
        wanted, needed = self.cone(moment.page, names, pages)
        useful = self._between({moment.page, *needed})
        for allowed in (useful, set(self.site.page)):
            acts = self._acts(wanted, allowed, atoms, unfit)
            key = self._key(wanted, atoms)
            found = self._cheapest((moment.page, moment.values), reached, acts, key)
            if found is not None:
                return found
        raise NoPlan(f"{self.site.target}: no way to {list(atoms) or list(pages)} from {moment.page!r}")

    def _between(self, pages: set[str]) -> set[str]:
        far = self._distance
        return pages | {
            q
            for q in self.site.page
            for s in pages
            for t in pages
            # On a shortest way between two needed pages.
            if q in far[s] and t in far[q] and far[s][q] + far[q][t] == far[s].get(t, -1)
        }

    def _acts(
        self, wanted: set[str], pages: set[str], atoms: Sequence[Atom], unfit: bool
    ) -> dict[str, list[tuple[SiteElement, list[str]]]]:
        found: dict[str, list[tuple[SiteElement, list[str]]]] = {}
        for page in pages:
            listed = found.setdefault(page, [])
            for e in self.site.elements(page):
                if e.kind == "field":
                    if e.variable in wanted:
                        listed.append((e, self._texts(e.variable, atoms, unfit)))
                elif (
                    # Whether an act leads somewhere allowed or changes something that matters.
                    any((g.to in pages and g.to != page) or any(n in wanted for n, _, _ in g.effects) for g in e.edges)
                    or e.kind == "combobox"
                    and e.variable in wanted
                ):
                    listed.append((e, []))
        return found

    def _key(self, wanted: set[str], atoms: Sequence[Atom]) -> Callable[[Situation], Key]:
        """What distinguishes situations: page and, of the variables that matter, what any guard or the goal can see."""
        asked: dict[str, dict[str, set[Value]]] = {name: dict(self._mentions[name]) for name in wanted}
        # Three rounds: copies of copies pass on what is asked of them.
        for _ in range(3):
            for name, operator, operand in atoms:
                if name in asked:
                    asked[name][operator] = asked[name].get(operator, set()) | {operand}
            for _, _, _, edge in self._moves:
                for to, what, source in edge.effects:
                    if what == "copy" and to in asked and str(source) in asked:
                        for operator, operands in asked[to].items():
                            asked[str(source)][operator] = asked[str(source)].get(operator, set()) | operands
        parts = [(self.machine.place[name], self.site.variable[name].kind, asked[name]) for name in sorted(wanted)]
        # Flags and numbers have few values and keep them. The empty slice makes a tuple of any number of them.
        plain = itemgetter(slice(0, 0), *(place for place, kind, _ in parts if kind in ("flag", "number")))
        texts = [(place, asks) for place, kind, asks in parts if kind not in ("flag", "number")]
        seen: dict[tuple[int, Value], str] = {}

        def part(place: int, asks: dict[str, set[Value]], value: Value) -> str:
            # Texts count only by what can be asked of them: all texts that no guard tells apart are one situation.
            named = any(value in asks.get(operator, ()) for operator in ("eq", "ne"))
            truths = "".join(
                str(int(true(value, operator, ""))) for operator in sorted(asks) if operator not in ("eq", "ne")
            )
            seen[place, value] = f"={value}" if named else f"*{truths}"
            return seen[place, value]

        def key(situation: Situation) -> Key:
            page, values = situation
            told = [seen.get((place, values[place])) or part(place, asks, values[place]) for place, asks in texts]
            return page, plain(values), *told

        return key

    def _cheapest(
        self,
        start: Situation,
        reached: Callable[[Situation], bool],
        acts: dict[str, list[tuple[SiteElement, list[str]]]],
        key: Callable[[Situation], Key],
    ) -> list[ElementAct] | None:
        cost: dict[Key, int] = {key(start): 0}
        came: dict[Key, tuple[Key, ElementAct]] = {}
        heap: list[tuple[int, int, Situation, Key]] = [(0, 0, start, key(start))]
        number = 0
        while heap:
            paid, _, here, name = heapq.heappop(heap)
            # A cheaper way to it was found meanwhile.
            if paid > cost[name]:
                continue
            if reached(here):
                # When it is taken out and not when it is put in: only then is its cost final.
                return _trace(came, name)
            if len(cost) > MOST_STATES:
                return None
            for act, there in self._next(here, acts.get(here[0], ())):
                # A field costs two actions, a click and the typing.
                total, to = paid + (1 if act.text is None else 2), key(there)
                if total < cost.get(to, 1 << 30):
                    number += 1
                    cost[to], came[to] = total, (name, act)
                    # The number breaks ties, so that situations are never
                    # compared and plans are reproducible.
                    heapq.heappush(heap, (total, number, there, to))
        return None

    def _next(
        self, here: Situation, acts: Iterable[tuple[SiteElement, list[str]]]
    ) -> Iterator[tuple[ElementAct, Situation]]:
        page, values = here
        machine = self.machine
        for element, texts in acts:
            if element.shown and not machine.holds(values, element.shown):
                continue
            if element.kind == "field":
                place = machine.place[element.variable]
                for text in texts:
                    yield ElementAct(element.id, text), (page, (*values[:place], text, *values[place + 1 :]))
                continue
            number = machine.choose(values, element)
            if number >= 0:
                yield ElementAct(element.id), machine.take(page, values, element.edges[number])


def _trace(came: dict[Key, tuple[Key, ElementAct]], end: Key) -> list[ElementAct]:
    acts: list[ElementAct] = []
    while end in came:
        end, act = came[end]
        acts.append(act)
    return acts[::-1]


def perform(world: InterpretedWorld, acts: Iterable[ElementAct]) -> list[Action]:
    """Carry acts out as a person would, scrolling where an element isn't on the screen; returns the actions taken.

    Raises `WorldError` for an element that the page doesn't show."""
    done: list[Action] = []

    def do(action: Action) -> None:
        world.act(action)
        done.append(action)

    for act in acts:
        do(Click(_reveal(world, act.element, do).centre))
        if act.text is not None:
            do(Type(act.text))
    return done


def _reveal(world: InterpretedWorld, element: str, do: Callable[[Action], None]) -> ScreenElement:
    # Twenty scrolls reach the end of the longest page.
    for _ in range(20):
        shown = next((shown for shown in world.elements() if shown.key == element), None)
        if shown is not None:
            return shown
        placed = next((p for p in world.laid_out()[0] if p.element.id == element), None)
        if placed is None:
            break
        # Up only for what begins above the window.
        do(Scroll(direction="down" if placed.top > world.moment.scroll else "up"))
    raise WorldError(f"fsm: no element {element!r} on page {world.moment.page!r}")
