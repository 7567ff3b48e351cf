"""Carries out a site's spec in plain Python: what guards, effects, history and typing mean. `runtime.js` equals it.

A `SiteState` is everything that can change: page, variables, history, focus and scroll. It is immutable.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from generators.tasks.world_interface import WorldError
from generators.worlds.fsm.spec import FORMS, Atom, Edge, Effect, SiteElement, SiteSpec, Value
from schemas.ids import digest

_NAMES = re.compile(r"\{([a-z0-9_]+)\}")
_FORMS = {name: re.compile(pattern) for name, pattern in FORMS.items()}
Values = tuple[Value, ...]
Fired = tuple[str, str, int]
"""(page, element, number of the edge)."""


@dataclass(frozen=True)
class SiteState:
    """`values` stand in the order of the site's variables; `past` are the pages that Back goes to, the nearest last."""

    page: str
    values: Values
    past: tuple[str, ...] = ()
    focus: str = ""
    selected: bool = False
    scroll: int = 0


class Machine:
    """A site's spec, ready to run."""

    def __init__(self, site: SiteSpec) -> None:
        self.site = site
        self.place = {variable.name: number for number, variable in enumerate(site.variables)}
        # What forgets itself when a page is left: number and initial value, looked up once.
        self._local = [(n, v.initial) for n, v in enumerate(site.variables) if v.scope == "page"]

    # --- beginnings
    def start(self, page: str = "", variables: Mapping[str, Any] | None = None) -> SiteState:
        """A snapshot: a page (home by default) and variables that differ from the initial ones.

        Raises `WorldError` for an unknown page or variable, or a value of the wrong kind."""
        page = page or self.site.pages[0].id
        if page not in self.site.page:
            raise WorldError(f"{self.site.target}: expected a page of {sorted(self.site.page)}, found {page!r:.60}")
        values = list(self.site.initial.values())
        # Checked here and not by the page: a bad start must be refused before anything shows.
        for name, value in (variables or {}).items():
            if name not in self.place:
                raise WorldError(f"{self.site.target}: no variable {name!r:.60}; known are {sorted(self.place)}")
            if not legal(self.site, name, value):
                raise WorldError(f"{self.site.target}: {name} can't be {value!r:.60}")
            values[self.place[name]] = value
        return SiteState(page, tuple(values))

    def variables(self, moment: SiteState) -> dict[str, Value]:
        return dict(zip(self.place, moment.values))

    def state(self, moment: SiteState) -> dict[str, Any]:
        """The truth as plain data: page, variables and a digest of the history."""
        # The history as a digest: it distinguishes states without growing with them.
        return {"page": moment.page, "variables": self.variables(moment), "history": digest(list(moment.past))[:16]}

    # --- meaning
    def holds(self, values: Values, atoms: Sequence[Atom]) -> bool:
        # Most guards are empty, and a search for a way asks a million of them.
        return not atoms or all(true(values[self.place[name]], operator, operand) for name, operator, operand in atoms)

    def text(self, values: Values, text: str) -> str:
        """Text with {variables} filled in: flags as yes and no. Values are never read for names again."""

        def shown(match: re.Match[str]) -> str:
            value = values[self.place[match[1]]]
            return ("yes" if value else "no") if isinstance(value, bool) else str(value)

        # One pass: a value that holds braces shows them and names nothing.
        return _NAMES.sub(shown, text)

    def visible(self, moment: SiteState) -> list[SiteElement]:
        return [e for e in self.site.elements(moment.page) if self.holds(moment.values, e.shown)]

    def effect(self, values: list[Value], effect: Effect) -> None:
        name, what, operand = effect
        place = self.place[name]
        if what == "set":
            values[place] = operand
        elif what == "toggle":
            values[place] = not values[place]
        elif what == "copy":
            values[place] = values[self.place[str(operand)]]
        else:
            lowest, highest = self.site.variable[name].values
            # Clamped to the variable's range, as the page's script does.
            values[place] = min(max(int(values[place]) + int(operand), int(lowest)), int(highest))

    def choose(self, values: Values, element: SiteElement) -> int:
        """Number of the edge that fires; -1 if none does."""
        # Edges in order: the first whose guard holds.
        for number, edge in enumerate(element.edges):
            if self.holds(values, edge.when):
                return number
        return -1

    def take(self, page: str, values: Values, edge: Edge) -> tuple[str, Values]:
        """Effects in order, then the move; page variables forget themselves when the page changes."""
        found = list(values)
        for effect in edge.effects:
            self.effect(found, effect)
        # Only on leaving: an edge back to the same page keeps what was typed.
        if edge.to and edge.to != page:
            for number, initial in self._local:
                found[number] = initial
        return edge.to or page, tuple(found)

    # --- acts
    def work(self, moment: SiteState, element: SiteElement) -> tuple[SiteState, Fired | None]:
        """Click an element that is visible: a field is focused and what it holds selected; else an edge fires."""
        if element.kind == "field":
            # What the field holds is selected, so typing replaces it, as after a click into it in the page.
            return replace(moment, focus=element.id, selected=True), None
        number = self.choose(moment.values, element)
        if number < 0:
            return replace(moment, focus="", selected=False), None
        page, values = self.take(moment.page, moment.values, element.edges[number])
        fired = (moment.page, element.id, number)
        if page != moment.page:
            # A new moment: focus, selection and scroll begin anew on the new page.
            return SiteState(page, values, (*moment.past, moment.page)), fired
        return replace(moment, values=values, focus="", selected=False), fired

    def blur(self, moment: SiteState) -> SiteState:
        """A click on nothing."""
        return replace(moment, focus="", selected=False)

    def type(self, moment: SiteState, text: str) -> tuple[SiteState, Fired | None]:
        """Type where the focus is: over what is selected, else at the end. Without focus nothing happens."""
        field = self.site.element(moment.page, moment.focus)
        if field is None or not text:
            return moment, None
        old = "" if moment.selected else str(moment.values[self.place[field.variable]])
        # Typing counts as the field's edge 0, so that coverage can ask for it.
        return self._write(moment, field, old + text), (moment.page, field.id, 0)

    def erase(self, moment: SiteState) -> SiteState:
        """Backspace: what is selected, else the last character."""
        field = self.site.element(moment.page, moment.focus)
        if field is None:
            return moment
        old = str(moment.values[self.place[field.variable]])
        # All that is selected, or the last character.
        return self._write(moment, field, "" if moment.selected else old[:-1])

    def select_all(self, moment: SiteState) -> SiteState:
        return replace(moment, selected=bool(moment.focus))

    def _write(self, moment: SiteState, field: SiteElement, text: str) -> SiteState:
        values = list(moment.values)
        values[self.place[field.variable]] = text
        return replace(moment, values=tuple(values), selected=False)

    def enter(self, moment: SiteState) -> tuple[SiteState, Fired | None]:
        """Enter in a field works the element that the field names, if that one is visible."""
        field = self.site.element(moment.page, moment.focus)
        aim = self.site.element(moment.page, field.enter) if field is not None and field.enter else None
        # A button that isn't shown can't be worked by Enter either.
        if aim is None or not self.holds(moment.values, aim.shown):
            return moment, None
        return self.work(moment, aim)

    def back(self, moment: SiteState) -> SiteState:
        """To the page before; on the first one nothing happens."""
        if not moment.past:
            return moment
        # Back restores the page, not what was typed on it.
        return SiteState(moment.past[-1], self._left(moment.values), moment.past[:-1])

    def launch(self, moment: SiteState, url: str) -> SiteState:
        """An address of the site: its host, then /page; home for a page without an address; elsewhere leads nowhere."""
        # An address of another site changes nothing: the browser of these sites goes nowhere else.
        page = address(self.site, url)
        if not page:
            return moment
        if page == moment.page:
            return replace(moment, focus="", selected=False, scroll=0)
        return SiteState(page, self._left(moment.values), (*moment.past, moment.page))

    def _left(self, values: Values) -> Values:
        found = list(values)
        for number, initial in self._local:
            found[number] = initial
        return tuple(found)


def true(value: Value, operator: str, operand: Value) -> bool:
    """Whether a value meets an atom's operator. Texts are filled if more than blanks stand in them."""
    if operator == "eq":
        return value == operand
    if operator == "ne":
        return value != operand
    if operator == "ge":
        return int(value) >= int(operand)
    if operator == "le":
        return int(value) <= int(operand)
    text = str(value)
    if operator == "filled":
        # Blanks alone: tabs and line breaks can't stand in a field of one line.
        return text.strip(" ") != ""
    if operator == "empty":
        return text.strip(" ") == ""
    # The whole text, or "12 apples" would be an amount.
    return _FORMS[operator].fullmatch(text) is not None


def legal(site: SiteSpec, name: str, value: object) -> bool:
    """Whether a variable can hold a value."""
    variable = site.variable[name]
    if variable.kind == "flag":
        # bool is an int in Python; each kind takes exactly its own type.
        return isinstance(value, bool)
    if variable.kind == "number":
        lowest, highest = variable.values
        return type(value) is int and int(lowest) <= value <= int(highest)
    return isinstance(value, str) and (variable.kind == "text" or value in variable.values)


def address_of(site: SiteSpec, page: str) -> str:
    """What leads to a page, by `address`; the home address for one that has none of its own."""
    return f"https://{site.host}/{page if site.page[page].deep else ''}"


def address(site: SiteSpec, url: str) -> str:
    """Page that an address leads to; "" for another site's."""
    text = url.removeprefix("https://").removeprefix("http://")
    host, _, path = text.partition("/")
    if host != site.host:
        # Pages without an address of their own lead home, as a link sent by somebody else does.
        return ""
    page = site.page.get(path.strip("/"))
    return page.id if page is not None and page.deep else site.pages[0].id
