"""A Chromium for tests of drivers, started as anyone would."""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from generators.devices.browser import FLAGS, BrowserMissing, find_chromium


class open_chromium:
    """A real Chromium as anyone starts one: its own process, a DevTools port, a new profile."""

    def __enter__(self) -> int:
        try:
            program = find_chromium() or pytest.skip("no Chromium on PATH: Playwright's own has no fixed program name")
        except BrowserMissing as missing:
            pytest.skip(str(missing))
        self._profile = tempfile.TemporaryDirectory(prefix="cdp-test-", ignore_cleanup_errors=True)
        self.process = subprocess.Popen(
            [
                program,
                *FLAGS,
                "--headless=new",
                "--remote-debugging-port=0",
                "--window-size=800,600",
                f"--user-data-dir={self._profile.name}",
                "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        told = Path(self._profile.name) / "DevToolsActivePort"
        for _ in range(300):
            if told.exists() and (lines := told.read_text().split()):
                return int(lines[0])
            time.sleep(0.05)
        raise AssertionError("Chromium told no port")

    def __exit__(self, *args: object) -> None:
        self.process.kill()
        self.process.wait()
        self._profile.cleanup()
