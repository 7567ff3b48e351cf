"""One script on a desktop, straight and through real gateway nodes: the same elements and truth; no token, no way."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import gateway_parts as parts
import pytest

from generators.daas.device import Endpoint, LeaseLost
from generators.daas.tokens import Access, Tokens
from schemas.actions import Hotkey, Type

pytest.importorskip("asyncssh", reason="needs the extra devices (asyncssh)")
from generators.daas.drivers import ssh
from generators.environments.desktop.session import DesktopMissing, open_desktop

TEXT = "emoji 😀 中文 '; rm -rf / " + "x" * 10_000 + "\n"


def test_a_desktop(tmp_path_factory: pytest.TempPathFactory) -> None:
    async def script(way: Endpoint) -> tuple[Any, ...]:
        async with ssh.connect(way) as device:
            await device.reset({"files": {"a.txt": ""}, "program": "mousepad", "open": "a.txt"})
            await device.act(Type(TEXT))
            await device.act(Hotkey(("ctrl", "s")))
            keys = {(place.role, place.name, place.box) for place in (await device.observe()).places if place.clickable}
            return keys, (await device.state())["files"], device.size_px

    async def work(gateway: parts.Gateway, desktop: Endpoint) -> None:
        token = Tokens(parts.SECRET).sign(Access("it", "ssh", "127.0.0.1", desktop.port, 1, time.time() + 60))

        def through(name: str, token: str) -> Endpoint:
            host, port = gateway.at(name)
            return Endpoint("ssh", host, port, "it", token, desktop.options)

        found = [await script(way) for way in (desktop, *(through(name, token) for name in gateway.nodes))]
        assert found[0] == found[1] == found[2] and found[0][1][0]["text"] == TEXT
        with pytest.raises(LeaseLost):
            await script(through("n0", "no.such.token"))

    try:
        with open_desktop((1024, 768)) as desktop, parts.gateway(tmp_path_factory.mktemp("gateway"), 2) as gateway:
            asyncio.run(work(gateway, desktop))
    except DesktopMissing as missing:
        pytest.skip(str(missing))
