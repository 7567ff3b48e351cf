"""Dagster's own UI in real Chromium. It takes a minute or more, so it runs where VESPER_TEST_DAGSTER_UI=1 is set."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from webapps import check_tasks, open_or_skip

from generators.tasks.world_interface import WorldError
from generators.worlds.webapps.dagster_ui.dagster_ui_tasks import DATA, make_tasks
from generators.worlds.webapps.dagster_ui.dagster_ui_world import open_dagster_ui
from generators.worlds.webapps.web_app_world import WebAppWorld

slow = pytest.mark.skipif(os.environ.get("VESPER_TEST_DAGSTER_UI") != "1", reason="set VESPER_TEST_DAGSTER_UI=1")


@pytest.fixture(scope="module")
def world() -> Iterator[WebAppWorld]:
    yield from open_or_skip(open_dagster_ui)


@slow
def test_ten_plans_reach_their_goals_and_the_snapshot_comes_back(world: WebAppWorld) -> None:
    check_tasks(world, make_tasks())
    world.reset({"page": "/runs"})
    assert world.state()["data"] == DATA
    with pytest.raises(WorldError, match="the only snapshot"):
        world.reset({"seed": 1})


def test_tasks_name_the_only_snapshot() -> None:
    assert {task.start["seed"] for task in make_tasks()} == {0}
    with pytest.raises(ValueError, match="the only snapshot"):
        make_tasks(1)
