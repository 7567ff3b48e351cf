"""Recordings that several tests look at, made once a run; and a phone, opened once a file: an open Playwright holds an
event loop, and whatever else runs in that process (Dagster's automation) could not start one of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from made_once import made_once

from generators.worlds.pages.own_pages import OwnPages, open_pages
from generators.worlds.pages.recording import OracleTally, RecordedEpisode, RecordingPlan, record


@pytest.fixture(scope="module")
def phone(has_chromium: None) -> Iterator[OwnPages]:
    """A phone on which any of our apps can be started."""
    with open_pages("phone") as world:
        yield world


@pytest.fixture(scope="module")
def recordings(
    tmp_path_factory: pytest.TempPathFactory, has_chromium: None
) -> tuple[list[RecordedEpisode], OracleTally]:
    """One phone episode of every family but the longest."""
    from generators.proving.embedded.makers import PHONE

    def make() -> tuple[list[RecordedEpisode], OracleTally]:
        tally = OracleTally()
        with open_pages("phone") as world:
            return record(world, RecordingPlan("phone", PHONE, len(PHONE), 77_000), tally), tally

    return made_once(tmp_path_factory, "recordings", make)
