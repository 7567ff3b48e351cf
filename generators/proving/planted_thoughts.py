"""Thoughts with their actions, half of them wrong: what the check of thought and action is measured on.

A row is a screen of labelled boxes, an action on it, and a thought that some phrasing of English, German or Chinese
makes of it; `held_out` phrasings are others than those that the check's words were written by. A wrong row keeps one of
the two and takes the other from elsewhere: another element of the same screen, another type of action, another text,
the opposite direction.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Literal

from quality.items.screens import Element
from schemas.action_types import (
    ACTION_TYPES,
    OPPOSITE,
    POINTED,
    CallUser,
    Click,
    Finished,
    Launch,
    PressBack,
    PressEnter,
    PressHome,
    Scroll,
    Type,
    Wait,
)
from schemas.actions import Action

Part = Literal["seen", "held_out"]
LANGUAGES = ("en", "de", "zh")
COLUMNS, ROW_HEIGHT = 2, 150
"""Generated screens: labels in two columns of rows this high."""


@dataclass(frozen=True, slots=True)
class PlantedThought:
    """A row. `planted`: what is wrong with it ("" where thought and action agree)."""

    thought: str
    action: Action
    elements: tuple[Element, ...]
    planted: str
    origin: str


@cache
def _words() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return found


def generated_thoughts(part: Part, count: int, seed: int) -> Iterator[PlantedThought]:
    """`count` rows of a part's phrasings, languages and kinds of action in turn, every other one planted."""
    rng = Random(f"thoughts/{part}/{seed}")
    for number in range(count):
        language = LANGUAGES[number // 2 % len(LANGUAGES)]
        words = _words()["languages"][language]
        kinds = sorted(words[part])
        # clicks and texts are what most steps are, so they come as often as all the rest
        kind = rng.choice(("Click", "Click", "Type", rng.choice(kinds)))
        screen = _screen(rng.choice(words["labels"]), rng)
        action, name = _action(kind, words, screen, rng)
        other = rng.choice([e.name for e in screen if e.name != name])
        thought = rng.choice(words[part][kind]).format(
            name=name, other=other, text=_text_of(action), way=words["ways"].get(getattr(action, "direction", ""), "")
        )
        if number % 2 == 0:
            yield PlantedThought(thought, action, screen, "", language)
        else:
            wrong, planted = _wrong(action, words, screen, rng)
            yield PlantedThought(thought, wrong, screen, planted, language)


def _may_stand_for(one: Action, other: Action) -> bool:
    """Whether an action may be what was said of another: back, home, Enter and an app's icon are often clicks, and an
    answer is often given with the end."""
    clickable, ends = (*POINTED, Launch, PressBack, PressHome, PressEnter), (Finished, CallUser)
    return type(one) is type(other) or any(isinstance(one, k) and isinstance(other, k) for k in (clickable, ends))


def _screen(labels: Sequence[str], rng: Random) -> tuple[Element, ...]:
    """A screen of labelled buttons in two columns, in any order."""
    shuffled = rng.sample(labels, len(labels))
    found = []
    for place, label in enumerate(shuffled):
        left, top = 30 + 490 * (place % COLUMNS), 60 + ROW_HEIGHT * (place // COLUMNS)
        found.append(Element((left, top, left + 440, top + 110), "button", label, label))
    return tuple(found)


def _action(kind: str, words: dict[str, Any], screen: Sequence[Element], rng: Random) -> tuple[Action, str]:
    """An action of a kind with the name of the element that it is about ("" for none)."""
    made = ACTION_TYPES[kind]
    if made in POINTED:
        element = rng.choice(screen)
        return made(_within(element, rng)), element.name
    if made is Type:
        return Type(rng.choice(words["texts"])), ""
    if made is Launch:
        return Launch(app=rng.choice(words["apps"])), ""
    return (Scroll(direction=rng.choice(sorted(words["ways"]))) if made is Scroll else made()), ""


def _within(element: Element, rng: Random) -> tuple[int, int]:
    left, top, right, bottom = (int(side) for side in element.box)
    return rng.randint(left + 5, right - 5), rng.randint(top + 5, bottom - 5)


def _text_of(action: Action) -> str:
    return getattr(action, "content", "") or getattr(action, "app", "")


def _wrong(action: Action, words: dict[str, Any], screen: Sequence[Element], rng: Random) -> tuple[Action, str]:
    """An action that the thought doesn't mean, and what is wrong with it."""
    if isinstance(action, POINTED) and rng.random() < 0.6:
        others = [element for element in screen if not element.holds(action.box)]
        return type(action)(_within(rng.choice(others), rng)), "target"
    if isinstance(action, Scroll) and rng.random() < 0.6:
        return Scroll(direction=OPPOSITE[action.direction]), "direction"
    if isinstance(action, Type) and rng.random() < 0.6:
        return Type(rng.choice([text for text in words["texts"] if text != action.content])), "text"
    if isinstance(action, Launch) and rng.random() < 0.6:
        return Launch(app=rng.choice([app for app in words["apps"] if app != action.app])), "text"
    options: list[Action] = [Click(_within(rng.choice(screen), rng)), Scroll(direction="down"), Wait(), PressBack()]
    options += [Type(rng.choice(words["texts"])), Finished()]
    return rng.choice([one for one in options if not _may_stand_for(one, action)]), "kind"
