"""Mouse, finger and keyboard of one page by CDP's Input domain. Points are CSS pixels of the viewport."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from generators.devices.keyboard import CONTROL, META, Key

Send = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
Point = tuple[float, float]
STEPS = 12
"""Moves of a drag: enough for a page to see a path, and for a browser to see a drag begin."""
# characters a message; long texts would freeze the page in one
TEXT_PART = 4096


class PageInput:
    """`send` sends a command to the page. `touch` = fingers instead of a mouse."""

    def __init__(self, send: Send, *, touch: bool) -> None:
        self._send, self._touch = send, touch
        self.dragged: dict[str, Any] | None = None
        """What a native drag carries, set from the event Input.dragIntercepted."""

    async def _mouse(self, kind: str, at: Point, **more: object) -> None:
        await self._send("Input.dispatchMouseEvent", {"type": kind, "x": at[0], "y": at[1], **more})

    async def _finger(self, kind: str, at: Point | None = None) -> None:
        points = [] if at is None else [{"x": at[0], "y": at[1]}]
        await self._send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    async def hover(self, at: Point) -> None:
        await self._mouse("mouseMoved", at)

    async def right_click(self, at: Point) -> None:
        """Press and release the other button, which opens a page's own menu. Only a mouse has one."""
        await self._mouse("mouseMoved", at)
        await self._mouse("mousePressed", at, button="right", buttons=2, clickCount=1)
        await self._mouse("mouseReleased", at, button="right", clickCount=1)

    async def click(self, at: Point, times: int = 1, hold_s: float = 0.0) -> None:
        """Press and release, `times` times at the same point."""
        if self._touch:
            for _ in range(times):
                await self._finger("touchStart", at)
                await asyncio.sleep(hold_s)
                await self._finger("touchEnd")
            return
        await self._mouse("mouseMoved", at)
        for count in range(1, times + 1):
            await self._mouse("mousePressed", at, button="left", buttons=1, clickCount=count)
            await asyncio.sleep(hold_s)
            await self._mouse("mouseReleased", at, button="left", clickCount=count)

    async def drag(self, start: Point, end: Point, seconds: float) -> None:
        """Press, move along the line, release. A drag that the page gives data to becomes drag events."""
        path = [_between(start, end, step / STEPS) for step in range(1, STEPS + 1)]
        if self._touch:
            await self._finger("touchStart", start)
            for at in path:
                await asyncio.sleep(seconds / STEPS)
                await self._finger("touchMove", at)
            await self._finger("touchEnd")
            return
        self.dragged = None
        # the browser keeps a native drag to itself otherwise, and no page would see it
        await self._send("Input.setInterceptDrags", {"enabled": True})
        try:
            await self._mouse("mouseMoved", start)
            await self._mouse("mousePressed", start, button="left", buttons=1, clickCount=1)
            entered = False
            for at in (*path, end):
                await asyncio.sleep(seconds / STEPS)
                if self.dragged is None:
                    await self._mouse("mouseMoved", at, button="left", buttons=1)
                    continue
                if not entered:
                    await self._dragging("dragEnter", at)
                entered = True
                await self._dragging("dragOver", at)
            if entered:  # the drop is the release
                await self._dragging("drop", end)
            else:
                await self._mouse("mouseReleased", end, button="left", clickCount=1)
        finally:
            await self._send("Input.setInterceptDrags", {"enabled": False})

    async def _dragging(self, kind: str, at: Point) -> None:
        await self._send("Input.dispatchDragEvent", {"type": kind, "x": at[0], "y": at[1], "data": self.dragged})

    async def scroll(self, start: Point, end: Point, seconds: float) -> None:
        """Move the content as a finger from `start` to `end` would; with a mouse by the wheel."""
        if self._touch:
            await self.drag(start, end, seconds)
            return
        await self._mouse("mouseMoved", start)
        # the content follows a finger: from below upwards is a wheel turned down
        await self._mouse("mouseWheel", start, deltaX=start[0] - end[0], deltaY=start[1] - end[1])

    async def type(self, text: str) -> None:
        """Text as an input method commits it, character for character; never between the two of a CR LF."""
        at = 0
        while at < len(text):
            end = at + TEXT_PART
            # a CR LF that is cut would be two line breaks
            if text[end - 1 : end + 1] == "\r\n":
                end += 1
            await self._send("Input.insertText", {"text": text[at:end]})
            at = end

    async def press(self, keys: Sequence[Key]) -> None:
        """Keys down in order, up in reverse."""
        modifiers = 0
        for key in keys:
            modifiers |= key.modifier
            # a key under Ctrl or Meta is a command and types nothing
            await self._key("keyDown", key, modifiers, "" if modifiers & (CONTROL | META) else key.text)
        for key in reversed(keys):
            # the modifier is up before the event says so, as with a real keyboard
            modifiers &= ~key.modifier
            await self._key("keyUp", key, modifiers)

    async def _key(self, kind: str, key: Key, modifiers: int, text: str = "") -> None:
        event: dict[str, Any] = {
            # a keyDown without text would still be looked up as a character
            "type": "rawKeyDown" if kind == "keyDown" and not text else kind,
            "key": key.key,
            "code": key.code,
            "windowsVirtualKeyCode": key.number,
            "modifiers": modifiers,
        }
        if text:
            event["text"] = text
        await self._send("Input.dispatchKeyEvent", event)


def _between(start: Point, end: Point, share: float) -> Point:
    return start[0] + (end[0] - start[0]) * share, start[1] + (end[1] - start[1]) * share
