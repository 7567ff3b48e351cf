"""What worlds on a page in Chromium share: points in the page's pixels, and which function carries an action out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar

from generators.devices.choose_option import choice_script, no_option
from generators.tasks.world_interface import UnsupportedAction, WorldError
from schemas.action_types import Click, DoubleClick, Drag, GetUrl, LongPress, RightClick, SelectOption, TakeNote
from schemas.actions import Action

if TYPE_CHECKING:
    from playwright.sync_api import Page

Act = Callable[[Any, Any], object]
"""(the world, the action) → nothing that is used."""


ARROWS = {"down": (0, 1), "up": (0, -1), "right": (1, 0), "left": (-1, 0)}
"""Direction of a scroll → the wheel's turn, x and y."""


class BrowserWorld:
    """Base of the worlds that show one page (see `World`). A subclass names its actions in `acts`."""

    name: str
    platform: str
    size_px: tuple[int, int]
    page: Page
    acts: ClassVar[Mapping[type, Act]] = {}
    refusal: str = "web pages have no action"
    """What an action that isn't in `acts` is refused with, before the action's name."""
    said = ""
    """What the next observation answers to the action before it: the page's address after a GetUrl, else ""."""

    @property
    def css_px(self) -> tuple[int, int]:
        """Size of the page in CSS pixels: that of the picture, unless it is drawn larger."""
        return self.size_px

    def pixel(self, point: Sequence[float]) -> tuple[float, float]:
        """A point of 0..1000 in CSS pixels, inside the screen."""
        width, height = self.css_px
        # Below width and height: 1000 is the edge, one past the last pixel.
        return min(point[0] * width / 1000, width - 1), min(point[1] * height / 1000, height - 1)

    @property
    def address(self) -> str:
        """The page's address as every run would read it; "" in a world that shows none, which refuses GetUrl."""
        return ""

    def act(self, action: Action) -> None:
        """See `World.act`."""
        # Cleared at every action, so that an answer shows once.
        self.said = self.address if isinstance(action, GetUrl) else ""
        # Notes change nothing on a page.
        if self.said or isinstance(action, TakeNote):
            return
        do = self.acts.get(type(action))
        if do is None:
            raise UnsupportedAction(f"{self.refusal} {type(action).__name__}")
        do(self, action)

    @contextmanager
    def browser_errors(self, action: Action) -> Iterator[None]:
        """What the browser couldn't do becomes a `WorldError` that names the action."""
        from playwright.sync_api import Error

        try:
            yield
        except Error as error:
            raise WorldError(f"{self.name}: {type(action).__name__} failed: {str(error)[:120]}") from None

    def click(self, action: Click | DoubleClick | LongPress) -> None:
        """Click, then move the pointer away, so that the next picture shows no hover."""
        mouse = self.page.mouse
        (mouse.dblclick if isinstance(action, DoubleClick) else mouse.click)(*self.pixel(action.box))
        mouse.move(0, 0)

    def right_click(self, action: RightClick) -> None:
        """Click with the other button, which opens a page's own menu: a browser's own is drawn outside of the page."""
        self.page.mouse.click(*self.pixel(action.box), button="right")

    def select(self, action: SelectOption) -> None:
        """Set a native list; open any other, where none of its options shows, and click the option. Raises `WorldError`
        where there is no such option."""
        at = self.pixel(action.box)
        found = self._chosen(action)
        # First what shows; a list that is closed is opened once and looked at again.
        if found.get("closed"):
            self.page.mouse.click(*at)
            found = self._chosen(action)
        if "at" in found:
            self.page.mouse.click(*found["at"])
        elif not found.get("chosen"):
            raise no_option(action, found)

    def _chosen(self, action: SelectOption) -> dict[str, Any]:
        # As JSON text: a script of a page that replaced prototypes can't change what is passed.
        given = [*self.pixel(action.box), action.option]
        script = f"(given) => {{ {choice_script()} return JSON.stringify(vesperChoose(...JSON.parse(given))); }}"
        found: dict[str, Any] = json.loads(self.page.evaluate(script, json.dumps(given)))
        return found

    def drag(self, action: Drag, steps: int = 1) -> None:
        """Drag with the mouse; `steps` = move events on the way."""
        mouse = self.page.mouse
        mouse.move(*self.pixel(action.start))
        mouse.down()
        mouse.move(*self.pixel(action.end), steps=steps)
        mouse.up()
