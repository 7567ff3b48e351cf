"""One desktop for the tests of a worker; skipped, with the packages' names, where it can't start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from generators.daas.device import Endpoint
from generators.environments.desktop.session import DesktopMissing, open_desktop
from generators.environments.desktop.world import DesktopWorld


@pytest.fixture(scope="session")
def desktop() -> Iterator[Endpoint]:
    try:
        with open_desktop((1024, 768)) as endpoint:
            yield endpoint
    except DesktopMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="session")
def world(desktop: Endpoint) -> Iterator[DesktopWorld]:
    with DesktopWorld(desktop) as opened:
        yield opened
