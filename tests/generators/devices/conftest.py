"""An authority in memory, with a clock that a test moves; a Chromium and the pages that the CDP tests show in it."""

from __future__ import annotations

import pytest
from cdp_pages import chromium, site  # noqa: F401 (fixtures)
from lease_parts import RULES, Clock

from generators.devices.authority.leases import Leases


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def leases(clock: Clock) -> Leases:
    return Leases(":memory:", RULES, clock)
