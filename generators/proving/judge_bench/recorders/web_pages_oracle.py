"""The scripted hand on web pages: it reads the DOM, does one thing after another and notes screen and move before each.

A skill does one thing that the page offers and says it as a clause of the goal, with the checks that prove it and with
the same thing done to other entities (for near misses).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from generators.proving.judge_bench.recorders.web_pages_words import (
    CLEAR,
    CLICK,
    DONE,
    ENTER,
    HOVER,
    SCROLL,
    TYPE,
    text_for,
)
from generators.proving.judge_bench.trace import Move
from generators.tasks.world_interface import Observation, WorldError
from generators.worlds.static_pages.static_pages_world import WebWorld
from generators.worlds.web_reader import Seen
from schemas.action_types import Click, Finished, Hotkey, Hover, PressEnter, Scroll, Type
from schemas.actions import Action

Checks = tuple[tuple[str, Any], ...]
MOST_STROKES = 5
FIELDS = frozenset(("textbox", "searchbox", "spinbutton"))
TEXT_TYPES = frozenset(("text", "email", "search", "number", "password", "tel", "url", "textarea"))
TICKED = frozenset(("checkbox", "radio", "switch"))


@dataclass(frozen=True)
class Clause:
    """One thing done. `others`: (slots, checks) of the same thing with one entity changed."""

    templates: tuple[str, ...]
    slots: dict[str, str]
    checks: Checks
    others: tuple[tuple[dict[str, str], Checks], ...] = ()

    def say(self, template: int, slots: dict[str, str] | None = None) -> str:
        return self.templates[template % len(self.templates)].format(**(slots or self.slots))


@dataclass
class Oracle:
    """What was done so far: `moves[k]` on `shots[k]`."""

    world: WebWorld
    rng: Random
    moves: list[Move] = field(default_factory=list)
    shots: list[Observation] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """What each move is about, in words, for its thought."""

    def do(self, action: Action, phrases: Sequence[str], seen: Seen | None = None, **slots: str) -> None:
        """Note the screen and the move, then act."""
        shot = self.world.observe()
        place = shot.place(seen.key) if seen else None
        if seen and place is None:
            raise WorldError(f"{self.world.name}: {seen.key} isn't where it was seen")
        words = self.rng.choice(list(phrases)).format(name=seen.label if seen else "", **slots)
        self.shots.append(shot)
        self.moves.append(Move(action, words, seen.key if seen else "", place.box if place else None))
        self.names.append(seen.label if seen else "")
        self.world.act(action)

    def reveal(self, key: str) -> Seen:
        """Scroll until the element shows well. Raises `WorldError` if it doesn't."""
        for _ in range(MOST_STROKES):
            found = next((seen for seen in self.world.see() if seen.key == key and seen.share > 0.7), None)
            if found:
                return found
            where = self.world.page.evaluate("key => vesperWhere(key)", key)
            if where is None or (where["top"] >= 0 and where["bottom"] <= where["height"]):
                break  # it is there, but something covers it
            direction = "down" if where["bottom"] > where["height"] else "up"
            self.do(Scroll(direction=direction), SCROLL, direction=direction)
        raise WorldError(f"{self.world.name}: {key} didn't come into view")

    def point(self, seen: Seen) -> tuple[int, int]:
        """A point well inside the element, in 0..1000, that hits it."""
        left, top, right, bottom = seen.box
        across, down = self.rng.uniform(0.35, 0.65), self.rng.uniform(0.4, 0.6)
        x, y = left + (right - left) * across, top + (bottom - top) * down
        width, height = self.world.size_px
        point = int(x * 1000 / width + 0.5), int(y * 1000 / height + 0.5)
        if not self.world.hits(seen.key, point):
            place = self.world.place(seen)
            point = place.centre if place else point
        return point

    def click(self, key: str, kind: str = "") -> Seen:
        """Click the element, which must be the only one of its name on the screen."""
        seen = self.reveal(key)
        if not alone(seen, self.world.see()):
            raise WorldError(f"{self.world.name}: {seen.label!r} is the name of several elements on the screen")
        self.do(Click(self.point(seen)), CLICK[kind], seen)
        return seen

    def type(self, key: str, text: str) -> None:
        """Replace what stands in a field."""
        seen = self.click(key, "field")
        if seen.raw["value"]:
            self.do(Hotkey(("ctrl", "a")), CLEAR)
        self.do(Type(text), TYPE, self.reveal(key), text=text)

    def hover(self, key: str) -> None:
        seen = self.reveal(key)
        self.do(Hover(self.point(seen)), HOVER, seen)

    def enter(self) -> None:
        self.do(PressEnter(), ENTER)

    def finish(self) -> None:
        self.do(Finished(), DONE)


# --- what a page offers -----------------------------------------------------------------------------------------------
def sayable(name: str) -> bool:
    """Whether a name can stand in a goal."""
    return 2 <= len(name) <= 40 and any(letter.isalpha() for letter in name) and not set('"{}\n') & set(name)


def alone(seen: Seen, among: Iterable[Seen]) -> bool:
    """Whether no other control has the element's name."""
    name = seen.label.casefold()
    return not any(
        other.key != seen.key and other.clickable and name in (other.label.casefold(), other.name.casefold())
        for other in among
    )


def shows_name(seen: Seen) -> bool:
    """Whether a person can read the element's name on the screen."""
    if seen.role in FIELDS:
        return bool(seen.raw["caption"]) or (not seen.raw["value"] and seen.text == seen.name)
    return seen.role in TICKED or seen.name == seen.text


def named(offers: list[Seen], wanted: Callable[[Seen], bool]) -> list[Seen]:
    """Controls of the kind whose visible name is theirs alone."""
    found = [seen for seen in offers if seen.clickable and wanted(seen)]
    return [seen for seen in found if sayable(seen.label) and shows_name(seen) and alone(seen, offers)]


Skill = Callable[[Oracle, list[Seen]], "Clause | None"]
_LINK = ('follow the link "{name}"', 'open the page behind "{name}"', 'go to "{name}" by its link')
_MENU = (
    'open "{name}" from the "{menu}" menu',
    'in the "{menu}" menu choose "{name}"',
    'use the "{menu}" menu to get to "{name}"',
)
_FILL = ('enter "{text}" in the field "{name}"', 'type "{text}" into "{name}"', 'set "{name}" to "{text}"')
_ON = ('tick "{name}"', 'check the box "{name}"', 'switch "{name}" on')
_OFF = ('untick "{name}"', 'clear the box "{name}"', 'switch "{name}" off')
_RADIO = ('choose the option "{name}"', 'select "{name}"', 'pick "{name}" among the options')
_TAB = ('open the tab "{name}"', 'switch to the "{name}" tab', 'show the tab named "{name}"')
_EXPAND = ('unfold "{name}"', 'expand the section "{name}"', 'open the section "{name}" to read it')
_DIALOG = (
    'open "{name}" and answer with "{answer}"',
    'bring up the dialog of "{name}", then press "{answer}" in it',
    'click "{name}" and choose "{answer}" in the window that opens',
)
_SHOW = ('open the window of "{name}"', 'bring up what "{name}" opens', 'show the panel behind "{name}"')
_PICK = (
    'open the "{menu}" drop-down and choose "{name}"',
    'pick "{name}" in the drop-down "{menu}"',
    'select the entry "{name}" under "{menu}"',
)
_TIP = (
    'show the hint of "{name}"',
    'rest the pointer on "{name}" to see its tooltip',
    'bring up the tooltip of "{name}"',
)
_SEND = (
    'send the form with "{text}" as "{name}"',
    'submit the form after entering "{text}" in "{name}"',
    'fill in "{text}" for "{name}" and submit the form',
)


def links(oracle: Oracle, offers: list[Seen]) -> list[tuple[Seen, str]]:
    """Links to other pages of the folder."""
    here, found = oracle.world.inner(oracle.world.page.url), []
    for seen in named(offers, lambda s: s.role in ("link", "menuitem") and not s.raw["toggle"] and bool(s.raw["href"])):
        page = oracle.world.inner(seen.raw["href"])
        if page and page != here:
            found.append((seen, page))
    return found


def follow(oracle: Oracle, offers: list[Seen]) -> Clause | None:
    """Follow a named link."""
    found = links(oracle, offers)
    if not found:
        return None
    seen, page = oracle.rng.choice(found)
    kin = [(s, p) for s, p in found if p != page and s.raw["menu"] == seen.raw["menu"]] or found
    oracle.click(seen.key, "link")
    others = tuple(({"name": s.label}, (("page", p),)) for s, p in kin if p != page)
    return Clause(_LINK, {"name": seen.label}, (("page", page),), others)


def follow_menu(oracle: Oracle, offers: list[Seen]) -> Clause | None:
    """Open a menu and follow one of its links."""
    menus = [s for s in _droppers(oracle, offers) if s.raw["leads"]]
    if not menus:
        return None
    menu = oracle.rng.choice(menus)
    oracle.click(menu.key, "menu")
    found = [(s, p) for s, p in links(oracle, oracle.world.see()) if s.raw["entry"]]
    if not found:
        raise WorldError(f"{oracle.world.name}: the menu {menu.label!r} has no link to a page")
    seen, page = oracle.rng.choice(found)
    oracle.click(seen.key, "entry")
    others = tuple(({"name": s.label, "menu": menu.label}, (("page", p),)) for s, p in found if p != page)
    return Clause(_MENU, {"name": seen.label, "menu": menu.label}, (("page", page),), others)


def _droppers(oracle: Oracle, offers: list[Seen]) -> list[Seen]:
    return named(
        offers, lambda s: s.raw["toggle"] == "dropdown" and bool(s.raw["drops"]) and s.raw["expanded"] != "true"
    )


def pick(oracle: Oracle, offers: list[Seen]) -> Clause | None:
    """Open a drop-down and choose an entry that leads to no page."""
    menus = [s for s in _droppers(oracle, offers) if s.raw["picks"]]
    if not menus:
        return None
    menu = oracle.rng.choice(menus)
    oracle.click(menu.key, "menu")
    found = named(oracle.world.see(), lambda s: s.raw["entry"] and s.role in ("link", "button", "menuitem"))
    found = [s for s in found if s.raw["menu"] == menu.raw["drops"] and not s.raw["toggle"]]
    found = [s for s in found if s.raw["anchor"] or s.tag != "a"]
    if not found:
        raise WorldError(f"{oracle.world.name}: the drop-down {menu.label!r} has no entry to choose")
    seen = oracle.rng.choice(found)
    oracle.click(seen.key, "entry")
    others = tuple(({"name": s.label, "menu": menu.label}, ((f"chosen.{s.key}", 1),)) for s in found if s != seen)
    return Clause(_PICK, {"name": seen.label, "menu": menu.label}, ((f"chosen.{seen.key}", 1),), others)


def _fields(oracle: Oracle, offers: list[Seen]) -> list[Seen]:
    state = oracle.world.state()["values"]
    typed = {move.key for move in oracle.moves if isinstance(move.action, Type)}
    return [
        s
        for s in named(offers, lambda s: s.role in FIELDS and s.raw["type"] in TEXT_TYPES)
        if not s.raw["readonly"] and s.key in state and s.key not in typed
    ]


def fill(oracle: Oracle, offers: list[Seen]) -> Clause | None:
    """Type into a field, in the place of what stands there."""
    found = _fields(oracle, offers)
    if not found:
        return None
    seen = oracle.rng.choice(found)
    text = text_for(seen.label, seen.raw["type"], oracle.rng)
    oracle.type(seen.key, text)
    return Clause(
        _FILL,
        {"name": seen.label, "text": text},
        ((f"values.{seen.key}", text),),
        _other_texts(oracle, seen, text, found, "values"),
    )


def _other_texts(
    oracle: Oracle, seen: Seen, text: str, fields: list[Seen], part: str
) -> tuple[tuple[dict[str, str], Checks], ...]:
    texts = dict.fromkeys(text_for(seen.label, seen.raw["type"], oracle.rng) for _ in range(3))
    found = [
        ({"name": seen.label, "text": other}, ((f"{part}.{seen.key}", other),)) for other in texts if other != text
    ]
    swapped = [({"name": s.label, "text": text}, ((f"{part}.{s.key}", text),)) for s in fields if s.key != seen.key]
    return (*found, *swapped[:2])


def tick(oracle: Oracle, offers: list[Seen]) -> Clause | None:
    """Toggle a checkbox or a switch, or choose a radio button."""
    done = {move.key for move in oracle.moves}
    found = [s for s in named(offers, lambda s: s.role in TICKED) if s.key not in done and not s.raw["readonly"]]
    found = [s for s in found if not (s.role == "radio" and s.raw["checked"])]
    if not found:
        return None
    seen = oracle.rng.choice(found)
    oracle.click(seen.key, "switch" if seen.raw["switch"] else seen.role)
    same = [s for s in found if s.role == seen.role and s.raw["checked"] == seen.raw["checked"] and s.key != seen.key]
    kin = [s for s in same if s.raw["group"] == seen.raw["group"]] or same
    wanted = not seen.raw["checked"]
    words = _RADIO if seen.role == "radio" else _ON if wanted else _OFF
    others = tuple(({"name": s.label}, ((f"checked.{s.key}", wanted),)) for s in kin)
    return Clause(words, {"name": seen.label}, ((f"checked.{seen.key}", wanted),), others)


def tab(oracle: Oracle, offers: list[Seen]) -> Clause | None:
    """Open a tab that isn't open."""
    tabs = named(offers, lambda s: s.raw["toggle"] in ("tab", "pill") or s.role == "tab")
    found = [s for s in tabs if not s.raw["active"]]
    if not found:
        return None
    seen = oracle.rng.choice(found)
    oracle.click(seen.key, "tab")
    others = tuple(({"name": s.label}, ((f"active.{s.key}", True),)) for s in found if s.key != seen.key)
    return Clause(_TAB, {"name": seen.label}, ((f"active.{seen.key}", True),), others)


def expand(oracle: Oracle, offers: list[Seen]) -> Clause | None:
    """Unfold a section."""
    found = [s for s in named(offers, lambda s: s.raw["toggle"] == "collapse") if s.raw["expanded"] != "true"]
    if not found:
        return None
    seen = oracle.rng.choice(found)
    oracle.click(seen.key)
    others = tuple(({"name": s.label}, ((f"expanded.{s.key}", True),)) for s in found if s.key != seen.key)
    return Clause(_EXPAND, {"name": seen.label}, ((f"expanded.{seen.key}", True),), others)


def _openers(oracle: Oracle, offers: list[Seen]) -> list[Seen]:
    return named(
        offers, lambda s: s.raw["toggle"] in ("modal", "offcanvas") and bool(s.raw["aim"]) and not s.raw["dialog"]
    )


def answer(oracle: Oracle, offers: list[Seen]) -> Clause | None:
    """Open a dialog and leave it by one of its named buttons."""
    openers = [s for s in _openers(oracle, offers) if s.raw["answers"] and s.raw["toggle"] == "modal"]
    if not openers:
        return None
    opener = oracle.rng.choice(openers)
    oracle.click(opener.key)
    within = [s for s in oracle.world.see() if s.raw["dialog"] == opener.raw["aim"]]
    found = named(within, lambda s: bool(s.raw["dismiss"]))
    if not found:
        raise WorldError(f"{oracle.world.name}: the dialog of {opener.label!r} has no named button to leave it by")
    seen, path = oracle.rng.choice(found), f"dialogs.{opener.raw['aim']}.closed_by"
    oracle.click(seen.key)
    slots = {"name": opener.label, "answer": seen.label}
    others: list[tuple[dict[str, str], Checks]] = [
        ({**slots, "answer": s.label}, ((path, s.key),)) for s in found if s.key != seen.key
    ]
    others += [
        ({**slots, "name": s.label}, ((f"dialogs.{s.raw['aim']}.opened", 1),))
        for s in openers
        if s.raw["aim"] != opener.raw["aim"]
    ]
    return Clause(_DIALOG, slots, ((path, seen.key),), tuple(others))


def show(oracle: Oracle, offers: list[Seen]) -> Clause | None:
    """Open a dialog or a side panel and leave it open."""
    openers = _openers(oracle, offers)
    if not openers:
        return None
    seen = oracle.rng.choice(openers)
    oracle.click(seen.key)
    others = tuple(({"name": s.label}, ((f"shown.{s.raw['aim']}", True),)) for s in openers if s.key != seen.key)
    return Clause(_SHOW, {"name": seen.label}, ((f"shown.{seen.raw['aim']}", True),), others)


def tip(oracle: Oracle, offers: list[Seen]) -> Clause | None:
    """Rest the pointer on an element until its tooltip shows."""
    found = named(offers, lambda s: s.raw["tip"] and bool(s.raw["title"]))
    if not found:
        return None
    seen = oracle.rng.choice(found)
    oracle.hover(seen.key)
    others = tuple(({"name": s.label}, (("tooltip", s.raw["title"]),)) for s in found if s.key != seen.key)
    return Clause(_TIP, {"name": seen.label}, (("tooltip", seen.raw["title"]),), others)


def send(oracle: Oracle, offers: list[Seen]) -> Clause | None:
    """Fill one field of a form and send it, by Enter or by its button."""
    found = [s for s in _fields(oracle, offers) if s.raw["form"] and s.tag == "input"]
    if not found:
        return None
    seen = oracle.rng.choice(found)
    text = text_for(seen.label, seen.raw["type"], oracle.rng)
    oracle.type(seen.key, text)
    form = seen.raw["form"]
    buttons = named(oracle.world.see(everything=True), lambda s: s.raw["type"] == "submit" and s.raw["form"] == form)
    if buttons and oracle.rng.random() < 0.7:
        oracle.click(buttons[0].key)
    else:
        oracle.enter()
    path = "sent.values"
    mine = [s for s in found if s.raw["form"] == form]
    return Clause(
        _SEND,
        {"name": seen.label, "text": text},
        ((f"{path}.{seen.key}", text),),
        _other_texts(oracle, seen, text, mine, path),
    )


SKILLS: dict[str, Skill] = {
    "follow": follow,
    "follow_menu": follow_menu,
    "pick": pick,
    "fill": fill,
    "tick": tick,
    "tab": tab,
    "expand": expand,
    "answer": answer,
    "show": show,
    "tip": tip,
    "send": send,
}
