"""Writes a site's spec down: pages, forms with checked fields, menus. The templates use nothing else.

A form's button has one edge for success and one for each condition that fails first, in reading order; the message goes
to the page variable `error`. Messages of success go to `done`. Both show as notices under the heading.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from generators.worlds.fsm.spec import Atom, Edge, Effect, Goal, SiteElement, SitePage, SiteSpec, Theme, Value, Variable
from generators.worlds.fsm.words import FONTS, PALETTES

Atoms = tuple[Atom, ...]


def put(name: str, value: Value) -> Effect:
    return name, "set", value


def say(text: str) -> tuple[Effect, ...]:
    """Show a message of success on the page."""
    # Each message clears the other, so that only the newest shows.
    return put("error", ""), put("done", text)


def fail(text: str) -> tuple[Effect, ...]:
    return put("done", ""), put("error", text)


@dataclass(frozen=True)
class Need:
    """A condition of a form and what is said when it isn't met."""

    atom: Atom
    error: str


class PageDraft:
    """A page being written; every method adds at its end. Ids follow from the label, with a number where it repeats."""

    def __init__(self, site: Draft, id: str, title: str, deep: bool, bare: bool, without: tuple[str, ...]) -> None:
        self.site, self.id, self.title, self.deep, self.bare = site, id, title, deep, bare
        self.without = without
        self.elements: list[SiteElement] = []
        self.needs: list[Need] = []

    def add(self, kind: str, text: str, **fields: object) -> str:
        """Any element; returns its id."""
        # 28 characters: ids stay readable, and a number tells repetitions apart.
        stem = "".join(char if char.isalnum() else "-" for char in text.lower()).strip("-")[:28] or "x"
        ids = {element.id for element in self.elements}
        name, count = f"{kind}-{stem}", 2
        while name in ids:
            name, count = f"{kind}-{stem}-{count}", count + 1
        self.elements.append(SiteElement(name, kind, text, **fields))  # type: ignore[arg-type]
        return name

    def text(self, text: str, *, shown: Atoms = (), style: str = "") -> PageDraft:
        self.add("text", text, shown=shown, style=style)
        return self

    def part(self, text: str) -> PageDraft:
        """A heading inside the page."""
        self.add("heading", text, style="sub")
        return self

    def notice(self, text: str, *, shown: Atoms = (), style: str = "") -> PageDraft:
        self.add("notice", text, shown=shown, style=style)
        return self

    def link(self, text: str, to: str, *effects: Effect) -> PageDraft:
        self.add("link", text, edges=(Edge((), effects, to),))
        return self

    def tab(self, text: str, to: str) -> PageDraft:
        # The tab of the present page leads nowhere.
        here = "here" if to == self.id else ""
        self.add("tab", text, edges=(Edge((), (), "" if here else to),), style=here)
        return self

    def button(self, text: str, *edges: Edge, shown: Atoms = (), style: str = "") -> PageDraft:
        self.add("button", text, edges=edges, shown=shown, style=style)
        return self

    def switch(self, name: str, on: str, off: str, *, style: str = "", off_style: str = "") -> PageDraft:
        """Two buttons of which the one shows that changes what is: `on` sets a flag, `off` takes it back."""
        self.button(on, Edge((), (put(name, True),)), shown=((name, "eq", False),), style=style)
        return self.button(off, Edge((), (put(name, False),)), shown=((name, "eq", True),), style=off_style)

    def item(self, text: str, detail: str, to: str, *, shown: Atoms = ()) -> PageDraft:
        """An entry of a list that leads somewhere: a card or a row, as the site likes."""
        self.add(self.site.item_kind, text, detail=detail, edges=(Edge((), (), to),), shown=shown)
        return self

    def row(self, text: str, detail: str, to: str, *effects: Effect, shown: Atoms = ()) -> PageDraft:
        self.add("row", text, detail=detail, edges=(Edge((), effects, to),), shown=shown)
        return self

    def field(
        self,
        label: str,
        name: str,
        samples: Sequence[str],
        need: str = "filled",
        *,
        hint: str = "",
        error: str = "",
        enter: str = "",
        secret: bool = False,
    ) -> PageDraft:
        """A text field over a page variable. `need` "" makes it optional, "eq" wants the first sample exactly."""
        # Samples are the texts that planners type; the page itself accepts any.
        self.site.text(name, samples)
        self.add("field", label, variable=name, hint=hint, enter=enter, secret=secret)
        if need:
            said = error or (f"Please fill in: {label}" if need == "filled" else f"Please check: {label}")
            self.needs.append(Need((name, need, samples[0] if need == "eq" else ""), said))
        return self

    def check(self, label: str, name: str, *, must: str = "", scope: str = "page") -> PageDraft:
        """A box to tick; `must` = what is said if it isn't ticked."""
        self.site.flag(name, scope=scope)
        self.add("check", label, variable=name, edges=(Edge((), ((name, "toggle", ""),)),))
        if must:
            self.needs.append(Need((name, "eq", True), must))
        return self

    def radios(
        self, label: str, name: str, options: Sequence[str], *, must: bool = True, scope: str = "page"
    ) -> PageDraft:
        self.site.choice(name, ("", *options), scope=scope)
        self.add("text", label, style="label-line")
        for option in options:
            self.add("radio", option, variable=name, value=option, edges=(Edge((), (put(name, option),)),))
        if must:
            self.needs.append(Need((name, "ne", ""), f"Please choose: {label}"))
        return self

    def dropdown(
        self, label: str, name: str, options: Sequence[str], *, must: bool = True, scope: str = "page"
    ) -> PageDraft:
        """A list that opens at a click; which one is open is the page variable `menu`."""
        self.site.choice(name, ("", *options), scope=scope)
        # A second click closes the list; opening another closes this one, for `menu` holds one name.
        edges = (Edge((("menu", "eq", name),), (put("menu", ""),)), Edge((), (put("menu", name),)))
        self.add("combobox", label, variable=name, hint="Choose…", edges=edges)
        for option in options:
            effects = (put(name, option), put("menu", ""))
            self.add(
                "option", option, variable=name, value=option, edges=(Edge((), effects),), shown=(("menu", "eq", name),)
            )
        if must:
            self.needs.append(Need((name, "ne", ""), f"Please choose: {label}"))
        return self

    def submit(self, text: str, *effects: Effect, to: str = "") -> PageDraft:
        """The button of the form above it; Enter in the form's fields works it too."""
        needs, self.needs = self.needs, []
        atoms = tuple(need.atom for need in needs)
        edges = [Edge(atoms, effects, to)]
        # One edge for each condition, the last ones first: its guard is that all before it hold.
        edges += [Edge(atoms[:n], fail(needs[n].error)) for n in reversed(range(len(needs)))]
        name = self.add("button", text, edges=tuple(edges), style="main")
        # Fields without a button of their own are sent by this one.
        fields = [n for n, e in enumerate(self.elements) if e.kind == "field" and not e.enter]
        for n in fields:
            self.elements[n] = replace(self.elements[n], enter=name)
        return self


class Draft:
    """A site being written. `rng` draws everything that differs between seeds."""

    def __init__(self, kind: str, seed: int, names: Sequence[str]) -> None:
        self.kind, self.seed = kind, seed
        # By kind and seed alone: a site is the same in every process.
        self.rng = Random(f"fsm/{kind}/{seed}")
        self.name = self.rng.choice(list(names))
        self.item_kind = self.rng.choice(["card", "row"])
        accent, dark, paper, ink = self.rng.choice(PALETTES)
        self.theme = Theme(
            accent,
            dark,
            paper,
            ink,
            self.rng.choice(FONTS),
            self.rng.choice([0, 4, 10]),
            self.rng.choice(["top", "side"]),
        )
        self._pages: list[PageDraft] = []
        self._menu: list[SiteElement] = []
        self._variables: dict[str, Variable] = {}
        self._goals: list[Goal] = []

    # --- variables
    def flag(self, name: str, scope: str = "site") -> None:
        self._variables.setdefault(name, Variable(name, "flag", False, (), scope))

    def number(self, name: str, lowest: int, highest: int, initial: int = 0) -> None:
        self._variables.setdefault(name, Variable(name, "number", initial, (lowest, highest)))

    def choice(self, name: str, values: Sequence[str], initial: str | None = None, scope: str = "site") -> None:
        """Its initial value is the first, unless one is given."""
        first = values[0] if initial is None else initial
        self._variables.setdefault(name, Variable(name, "choice", first, tuple(dict.fromkeys(values)), scope))

    def text(self, name: str, samples: Sequence[str], scope: str = "page", initial: str = "") -> None:
        self._variables.setdefault(name, Variable(name, "text", initial, tuple(dict.fromkeys(samples)), scope))

    # --- pages
    def page(
        self, id: str, title: str, *, deep: bool = True, bare: bool = False, without: tuple[str, ...] = ()
    ) -> PageDraft:
        page = PageDraft(self, id, title, deep, bare, without)
        page.add("heading", title)
        page.add("notice", "{error}", shown=(("error", "ne", ""),), style="bad")
        page.add("notice", "{done}", shown=(("done", "ne", ""),), style="good")
        self._pages.append(page)
        return page

    def menu(self, text: str, to: str, *, shown: Atoms = ()) -> None:
        self._menu.append(SiteElement(f"nav-{to}", "nav", text, edges=(Edge((), (), to),), shown=shown))

    def goal(self, id: str, when: Sequence[Atom] | Mapping[str, Value], *texts: str, alone: bool = False) -> None:
        """`when`: conditions, or the values that variables have to have."""
        atoms = ((name, "eq", value) for name, value in when.items()) if isinstance(when, Mapping) else when
        self._goals.append(Goal(id, tuple(atoms), texts, alone=alone))

    def site(self) -> SiteSpec:
        """The whole spec. Notices that a page never shows are left out; `error` and `done` get all their values."""
        # The reserved domain "example" can't be anyone's address.
        host = "".join(char for char in self.name.lower() if char.isalnum()) + ".example"
        brand = SiteElement("brand", "brand", self.name, edges=(Edge((), (), self._pages[0].id),))
        pages = tuple(SitePage(p.id, p.title, _used(p.elements), p.deep, p.bare, p.without) for p in self._pages)
        effects = [f for p in pages for e in p.elements for edge in e.edges for f in edge.effects]
        # Collected at the end, since messages come from all over the site.
        for name in ("error", "done", "menu"):
            values = dict.fromkeys(str(value) for variable, _, value in effects if variable == name)
            if values:
                self._variables[name] = Variable(name, "choice", "", tuple(dict.fromkeys(("", *values))), "page")
        return SiteSpec(
            self.kind,
            self.seed,
            self.name,
            host,
            self.theme,
            tuple(self._variables.values()),
            (brand, *self._menu),
            pages,
            tuple(self._goals),
        )


def _used(elements: Sequence[SiteElement]) -> tuple[SiteElement, ...]:
    # A notice for messages that no element of the page sets would never show.
    set_here = {name for e in elements for edge in e.edges for name, _, value in edge.effects if value != ""}
    silent = [n for n in ("error", "done") if n not in set_here]
    return tuple(e for e in elements if not (e.kind == "notice" and e.text.strip("{}") in silent))
