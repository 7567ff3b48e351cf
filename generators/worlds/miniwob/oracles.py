"""Scripted input for recorded MiniWoB++ pages: an oracle reads the instruction and works the page as a person does."""

import re
from collections.abc import Callable
from random import Random
from typing import Any

from generators.worlds.miniwob.goals import TAB, quoted
from generators.worlds.miniwob.html import OracleMiss
from generators.worlds.miniwob.recorded import Miniwob
from generators.worlds.pages.own_pages import PageElement


class HumanInput:
    """A mouse and a keyboard with human pauses, moved by a seed."""

    def __init__(self, world: Miniwob, rng: Random) -> None:
        self.world = world
        self.rng = rng
        self.acts: list[dict[str, Any]] = []

    def click(self, element: PageElement) -> None:
        left, top, right, bottom = element.box
        # Not the centre: people don't hit it either, and recordings should show that.
        x = int(left + (right - left) * self.rng.uniform(0.25, 0.75))
        y = int(top + (bottom - top) * self.rng.uniform(0.3, 0.7))
        self.acts.append({"kind": "click", "point": [x, y], "box": list(element.box), "name": element.name})
        mouse = self.world.page.mouse
        # Pauses pass on the page's clock, so recording takes no time.
        self.world.advance(self.rng.randint(600, 1800))
        mouse.move(x, y)
        mouse.down()
        self.world.advance(self.rng.randint(70, 140))
        mouse.up()

    def type(self, text: str) -> None:
        self.acts.append({"kind": "type", "text": text})
        for letter in text:
            self.world.advance(self.rng.randint(90, 260))
            # Key by key, as the recorder writes key events.
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


def _inputs(human: HumanInput) -> list[PageElement]:
    return [e for e in human.world.elements() if e.role == "textbox"]


def _click_button(human: HumanInput, text: str) -> None:
    human.click(human.button(quoted(text)[0]))


def _click_link(human: HumanInput, text: str) -> None:
    word = quoted(text)[0]
    human.click(human.find(lambda e: "alink" in e.classes and e.text == word, f"link {word!r}"))


def _click_boxes(human: HumanInput, text: str) -> None:
    match = re.fullmatch(r"Select (.*) and click Submit\.", text)
    if not match:
        raise OracleMiss(text)
    words = [] if match[1] == "nothing" else match[1].split(", ")
    for word in words:
        human.click(human.find(lambda e, w=word: e.role in ("checkbox", "radio") and e.name == w, f"box {word!r}"))  # type: ignore[misc]
    human.click(human.button("Submit"))


def _enter_text(human: HumanInput, text: str) -> None:
    human.click(_inputs(human)[0])
    human.type(quoted(text)[0])
    human.click(human.button("Submit"))


def _login(human: HumanInput, text: str) -> None:
    for field, word in zip(_inputs(human), quoted(text), strict=False):
        human.click(field)
        human.type(word)
    human.click(human.button("Login"))


def _password(human: HumanInput, text: str) -> None:
    for field in _inputs(human)[:2]:
        human.click(field)
        human.type(quoted(text)[0])
    human.click(human.button("Submit"))


def _focus(human: HumanInput, text: str) -> None:
    number = re.search(r"(\d)", text)
    human.click(_inputs(human)[int(number[1]) - 1 if number else 0])


def _click_test(human: HumanInput, text: str) -> None:
    human.click(human.button(text.rstrip(".").rpartition(" ")[2]))


def _dialog(human: HumanInput, text: str) -> None:
    human.click(human.button(quoted(text)[0]))


def _tab(human: HumanInput, text: str) -> None:
    number = re.search(TAB, text)
    if not number:
        raise OracleMiss(text)
    human.click(human.find(lambda e: e.tag == "a" and e.text == f"Tab #{number[1]}", f"tab {number[1]}"))


ORACLES: dict[str, Callable[[HumanInput, str], None]] = {
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
    human = HumanInput(world, Random(f"{task}/{seed}"))
    ORACLES[task](human, world.utterance)
    data = world.recording()
    return data, human.acts, world.raw_reward if world.raw_reward is not None else 0.0
