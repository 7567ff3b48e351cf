"""A page at several granularities (EDGE, 2410.19461): besides its elements, its regions and the page as a whole.

Element level is `perception` and `grounding`. Region level: what lies within a box that holds several named elements.
Page level: which app or site the screen belongs to, where the recording says so, and what the page is for. EDGE lets a
model write the latter; here it is a list of what can be done there, read from the elements (`page_function`, which runs
only where it is named).
"""

from collections.abc import Iterator, Sequence

from pipelines.derivers import base
from pipelines.derivers.perception import describe
from pipelines.prompts import APP_QUESTION, region_text

VERSION = 1
MIN_INSIDE = 2
MAX_INSIDE = 8
MAX_REGION = 0.6
"""Share of the screen; what is larger is the page itself."""
FUNCTION_QUESTION = "What is this page, and what can be done on it?"
GROUPS = {
    "Fill in": ("text field", "textarea", "searchbox", "text input"),
    "Choose": ("checkbox", "radio", "switch", "drop-down", "option", "slider", "tab"),
    "Press": ("button", "image button", "icon", "menu item"),
    "Open": ("link", "list item"),
}
"""Line of a summary → the roles (`role_word`) whose names it lists."""
TITLES = ("heading", "title")
MOST_NAMES = 4
"""Names that a line lists; it says how many more there are."""


def regions(screen: base.ScreenView, config: base.DeriveConfig) -> Iterator[base.DerivedSample]:
    """`What is in [l,t,r,b]?` for boxes that wholly hold 2 to 8 named elements and cut none."""
    known = [e for e in screen.elements if e.role and e.label and len(e.label) <= config.label_max_chars]
    named = [e for e in screen.elements if e.label]
    found = []
    for outer in screen.elements:
        if not 0 < outer.area <= MAX_REGION * 1e6:
            continue
        # With words and a role, as the answer names both.
        inside = [e for e in known if e.box != outer.box and outer.encloses(e)]
        # One within another would be the same thing twice.
        if not MIN_INSIDE <= len(inside) <= MAX_INSIDE or _nested(inside):
            continue
        # A region that cuts something leaves its answer open.
        if any(_cuts(outer, e) for e in named if e is not outer):
            continue
        # In reading order.
        ordered = sorted(inside, key=lambda e: (e.box[1], e.box[0], e.index))
        found.append(
            base.screen_candidate(
                screen,
                "perception",
                "region",
                VERSION,
                outer.index,
                region_text(outer.box),
                "\n".join(describe(e) for e in ordered),
                [outer.box],
            )
        )
    yield from base.pick(found, config.regions_per_screen, config.seed)


def app(episode: base.Episode, facts: base.ScreenFacts) -> Iterator[base.DerivedSample]:
    """The app or site that a recorded screen belongs to, by its source's own word; `apps_per_episode` at most."""
    found = []
    for row in episode:
        name, size = base.squash(row["app"]), facts.sizes.get(row["screenshot_sha256"] or "")
        if size is None or not 0 < len(name) <= facts.config.label_max_chars:
            continue
        # By the source's word: guessed names would be taught as facts.
        found.append(base.step_candidate(row, size, "vqa", "app", VERSION, APP_QUESTION, name))
    yield from base.pick(found, facts.config.apps_per_episode, facts.config.seed)


def _nested(elements: Sequence[base.IndexedElement]) -> bool:
    return any(a is not b and a.encloses(b) for a in elements for b in elements)


def _cuts(outer: base.IndexedElement, other: base.IndexedElement) -> bool:
    """Whether the border of one runs through the other."""
    a, b = outer.box, other.box
    apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
    return not apart and not outer.encloses(other) and not other.encloses(outer)


def page_function(screen: base.ScreenView, config: base.DeriveConfig) -> Iterator[base.DerivedSample]:
    """What a page is and what can be done on it (`function_of`)."""
    words = function_of(screen.elements, config.label_max_chars)
    if words:
        yield base.screen_candidate(screen, "vqa", "page_function", VERSION, 0, FUNCTION_QUESTION, words)


def function_of(elements: Sequence[base.IndexedElement], longest: int = 60) -> str:
    """A page's title and what can be done on it, a line each; "" where nothing can, or a name has more characters than
    `longest`: such a list wouldn't be whole."""
    lines = []
    title = next((e.label for e in _down(elements) if e.role in TITLES and e.label), "")
    if title:
        lines.append(f"Title: {title}")
    for verb, roles in GROUPS.items():
        # A name of several elements is said once.
        names = list(dict.fromkeys(e.name for e in _down(elements) if e.role in roles and e.name))
        if names:
            # The number of the others, so that the list stays true.
            more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
            lines.append(f"{verb}: " + ", ".join(f'"{name}"' for name in names[:MOST_NAMES]) + more)
    named = [e.name for e in elements if any(e.role in roles for roles in GROUPS.values())]
    fits = len(title) <= longest and all(len(name) <= longest for name in named)
    return "\n".join(lines) if named and fits else ""


def _down(elements: Sequence[base.IndexedElement]) -> list[base.IndexedElement]:
    """In reading order."""
    return sorted(elements, key=lambda e: (e.box[1], e.box[0], e.index))
