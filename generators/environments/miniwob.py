"""MiniWoB++ tasks (the `miniwob` package's HTML) in a real Chromium, seeded, offline, without the ten-second clock.

The page's own recorder (`core/record.js`) can write down what happens, in the form of the published demonstrations.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from generators.browser import MINIWOB, Camera, open_browser
from generators.environments.pages import FOLDER, Element, read_elements

if TYPE_CHECKING:
    from playwright.sync_api import Page

NO_LIMIT_MS = 1_000_000_000  # setTimeout's limit is 2**31 - 1

# A clock that only moves when told to, so that recorded times are the same on every run.
_CLOCK = """(() => {
  const Real = Date; let now = 1500000000000;
  window.vesperAdvance = (ms) => { now += ms; };
  class Fake extends Real {
    constructor(...a) { if (a.length) super(...a); else super(now); }
    static now() { return now; } }
  window.Date = Fake;
})();
"""
_START = """([seed, limit]) => {
  core.EPISODE_MAX_TIME = limit; Math.seedrandom(seed); core.startEpisodeReal();
  recorder.setup(); recorder.startRecording();
}"""


class OracleMiss(RuntimeError):
    """The scripted oracle couldn't read the task or find what it names."""


def html_folder() -> Path:
    """Where the installed package keeps its pages. Raises `RuntimeError` saying how to get it."""
    spec = importlib.util.find_spec("miniwob")
    if spec is None or spec.origin is None:
        raise RuntimeError("MiniWoB++ isn't installed: `pip install miniwob` (extra `devices`)")
    return Path(spec.origin).parent / "html"


class Miniwob:
    """One page that can show any task; `start` loads it, then `mouse`/`keyboard` act and `raw_reward` tells."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.camera = Camera(page, MINIWOB)
        self._html = html_folder()
        self._recorder = (self._html / "core" / "record.js").read_text(encoding="utf-8")

    def start(self, task: str, seed: int | str) -> None:
        """Load the task and begin the episode of this seed. Raises `ValueError` for an unknown task."""
        path = self._html / "miniwob" / f"{task}.html"
        if not re.fullmatch(r"[a-z0-9-]+", task) or not path.is_file():
            raise ValueError(f"MiniWoB++ has no task {task!r}; expected one of the pages in {path.parent.name}/")
        self.page.goto(path.as_uri())
        self.page.evaluate(self._recorder + "; window.recorder = recorder;")
        self.page.evaluate(_START, [str(seed), NO_LIMIT_MS])

    @property
    def utterance(self) -> str:
        return str(self.page.evaluate("core.getUtterance()"))

    @property
    def raw_reward(self) -> float | None:
        """Reward without time penalty; None while the episode runs."""
        found = self.page.evaluate("WOB_DONE_GLOBAL ? WOB_RAW_REWARD_GLOBAL : null")
        return None if found is None else float(found)

    def elements(self) -> list[Element]:
        return [e for e in read_elements(self.page) if e.box[1] < MINIWOB.height and e.box[0] < MINIWOB.width]

    def screenshot(self) -> bytes:
        return self.camera.shoot()

    def advance(self, ms: int) -> None:
        """Let time pass on the page's clock."""
        self.page.evaluate("ms => vesperAdvance(ms)", ms)

    def recording(self) -> dict[str, Any]:
        """What the page's own recorder wrote: taskName, utterance, states."""
        found: dict[str, Any] = self.page.evaluate("JSON.parse(JSON.stringify(recorder.data))")
        return found


@contextmanager
def open_miniwob() -> Iterator[Miniwob]:
    reader = (FOLDER / "reader.js").read_text(encoding="utf-8")
    with open_browser(MINIWOB, _CLOCK + reader) as context:
        page = context.pages[0] if context.pages else context.new_page()
        yield Miniwob(page)


# --- scripted oracles -------------------------------------------------------------------------------------------------
class Hand:
    """A mouse and a keyboard with human pauses, moved by a seed."""

    def __init__(self, world: Miniwob, rng: Random) -> None:
        self.world = world
        self.rng = rng
        self.acts: list[dict[str, Any]] = []

    def click(self, element: Element) -> None:
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

    def find(self, test: Callable[[Element], bool], what: str) -> Element:
        for element in self.world.elements():
            if test(element):
                return element
        raise OracleMiss(f"{self.world.utterance!r}: no {what} on the screen")

    def button(self, label: str) -> Element:
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


def _quoted(text: str) -> list[str]:
    return re.findall(r'"([^"]*)"', text)


def _inputs(hand: Hand) -> list[Element]:
    return [e for e in hand.world.elements() if e.role == "textbox"]


def _click_button(hand: Hand, text: str) -> None:
    hand.click(hand.button(_quoted(text)[0]))


def _click_link(hand: Hand, text: str) -> None:
    word = _quoted(text)[0]
    hand.click(hand.find(lambda e: "alink" in e.classes and e.text == word, f"link {word!r}"))


def _click_boxes(hand: Hand, text: str) -> None:
    match = re.fullmatch(r"Select (.*) and click Submit\.", text)
    if not match:
        raise OracleMiss(text)
    words = [] if match[1] == "nothing" else match[1].split(", ")
    for word in words:
        hand.click(hand.find(lambda e, w=word: e.role in ("checkbox", "radio") and e.name == w, f"box {word!r}"))  # type: ignore[misc]
    hand.click(hand.button("Submit"))


def _enter_text(hand: Hand, text: str) -> None:
    hand.click(_inputs(hand)[0])
    hand.type(_quoted(text)[0])
    hand.click(hand.button("Submit"))


def _login(hand: Hand, text: str) -> None:
    for field, word in zip(_inputs(hand), _quoted(text), strict=False):
        hand.click(field)
        hand.type(word)
    hand.click(hand.button("Login"))


def _password(hand: Hand, text: str) -> None:
    for field in _inputs(hand)[:2]:
        hand.click(field)
        hand.type(_quoted(text)[0])
    hand.click(hand.button("Submit"))


def _focus(hand: Hand, text: str) -> None:
    number = re.search(r"(\d)", text)
    hand.click(_inputs(hand)[int(number[1]) - 1 if number else 0])


def _click_test(hand: Hand, text: str) -> None:
    hand.click(hand.button(text.rstrip(".").rpartition(" ")[2]))


def _dialog(hand: Hand, text: str) -> None:
    hand.click(hand.button(_quoted(text)[0]))


def _tab(hand: Hand, text: str) -> None:
    number = re.search(r"Tab #(\d+)", text)
    if not number:
        raise OracleMiss(text)
    hand.click(hand.find(lambda e: e.tag == "a" and e.text == f"Tab #{number[1]}", f"tab {number[1]}"))


ORACLES: dict[str, Callable[[Hand, str], None]] = {
    "click-button": _click_button, "click-link": _click_link, "click-option": _click_boxes,
    "click-checkboxes": _click_boxes, "enter-text": _enter_text, "login-user": _login, "enter-password": _password,
    "focus-text-2": _focus, "click-test-2": _click_test, "click-dialog-2": _dialog,
    "click-tab": _tab,
}  # fmt: skip


def perform(world: Miniwob, task: str, seed: int) -> tuple[dict[str, Any], list[dict[str, Any]], float]:
    """Start the task and let its oracle solve it: (the recorder's data, the acts, raw reward)."""
    world.start(task, seed)
    hand = Hand(world, Random(f"{task}/{seed}"))
    ORACLES[task](hand, world.utterance)
    data = world.recording()
    return data, hand.acts, world.raw_reward if world.raw_reward is not None else 0.0
