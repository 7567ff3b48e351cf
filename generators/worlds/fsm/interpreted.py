"""A site without a browser: the interpreter and the layout rule as a world, for searches and for exploring fast.

Its elements, acts and states are those of the site in Chromium (tested by walks in both); its picture is the canonical
text of what is shown, not an image.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from generators.devices.browser import key_chord
from generators.tasks.world_interface import Observation, ScreenElement, UnsupportedAction, WorldError
from generators.worlds.fsm.choices import choose
from generators.worlds.fsm.layout import HEIGHT, LEAST_PX, SCROLL_PX, WIDTH, Placed, lay_out
from generators.worlds.fsm.machine import Fired, Machine, SiteState, Values, address_of
from generators.worlds.fsm.spec import CLICKABLE, KINDS, SiteElement, SitePage, SiteSpec
from generators.worlds.start_checks import check_start
from schemas import action_types
from schemas.actions import Action, direction_of
from schemas.coordinates import box_to_unit
from schemas.ids import canonical_json, digest

Resolve = Callable[[str, int], SiteSpec]
MOST_KNOWN = 5000
"""Screens whose elements are remembered: explorers and searches come back to the same ones."""


def one_line(text: str) -> str:
    """What a field of one line makes of typed text: line breaks and tabs become blanks, other controls vanish."""
    text = text.replace("\r\n", " ").replace("\r", " ").replace("\n", " ").replace("\t", " ")
    return "".join(char for char in text if ord(char) >= 32 and ord(char) != 127)


def pixel(point: tuple[int, int]) -> tuple[float, float]:
    """A point of 0..1000 in CSS pixels, inside the screen."""
    return min(point[0] * WIDTH / 1000, WIDTH - 1), min(point[1] * HEIGHT / 1000, HEIGHT - 1)


def chord_of(keys: Sequence[str]) -> str:
    """The chord of a Hotkey, letters in lower case (see `key_chord`). Raises `WorldError` for an unknown key."""
    return key_chord([key.lower() for key in keys])


def site_of(start: Mapping[str, Any], resolve: Resolve) -> SiteSpec:
    """The site of a start, {"kind", "seed", "page"?, "variables"?, "extras"?}; extras = [[page, text], ...] are texts
    that other people left on it, shown below a page's heading. Raises `WorldError` for another start."""
    check_start(start, "fsm", ("kind", "seed"), ("page", "variables", "extras"))
    # Pages with something planted on them are copied, the site stays as it was drawn.
    site, pages = resolve(start["kind"], start["seed"]), dict[str, SitePage]()
    for number, (name, text) in enumerate(start.get("extras", ())):
        page = pages.get(name) or site.page.get(name)
        if page is None or not isinstance(text, str):
            expected = f"a page of {sorted(site.page)} and a text"
            raise WorldError(f"{site.target}: extras: expected {expected}, found {name!r:.60}, {text!r:.60}")
        plain = text.replace("{", "(").replace("}", ")")  # braces would name variables
        said = SiteElement(f"said-{number}", "text", one_line(plain))
        # Below the heading, where it shows without scrolling.
        pages[name] = replace(page, elements=(*page.elements[:1], said, *page.elements[1:]))
    return replace(site, pages=tuple(pages.get(page.id, page) for page in site.pages)) if pages else site


class InterpretedWorld:
    """See `World`. `start`: see `site_of`; `fired` = the edges taken since it was made."""

    name = "fsm"
    platform = "web"
    size_px = (WIDTH, HEIGHT)

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self.fired: list[Fired] = []
        self._site: SiteSpec | None = None
        self._known: dict[tuple[str, Values, int], tuple[ScreenElement, ...]] = {}

    def reset(self, start: Mapping[str, Any]) -> None:
        site = site_of(start, self._resolve)
        # The same object for equal starts (sites are cached), so the cache of screens lives on.
        if self._site is not site:
            self._site, self.machine = site, Machine(site)
            self._known.clear()
        self.said = ""
        self.moment = self.machine.start(start.get("page", ""), start.get("variables"))
        self._placed: tuple[SiteState, list[Placed], int] | None = None

    def state(self) -> dict[str, Any]:
        return self.machine.state(self.moment)

    def laid_out(self) -> tuple[list[Placed], int]:
        """Every visible element of the page with its box, and the page's height."""
        # By identity: moments are frozen, a new one means that something may have moved.
        if self._placed is None or self._placed[0] is not self.moment:
            placed, height = lay_out(self.machine.site, self.machine.visible(self.moment))
            self._placed = self.moment, placed, height
        return self._placed[1], self._placed[2]

    def elements(self) -> tuple[ScreenElement, ...]:
        """What shows, without a picture."""
        key = self.moment.page, self.moment.values, self.moment.scroll
        found = self._known.get(key)
        if found is None:
            # Cleared as a whole: explorers come back within a short time or never.
            if len(self._known) > MOST_KNOWN:
                self._known.clear()
            found = self._known[key] = self._shown()
        return found

    def _shown(self) -> tuple[ScreenElement, ...]:
        found = []
        for placed in self.laid_out()[0]:
            # Clipped to the window, as the browser's hit test does.
            top = max(placed.top - self.moment.scroll, 0)
            bottom = min(placed.top + placed.height - self.moment.scroll, HEIGHT)
            if bottom - top < LEAST_PX:
                continue
            found.append(self._element(placed, (placed.left, top, min(placed.left + placed.width, WIDTH), bottom)))
        return tuple(found)

    def _element(self, placed: Placed, box: tuple[int, int, int, int]) -> ScreenElement:
        e, values = placed.element, self.moment.values
        name, text = self.machine.text(values, e.text), ""
        if e.kind == "field":
            held = str(values[self.machine.place[e.variable]])
            # A secret shows its length only, as a browser shows dots.
            text = ("•" * len(held) if e.secret else held) or e.hint
        elif e.kind == "combobox":
            text = str(values[self.machine.place[e.variable]]) or e.hint
        elif e.kind in ("check", "radio"):
            text = self._mark(e)
        else:
            text = " ".join(part for part in (name, self.machine.text(values, e.detail)) if part)
        unit = tuple(box_to_unit(box, self.size_px))
        return ScreenElement(unit, KINDS[e.kind], text, name, e.id, e.kind in CLICKABLE)  # type: ignore[arg-type]

    def _mark(self, e: SiteElement) -> str:
        held = self.moment.values[self.machine.place[e.variable]]
        return ("✓" if held is True else "") if e.kind == "check" else ("●" if held == e.value else "")

    def observe(self) -> Observation:
        # What is shown, as canonical text: equal screens are equal bytes.
        elements = self.elements()
        shown = [[list(p.box), p.role, p.text, p.name] for p in elements]
        return Observation(canonical_json(shown).encode(), elements, digest(self.state()), self.said)

    def hit(self, x: float, y: float) -> SiteElement | None:
        """What lies at a point of the screen; None where nothing clickable does."""
        y += self.moment.scroll
        for placed in self.laid_out()[0]:
            # Half open: neighbours that touch don't share their border pixel.
            inside = placed.left <= x < placed.left + placed.width and placed.top <= y < placed.top + placed.height
            if inside and placed.element.kind in CLICKABLE:
                return placed.element
        return None

    def act(self, action: Action) -> None:
        """See `World.act`."""
        machine, now = self.machine, self.moment
        self.said = address_of(machine.site, now.page) if isinstance(action, action_types.GetUrl) else ""
        fired: Fired | None = None
        if isinstance(action, action_types.DoubleClick):
            # As a browser does: two clicks, the second on whatever is there after the first.
            for _ in range(2):
                self.act(action_types.Click(action.box))
            return
        if isinstance(action, action_types.SelectOption):
            choose(self, action)
            return
        if isinstance(action, action_types.Click):
            element = self.hit(*pixel(action.box))
            # A click beside everything takes the focus away.
            now, fired = machine.work(now, element) if element else (machine.blur(now), None)
        elif isinstance(action, action_types.Type):
            now, fired = machine.type(now, one_line(action.content))
        elif isinstance(action, action_types.PressEnter):
            now, fired = machine.enter(now)
        elif isinstance(action, action_types.PressBack):
            now = machine.back(now)
        elif isinstance(action, action_types.Launch):
            now = machine.launch(now, action.url)
        elif isinstance(action, action_types.Hotkey):
            now, fired = self._hotkey(now, chord_of(action.keys))
        elif isinstance(action, action_types.Scroll):
            # Sideways nothing scrolls.
            by = {"down": SCROLL_PX, "up": -SCROLL_PX}.get(direction_of(action), 0)
            now = replace(now, scroll=now.scroll + by)
        elif not isinstance(
            action,
            action_types.Hover
            | action_types.Wait
            | action_types.Finished
            | action_types.CallUser
            | action_types.TakeNote
            | action_types.GetUrl,
        ):
            raise UnsupportedAction(f"fsm: a web page has no action {type(action).__name__}")
        self._become(now, fired)

    def _hotkey(self, now: SiteState, chord: str) -> tuple[SiteState, Fired | None]:
        if chord == "Enter":
            return self.machine.enter(now)
        if chord == "Control+a":
            return self.machine.select_all(now), None
        if chord == "Backspace" or (chord == "Delete" and now.selected):
            return self.machine.erase(now), None
        if chord == "Alt+ArrowLeft":
            return self.machine.back(now), None
        return now, None

    def _become(self, now: SiteState, fired: Fired | None) -> None:
        """Take on a moment; its scroll stays within the page, and what isn't shown loses the focus."""
        self.moment = now
        if now.scroll:
            # Clamped after the page is laid out anew: it may be shorter than before.
            held = min(max(now.scroll, 0), self.laid_out()[1] - HEIGHT)
            self.moment = replace(now, scroll=held)
        if fired is not None:
            self.fired.append(fired)
