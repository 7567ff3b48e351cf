"""One phone a file of tests: an open Playwright holds an event loop."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from generators.worlds.phone.phone_world import PhoneWorld, open_phone


@pytest.fixture(scope="module")
def handset() -> Iterator[PhoneWorld]:
    from generators.devices.browser import BrowserMissing, find_chromium

    try:
        find_chromium()
    except BrowserMissing as missing:
        pytest.skip(str(missing))
    errors: list[str] = []
    with open_phone() as world:
        world.page.on("pageerror", lambda error: errors.append(str(error)))
        yield world
    assert not errors
