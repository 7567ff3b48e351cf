"""Scripted hands for recorded MiniWoB++ pages: an oracle reads the instruction and works the page as a person does."""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random
from typing import Any

from generators.worlds.miniwob.goals import TAB, quoted
from generators.worlds.miniwob.html import OracleMiss
from generators.worlds.miniwob.recorded import Miniwob
from generators.worlds.pages.own_pages import PageElement


class MiniwobHand:
    """A mouse and a keyboard with human pauses, moved by a seed."""

    def __init__(self, world: Miniwob, rng: Random) -> None:
        self.world = world
        self.rng = rng
        self.acts: list[dict[str, Any]] = []

    def click(self, element: PageElement) -> None:
        left, top, right, bottom = element.box
        x = int(left + (right - left) * self.rng.uniform(0.25, 0.75))
        y = int(top + (bottom - top) * self.rng.uniform(0.3, 0.7))
        self.acts.append({"kind": "click", "point": [x, y], "box": list(element.box), "name": element.name})
        mouse = self.world.page.mouse
        self.world.advance(self.rng.randint(600, 1800))
        mouse.move(x, y)
        mouse.down()
        self.world.advance(self.rng.randint(70, 140))
        mouse.up()

    def type(self, text: str) -> None:
        self.acts.append({"kind": "type", "text": text})
        for letter in text:
            self.world.advance(self.rng.randint(90, 260))
            self.world.page.keyboard.press(letter if letter != " " else "Space")

    def find(self, test: Callable[[PageElement], bool], what: str) -> PageElement:
        for element in self.world.elements():
            if test(element):
                return element
        raise OracleMiss(f"{self.world.utterance!r}: no {what} on the screen")

    def button(self, label: str) -> PageElement:
        """A button by its exact label, else by its label in any case."""
        wanted = label.strip().lower()
        return self.find(
            lambda e: (
                e.role in ("button", "link")
                and (e.name or e.value).strip().lower() == wanted
                or (e.tag == "input" and e.value.lower() == wanted)
            ),
            f"button {label!r}",
        )


def _inputs(hand: MiniwobHand) -> list[PageElement]:
    return [e for e in hand.world.elements() if e.role == "textbox"]


def _click_button(hand: MiniwobHand, text: str) -> None:
    hand.click(hand.button(quoted(text)[0]))


def _click_link(hand: MiniwobHand, text: str) -> None:
    word = quoted(text)[0]
    hand.click(hand.find(lambda e: "alink" in e.classes and e.text == word, f"link {word!r}"))


def _click_boxes(hand: MiniwobHand, text: str) -> None:
    match = re.fullmatch(r"Select (.*) and click Submit\.", text)
    if not match:
        raise OracleMiss(text)
    words = [] if match[1] == "nothing" else match[1].split(", ")
    for word in words:
        hand.click(hand.find(lambda e, w=word: e.role in ("checkbox", "radio") and e.name == w, f"box {word!r}"))  # type: ignore[misc]
    hand.click(hand.button("Submit"))


def _enter_text(hand: MiniwobHand, text: str) -> None:
    hand.click(_inputs(hand)[0])
    hand.type(quoted(text)[0])
    hand.click(hand.button("Submit"))


def _login(hand: MiniwobHand, text: str) -> None:
    for field, word in zip(_inputs(hand), quoted(text), strict=False):
        hand.click(field)
        hand.type(word)
    hand.click(hand.button("Login"))


def _password(hand: MiniwobHand, text: str) -> None:
    for field in _inputs(hand)[:2]:
        hand.click(field)
        hand.type(quoted(text)[0])
    hand.click(hand.button("Submit"))


def _focus(hand: MiniwobHand, text: str) -> None:
    number = re.search(r"(\d)", text)
    hand.click(_inputs(hand)[int(number[1]) - 1 if number else 0])


def _click_test(hand: MiniwobHand, text: str) -> None:
    hand.click(hand.button(text.rstrip(".").rpartition(" ")[2]))


def _dialog(hand: MiniwobHand, text: str) -> None:
    hand.click(hand.button(quoted(text)[0]))


def _tab(hand: MiniwobHand, text: str) -> None:
    number = re.search(TAB, text)
    if not number:
        raise OracleMiss(text)
    hand.click(hand.find(lambda e: e.tag == "a" and e.text == f"Tab #{number[1]}", f"tab {number[1]}"))


ORACLES: dict[str, Callable[[MiniwobHand, str], None]] = {
    "click-button": _click_button,
    "click-link": _click_link,
    "click-option": _click_boxes,
    "click-checkboxes": _click_boxes,
    "enter-text": _enter_text,
    "login-user": _login,
    "enter-password": _password,
    "focus-text-2": _focus,
    "click-test-2": _click_test,
    "click-dialog-2": _dialog,
    "click-tab": _tab,
}


def perform(world: Miniwob, task: str, seed: int) -> tuple[dict[str, object], list[dict[str, object]], float]:
    """Start the task and let its oracle solve it: (the recorder's data, the acts, raw reward)."""
    world.start(task, seed)
    hand = MiniwobHand(world, Random(f"{task}/{seed}"))
    ORACLES[task](hand, world.utterance)
    data = world.recording()
    return data, hand.acts, world.raw_reward if world.raw_reward is not None else 0.0
