"""What stands behind the emulated phone's ADB: a screen that can be touched, typed on and read.

Pixels are the phone's own (`size_px`), origin top left. A world that has these members is a phone on ADB.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class App:
    """An installed app. `package` as in `org.example.clock`, `activity` as in `.MainActivity`."""

    label: str
    package: str
    activity: str = ".MainActivity"

    @property
    def component(self) -> str:
        """`package/activity`, the form of `am start -n`."""
        return f"{self.package}/{self.activity}"


class BackendError(RuntimeError):
    """The screen behind the phone could not do what was asked; the message says what."""


@runtime_checkable
class PhoneBackend(Protocol):
    """All calls may be made from one event loop, in any number at once: the backend puts them in order."""

    size_px: tuple[int, int]
    density: int
    """Dots an inch, as `wm density` says it."""
    apps: tuple[App, ...]

    async def tap(self, x: int, y: int) -> None: ...

    async def swipe(self, x1: int, y1: int, x2: int, y2: int, ms: int) -> None:
        """One finger from point to point in `ms` milliseconds; equal points are a long press."""
        ...

    async def text(self, data: bytes) -> None:
        """UTF-8 text that an input method commits where the focus is; without a focus it goes nowhere."""
        ...

    async def key(self, name: str) -> None:
        """A key by Android's name, such as `KEYCODE_BACK`; one that the phone has no use for does nothing."""
        ...

    async def wait(self, seconds: float) -> None:
        """Let time pass on the phone; a phone with a clock of its own need not keep anyone waiting."""
        ...

    async def start(self, component: str = "", link: str = "") -> str | None:
        """Start an activity by component, or whatever opens a link; its component, None if there is none."""
        ...

    async def focused(self) -> str:
        """Component of the activity in front."""
        ...

    async def screencap(self) -> bytes:
        """PNG of `size_px`."""
        ...

    async def dump(self) -> bytes:
        """The screen's view tree as uiautomator's XML (`uiautomator.dump_xml` makes it)."""
        ...

    async def state(self) -> dict[str, Any]:
        """The truth behind the screen, plain JSON data."""
        ...

    async def reset(self, start: Mapping[str, object]) -> None:
        """Back to a snapshot. Raises `ValueError` for a start that is none: the caller's fault, not the phone's."""
        ...
