"""Recordings that several tests look at, made once a file: an open Playwright holds an event loop, and whatever else
runs in that process (Dagster's automation) could not start one of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from generators.embedded.recording import Episode, Plan, Tally, record
from generators.environments.pages import World, open_pages


def _browser_or_skip() -> None:
    from generators.browser import BrowserMissing, find_chromium

    try:
        find_chromium()
    except BrowserMissing as missing:
        pytest.skip(str(missing))


@pytest.fixture(scope="module")
def phone() -> Iterator[World]:
    """A phone on which any of our apps can be started."""
    _browser_or_skip()
    with open_pages("phone") as world:
        yield world


@pytest.fixture(scope="module")
def recordings(phone: World) -> tuple[list[Episode], Tally]:
    """One phone episode of every family but the longest."""
    from generators.embedded.build import PHONE

    tally = Tally()
    return record(phone, Plan("phone", PHONE, len(PHONE), 77_000), tally), tally


@pytest.fixture(scope="session")
def raw_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("embedded") / "raw"
