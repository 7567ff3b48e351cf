"""Proves a site sound: names and kinds fit, nothing dangles, it is deterministic, every page and edge is reachable."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from generators.worlds.fsm.layout import WIDTH, lay_out
from generators.worlds.fsm.machine import Fired, Machine, SiteState, legal
from generators.worlds.fsm.plan import ElementAct, NoPlan, Planner, Situation
from generators.worlds.fsm.spec import EFFECTS, FORMS, KINDS, OPERATORS, Atom, Effect, SiteElement, SitePage, SiteSpec

_SHOWN = re.compile(r"\{([a-z0-9_]+)\}")


def problems(site: SiteSpec) -> list[str]:
    # Each kind of mistake that templates have made once has a line here.
    """What is wrong with the spec as written, a line each; [] if nothing is. Reachability is `unreached`'s matter."""
    found = [
        *_repeats("page", (page.id for page in site.pages)),
        *_repeats("title", (p.title for p in site.pages)),
        *_repeats("variable", (v.name for v in site.variables)),
    ]
    found += [
        f"variable {v.name}: can't begin as {v.initial!r}" for v in site.variables if not legal(site, v.name, v.initial)
    ]
    for page in site.pages:
        # With the menu's elements, which every page has.
        elements = site.elements(page.id)
        found += _repeats(f"element of {page.id}", (element.id for element in elements))
        for element in elements:
            found += [f"{page.id}/{element.id}: {line}" for line in _of_element(site, page, element)]
        # Browser and interpreter would lay it out differently.
        wide = [p.element.id for p in lay_out(site, elements)[0] if p.left + p.width > WIDTH]
        found += [f"{page.id}/{name}: doesn't fit the width of the page" for name in wide]
    for goal in site.goals:
        found += [f"goal {goal.id}: {line}" for atom in goal.when for line in _of_atom(site, atom)]
        if goal.page and goal.page not in site.page:
            found.append(f"goal {goal.id}: no page {goal.page!r}")
        # It would be done before anything is done; a goal with a page waits for that page.
        if not goal.page and Machine(site).holds(tuple(site.initial.values()), goal.when):
            found.append(f"goal {goal.id}: holds from the beginning")
    return found + _repeats("goal", (goal.id for goal in site.goals))


def _repeats(what: str, names: Iterator[str]) -> list[str]:
    return [f"{what} {name!r} stands {count} times" for name, count in Counter(names).items() if count > 1]


def _of_element(site: SiteSpec, page: SitePage, e: SiteElement) -> Iterator[str]:
    if e.kind not in KINDS:
        yield f"unknown kind {e.kind!r}"
        return
    if e.variable and e.variable not in site.variable:
        yield f"no variable {e.variable!r}"
        return
    for name in _SHOWN.findall(e.text + e.detail):
        if name not in site.variable:
            yield f"shows no variable {name!r}"
    drafts = {other.variable for other in page.elements if other.kind == "field"}
    # What is shown may depend on text only if that text is typed elsewhere.
    looks = {*_SHOWN.findall(e.text + e.detail), *(name for name, _, _ in e.shown)}
    if looks & drafts:  # nothing is redrawn while someone types
        yield f"depends on {sorted(looks & drafts)}, which is typed on the same page"
    if e.kind == "field" and (e.edges or site.variable[e.variable].kind != "text"):
        yield "a field holds a text variable and has no edges"
    if e.enter and site.element(page.id, e.enter) is None:
        yield f"Enter works no element {e.enter!r}"
    guards = [frozenset(edge.when) for edge in e.edges]
    if len(set(guards)) < len(guards):
        yield "two edges have the same guard"
    # A guard that is part of a later one takes all its cases: edges fire in order.
    if any(earlier <= later for n, later in enumerate(guards) for earlier in guards[:n]):
        yield "an edge can never fire: one before it holds whenever it does"
    for edge in e.edges:
        if edge.to and edge.to not in site.page:
            yield f"leads to no page {edge.to!r}"
        for atom in edge.when:
            yield from _of_atom(site, atom)
        for effect in edge.effects:
            yield from _of_effect(site, effect, edge.when)
    for atom in e.shown:
        yield from _of_atom(site, atom)


def _of_atom(site: SiteSpec, atom: Atom) -> Iterator[str]:
    name, operator, operand = atom
    variable = site.variable.get(name)
    if variable is None:
        yield f"a condition names no variable {name!r}"
    elif operator not in OPERATORS:
        yield f"unknown operator {operator!r}"
    elif operator in ("eq", "ne") and not legal(site, name, operand):
        yield f"{name} can never be {operand!r}"
    elif operator in ("ge", "le") and variable.kind != "number":
        yield f"{name} is no number"
    elif operator in (*FORMS, "filled", "empty") and variable.kind != "text":
        yield f"{name} is no text"


def _of_effect(site: SiteSpec, effect: Effect, when: tuple[Atom, ...]) -> Iterator[str]:
    name, what, operand = effect
    variable = site.variable.get(name)
    if variable is None or what not in EFFECTS:
        yield f"unknown effect {effect!r}"
    elif what == "set" and not legal(site, name, operand):
        yield f"{name} can't be set to {operand!r}"
    elif what == "toggle" and variable.kind != "flag":
        yield f"{name} is no flag"
    elif what == "add" and (variable.kind != "number" or type(operand) is not int):
        yield f"{name} can't be raised by {operand!r}"
    elif what == "copy":
        source = site.variable.get(str(operand))
        # A copy under a guard that excludes "" can't bring "" over.
        given = set() if source is None else set(source.values) - ({""} if (operand, "ne", "") in when else set())
        fits = (
            source is not None
            and source.kind == variable.kind
            and (source.kind == "text" or given <= {*variable.values})
        )
        if not fits:
            yield f"{name} can't be a copy of {operand!r}"


def unreached(site: SiteSpec) -> tuple[set[str], set[Fired]]:
    """(pages, edges) that no way from the first visit leads to; both are empty for a sound site."""
    planner = Planner(site)
    start = planner.machine.start()
    edges: set[Fired] = set(site.edges())
    pages = set(site.page)
    # The first page is reached by being there.
    pages.discard(start.page)
    # First by walks to pages: most edges fire on the way and need no search of their own.
    for page in site.page:
        if page in pages:
            _walk(planner, start, page, pages, edges)
    # What is left gets a search each, to a situation in which exactly this edge fires.
    for fired in sorted(edges):
        if fired in edges and fired[0] not in pages:
            _fire(planner, start, fired, pages, edges)
    return pages, edges


def _search(
    planner: Planner, start: SiteState, reached: Callable[[Situation], bool], names: Iterable[str], pages: list[str]
) -> list[ElementAct] | None:
    """With fitting texts, else also with unfit ones."""
    names = list(names)
    # Fitting texts first: errors need unfit ones, and allowing both doubles the search.
    for unfit in (False, True):
        try:
            return planner.search(start, reached, names, pages, (), unfit=unfit)
        except NoPlan:
            continue
    return None


def _walk(planner: Planner, start: SiteState, page: str, pages: set[str], edges: set[Fired]) -> None:
    acts = _search(planner, start, lambda s: s[0] == page, (), [page])
    if acts is None:
        return
    _follow(planner, start, [(a.element, a.text) for a in acts], pages, edges)


def _fire(planner: Planner, start: SiteState, fired: Fired, pages: set[str], edges: set[Fired]) -> None:
    page, name, number = fired
    element = planner.site.element(page, name)
    assert element is not None
    machine = planner.machine
    # Earlier edges' guards matter too: they must not hold, or another edge fires.
    looks = [*element.shown] + [a for edge in element.edges[: number + 1] for a in edge.when]

    def ready(situation: Situation) -> bool:
        if situation[0] != page or not machine.holds(situation[1], element.shown):
            return False
        return element.kind == "field" or machine.choose(situation[1], element) == number

    acts = _search(planner, start, ready, [a[0] for a in looks], [page])
    if acts is None:
        return
    # A field has no edge of its own; it is worked by typing into it.
    last = (name, "no" if element.kind == "field" else None)
    _follow(planner, start, [*((a.element, a.text) for a in acts), last], pages, edges)


def _follow(
    planner: Planner, moment: SiteState, acts: list[tuple[str, str | None]], pages: set[str], edges: set[Fired]
) -> None:
    """Carry acts out in the machine; what they reach is struck off."""
    for name, text in acts:
        element = planner.site.element(moment.page, name)
        assert element is not None
        # Carried out by the machine and not believed: the plan is only a claim.
        moment, fired = planner.machine.work(moment, element)
        if text is not None:
            moment, fired = planner.machine.type(moment, text)
        pages.discard(moment.page)
        if fired is not None:
            edges.discard(fired)


def checked(site: SiteSpec) -> SiteSpec:
    """The site itself. Raises `ValueError` that names its first problem and how many there are."""
    # Reachability is asked only of a spec that is well-formed.
    found = problems(site)
    pages, edges = unreached(site) if not found else (set(), set())
    found += [f"page {page} can't be reached" for page in sorted(pages)]
    found += [f"edge {edge} can't fire" for edge in sorted(edges)]
    if found:
        raise ValueError(f"{site.target}: {len(found)} problems, the first: {found[0]}")
    return site
