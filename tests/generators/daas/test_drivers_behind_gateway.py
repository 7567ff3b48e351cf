"""One script, straight to the device and through real gateway nodes: the same pictures, elements and truth."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import gateway_parts as parts
import pytest
from chromium import open_chromium
from recording_phone import RecordingPhone

from generators.daas.device import AsyncDevice, DeviceError, Endpoint, LeaseLost
from generators.daas.drivers import adb, cdp
from generators.daas.tokens import Access, Tokens
from generators.environments.android.adbd import serve_adb
from generators.environments.android.phone import EmulatedPhone
from schemas.actions import Click, Scroll, Type

PAGE = "data:text/html,<textarea id=a style='width:90%25'></textarea><button id=b>Go</button>"
TEXT = "emoji 😀 中文 '; rm -rf / " + "x" * 10_000


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[parts.Gateway]:
    with parts.gateway(tmp_path_factory.mktemp("gateway"), 2) as gateway:
        yield gateway


def ways(gateway: parts.Gateway, protocol: str, port: int, options: dict[str, Any]) -> list[Endpoint]:
    """Straight, and through each node: the device's owner and the one that streams to it."""
    token = Tokens(parts.SECRET).sign(Access("it", protocol, "127.0.0.1", port, 1, time.time() + 60))
    through = [Endpoint(protocol, *gateway.at(name), "it", token, options) for name in gateway.nodes]
    return [Endpoint(protocol, "127.0.0.1", port, options=options), *through]


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(60):
            await work()

    asyncio.run(limited())


def test_a_browser(nodes: parts.Gateway) -> None:
    async def script(device: cdp.CdpDevice) -> tuple[Any, ...]:
        assert isinstance(device, AsyncDevice)
        await device.reset({"url": PAGE})
        first = await device.observe()
        place = first.place("a")
        assert place is not None
        await device.act(Click(place.centre))
        await device.act(Type(TEXT))
        return first.png, first.places, await device.evaluate("a.value"), device.size_px

    async def work() -> None:
        with open_chromium() as port:
            options = {"schemes": ["data"]}
            found = []
            for way in ways(nodes, "cdp", port, options):
                async with cdp.connect(way) as device:
                    found.append(await script(device))
            assert found[0] == found[1] == found[2] and found[0][2] == TEXT
            with pytest.raises(LeaseLost):
                async with cdp.connect(Endpoint("cdp", *nodes.at("n0"), "it", "no.such.token", options)):
                    pass

    run(work)


def test_a_phone(nodes: parts.Gateway) -> None:
    async def script(device: adb.AdbDevice, backend: RecordingPhone) -> tuple[Any, ...]:
        backend.typed = b""
        await device.reset({"seed": 4})
        places = (await device.observe()).places
        await device.act(Click(places[0].centre))
        await device.act(Scroll(direction="up"))
        await device.act(Type(TEXT))
        return places, await device.state(), backend.typed, device.size_px

    async def work() -> None:
        backend = RecordingPhone()
        async with serve_adb(EmulatedPhone(backend)) as adbd:
            found = []
            for way in ways(nodes, "adb", adbd.port, {}):
                backend.done.clear()
                async with adb.connect(way) as device:
                    found.append((*await script(device, backend), list(backend.done)))
            assert found[0] == found[1] == found[2] and found[0][2] == TEXT.encode()
            for token, kind in (("no.such.token", LeaseLost), ("a b", DeviceError)):
                with pytest.raises(kind):
                    async with adb.connect(Endpoint("adb", *nodes.at("n1"), "it", token)):
                        pass

    run(work)
