"""One Chromium for all browsers that a test opens: starting one costs more than many tests do in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest


@contextmanager
def one_chromium() -> Iterator[Callable[..., Any]]:
    """Within, `open_browser` gives a new context of one Chromium: as empty as a new profile, and gone with its block.

    Gives Playwright's own `launch_persistent_context`, which a test puts back that means a browser of its own.
    """
    from playwright.sync_api import Browser, BrowserType

    from generators.browser import _playwright

    launch = BrowserType.launch_persistent_context
    opened: dict[tuple[Any, ...], Browser] = {}

    def context(self: BrowserType, user_data_dir: Any, **options: Any) -> Any:
        how = {name: options.pop(name) for name in ("headless", "executable_path", "args") if name in options}
        key = (self.name, how["headless"], how["executable_path"], *how["args"])
        if key not in opened:
            opened[key] = self.launch(**how)
        return opened[key].new_context(**options)

    with _playwright(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(BrowserType, "launch_persistent_context", context)
        try:
            yield launch
        finally:
            for browser in opened.values():
                browser.close()
