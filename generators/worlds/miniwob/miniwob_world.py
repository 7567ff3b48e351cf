"""MiniWoB++ pages as a world: unified actions on a page of 160 x 210 pixels, its reward as truth.

Three things differ from the page as it ships, so that an episode looks as one recorded from an ordinary page:
* The yellow box with the instruction is left blank: an instruction that stands on the screen could be compared with
  the episode's word for word, which no real source allows.
* When the episode ends the page would be covered by "START". It isn't: the last screen is the page as the last action
  left it, for successes and failures alike.
* Dots that mark clicks, the reward display and all clocks are off; after every action a second passes at once.

`scale` draws the same page with more pixels a CSS pixel: at 2 the pictures are 320 x 416 (two rows of the page are left
out) and the pages' text, 8 to 10 CSS pixels high, is large enough for a model with patches of 16. All boxes and points
stay in 0..1000.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from generators.devices.browser import MINIWOB, Camera, Viewport, evaluate_json, key_chord, open_browser
from generators.tasks.world_interface import Observation, ScreenElement, WorldError
from generators.worlds.browser_world import BrowserWorld
from generators.worlds.miniwob.html import NO_LIMIT_MS, page_of
from generators.worlds.nano_text import nano_text_css
from generators.worlds.start_checks import check_start
from schemas import action_types
from schemas.actions import Action
from schemas.coordinates import box_to_unit
from schemas.ids import digest

if TYPE_CHECKING:
    from playwright.sync_api import Page

READER = Path(__file__).parent / "reader.js"
NANO_SCALE = 2.0
NANO_HEIGHT = 208
"""CSS pixels: two rows of the page are left out, so that its picture is a multiple of nano's 32 and isn't resampled."""
_NANO_STYLE = "#query { background-color: #fff !important; }"
"""The empty instruction panel is as white as the page: a fifth of the picture in yellow shifts all that nano sees."""
SETTLE_MS = 1000
STROKE_PX = 60
SOLVED = 0.99
"""Raw reward from which on a task counts as solved; many tasks give part of it for part of the work."""
_STYLE = """* { animation: none !important; transition: none !important; caret-color: transparent !important; }
#query, #query * { color: transparent !important; background-image: none !important; }
#reward-display, #click-canvas, #sync-task-cover { display: none !important; }"""


@dataclass(frozen=True)
class MiniwobNode:
    """An element with what an oracle needs to identify it. `row` names the repeated part of the page it stands in,
    `whole` is all text of that part."""

    place: ScreenElement
    tag: str
    element_id: str
    classes: str
    value: str
    focused: bool
    row: str
    whole: str

    @property
    def text(self) -> str:
        return self.place.text

    def has(self, name: str) -> bool:
        """Whether the element has a class."""
        return name in self.classes.split()


class MiniwobWorld(BrowserWorld):
    """One page that shows any task (see `World`); `start` = {"task", "seed"}. `css`: rules that every page gets."""

    name = "miniwob"
    platform = "web"
    refusal = "MiniWoB++ pages have no action"

    def __init__(self, page: Page, viewport: Viewport = MINIWOB, css: str = "") -> None:
        self.page = page
        self._style = _STYLE + css
        self.size_px = (round(viewport.width * viewport.scale), round(viewport.height * viewport.scale))
        self._viewport = viewport
        self._camera = Camera(page, viewport)
        self._start: dict[str, Any] = {}
        self._untouched = False

    @property
    def css_px(self) -> tuple[int, int]:
        return self._viewport.width, self._viewport.height

    def reset(self, start: Mapping[str, object]) -> None:
        """Load the task and begin the episode of this seed; one that has just begun, and in which nothing was done,
        isn't loaded again. Raises `ValueError` for an unknown task."""
        check_start(start, self.name, ("task", "seed"))
        task = str(start["task"])
        path = page_of(task)
        wanted = {"task": task, "seed": start["seed"]}
        # Nothing was done since: loading again would give the same page for half a second of work.
        if self._untouched and wanted == self._start:
            return
        self._start, self._untouched = wanted, False
        self.page.mouse.move(0, 0)
        self.page.goto(path.as_uri())
        # One call for seed, limit and style: nothing can happen between them.
        self.page.evaluate("given => vesperBegin(...given)", [str(start["seed"]), NO_LIMIT_MS, self._style])
        self._untouched = True

    def utterance(self) -> tuple[str, dict[str, str]]:
        """The instruction, and the fields that tasks in natural language give for it."""
        found = self.page.evaluate("core.getUtterance()")
        if isinstance(found, dict):
            return str(found["utterance"]), dict(found["fields"])
        return str(found), {}

    def nodes(self) -> list[MiniwobNode]:
        """Every visible, hit-tested element outside the instruction."""
        found = []
        for raw in evaluate_json(self.page, "vesperPlaces()"):
            element = ScreenElement.on_screen(
                tuple(raw["box"]), self.css_px, raw["role"], raw["text"], raw["name"], raw["key"], raw["clickable"]
            )
            if element is not None:
                more = (raw[name] for name in ("tag", "id", "cls", "value", "focused", "row", "whole"))
                found.append(MiniwobNode(element, *more))
        return found

    def first_line(self, selector: str) -> tuple[int, int]:
        """Middle of the first line of an element that runs over several, 0..1000. Raises `WorldError` for none."""
        script = "(query) => { const n = document.querySelector(query); const b = n && n.getClientRects()[0]; "
        found = self.page.evaluate(f"{script}return b ? [b.left, b.top, b.right, b.bottom] : null; }}", selector)
        if found is None:
            raise WorldError(f"MiniWoB++: no element {selector!r:.60} on the page")
        return ScreenElement(tuple(box_to_unit(found, self.css_px)), "", "", "", "").centre  # type: ignore[arg-type]

    def observe(self) -> Observation:
        elements = tuple(node.place for node in self.nodes())
        return Observation(self._camera.shoot(), elements, digest(self.state()))

    def state(self) -> dict[str, Any]:
        """{"task", "seed", "reward" (raw; None while the episode runs), "solved", "done", "inputs", "checked",
        "selected", "active", "focused"}."""
        state = {**self._start, **evaluate_json(self.page, "vesperTruth()")}
        state["solved"] = state["reward"] is not None and state["reward"] >= SOLVED
        return state

    def act(self, action: Action) -> None:
        """See `World.act`; afterwards timers and animations of one second have run."""
        if isinstance(action, action_types.Finished | action_types.CallUser):
            return
        # Finished and CallUser returned above; an action that the page doesn't know changes nothing either.
        self._untouched = self._untouched and type(action) not in self.acts
        super().act(action)
        # A second passes at once, so that timers and animations have ended when the next look comes.
        self.page.evaluate("ms => vesperPass(ms)", SETTLE_MS)

    def _click(self, action: Any) -> None:
        (self.page.mouse.dblclick if isinstance(action, action_types.DoubleClick) else self.page.mouse.click)(
            *self.pixel(action.box)
        )

    def _scroll(self, action: action_types.Scroll) -> None:
        way = {"down": STROKE_PX, "up": -STROKE_PX}.get(action.direction, 0)
        point = self.pixel(action.start or (500, 700))
        if action.start and action.end:
            # A scroll from start to end moves the page by the distance between them.
            way = int(point[1] - self.pixel(action.end)[1])
        # By script: the wheel is animated, and its end depends on the machine.
        self.page.evaluate("([x, y, dy]) => vesperScroll(x, y, dy)", [*point, way])

    def _hotkey(self, action: action_types.Hotkey) -> None:
        self.page.keyboard.press(key_chord(action.keys))


MiniwobWorld.acts = {
    action_types.Click: MiniwobWorld._click,
    action_types.DoubleClick: MiniwobWorld._click,
    action_types.Drag: lambda world, action: world.drag(action, steps=4),
    action_types.Scroll: MiniwobWorld._scroll,
    action_types.Hotkey: MiniwobWorld._hotkey,
    action_types.Type: lambda world, action: world.page.keyboard.type(action.content),
    action_types.PressEnter: lambda world, _: world.page.keyboard.press("Enter"),
    action_types.Hover: lambda world, action: world.page.mouse.move(*world.pixel(action.box)),
    action_types.RightClick: BrowserWorld.right_click,
    action_types.SelectOption: BrowserWorld.select,
    action_types.Wait: lambda world, _: None,  # the second that passes does it
}


@contextmanager
def open_miniwob_world(*, nano: bool = False) -> Iterator[MiniwobWorld]:
    """A page that shows any task, in a browser of its own. Raises `BrowserMissing` without a Chromium.

    `nano`: the same pages at two pixels a CSS pixel, with nano's text (`worlds.nano_text`) and without yellow."""
    viewport = replace(MINIWOB, height=NANO_HEIGHT, scale=NANO_SCALE) if nano else MINIWOB
    with open_browser(viewport, READER.read_text(encoding="utf-8")) as context:
        page = context.new_page()
        yield MiniwobWorld(page, viewport, nano_text_css(NANO_SCALE) + _NANO_STYLE if nano else "")
