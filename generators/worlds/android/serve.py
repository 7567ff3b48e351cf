"""A phone to connect to, as a process of its own.

python -m generators.worlds.android.serve --port 5555 & adb connect 127.0.0.1:5555
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from collections.abc import Sequence

from generators.devices.browser import BrowserMissing
from generators.worlds.android.adbd import HOST, serve_adb
from generators.worlds.android.emulated_phone import EmulatedPhone
from generators.worlds.android.phone_screen import open_phone_screen


async def serve_phone(port: int) -> None:
    """Serve a phone until SIGTERM or SIGINT; prints where it listens when it is ready. Port 0 takes a free one."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with open_phone_screen() as screen, serve_adb(EmulatedPhone(screen), port=port) as adbd:
        print(f"phone on {HOST}:{adbd.port}", flush=True)
        await stop.wait()


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 1 with a one-line reason where it can't start."""
    parser = argparse.ArgumentParser(prog="serve", description=__doc__)
    parser.add_argument("--port", type=int, default=5555, help="0 takes a free one; default 5555")
    try:
        asyncio.run(serve_phone(parser.parse_args(arguments).port))
    except (BrowserMissing, OSError) as error:
        print(f"phone: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
