"""Grounding screens of web pages: expressions that mean exactly one element, each hit-tested."""

from collections.abc import Iterator
from random import Random

from generators.proving.judge_bench.recorders.web_pages_oracle import FIELDS, TICKED, alone, sayable, shows_name
from generators.proving.judge_bench.trace import GroundingScreen, Referred
from generators.tasks.world_interface import Observation, ScreenElement, WorldError
from generators.worlds.static_pages.static_pages_world import WebWorld
from generators.worlds.web_reader import ObservedElement
from schemas.action_types import Click, Scroll

LEAST, MOST, MOST_OF_BAR = 8, 24, 6
"""Expressions on a screen; of them for the navigation bar, which every page has."""
TINY_PX = 24
BESIDE_PX = 260
"""A neighbour's edge is at most this far from the element."""
FIELD = ('the "{name}" field', 'the input for "{name}"', 'the field labelled "{name}"')
SAYS = {
    "link": ('the link "{name}"', 'the "{name}" link', 'where it says "{name}"'),
    "tab": ('the "{name}" tab', 'the tab named "{name}"', 'the tab that shows "{name}"'),
    "checkbox": ('the box "{name}"', 'the checkbox for "{name}"', 'the tick box of "{name}"'),
    "radio": ('the option "{name}"', 'the radio button "{name}"', 'the choice "{name}"'),
    "switch": ('the switch "{name}"', 'the switch for "{name}"', 'the toggle of "{name}"'),
    "combobox": ('the "{name}" list', 'the drop-down list "{name}"', 'the chooser for "{name}"'),
    "heading": ('the heading "{name}"', 'the title "{name}"', 'the headline that says "{name}"'),
    "image": ('the picture "{name}"', 'the image of "{name}"', 'the drawing "{name}"'),
    "": ('the "{name}" button', 'the button "{name}"', 'the button that says "{name}"'),
}
ICON = ('the "{name}" icon', 'the icon button for "{name}"', 'the small "{name}" button')
BESIDE = ('the {what} next to "{anchor}"', 'the {what} beside "{anchor}"', 'the {what} that stands by "{anchor}"')
WHAT = dict(
    pair.split("=")
    for pair in str.split(
        "link=link, button=button, checkbox=box, radio=option, switch=switch, image=picture, combobox=drop-down "
        "list, textbox=field, searchbox=field, spinbutton=field",
        ", ",
    )
)


def screen(world: WebWorld, page: str, rng: Random, uid: str) -> GroundingScreen | None:
    """The page at a place drawn by `rng`, after at most one click. None where it has fewer than eight expressions.

    Raises `WorldError` ("… differs …") where a second visit doesn't give the same picture.
    """
    start, strokes, point = {"page": page, "seed": 0}, rng.choice((0, 0, 1, 2)), None
    world.reset(start)
    for _ in range(strokes):
        world.act(Scroll(direction="down"))
    openers = [s for s in world.see() if s.clickable and s.raw["toggle"] in ("dropdown", "modal", "tab", "collapse")]
    if openers and rng.random() < 0.4:
        place = world.element(rng.choice(openers))
        point = place.centre if place else None
    if point:
        world.act(Click(point))
    shot, elements = world.observe(), world.see()
    items, odd = expressions(world, shot, elements, rng)
    if len(items) < LEAST:
        return None
    # The same way once more: an animation or a clock would move what the boxes were measured on.
    world.reset(start)
    for _ in range(strokes):
        world.act(Scroll(direction="down"))
    if point:
        world.act(Click(point))
    if world.observe().sha256 != shot.sha256:
        raise WorldError(f"{world.name}: the screen differs on a second visit")
    return GroundingScreen(uid, world.name, "", world.platform, world.size_px, shot, items, odd)


def expressions(
    world: WebWorld, shot: Observation, elements: list[ObservedElement], rng: Random
) -> tuple[tuple[Referred, ...], dict[int, str]]:
    """At most `MOST` expressions in reading order, and which of them are hard."""
    # Hit-tested one by one: a box from the DOM may be covered by a bar or a dialog.
    found = [
        (seen, said, place, odd)
        for seen, said, odd in _said(elements, rng)
        if (place := shot.element(seen.key)) and _lands(world, seen, place)
    ]
    bar = [item for item in found if item[0].raw["bar"]]  # the same on every page: a few are enough
    retained = rng.sample(bar, min(len(bar), MOST_OF_BAR)) + [item for item in found if not item[0].raw["bar"]]
    retained.sort(key=lambda item: (not item[3], rng.random()))  # where there are too many, the hard ones stay
    retained = sorted(retained[:MOST], key=lambda item: (item[2].box[1], item[2].box[0]))
    items = tuple(Referred(said, place) for _, said, place, _ in retained)
    return items, {at: odd for at, (_, _, _, odd) in enumerate(retained) if odd}


def _lands(world: WebWorld, seen: ObservedElement, place: ScreenElement) -> bool:
    """Whether the centre hits the element and no control that lies inside it."""
    return bool(world.page.evaluate("([k, x, y]) => vesperLands(k, x, y)", [seen.key, *world.pixel(place.centre)]))


def _said(elements: list[ObservedElement], rng: Random) -> Iterator[tuple[ObservedElement, str, str]]:
    """(element, expression, kind of hard negative or ""): by name where it is alone, else by a neighbour's."""
    # What shows for less than 70 % may have its centre off the screen or under another element.
    controls = [seen for seen in elements if seen.clickable and seen.share > 0.7]
    words: set[str] = set()
    for seen in controls:
        kind = "switch" if seen.raw["switch"] else seen.role
        said, odd = "", ""
        if sayable(seen.label) and alone(seen, elements) and not _named_elsewhere(seen, elements):
            icon = not shows_name(seen)
            if not icon or not seen.text:
                phrases = ICON if icon else FIELD if seen.role in FIELDS else SAYS.get(kind, SAYS[""])
                said = rng.choice(phrases).format(name=seen.label)
                odd = _hard(seen, icon, controls)
        elif kind in WHAT and (anchor := _neighbour(seen, kind, controls, elements)):
            said, odd = rng.choice(BESIDE).format(what=WHAT[kind], anchor=anchor), "alike"
        # Two elements of the same expression would make both answers right.
        if said and said not in words:
            words.add(said)
            yield seen, said, odd
    for seen in elements:  # what can't be clicked is referred to as well
        if seen.role in ("heading", "image") and sayable(seen.name) and _count(seen.name, elements) == 1:
            said = rng.choice(SAYS[seen.role]).format(name=seen.name)
            if said not in words:
                words.add(said)
                yield seen, said, ""


def _hard(seen: ObservedElement, icon: bool, controls: list[ObservedElement]) -> str:
    """A small icon without words; a control within another one, or with another one in it; else ""."""
    left, top, right, bottom = seen.box
    if icon and max(right - left, bottom - top) <= 2 * TINY_PX or min(right - left, bottom - top) < TINY_PX * 0.7:
        return "tiny_icon" if icon or seen.role in TICKED else ""
    # Each inside the other (equal boxes) is one control drawn twice, not a nested pair.
    around = any(other.key != seen.key and _contains(seen, other) and not _contains(other, seen) for other in controls)
    return "nested" if seen.raw["inside"] or around else ""


def _count(name: str, elements: list[ObservedElement]) -> int:
    return sum(name.casefold() in (seen.label.casefold(), seen.name.casefold()) for seen in elements)


def _named_elsewhere(seen: ObservedElement, elements: list[ObservedElement]) -> bool:
    """Whether a text outside the element (and its label) reads the same, so that the name alone isn't enough."""
    name = seen.label.casefold()
    return any(
        other.key != seen.key and other.role in ("heading", "image") and other.name.casefold() == name
        for other in elements
    )


def _neighbour(
    seen: ObservedElement, kind: str, controls: list[ObservedElement], elements: list[ObservedElement]
) -> str:
    """A unique text on the element's line that is nearer to it than to any control like it; "" if there is none."""
    like = [s for s in controls if ("switch" if s.raw["switch"] else s.role) == kind]
    best, reach = "", float(BESIDE_PX)
    for text in elements:
        if text.clickable or text.key == seen.key or not sayable(text.name) or _count(text.name, elements) != 1:
            continue
        if _contains(seen, text) or _contains(text, seen):
            continue
        gap = _gap(seen, text)
        # The text must be clearly nearer than to any control like it (1.6 times
        # and 8 px), or the expression could mean that.
        if gap < reach and all(_gap(other, text) > 1.6 * gap + 8 for other in like if other.key != seen.key):
            best, reach = text.name, gap
    return best


def _contains(outer: ObservedElement, inner: ObservedElement) -> bool:
    a, b = outer.box, inner.box
    # A pixel of leeway: browsers round the edges of a child beyond its parent's.
    return a[0] <= b[0] + 1 and a[1] <= b[1] + 1 and a[2] >= b[2] - 1 and a[3] >= b[3] - 1


def _gap(one: ObservedElement, text: ObservedElement) -> float:
    """Distance between two boxes on one line (infinite where their middles don't share it)."""
    a, b = one.box, text.box
    middle, half = (a[1] + a[3]) / 2 - (b[1] + b[3]) / 2, max(a[3] - a[1], b[3] - b[1]) / 2
    if abs(middle) > half:
        return float("inf")
    return max(b[0] - a[2], a[0] - b[2], 0.0)
