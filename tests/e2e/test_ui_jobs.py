"""What people do with runs in Dagster's own pages, in a real Chromium: start a second training with another learning
rate from the launchpad and compare it, and go back to the version before."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from dagster_dev import graphql, page_of, running
from goldmaker import gold
from killable import TRAINER

from pipelines.store import Store
from pipelines.training_data.mixture import build_mixture
from pipelines.training_data.shards import build_shards
from trainer.stages.run import run_stage

pytestmark = [
    pytest.mark.slow(seconds=100),
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds its processes in /proc"),
]

CONFIG: dict[str, Any] = {**TRAINER, "evaluate": {"threads": 1, "grounding": 8, "navigation": 6, "max_new_tokens": 8}}
MID = "checkpoints/mid_trained"
RUNS = "{ runsOrError { ... on Runs { results { runId jobName status } } } }"
COMPARISON = """{ assetNodeOrError(assetKey: {path: ["experiments", "comparison"]}) { ... on AssetNode {
    assetMaterializations(limit: 1) { metadataEntries { ... on MarkdownMetadataEntry { mdStr } } } } } }"""
PATIENCE_S = 240.0


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A mainline up to its mid-training's evaluation, which was trained before with a lower learning rate."""
    made = gold(tmp_path_factory.mktemp("ui_jobs"), count=20, parts=2)
    build_shards(made, ["toy"])
    build_shards(made, ["toy"], "evaluations/heldout", splits=("test",))
    build_mixture(made)
    run_stage("base", made.home, CONFIG, progress=False)
    slower = {**CONFIG, "midtrain": {**CONFIG["midtrain"], "learning_rate": 1e-4}}
    run_stage("mid_trained", made.home, slower, progress=False)
    for stage in ("mid_trained", "evaluations/mid_trained"):
        run_stage(stage, made.home, CONFIG, progress=False)
    return made


@pytest.fixture(scope="module")
def url(store: Store) -> Iterator[str]:
    with running(store.home, {"VESPER_TRAINER": json.dumps(CONFIG)}) as address:
        yield address


@pytest.fixture(scope="module")
def page(url: str) -> Iterator[Any]:
    with page_of(url) as made:
        yield made


def launch(page: Any, url: str, job: str, run_config: str) -> str:
    """Type a run's settings into a job's launchpad and press its button; the run's id."""
    location = graphql(page, "{ workspaceOrError { ... on Workspace { locationEntries { name } } } }")
    [entry] = location["workspaceOrError"]["locationEntries"]
    page.goto(f"{url}/locations/{entry['name']}/jobs/{job}/playground")
    editor = page.locator(".CodeMirror").first
    editor.click(timeout=60_000)
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(run_config)
    page.get_by_role("button", name="Launch run").click(timeout=60_000)
    page.wait_for_url(re.compile("/runs/"), timeout=60_000)
    return str(page.url.rpartition("/runs/")[2].partition("?")[0])


def until(page: Any, done: Callable[[], object], what: str, log: Path) -> None:
    """Wait for something, with the page alive. Raises `AssertionError` after `PATIENCE_S`."""
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, f"{what}: {log.read_text()[-3000:]}"
        page.wait_for_timeout(500)


def comparison_shown(page: Any) -> str:
    """What the asset's page is given to show as the comparison; "" before it was materialised."""
    found = graphql(page, COMPARISON)["assetNodeOrError"]["assetMaterializations"]
    return next((entry["mdStr"] for one in found for entry in one["metadataEntries"] if "mdStr" in entry), "")


def status(page: Any, *, run: str = "", job: str = "") -> set[str]:
    """Statuses of one run, or of all runs of a job."""
    found = graphql(page, RUNS)["runsOrError"]["results"]
    return {one["status"] for one in found if one["runId"] == run or one["jobName"] == job}


def test_a_second_training_is_started_from_the_launchpad_and_compared(url: str, page: Any, store: Store) -> None:
    page.goto(url)
    settings = {"name": "lr_high", "midtrain": {"learning_rate": 0.02}}
    run = launch(page, url, "new_experiment", json.dumps({"ops": {"define_experiment": {"config": settings}}}))
    log = store.home / "server.log"
    until(page, lambda: status(page, run=run) == {"SUCCESS"}, "new_experiment", log)
    until(page, lambda: status(page, job="run_experiment") == {"SUCCESS"}, "run_experiment", log)  # by the sensor
    made = store.require(f"experiments/lr_high/{MID}")
    assert json.loads(made.file("settings.json").read_text())["midtrain"]["learning_rate"] == 0.02
    assert store.require(MID).version != made.version

    page.goto(f"{url}/assets/experiments/comparison")
    page.get_by_role("button", name="Materialize").click(timeout=60_000)
    # The version lies in the store a little before Dagster has noted it down for the page.
    until(page, lambda: "lr_high beside mainline" in comparison_shown(page), "experiments/comparison", log)
    assert store.require("experiments/comparison").checks_passed


def test_a_person_goes_back_to_the_version_before(url: str, page: Any, store: Store) -> None:
    newest = store.require(MID).version
    page.goto(url)
    settings = {"asset": MID, "why": "the first one was better"}
    run = launch(page, url, "roll_back_version", json.dumps({"ops": {"roll_back_one": {"config": settings}}}))
    until(page, lambda: status(page, run=run) == {"SUCCESS"}, "roll_back_version", store.home / "server.log")
    before = store.require(MID)
    assert before.version != newest
    page.goto(f"{url}/assets/{MID}")
    page.get_by_text(before.version).first.wait_for(timeout=60_000)
