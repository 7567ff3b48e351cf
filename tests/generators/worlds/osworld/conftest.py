"""One sealed desktop for the tests of a worker; skipped, with the packages' names, where it can't start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from generators.worlds.desktop.session import DesktopMissing
from generators.worlds.osworld.osworld_world import OsworldWorld, open_osworld

FIXTURES = Path(__file__).parents[3] / "fixtures" / "osworld"


@pytest.fixture(scope="session")
def osworld() -> Iterator[OsworldWorld]:
    try:
        with open_osworld(FIXTURES, (1280, 800)) as opened:
            yield opened
    except DesktopMissing as missing:
        pytest.skip(str(missing))
