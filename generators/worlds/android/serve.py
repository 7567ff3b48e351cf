"""A phone to connect to, as `vesper devices phone` serves it."""

import asyncio
import signal

from generators.worlds.android.adbd import HOST, serve_adb
from generators.worlds.android.emulated_phone import EmulatedPhone
from generators.worlds.android.phone_screen import open_phone_screen


async def serve_phone(port: int) -> None:
    """Serve a phone until SIGTERM or SIGINT; prints where it listens when it is ready. Port 0 takes a free one.
    Raises `BrowserMissing` without a Chromium, `OSError` for a port that is taken."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with open_phone_screen() as screen, serve_adb(EmulatedPhone(screen), port=port) as adbd:
        print(f"phone on {HOST}:{adbd.port}", flush=True)
        await stop.wait()
