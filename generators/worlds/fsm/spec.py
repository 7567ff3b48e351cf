"""What a site is: pages (the states), variables, elements whose edges have guards and effects, and goals.

A site is an extended finite-state machine, plain frozen data. `machine.py` carries it out in Python, `runtime.js` in a
browser; both read the same JSON (`SiteSpec.plain`). An element's edges are tried in order, and the first whose guard
holds fires; so the machine is deterministic. `check.py` proves a site sound.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

Value = str | int | bool
Atom = tuple[str, str, Value]
"""(variable, operator, operand). Operators: see `OPERATORS`; the operand of `filled` and of the forms is ""."""
Effect = tuple[str, str, Value]
"""(variable, what, operand): `set` a value, `add` a number (held within the variable's range), `toggle` a flag, `copy`
the variable named by the operand."""

OPERATORS = ("eq", "ne", "ge", "le", "filled", "empty", "email", "amount", "digits", "date")
EFFECTS = ("set", "add", "toggle", "copy")
FORMS = {
    "email": r"[^@ ]+@[^@ ]+\.[^@ ]+",
    "amount": r"[1-9][0-9]{0,4}",
    "digits": r"[0-9]{4,16}",
    "date": r"[0-9]{4}-[0-9]{2}-[0-9]{2}",
}
"""Regular expressions that a whole text has to match; they mean the same in Python and JavaScript."""
KINDS = {
    "heading": "heading",
    "text": "text",
    "notice": "status",
    "link": "link",
    "button": "button",
    "tab": "tab",
    "card": "link",
    "row": "link",
    "field": "textbox",
    "check": "checkbox",
    "radio": "radio",
    "combobox": "combobox",
    "option": "option",
    "brand": "link",
    "nav": "link",
    "footer": "text",
}
"""Kind of an element → its role."""
CLICKABLE = frozenset(KINDS) - {"heading", "text", "notice", "footer"}


@dataclass(frozen=True)
class Variable:
    """`kind`: flag, number (`values` = lowest, highest), choice (`values` = all) or text (`values` = texts worth
    typing; any text is legal). A `page` variable goes back to `initial` when its page is left."""

    name: str
    kind: str
    initial: Value
    values: tuple[Value, ...] = ()
    scope: str = "site"


@dataclass(frozen=True)
class Edge:
    """`to` = the page it leads to, "" to stay."""

    when: tuple[Atom, ...] = ()
    effects: tuple[Effect, ...] = ()
    to: str = ""


@dataclass(frozen=True)
class SiteElement:
    """Something on a page. `text` and `detail` may show variables as {name}. `variable` is what a field, check, radio
    or combobox holds, `value` a radio's or option's; `enter` is the element that Enter in this field works."""

    id: str
    kind: str
    text: str
    detail: str = ""
    variable: str = ""
    value: str = ""
    hint: str = ""
    enter: str = ""
    style: str = ""
    secret: bool = False
    shown: tuple[Atom, ...] = ()
    edges: tuple[Edge, ...] = ()


@dataclass(frozen=True)
class SitePage:
    """A state. `deep`: its address can be opened directly. `bare`: without the site's menu; `without`: without some of
    its entries."""

    id: str
    title: str
    elements: tuple[SiteElement, ...]
    deep: bool = True
    bare: bool = False
    without: tuple[str, ...] = ()


@dataclass(frozen=True)
class Goal:
    """What a user may want: conditions on the variables (and `page`), in several wordings. `alone`: it undoes others,
    so it is never joined with them."""

    id: str
    when: tuple[Atom, ...]
    texts: tuple[str, ...]
    page: str = ""
    alone: bool = False


@dataclass(frozen=True)
class Theme:
    """Looks: colours as CSS hex, `menu` is "top" or "side"."""

    accent: str
    dark: str
    paper: str
    ink: str
    font: str
    radius: int
    menu: str


@dataclass(frozen=True)
class SiteSpec:
    """A whole site. The first page is home."""

    kind: str
    seed: int
    name: str
    host: str
    theme: Theme
    variables: tuple[Variable, ...]
    menu: tuple[SiteElement, ...]
    pages: tuple[SitePage, ...]
    goals: tuple[Goal, ...] = ()

    @property
    def target(self) -> str:
        """Its name as a task's target."""
        return f"fsm/{self.kind}/{self.seed}"

    @cached_property
    def page(self) -> Mapping[str, SitePage]:
        return {page.id: page for page in self.pages}

    @cached_property
    def variable(self) -> Mapping[str, Variable]:
        return {variable.name: variable for variable in self.variables}

    @cached_property
    def initial(self) -> dict[str, Value]:
        return {variable.name: variable.initial for variable in self.variables}

    @cached_property
    def _elements(self) -> dict[str, tuple[SiteElement, ...]]:
        foot = SiteElement("footer", "footer", f"© 2026 {self.name} · {self.host}")
        # Pages may leave out entries, never change them.
        menus = {p.id: [e for e in self.menu if not p.bare and e.id not in p.without] for p in self.pages}
        return {p.id: (*menus[p.id], *p.elements, foot) for p in self.pages}

    @cached_property
    def _by_id(self) -> dict[str, dict[str, SiteElement]]:
        return {page: {element.id: element for element in found} for page, found in self._elements.items()}

    def elements(self, page: str) -> tuple[SiteElement, ...]:
        """All elements of a page in reading order: menu, own, footer."""
        return self._elements[page]

    def element(self, page: str, element: str) -> SiteElement | None:
        return self._by_id[page].get(element)

    def edges(self) -> Iterator[tuple[str, str, int]]:
        """Every edge as (page, element, number); typing in a field counts as its edge 0."""
        for page in self.pages:
            for element in self.elements(page.id):
                count = 1 if element.kind == "field" else len(element.edges)
                # Typing is the one act of a field.
                yield from ((page.id, element.id, number) for number in range(count))

    def plain(self) -> dict[str, Any]:
        """Plain JSON data, all that the browser needs (goals stay here: no page knows what is asked)."""
        # Goals stay behind: what is asked is nothing the page should know.
        plain = asdict(self)
        del plain["goals"]
        return plain | {"forms": FORMS, "roles": KINDS}
