"""The desktop as a `World`, over the SSH driver; its event loop runs in a thread of its own.

with open_desktop() as endpoint, DesktopWorld(endpoint) as world:
    world.reset({"program": "mousepad", "files": {"note.txt": ""}, "open": "note.txt"})
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

from generators.devices.client.sync_sdk import LoopThread
from generators.devices.device import AsyncDevice, DeviceEndpoint
from generators.devices.drivers.ssh import connect
from generators.tasks.world_interface import Observation, ScreenElement, WorldError
from generators.worlds.start_checks import check_start
from schemas.actions import Action, CallUser
from schemas.ids import digest


class DesktopWorld:
    """See `World`. `answer` is the text of the last CallUser since the reset ("" before one)."""

    name = "desktop"
    platform = "desktop"

    def __init__(self, endpoint: DeviceEndpoint) -> None:
        self.size_px = (0, 0)
        self.answer = ""
        self._endpoint = endpoint

    def __enter__(self) -> "DesktopWorld":
        # The driver is asynchronous; its loop has a thread, so that a world stays synchronous.
        self._thread = LoopThread()
        try:
            self._entered: AbstractAsyncContextManager[AsyncDevice] = connect(self._endpoint)
            self._device = self._thread.run(self._entered.__aenter__())
        # Also for Ctrl-C: the thread must not outlive a world that never opened.
        except BaseException:
            self._thread.close()
            raise
        self.size_px = self._device.size_px
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self._thread.run(self._entered.__aexit__(None, None, None))
        finally:
            self._thread.close()

    def reset(self, start: Mapping[str, object]) -> None:
        """`start` = {"program": name, "files": {path: text}, "open": one of files}: programs end, the home folder is
        fresh, and the program starts."""
        check_start(start, self.name, (), ("program", "files", "open"))
        if not isinstance(start.get("program"), str):
            raise WorldError(f"desktop: reset: expected the name of a program, found {start.get('program')!r:.80}")
        self.answer = ""
        # "world" is the contract's word and not the driver's.
        self._thread.run(self._device.reset({name: value for name, value in start.items() if name != "world"}))

    def begin(self, files: Mapping[str, str]) -> None:
        """A fresh home folder with these files, {path: text}, and no program."""
        self.answer = ""
        self._thread.run(self._device.reset({"files": dict(files)}))

    def observe(self) -> Observation:
        seen = self._thread.run(self._device.observe())
        self.size_px = self._device.size_px
        # The state's digest is the world's, which programs' own clocks don't change.
        return replace(seen, state=digest(self.state()))

    def elements(self) -> tuple[ScreenElement, ...]:
        """The elements of `observe` alone: no picture is taken."""
        return self._thread.run(self._device.elements())

    def act(self, action: Action) -> None:
        """See `World.act`."""
        if isinstance(action, CallUser):
            self.answer = action.content
        self._thread.run(self._device.act(action))

    def state(self) -> dict[str, Any]:
        """{"files": [...], "window": {...}}, see `SshDevice.state`."""
        return self._thread.run(self._device.state())

    def script(self, source: bytes, given: object = None) -> dict[str, Any]:
        """JSON object that a Python script of ours writes on the desktop; `given` is its input."""
        return self._thread.run(self._device.script(source, given))

    def look(self) -> Observation:
        """As `observe`, but without the digest of the state, which takes as long again."""
        return self._thread.run(self._device.observe())
