"""Explores a world it knows nothing about: systematic, by what is visible, within a budget of actions.

It tells screens apart by a fingerprint of their places (roles and names; digits count as zero or not, texts that it
typed itself as one word), never by `World.state`. Screens of one heading are one page to it. It tries first what was
never tried on a page, forms in every stage of being filled in, then the same things again on screens that look
different. To reach a screen it walks the shortest known way, from where it is or from the start; if a walk goes
astray it goes on from where it stands. What it finds is an `Exploration`: a graph of screens and actions, plain JSON.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from generators.environments.world import Place, World
from generators.policies.exploration import (
    FIELDS,
    Exploration,
    ExplorationError,
    Screen,
    Way,
    act_name,
    fingerprint,
    standing,
)
from generators.policies.form_filling import TICKS, Recipe, controls, recipes, worth_typing
from generators.policies.walker import BudgetSpent, Walker
from schemas.actions import Click, Scroll, Type

__all__ = ["Exploration", "ExplorationError", "Explorer", "Screen", "Way", "fingerprint", "worth_typing"]

CHANGERS = ("button", "option", "checkbox", "switch", "radio", "form")
"""What may change more than what shows; a tour of the other pages follows."""
MOST_PRESSES = 10
"""Presses of one button, one after the other; forms that a marathon fills in one after the other."""
MOST_BESIDE = 2
"""Tries of an element on a page beside the same other elements."""
MOST_MARATHONS = 6
TOUR = 12
"""Pages that a tour goes to."""
DULL = 15
"""Tours to a page without anything new before it is left out, for each that found something one more time."""
FORGET_AFTER = 3
"""Ways to a screen that may go astray before the screen is given up."""


class Explorer:
    """See the module. `budget` counts every action, those of walks too; `most_tries` how often an element is tried on
    screens of one page that look different."""

    def __init__(self, budget: int = 3000, seed: int = 0, most_tries: int = 12) -> None:
        if budget < 1:
            raise ValueError(f"explorer: expected a budget of at least 1 action, found {budget}")
        self.budget, self.seed, self.most_tries = budget, seed, most_tries

    def explore(self, world: World, starts: Sequence[Mapping[str, Any]]) -> Exploration:
        """Explore from the given beginnings (`World.reset`). Deterministic by seed, world and budget."""
        return _Run(self, world, starts).run()


class _Run(Walker):
    def __init__(self, explorer: Explorer, world: World, starts: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(world, starts, explorer.budget)
        self.most_tries = explorer.most_tries
        self.seed = explorer.seed
        self.times: Counter[str] = Counter()  # how often something was tried on a page
        self.beside: dict[str, dict[str, int]] = {}  # and beside which elements
        self.passed: dict[str, Recipe] = {}  # page → how its form was filled in when it led on
        self.marathons = 0
        self.visits: Counter[str] = Counter()  # tours to a page
        self.news: Counter[str] = Counter()  # and how many found a new screen
        self.stayed: set[str] = set()  # what was tried on a page and didn't lead away from it
        self.pending: dict[int, dict[str, Recipe | None]] = {}  # per screen, what is still to be tried there
        self.best: dict[int, int] = {}  # per screen, the lowest tier of what is pending

    # --- what could be done
    def offer(self, screen: Screen) -> None:
        """Note what a new screen affords."""
        pending: dict[str, Recipe | None] = {}
        for place in screen.places:
            if place.clickable:
                pending[act_name(place, screen.places)] = None
        pending["scroll"] = None
        done = any(standing(p, self.typed) == "typed" for p in screen.places if p.role in FIELDS)
        if not done and controls(screen.places):
            pending |= {f"form|{recipe[0]}|{recipe[1]}": recipe for recipe in recipes(screen.places)}
        self.pending[screen.number] = pending
        self.rate(screen.number)

    def tier(self, screen: Screen, what: str) -> int:
        """How long a try has to wait: 0 for what was never done on the page; then by how many different sets of
        elements it was done beside; most for what always led away from the page, since menus do so everywhere."""
        key = f"{screen.page}|{what}"
        times, beside = self.times[key], self.beside.get(key, {})
        if what.startswith("again"):
            return 2 + 2 * times
        if what.startswith("tour"):
            return 1 + 2 * times
        if not times:
            return 1 if what.startswith("form|1") and len(what) > 8 else 0
        if what == "scroll":
            return 1 + 2 * times
        count = 2 + times if screen.elements in beside else len(beside)
        return 1 + count if key in self.stayed else 2 + 2 * count

    def rate(self, number: int) -> None:
        """Work out a screen's lowest tier anew; what was tried often enough on its page is dropped."""
        screen, pending = self.screens[number], self.pending[number]
        for what in list(pending):
            key = f"{screen.page}|{what}"
            often = self.beside.get(key, {}).get(screen.elements, 0)
            if often >= MOST_BESIDE or self.times[key] >= self.most_tries:
                del pending[what]
        if pending and screen.astray < FORGET_AFTER:
            self.best[number] = min(self.tier(screen, what) for what in pending)
        else:
            self.best.pop(number, None)

    def add(self, number: int, what: str) -> None:
        self.pending[number].setdefault(what, None)
        self.rate(number)

    def next(self) -> tuple[int, str]:
        """The nearest screen with a try of the lowest tier, counting a reset as one action, and that try."""
        lowest = min(self.best.values())
        wanted = {number for number, tier in self.best.items() if tier == lowest}
        target = self.nearest(wanted)
        if target is None:
            target = min(wanted, key=lambda n: (len(self.screens[n].way), n))
        screen = self.screens[target]
        return target, next(w for w in self.pending[target] if self.tier(screen, w) == lowest)

    def nearest(self, wanted: set[int]) -> int | None:
        if self.here in wanted:
            return self.here
        first = {s.number for s in self.screens[: len(self.found.starts)] if not s.way}
        seen, near = {self.here}, [self.here]
        while near:
            after: list[int] = [n for n in sorted(first) if n not in seen]
            first = set()
            for here in near:
                after += [there for there, _ in self.leads[here].values() if there not in seen]
            near = list(dict.fromkeys(after))
            seen.update(near)
            for number in near:
                if number in wanted:
                    return number
        return None

    def names(self) -> list[str]:
        """Names that can be clicked and aren't everywhere (that is the menu), in the order in which they were seen."""
        return [name for name, pages in self.seen_on.items() if len(pages) <= max(len(self.pages) / 2, 2)]

    # --- trying
    def run(self) -> Exploration:
        try:
            for start in range(len(self.found.starts)):
                self.reset(start)
            while self.best or self.marathons < MOST_MARATHONS:
                if not self.best or self.found.actions > self.budget * (1 + self.marathons) // (MOST_MARATHONS + 1):
                    self.marathon()
                else:
                    self.step()
        except BudgetSpent:
            pass
        return self.found

    def step(self) -> None:
        """The next try."""
        number, what = self.next()
        screen = self.screens[number]
        if not self.go(number):
            screen.astray += 1
            self.rate(number)
            return
        recipe, key = self.pending[number].pop(what), f"{screen.page}|{what}"
        self.times[key] += 1
        beside = self.beside.setdefault(key, {})
        beside[screen.elements] = beside.get(screen.elements, 0) + 1
        if what == "scroll":
            self.do(Scroll(direction="down"), "the page")
        elif recipe is not None:
            self.fill(recipe)
        elif what.startswith("tour"):
            self.tour()
        elif what.startswith("again"):
            self.again(what.partition("|")[2])
        else:
            self.work(what)
        stays = self.screens[self.here].page == screen.page
        if stays:
            self.stayed.add(key)
            if what.startswith("button"):
                self.add(number, f"again|{what}")
        elif recipe is not None:
            self.passed[screen.page] = recipe
        if self.here != number and what.startswith(CHANGERS) and (stays or recipe is not None):
            self.add(self.here, f"tour|{screen.page}|{what}")
        for other in self.pages[screen.page]:
            self.rate(other)

    def marathon(self) -> None:
        """Use the whole site without a reset, one form after the other, as each was filled in when it led on: some
        things show only after several others were done."""
        rng = Random(f"{self.seed}/marathon/{self.marathons}")
        self.marathons += 1
        self.reset(0)
        for page in rng.sample(sorted(self.passed), len(self.passed)):
            self.follow(self.reach({page}, len(self.pages)).get(page, ()))
            for _ in range(MOST_PRESSES):
                here = self.screens[self.here].page
                if here not in self.passed:
                    break
                self.fill(self.passed[here])
                if self.screens[self.here].page == here:
                    break
        self.tour(pressing=True)

    def follow(self, names: Sequence[str]) -> None:
        """Click elements by name, as long as they are there."""
        for name in names:
            place = next((p for p in self.places if p.clickable and act_name(p, self.places) == name), None)
            if place is None:
                return
            self.do(Click(place.centre), place.name, place.role)

    def tour(self, pressing: bool = False) -> None:
        """Something was changed here: look whether other pages look different now, those first that often do."""
        todo = {
            page for page in self.pages if page != self.screens[self.here].page and (pressing or not self.dull(page))
        }
        for _ in range(TOUR * (1 + pressing)):
            paths = self.reach(todo)
            if not paths:
                return
            page = min(paths, key=lambda p: (len(paths[p]), -len(self.pages[p]), p))
            todo.discard(page)
            known = len(self.screens)
            self.follow(paths[page])
            todo.discard(self.screens[self.here].page)
            self.visits[page] += 1
            self.news[page] += len(self.screens) > known
            if len(self.screens) > known and pressing:
                self.press_all()

    def dull(self, page: str) -> bool:
        """Whether tours to a page hardly ever found it changed."""
        return self.visits[page] >= DULL * (1 + self.news[page])

    def press_all(self) -> None:
        """Press the buttons of this screen that stayed on the page before: they may lead on now."""
        page = self.screens[self.here].page
        for name in [act_name(p, self.places) for p in self.places if p.role == "button" and p.clickable]:
            if self.screens[self.here].page == page and f"{page}|{name}" in self.stayed:
                self.follow([name])

    def reach(self, pages: set[str], far: int = 3) -> dict[str, list[str]]:
        """Per page of `pages`, the fewest elements to click on the way from here, at most `far`."""
        found: dict[str, list[str]] = {}
        here = self.screens[self.here].page
        seen, near = {here}, [(here, list[str]())]
        for _ in range(far):
            after = []
            for page, path in near:
                for name, to in self.routes.get(page, {}).items():
                    if to not in seen:
                        seen.add(to)
                        after.append((to, [*path, name]))
            found |= {page: path for page, path in after if page in pages}
            near = after
        return found

    def again(self, name: str) -> None:
        """Press a button on and on: what it counts may have an end."""
        page = self.screens[self.here].page
        for _ in range(MOST_PRESSES):
            place = next((p for p in self.places if p.clickable and act_name(p, self.places) == name), None)
            if place is None or self.screens[self.here].page != page:
                return
            self.do(Click(place.centre), place.name, place.role)

    def work(self, name: str) -> None:
        """Click an element of this screen; a field gets a text as well."""
        place = next((p for p in self.places if p.clickable and act_name(p, self.places) == name), None)
        if place is None:
            return
        self.do(Click(place.centre), place.name, place.role)
        if place.role in FIELDS:
            rng = Random(f"{self.seed}/{place.name}")
            self.do(Type(worth_typing(place.name, self.places, rng)[0]), place.name, place.role)

    def fill(self, recipe: Recipe) -> None:
        """Fill in the first controls of a form, then press the button that follows them."""
        choice, count = recipe
        page = self.screens[self.here].page
        names, fields, scrolled = self.names(), 0, False
        if choice - 100 >= len(names):
            return
        while count and self.screens[self.here].page == page:
            todo = [p for p in controls(self.places) if not (p.role in FIELDS and standing(p, self.typed) == "typed")]
            if not todo:
                if scrolled or not self.cut_off():
                    break
                scrolled = True
                self.do(Scroll(direction="down"), "the page")
                continue
            place, count = todo[0], count - 1
            before = {(p.role, p.name) for p in self.places}
            self.do(Click(place.centre), place.name, place.role)
            if place.role in FIELDS:
                self.do(Type(self.words(place, choice, fields, names)), place.name, place.role)
                fields += 1
            elif place.role == "combobox":
                new = [p for p in self.places if p.role == "option" and (p.role, p.name) not in before]
                if new:
                    self.do(Click(new[0].centre), new[0].name, new[0].role)
        if not self.press(page) and self.cut_off() and self.screens[self.here].page == page:
            self.do(Scroll(direction="down"), "the page")
            self.press(page)

    def cut_off(self) -> bool:
        """Whether something reaches the lower edge of the screen, so that there may be more below."""
        return any(p.box[3] >= 995 for p in self.places)

    def words(self, place: Place, choice: int, number: int, names: Sequence[str]) -> str:
        """The text for a form's field: 0 the sensible one; n the n-th quotation, counted on from field to field;
        100 + n a name that the screen shows."""
        if choice >= 100:
            return names[(choice - 100) % len(names)] if names else "river"
        found = worth_typing(place.name, self.places, Random(f"{self.seed}/{place.name}"))
        if choice == 0 or len(found) == 1:
            return found[0]
        return found[1:][(choice - 1 + number) % (len(found) - 1)]

    def press(self, page: str) -> bool:
        """Press the button that follows the form's controls; the page's others are tried as elements."""
        asks = (*FIELDS, *TICKS, "combobox", "radio", "option")
        last = max((n for n, p in enumerate(self.places) if p.role in asks), default=-1)
        button = next((p for p in self.places[last + 1 :] if p.role == "button" and p.clickable), None)
        if button is None or self.screens[self.here].page != page:
            return False
        self.do(Click(button.centre), button.name, button.role)
        return True
