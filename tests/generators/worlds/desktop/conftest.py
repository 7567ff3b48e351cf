"""One desktop for the tests of a worker; skipped, with the packages' names, where it can't start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from generators.devices.device import DeviceEndpoint
from generators.worlds.desktop.desktop_world import DesktopWorld
from generators.worlds.desktop.session import DesktopMissing, open_desktop


@pytest.fixture(scope="session")
def desktop() -> Iterator[DeviceEndpoint]:
    try:
        with open_desktop((1024, 768)) as endpoint:
            yield endpoint
    except DesktopMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def world(desktop: DeviceEndpoint) -> Iterator[DesktopWorld]:
    with DesktopWorld(desktop) as opened:
        yield opened
