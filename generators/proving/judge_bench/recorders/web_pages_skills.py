"""What the oracle of harvested web pages can do, one skill a kind of control, each with the words of its goal."""

from collections.abc import Callable

from generators.proving.judge_bench.recorders.web_pages_oracle import (
    FIELDS,
    TEXT_TYPES,
    TICKED,
    Checks,
    Clause,
    WebPageOracle,
    named,
)
from generators.proving.judge_bench.recorders.web_pages_words import text_for
from generators.tasks.world_interface import WorldError
from generators.worlds.web_reader import ObservedElement
from schemas.action_types import Type

Skill = Callable[[WebPageOracle, list[ObservedElement]], "Clause | None"]
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


def links(oracle: WebPageOracle, offers: list[ObservedElement]) -> list[tuple[ObservedElement, str]]:
    """Links to other pages of the folder."""
    here, found = oracle.world.inner(oracle.world.page.url), []
    for seen in named(offers, lambda s: s.role in ("link", "menuitem") and not s.raw["toggle"] and bool(s.raw["href"])):
        page = oracle.world.inner(seen.raw["href"])
        if page and page != here:
            found.append((seen, page))
    return found


def follow(oracle: WebPageOracle, offers: list[ObservedElement]) -> Clause | None:
    """Follow a named link."""
    found = links(oracle, offers)
    if not found:
        return None
    seen, page = oracle.rng.choice(found)
    # Entities of the same menu make the hardest near misses; others only where there are none.
    kin = [(s, p) for s, p in found if p != page and s.raw["menu"] == seen.raw["menu"]] or found
    oracle.click(seen.key, "link")
    others = tuple(({"name": s.label}, (("page", p),)) for s, p in kin if p != page)
    return Clause(_LINK, {"name": seen.label}, (("page", page),), others)


def follow_menu(oracle: WebPageOracle, offers: list[ObservedElement]) -> Clause | None:
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


def _droppers(oracle: WebPageOracle, offers: list[ObservedElement]) -> list[ObservedElement]:
    return named(
        offers, lambda s: s.raw["toggle"] == "dropdown" and bool(s.raw["drops"]) and s.raw["expanded"] != "true"
    )


def pick(oracle: WebPageOracle, offers: list[ObservedElement]) -> Clause | None:
    """Open a drop-down and choose an entry that leads to no page."""
    menus = [s for s in _droppers(oracle, offers) if s.raw["picks"]]
    if not menus:
        return None
    menu = oracle.rng.choice(menus)
    oracle.click(menu.key, "menu")
    found = named(oracle.world.see(), lambda s: s.raw["entry"] and s.role in ("link", "button", "menuitem"))
    found = [s for s in found if s.raw["menu"] == menu.raw["drops"] and not s.raw["toggle"]]
    # A link that leads to a page isn't an entry: what it does is shown by the page, not by `chosen`.
    found = [s for s in found if s.raw["anchor"] or s.tag != "a"]
    if not found:
        raise WorldError(f"{oracle.world.name}: the drop-down {menu.label!r} has no entry to choose")
    seen = oracle.rng.choice(found)
    oracle.click(seen.key, "entry")
    others = tuple(({"name": s.label, "menu": menu.label}, ((f"chosen.{s.key}", 1),)) for s in found if s != seen)
    return Clause(_PICK, {"name": seen.label, "menu": menu.label}, ((f"chosen.{seen.key}", 1),), others)


def _fields(oracle: WebPageOracle, offers: list[ObservedElement]) -> list[ObservedElement]:
    state = oracle.world.state()["values"]
    # A field is filled once: typing again would undo the first clause, whose check then fails.
    typed = {move.key for move in oracle.moves if isinstance(move.action, Type)}
    return [
        s
        for s in named(offers, lambda s: s.role in FIELDS and s.raw["type"] in TEXT_TYPES)
        if not s.raw["readonly"] and s.key in state and s.key not in typed
    ]


def fill(oracle: WebPageOracle, offers: list[ObservedElement]) -> Clause | None:
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
    oracle: WebPageOracle, seen: ObservedElement, text: str, fields: list[ObservedElement], part: str
) -> tuple[tuple[dict[str, str], Checks], ...]:
    texts = dict.fromkeys(text_for(seen.label, seen.raw["type"], oracle.rng) for _ in range(3))
    found = [
        ({"name": seen.label, "text": other}, ((f"{part}.{seen.key}", other),)) for other in texts if other != text
    ]
    # The right text in the wrong field; two at most, so that they don't crowd out the wrong texts.
    swapped = [({"name": s.label, "text": text}, ((f"{part}.{s.key}", text),)) for s in fields if s.key != seen.key]
    return (*found, *swapped[:2])


def tick(oracle: WebPageOracle, offers: list[ObservedElement]) -> Clause | None:
    """Toggle a checkbox or a switch, or choose a radio button."""
    done = {move.key for move in oracle.moves}
    # A second toggle would undo the first; and a radio button that is chosen can't be unchosen by a click.
    found = [s for s in named(offers, lambda s: s.role in TICKED) if s.key not in done and not s.raw["readonly"]]
    found = [s for s in found if not (s.role == "radio" and s.raw["checked"])]
    if not found:
        return None
    seen = oracle.rng.choice(found)
    oracle.click(seen.key, "switch" if seen.raw["switch"] else seen.role)
    same = [s for s in found if s.role == seen.role and s.raw["checked"] == seen.raw["checked"] and s.key != seen.key]
    # Of one group if there is any: for radio buttons the others of the group are the ones really confused.
    kin = [s for s in same if s.raw["group"] == seen.raw["group"]] or same
    wanted = not seen.raw["checked"]
    words = _RADIO if seen.role == "radio" else _ON if wanted else _OFF
    others = tuple(({"name": s.label}, ((f"checked.{s.key}", wanted),)) for s in kin)
    return Clause(words, {"name": seen.label}, ((f"checked.{seen.key}", wanted),), others)


def tab(oracle: WebPageOracle, offers: list[ObservedElement]) -> Clause | None:
    """Open a tab that isn't open."""
    tabs = named(offers, lambda s: s.raw["toggle"] in ("tab", "pill") or s.role == "tab")
    found = [s for s in tabs if not s.raw["active"]]
    if not found:
        return None
    seen = oracle.rng.choice(found)
    oracle.click(seen.key, "tab")
    others = tuple(({"name": s.label}, ((f"active.{s.key}", True),)) for s in found if s.key != seen.key)
    return Clause(_TAB, {"name": seen.label}, ((f"active.{seen.key}", True),), others)


def expand(oracle: WebPageOracle, offers: list[ObservedElement]) -> Clause | None:
    """Unfold a section."""
    found = [s for s in named(offers, lambda s: s.raw["toggle"] == "collapse") if s.raw["expanded"] != "true"]
    if not found:
        return None
    seen = oracle.rng.choice(found)
    oracle.click(seen.key)
    others = tuple(({"name": s.label}, ((f"expanded.{s.key}", True),)) for s in found if s.key != seen.key)
    return Clause(_EXPAND, {"name": seen.label}, ((f"expanded.{seen.key}", True),), others)


def _openers(oracle: WebPageOracle, offers: list[ObservedElement]) -> list[ObservedElement]:
    return named(
        offers, lambda s: s.raw["toggle"] in ("modal", "offcanvas") and bool(s.raw["aim"]) and not s.raw["dialog"]
    )


def answer(oracle: WebPageOracle, offers: list[ObservedElement]) -> Clause | None:
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
    # The same button in mind, but the wrong dialog.
    others += [
        ({**slots, "name": s.label}, ((f"dialogs.{s.raw['aim']}.opened", 1),))
        for s in openers
        if s.raw["aim"] != opener.raw["aim"]
    ]
    return Clause(_DIALOG, slots, ((path, seen.key),), tuple(others))


def show(oracle: WebPageOracle, offers: list[ObservedElement]) -> Clause | None:
    """Open a dialog or a side panel and leave it open."""
    openers = _openers(oracle, offers)
    if not openers:
        return None
    seen = oracle.rng.choice(openers)
    oracle.click(seen.key)
    others = tuple(({"name": s.label}, ((f"shown.{s.raw['aim']}", True),)) for s in openers if s.key != seen.key)
    return Clause(_SHOW, {"name": seen.label}, ((f"shown.{seen.raw['aim']}", True),), others)


def tip(oracle: WebPageOracle, offers: list[ObservedElement]) -> Clause | None:
    """Rest the pointer on an element until its tooltip shows."""
    found = named(offers, lambda s: s.raw["tip"] and bool(s.raw["title"]))
    if not found:
        return None
    seen = oracle.rng.choice(found)
    oracle.hover(seen.key)
    others = tuple(({"name": s.label}, (("tooltip", s.raw["title"]),)) for s in found if s.key != seen.key)
    return Clause(_TIP, {"name": seen.label}, (("tooltip", seen.raw["title"]),), others)


def send(oracle: WebPageOracle, offers: list[ObservedElement]) -> Clause | None:
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
