"""Questions about a pasted screen, in the words of the corpus: where is it, what is it, list them all.

A name is asked for only if it fits one element, and refused only if it fits none, so that every answer can be known by
looking and none without. Points are centres of boxes in the 0..1000 frame.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from generators.proving.perception.acts import act, phrase
from generators.proving.perception.labels import image_labels
from generators.proving.perception.screens import SIZES, SMALL_SIZES, Pasted, PastedScreen, paste
from generators.proving.perception.sheets import ROLES, TEXT_KINDS, Sheet, SheetElement, identity, names_of
from pipelines import prompts
from schemas.coordinates import box_to_unit


@dataclass(frozen=True)
class Lesson:
    """A stage of the curriculum: what stands on its screens and what is asked.

    `kinds`: weight of each kind of element; `count`: fewest and most elements; `attributes`: how a shape is asked for
    ("colour", "shape" or "both"; with one attribute all shapes differ in it). `refusals`, `captions`, `lists`, `places`
    (lists with the point of each element), `acts` (goals, of up to `clicks` clicks, in the form of navigation): shares.
    `phrases`: questions name elements as people may, not in the corpus's words alone. `plain`: on white ground only,
    where what is no element is nothing.
    """

    name: str
    kinds: tuple[tuple[str, float], ...]
    count: tuple[int, int]
    attributes: tuple[str, ...] = ("both",)
    refusals: float = 0.0
    captions: float = 0.0
    lists: float = 0.0
    places: float = 0.0
    sizes: tuple[tuple[int, int], ...] = SIZES
    plain: bool = False
    acts: float = 0.0
    clicks: int = 3
    phrases: bool = False


LAYOUTS = "layouts"
"""The lesson on pages that Chromium laid out whole."""
WORLDS = "worlds"
"""The lesson on screens of the worlds themselves."""
KITS, KITS_ABSENT, KITS_HELD_OUT = "kits", "kits_absent", "kits_held_out"
"""Lessons on windows of pages in real fonts (`generators.proving.kit_pages`): a third of what is asked for isn't there,
or half of it; the last one asks on families and styles that training never sees."""
KIT_LESSONS = (KITS, KITS_ABSENT, KITS_HELD_OUT)
APPS = "apps"
"""The lesson on windows of our own apps' screens (`generators.proving.kit_pages.app_pages`)."""
WINDOW_LESSONS = (*KIT_LESSONS, APPS)
"""Lessons that ask about windows of larger pages."""
TEXTS = tuple((kind, 1.0) for kind in TEXT_KINDS)
LESSONS = {
    lesson.name: lesson
    for lesson in (
        Lesson(
            "colour", (("shape", 1.0),), (2, 4), ("colour",), captions=0.25, places=0.05, sizes=SMALL_SIZES, plain=True
        ),
        Lesson("shapes", (("shape", 1.0),), (3, 8), refusals=0.1, captions=0.2, places=0.05, sizes=SMALL_SIZES),
        Lesson(
            "icons",
            (("icon", 3.0), ("shape", 1.0), ("widget", 1.0)),
            (2, 6),
            refusals=0.1,
            captions=0.2,
            places=0.05,
            sizes=SMALL_SIZES,
        ),
        Lesson("words", TEXTS, (1, 4), refusals=0.1, captions=0.25, places=0.05, sizes=SMALL_SIZES),
        Lesson("wide", (*TEXTS, ("icon", 3.0), ("shape", 2.0), ("widget", 1.0)), (2, 5), refusals=0.1, captions=0.2),
        Lesson(
            "texts",
            (*TEXTS, ("icon", 1.5), ("shape", 0.7), ("widget", 0.7)),
            (4, 7),
            refusals=0.1,
            captions=0.2,
            lists=0.03,
            places=0.05,
        ),
        Lesson(
            "mixed",
            (*TEXTS, ("icon", 2.0), ("shape", 1.0), ("widget", 1.0)),
            (5, 12),
            ("both", "colour", "shape"),
            refusals=0.12,
            captions=0.2,
            lists=0.05,
        ),
        Lesson(
            "acts",
            (*TEXTS, ("icon", 1.5), ("shape", 1.0), ("widget", 1.0)),
            (2, 8),
            refusals=0.1,
            captions=0.04,
            acts=0.62,
            phrases=True,
        ),
        Lesson(LAYOUTS, (), (1, 1), refusals=0.12, captions=0.12, lists=0.02),
        Lesson(WORLDS, (), (1, 1), refusals=0.1, captions=0.15, acts=0.37, phrases=True),
        Lesson(KITS, (), (1, 1), refusals=0.3, captions=0.1),
        Lesson(KITS_ABSENT, (), (1, 1), refusals=0.5),
        Lesson(KITS_HELD_OUT, (), (1, 1), refusals=0.3, captions=0.1),
        Lesson(APPS, (), (1, 1), refusals=0.3, captions=0.1),
    )
}
"""By name, from easy to hard."""


def caption(drawn: SheetElement) -> str:
    """`role text`, as the corpus captions an element: the words that it is asked for by, as the same tokens."""
    return f"{ROLES[drawn.kind]} {drawn.colour} {drawn.name}".replace("  ", " ")


def pasted_row(seed: str, sheet: Sheet, lesson: Lesson) -> tuple[dict[str, object], PastedScreen]:
    """One question of a lesson about a screen pasted for it: a row of the samples table but for its picture, and the
    screen."""
    rng = Random(seed)
    attribute = rng.choice(lesson.attributes)
    while True:
        screen = paste(sheet, _chosen(sheet, lesson, attribute, rng), rng, rng.choice(lesson.sizes))
        if screen.elements:  # all that were chosen may be wider than the screen
            break
    return _row(seed, screen, lesson, attribute, sheet.elements, (), rng), screen


def layout_row(
    seed: str, layout: tuple[PastedScreen, Sequence[SheetElement]], others: Sequence[SheetElement], lesson: Lesson
) -> dict[str, object]:
    """One question about a page that was laid out whole, given with what else shows on it (an edge cuts it off, or its
    name is another's too); `others` are elements to ask for in vain."""
    screen, cut = layout
    return _row(seed, screen, lesson, "both", others, cut, Random(seed))


def _row(
    seed: str,
    screen: PastedScreen,
    lesson: Lesson,
    attribute: str,
    others: Sequence[SheetElement],
    cut: Sequence[SheetElement],
    rng: Random,
) -> dict[str, Any]:
    draw = rng.random()
    boxes: list[list[float]] = []
    asked: Pasted | None = None
    if draw < lesson.lists:
        text, answer, objective = prompts.LIST_QUESTION, listing(screen), "perception"
    elif draw < lesson.lists + lesson.places:
        text, answer, objective = prompts.PLACES_QUESTION, listing(screen, places=True), "perception"
    elif draw < lesson.lists + lesson.places + lesson.captions:
        one = rng.choice(screen.elements)
        x, y = screen.centre(one)
        text, answer, objective = prompts.point_text(x, y), caption(one.drawn), "perception"
    elif draw < lesson.lists + lesson.places + lesson.captions + lesson.refusals:
        # What an edge cuts off still shows in part: to say that it isn't there would be wrong.
        shown = [*(one.drawn for one in screen.elements), *cut]
        text, answer, objective = (
            prompts.grounding_text(_absent(others, shown, attribute, rng)),
            prompts.REFUSAL,
            "grounding",
        )
    elif draw < lesson.lists + lesson.places + lesson.captions + lesson.refusals + lesson.acts:
        # By name in any case: a stranger of a name that shows would be a second meaning of the goal.
        shown_names = {one.drawn.name.casefold() for one in screen.elements}
        strangers = [drawn for drawn in others if drawn.name.casefold() not in shown_names]
        text, answer, asked = act(screen, lesson.clicks, strangers, rng)
        objective = "navigation"
        boxes = [list(box_to_unit(asked.box, screen.size_px))] if asked else []
    else:
        asked = rng.choice(_askable(screen, attribute))
        name = phrase(asked.drawn, rng) if lesson.phrases else _asked(asked.drawn, attribute, rng)
        text, answer, objective = prompts.grounding_text(name), prompts.point_answer(*screen.centre(asked)), "grounding"
        boxes = [list(box_to_unit(asked.box, screen.size_px))]
    pointing = objective != "perception"
    # A random source of its own: other labels must not change the questions drawn.
    labels = image_labels(screen, Random(f"labels/{seed}"), grounding=pointing, asked=asked)
    return {
        "sample_id": seed,
        "source": "perception",
        "split": "train",
        "platform": "web",
        "objective": objective,
        "messages": prompts.messages(objective, text),
        "answer": answer,
        "target_boxes": boxes,
        "parents": [],
        "lesson": lesson.name,
        "image_labels": labels,
    }


def listing(screen: PastedScreen, places: bool = False) -> str:
    """All elements in reading order, a line each; with `places`, the point of each behind its name."""
    ordered = sorted(screen.elements, key=lambda one: (one.box[1] // 24, one.box[0]))
    if places:
        return "\n".join(f"{caption(one.drawn)} {prompts.point_answer(*screen.centre(one))}" for one in ordered)
    return "\n".join(caption(one.drawn) for one in ordered)


def _chosen(sheet: Sheet, lesson: Lesson, attribute: str, rng: Random) -> list[SheetElement]:
    """Elements for a screen: by kind, all of different names, and of one attribute where that is asked for."""
    by_kind: dict[str, list[SheetElement]] = {}
    for drawn in sheet.elements:
        by_kind.setdefault(drawn.kind, []).append(drawn)
    kinds, weights = zip(*lesson.kinds, strict=True)
    chosen: list[SheetElement] = []
    taken: set[str] = set()
    for kind in rng.choices(kinds, weights, k=rng.randint(*lesson.count)):
        for _ in range(8):
            drawn = rng.choice(by_kind[kind])
            words = identity(drawn, attribute)
            if not words & taken:
                chosen.append(drawn)
                taken |= words
                break
    return chosen


def _askable(screen: PastedScreen, attribute: str) -> Sequence[Pasted]:
    """With one attribute shapes alone are asked for."""
    shapes = [one for one in screen.elements if one.drawn.kind == "shape"]
    return shapes if attribute != "both" and shapes else screen.elements


def _asked(drawn: SheetElement, attribute: str, rng: Random) -> str:
    if drawn.kind == "shape" and attribute != "both":
        return drawn.colour if attribute == "colour" else drawn.name
    names = names_of(drawn)
    return names[0] if len(names) == 1 or rng.random() < 0.6 else names[1]


def _absent(others: Sequence[SheetElement], shown: Sequence[SheetElement], attribute: str, rng: Random) -> str:
    """The name of another element that fits nothing on the screen, of a kind that is there."""
    taken = set().union(*(identity(drawn, attribute) for drawn in shown))
    kinds = {drawn.kind for drawn in shown}
    texts = {drawn.name.casefold() for drawn in shown}
    while True:
        drawn = rng.choice(others)
        alike = drawn.kind in kinds and not identity(drawn, attribute) & taken
        if alike and (drawn.kind == "shape" or drawn.name.casefold() not in texts):
            return _asked(drawn, attribute, rng)
