"""A Chromium of its own as a device: what a gateway or a driver is tried on."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_parts import until

from generators.devices.browser import FLAGS, BrowserMissing, find_chromium


@contextlib.contextmanager
def chromium(folder: Path, *more: str) -> Iterator[int]:
    """Port of a headless Chromium's CDP; `more` are words of its command line."""
    try:
        path = find_chromium()
    except BrowserMissing as missing:
        pytest.skip(str(missing))
    if path is None:
        pytest.skip("only Playwright's own browser is here")
    process = subprocess.Popen(
        [
            path,
            *FLAGS,
            "--headless=new",
            "--remote-debugging-port=0",
            f"--user-data-dir={folder}",
            *more,
            "about:blank",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        told = folder / "DevToolsActivePort"
        until(lambda: told.exists() and "\n" in told.read_text(), 60)
        yield int(told.read_text().splitlines()[0])
    finally:
        process.kill()
        process.wait(10)
