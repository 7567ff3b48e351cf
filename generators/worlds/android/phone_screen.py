"""The phone world (`generators.worlds.phone`) as the screen of an emulated phone: a backend on real Chromium.

Playwright's browser lives in one thread of its own; the backend's coroutines pass it their calls one at a time.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager
from typing import Any, TypeVar

from generators.devices.browser import Camera, Viewport
from generators.tasks.world_interface import WorldError
from generators.worlds.android.backend import App, BackendError
from generators.worlds.android.uiautomator import dump_xml, nodes_of
from generators.worlds.phone.phone_world import PhoneWorld, open_phone
from generators.worlds.phone.snapshot import PACKAGES, TITLES

PACKAGE = "org.vesper"
SYSTEM = f"{PACKAGE}.system"
LINK = "vesper://"
KEYS = {
    "KEYCODE_APP_SWITCH": "APP_SWITCH",
    "KEYCODE_BACK": "BACK",
    "KEYCODE_DEL": "DEL",
    "KEYCODE_ENTER": "ENTER",
    "KEYCODE_ESCAPE": "BACK",
    "KEYCODE_HOME": "HOME",
    "KEYCODE_NUMPAD_ENTER": "ENTER",
}
TAP_S = 0.05
MOVES = 6
"""Touch events between the two ends of a path."""

T = TypeVar("T")


class PhoneScreen:
    """A `PhoneBackend`. `reset` takes what `PhoneWorld.reset` takes. Gestures and waiting run on the phone's own clock,
    so they take no time here."""

    density = 160

    def __init__(self, world: PhoneWorld, thread: ThreadPoolExecutor) -> None:
        """Made in `thread`, the one that opened the world."""
        self.size_px = world.size_px
        self.apps = tuple(App(title, PACKAGES[name]) for name, title in TITLES.items())
        self._world, self._thread = world, thread
        self._camera = Camera(world.page, Viewport(*world.size_px, mobile=True))

    async def _in_thread(self, work: Callable[[PhoneWorld], T]) -> T:
        from playwright.sync_api import Error

        try:
            # Playwright's objects belong to the thread that made them; one thread keeps calls in order, too.
            return await asyncio.get_running_loop().run_in_executor(self._thread, work, self._world)
        except (Error, WorldError) as error:
            raise BackendError(str(error).splitlines()[0]) from error

    async def tap(self, x: int, y: int) -> None:
        await self._in_thread(lambda world: world.touch([(x, y)], TAP_S))

    async def swipe(self, x1: int, y1: int, x2: int, y2: int, ms: int) -> None:
        path = [(x1 + (x2 - x1) * step / MOVES, y1 + (y2 - y1) * step / MOVES) for step in range(MOVES + 1)]
        # A press that lasts and doesn't move.
        still = (x1, y1) == (x2, y2)
        await self._in_thread(lambda world: world.touch(path[:1] if still else path, ms / 1000))

    async def text(self, data: bytes) -> None:
        await self._in_thread(lambda world: world.call("commit", data.decode()))

    async def key(self, name: str) -> None:
        if pressed := KEYS.get(name):
            await self._in_thread(lambda world: world.call("key", pressed))

    async def wait(self, seconds: float) -> None:
        await self._in_thread(lambda world: world.call("wait", seconds))

    async def start(self, component: str = "", link: str = "") -> str | None:
        app = next((app for app in self.apps if app.component == component), None)
        # Checked before the link: an unknown component must not open anything.
        if component and app is None:
            return None
        if link:
            if not link.startswith(LINK):
                return None
            try:
                await self._in_thread(lambda world: world.call("open", link))
            # Told apart: a page that doesn't know the link, or one that is gone.
            except BackendError:
                if not await self._alive():
                    raise
                return None  # no such app or screen
        elif app is not None:
            await self._in_thread(lambda world: world.call("show", app.package.rpartition(".")[2]))
        return await self.focused()

    async def focused(self) -> str:
        front = await self._in_thread(lambda world: str(world.page.evaluate("phone.state().ui.front")))
        app = next((app for app in self.apps if app.package == f"{PACKAGE}.{front}"), None)
        # Home, drawer and quick settings belong to the system.
        return app.component if app else f"{SYSTEM}/.{front.capitalize()}"

    async def screencap(self) -> bytes:
        return await self._in_thread(lambda _: self._camera.shoot())

    async def dump(self) -> bytes:
        package = (await self.focused()).split("/")[0]
        found = await self._in_thread(lambda world: world.call("tree"))
        return dump_xml(nodes_of(found, 1.0, package), self.size_px, package)

    async def state(self) -> dict[str, Any]:
        return await self._in_thread(lambda world: world.state())

    async def reset(self, start: Mapping[str, object]) -> None:
        try:
            await self._in_thread(lambda world: world.reset(start))
        except BackendError as error:
            if await self._alive():
                # Still alive: so the start was at fault.
                raise ValueError(str(error)) from error
            raise

    async def _alive(self) -> bool:
        """Whether the page still answers: then what failed was the request."""
        try:
            return await self._in_thread(lambda world: bool(world.page.evaluate("!!window.phone")))
        except BackendError:
            return False


@asynccontextmanager
async def open_phone_screen() -> AsyncIterator[PhoneScreen]:
    """A phone in a Chromium of its own, which closes with the block. Raises `BrowserMissing`."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="phone-screen")
    loop = asyncio.get_running_loop()
    stack = ExitStack()
    # Opened, used and closed in one thread.
    try:
        yield await loop.run_in_executor(thread, lambda: PhoneScreen(stack.enter_context(open_phone()), thread))
    finally:
        await loop.run_in_executor(thread, stack.close)
        thread.shutdown()
