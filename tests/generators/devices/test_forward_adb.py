"""Debian's own adb over a local port that leads through the gateway to a leased phone."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from pathlib import Path

import gateway_parts as parts
import pytest
from ports import free_port

from generators.devices.browser import BrowserMissing, find_chromium
from generators.devices.client.forward import forward
from generators.devices.client.sdk import Client

ADB = shutil.which("adb")
PHONE = ("-m", "dagster_project.cli", "devices", "phone", "--port", "0")


@pytest.mark.skipif(ADB is None, reason="adb isn't installed")
def test_adb_connects_taps_and_takes_a_picture(tmp_path: Path) -> None:
    try:
        find_chromium()
    except BrowserMissing as missing:
        pytest.skip(str(missing))
    server_port = str(free_port())
    # a server of its own, so that no other adb on this machine is touched
    environment = {**os.environ, "HOME": str(tmp_path), "ANDROID_ADB_SERVER_PORT": server_port}

    async def adb(*arguments: str) -> bytes:
        process = await asyncio.create_subprocess_exec(
            str(ADB), *arguments, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        out, error = await asyncio.wait_for(process.communicate(), 30)
        assert process.returncode == 0, error
        return out

    async def work(gateway: parts.Gateway) -> None:
        phone = await asyncio.create_subprocess_exec(
            sys.executable, *PHONE, stdout=asyncio.subprocess.PIPE, cwd=parts.ROOT
        )
        try:
            assert phone.stdout is not None
            port = int((await asyncio.wait_for(phone.stdout.readline(), 60)).rpartition(b":")[2])
            await asyncio.to_thread(gateway.register, "phone", port, "adb")
            async with (
                Client(gateway.url, parts.CLIENT) as client,
                client.lease("adb") as session,
                forward(session) as local,
            ):
                serial = f"127.0.0.1:{local}"
                assert b"connected to" in await adb("connect", serial)
                await adb("-s", serial, "shell", "input", "tap", "100", "200")
                assert (await adb("-s", serial, "exec-out", "screencap", "-p")).startswith(b"\x89PNG")
                assert (await adb("-s", serial, "shell", "getprop", "ro.product.model")).strip()
        finally:
            await adb("kill-server")
            phone.terminate()
            await phone.wait()

    with parts.gateway(tmp_path, 2) as gateway:
        asyncio.run(work(gateway))
