"""One page of a browser: attached, watched (loading, dialogs, crash), photographed and read."""

import asyncio
import base64
import json
from collections import deque
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from generators.devices.browser import MOST_TEXT, QUICK_PNG, page_text
from generators.devices.choose_option import choice_script, no_option
from generators.devices.device import DeviceError
from generators.devices.drivers.cdp_input import PageInput
from generators.devices.protocols.cdp_session import CdpConnection, CommandFailed
from generators.tasks.world_interface import ScreenElement, WorldError
from schemas.action_types import SelectOption

MAX_ELEMENTS = 5000
ACCEPTED_DIALOGS = ("alert", "beforeunload")
"""A question (confirm, prompt) is answered with Cancel: nobody said yes. All are kept in `dialogs`."""
_GONE = -32000  # the browser's code for "no such context", after a navigation
FRAMES = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))"


@cache
def reader_script() -> str:
    """The hit-tested reader of a page's elements (`vesperRead`), and how an option is chosen (`vesperChoose`)."""
    reader = resources.files("generators.worlds.pages").joinpath("reader.js").read_text("utf-8")
    return f"{reader}\n{choice_script()}"


class CdpPage:
    """`call_s` limits every command. `touch` = fingers instead of a mouse."""

    def __init__(
        self, connection: CdpConnection, target: str, session: str, name: str, *, call_s: float, touch: bool
    ) -> None:
        self.target, self.session = target, session
        self.dialogs: deque[tuple[str, str]] = deque(maxlen=100)
        self.crashed = False
        self.input = PageInput(self.send, touch=touch)
        self._connection, self._name, self._call_s = connection, name, call_s
        self._frame = ""
        self._loaded = asyncio.Event()
        self._loaded.set()
        self._world: int | None = None  # the reader's own JavaScript world, until the page goes elsewhere
        self._tasks: set[asyncio.Task[None]] = set()

    async def send(
        self, method: str, params: Mapping[str, object] | None = None, limit_s: float = 0.0
    ) -> dict[str, Any]:
        """A command to this page. Raises `DeviceError`."""
        if self.crashed:
            raise DeviceError(f"{self._name}: the page has crashed; reset the device")
        return await self._connection.send(method, params, session=self.session, limit_s=limit_s or self._call_s)

    async def begin(self) -> None:
        """Turn on the events that are watched."""
        for domain in ("Inspector", "Page"):  # in this order: the first reports at once a page that crashed before
            await self.send(f"{domain}.enable")
        self._frame = str((await self.send("Page.getFrameTree"))["frameTree"]["frame"]["id"])
        await self.send("Page.bringToFront")
        # a page in the background would draw no frames and get no focus
        await self.send("Emulation.setFocusEmulationEnabled", {"enabled": True})

    # -- events -----------------------------------------------------------------------------------------------------

    def on_event(self, method: str, params: dict[str, Any]) -> None:
        """An event of this session."""
        if method in ("Page.frameStartedLoading", "Page.frameStoppedLoading") and params.get("frameId") == self._frame:
            (self._loaded.clear if method.endswith("StartedLoading") else self._loaded.set)()
        elif method == "Page.frameNavigated" and "parentId" not in params.get("frame", {}):
            self._world = None
            # a navigation to another site may change the frame's id
            self._frame = str(params.get("frame", {}).get("id", self._frame))
        elif method == "Page.javascriptDialogOpening":
            self._answer_dialog(str(params.get("type", "")), str(params.get("message", "")))
        elif method == "Input.dragIntercepted":
            self.input.dragged = params.get("data")
        elif method == "Inspector.targetCrashed":
            self.crash()

    def crash(self) -> None:
        """The page's process is gone: nothing that waits for it will be answered."""
        self.crashed = True
        self.end("the page has crashed; reset the device")

    def end(self, reason: str) -> None:
        """Nothing more comes from the page: who waits for it, or for its loading, waits no longer."""
        self._loaded.set()
        self._connection.fail(self.session, reason)

    def _answer_dialog(self, kind: str, message: str) -> None:
        self.dialogs.append((kind, message[:MOST_TEXT]))

        async def answer() -> None:
            try:
                # not awaited here: events must be handled at once, or the page stands still
                await self.send("Page.handleJavaScriptDialog", {"accept": kind in ACCEPTED_DIALOGS})
            except DeviceError:
                pass  # gone by itself, or with the page: the next command says so

        task = asyncio.ensure_future(answer())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- what the page shows and says -------------------------------------------------------------------------------

    async def settle(self, limit_s: float) -> None:
        """Until what was done is drawn and a navigation that it began has loaded, at most `limit_s` seconds: a page
        that loads for ever is no error."""
        for _ in range(2):  # a click's navigation may begin while its frames are drawn
            try:
                # two frames: what was done is laid out in the first and drawn by the second
                await self.send(
                    "Runtime.evaluate", {"expression": FRAMES, "awaitPromise": True}, limit_s=min(1, limit_s)
                )
            except DeviceError:
                if self.crashed or self._connection.error is not None:
                    raise
            if self._loaded.is_set():
                return
            try:
                async with asyncio.timeout(limit_s):
                    await self._loaded.wait()
            except TimeoutError:
                return

    async def evaluate(self, script: str) -> Any:
        """Value of an expression in the page (a promise is awaited), as JSON data. The script is the caller's own: no
        text from data belongs in it. Raises `WorldError` where it throws."""
        return await self._evaluate({"expression": script})

    async def call(self, function: str, argument: object) -> Any:
        """`function(argument)`, the argument as JSON data that no text in it can leave."""
        # JSON in a JSON string: no text of the argument can end the literal
        literal = json.dumps(json.dumps(argument))
        return await self.evaluate(f"{function}(JSON.parse({literal}))")

    async def _evaluate(self, params: Mapping[str, object]) -> Any:
        wanted = {"returnByValue": True, "awaitPromise": True, **params}
        found = await self.send("Runtime.evaluate", wanted)
        if thrown := found.get("exceptionDetails"):
            said = thrown.get("exception", {}).get("description") or thrown.get("text", "")
            raise WorldError(f"{self._name}: a script of the page threw: {str(said)[:300]}")
        return found.get("result", {}).get("value")

    async def _read(self, expression: str) -> Any:
        """An expression in the reader's own world: the page sees it as little as it could change it."""
        for attempt in range(3):
            try:
                if self._world is None:
                    made = await self.send("Page.createIsolatedWorld", {"frameId": self._frame, "worldName": "vesper"})
                    world = int(made["executionContextId"])
                    await self._evaluate({"expression": reader_script(), "contextId": world, "returnByValue": False})
                    self._world = world
                return await self._evaluate({"expression": expression, "contextId": self._world})
            except CommandFailed as error:  # it navigated in between
                self._world = None
                if error.code != _GONE or attempt == 2:
                    raise
                # until the new document has a context
                await asyncio.sleep(0.05)
        raise AssertionError("unreachable")

    async def css_size(self) -> tuple[int, int]:
        """The viewport in CSS pixels."""
        width, height = await self._read("[innerWidth, innerHeight]")
        # the page says it, so it is checked
        if not (0 < width <= 32767 and 0 < height <= 32767):
            raise DeviceError(f"{self._name}: expected a viewport, found {width} x {height} CSS pixels")
        return int(width), int(height)

    async def screenshot(self) -> bytes:
        """PNG of the viewport."""
        found = await self.send("Page.captureScreenshot", QUICK_PNG)
        try:
            return base64.b64decode(found.get("data", ""), validate=True)
        except ValueError as error:
            raise DeviceError(f"{self._name}: expected a picture in base64, found something else") from error

    async def select(self, action: SelectOption, at: tuple[float, float], load_s: float) -> None:
        """Choose an option of the list at a point of the viewport: set a native list; open any other, where none of
        its options shows, and click the option. Raises `WorldError` where there is no such option."""
        found = await self._choose(at, action.option)
        if found.get("closed"):
            await self.input.click(at)
            await self.settle(load_s)
            # a list that opens on a click has its options in the document only then
            found = await self._choose(at, action.option)
        if "at" in found:
            await self.input.click((found["at"][0], found["at"][1]))
        elif not found.get("chosen"):
            raise no_option(action, found)

    async def _choose(self, at: tuple[float, float], option: str) -> dict[str, Any]:
        literal = json.dumps(json.dumps([*at, option]))
        answer = await self._read(f"vesperChoose(...JSON.parse({literal}))")
        return answer if isinstance(answer, dict) else {}

    async def elements(self, size: tuple[int, int]) -> tuple[ScreenElement, ...]:
        """Visible, hit-tested elements; at most MAX_ELEMENTS."""
        found = (
            await self._read(f"vesperRead().slice(0, {MAX_ELEMENTS})") if await self._read("!!document.body") else []
        )
        made = (_element(raw, size) for raw in found if isinstance(raw, dict))
        return tuple(element for element in made if element is not None)


def _element(raw: dict[str, Any], size: tuple[int, int]) -> ScreenElement | None:
    try:
        left, top, right, bottom = (float(side) for side in raw["box"])
    except ValueError:
        return None
    texts = (raw["role"], raw["text"], raw["name"], raw["k"] or raw["id"])
    role, text, name, key = (page_text(value) for value in texts)
    return ScreenElement.on_screen((left, top, right, bottom), size, role, text, name, key, bool(raw["clickable"]))
