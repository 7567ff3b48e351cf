"""Dagster's own web server and a real Chromium: the lineage is shown, and a run started from the page succeeds."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from dagster_dev import graphql, page_of, running

from dagster_project.settings.deployment import EMBEDDED
from pipelines.store import Store

pytestmark = [
    pytest.mark.slow(seconds=70),
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds its processes in /proc"),
]


@pytest.fixture(scope="module")
def home(tiny_home: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A $VESPER_HOME whose native files are the tiny embedded ones, so that no run needs a browser of its own."""
    folder = tmp_path_factory.mktemp("ui")
    incoming = folder / "incoming" / "aitw"
    incoming.parent.mkdir()
    incoming.symlink_to(tiny_home("aitw") / "raw" / "aitw", target_is_directory=True)
    return folder


@pytest.fixture(scope="module")
def url(home: Path) -> Iterator[str]:
    with running(home) as address:
        yield address


@pytest.fixture(scope="module")
def page(url: str) -> Iterator[Any]:
    with page_of(url) as made:
        yield made


def test_upstream_of_the_unified_agent_is_shown_back_to_every_raw_dataset(url: str, page: Any) -> None:
    page.goto(f"{url}/assets/checkpoints/unified?view=lineage&lineageScope=upstream&lineageDepth=9")
    page.get_by_text("offline_grounding", exact=True).first.wait_for(timeout=20_000)
    shown = set(page.locator("body").inner_text().split())
    assert set(EMBEDDED) | {"rico", "raw", "gold", "mid_trained", "mixture"} <= shown
    page.goto(f"{url}/asset-groups")
    page.get_by_role("button", name="checkpoints").first.wait_for(timeout=20_000)
    groups = {button.inner_text().split("\n")[0] for button in page.get_by_role("button").all()}
    assert {"raw", "unified", "verdicts", "gold", "hygiene", "mid_training", "checkpoints", "evaluations"} <= groups


def test_a_chain_started_from_the_page_succeeds(url: str, page: Any, home: Path) -> None:
    page.goto(f"{url}/assets/unified/aitw?view=lineage&lineageScope=upstream")
    page.get_by_role("button", name="Materialize all").click(timeout=20_000)  # raw/aitw and unified/aitw
    query = "{ runsOrError { ... on Runs { results { runId status assetSelection { path } } } } }"
    chosen = [{"path": ["raw", "aitw"]}, {"path": ["unified", "aitw"]}]
    deadline, runs = time.monotonic() + 180, []
    while not runs or runs[0]["status"] not in ("SUCCESS", "FAILURE", "CANCELED"):
        assert time.monotonic() < deadline, (runs, (home / "server.log").read_text()[-3000:])
        page.wait_for_timeout(300)
        found = graphql(page, query)["runsOrError"]["results"]
        # sensors may start runs of their own meanwhile
        runs = [run for run in found if sorted(run["assetSelection"] or [], key=str) == chosen]
    assert {run["status"] for run in runs} == {"SUCCESS"}, found
    made = Store(home).require("unified/aitw")
    assert made.rows("steps") > 0 and made.inputs == {"raw/aitw": Store(home).require("raw/aitw").version}
    page.goto(f"{url}/runs/{runs[0]['runId']}")
    page.get_by_text("Success", exact=True).first.wait_for(timeout=20_000)
    page.goto(f"{url}/assets/unified/aitw?view=events")  # with a picture of what was made
    page.get_by_text("Show Markdown").first.click(timeout=20_000)
    page.locator("img[src^='data:image/png;base64,']").first.wait_for(timeout=20_000)


def test_what_is_wrong_with_a_source_is_named_within_two_clicks(
    url: str, page: Any, home: Path, tiny_home: Callable[..., Path]
) -> None:
    """An error page instead of a native file: from the asset's page one click shows the check's name as failed, and one
    more what was found and what to do."""
    broken = home / "incoming" / "aitw"
    whole = tiny_home("aitw") / "raw" / "aitw"
    shutil.rmtree(broken) if not broken.is_symlink() else broken.unlink()
    shutil.copytree(whole, broken)
    [first, *_] = sorted(path for path in broken.rglob("*") if path.is_file() and path.stat().st_size > 1000)
    first.write_bytes(b"<html>404</html>" * 100)
    environment = {**os.environ, "VESPER_HOME": str(home), "DAGSTER_HOME": str(home / "dagster")}
    command = [
        "asset",
        "materialize",
        "-m",
        "dagster_project.definitions",
        "--select",
        'key:"raw/aitw" or key:"unified/aitw"',
    ]
    done = subprocess.run([sys.executable, "-m", "dagster", *command], env=environment, capture_output=True, text=True)
    assert done.returncode != 0, done.stderr[-2000:]

    # The sensor of new files may make it once more meanwhile, which shows as in progress and ends the same.
    page.goto(f"{url}/assets/unified/aitw")
    page.get_by_role("tab", name="Checks").click(timeout=60_000)
    # the page holds each name twice, once to measure how much of it fits
    failed = page.locator("div").filter(has_text=re.compile(r"^(files_readable\s*){1,2}Failed$"))
    failed.last.click(timeout=120_000)
    page.get_by_text(f"1 of 1 files damaged: general/{first.name}").first.wait_for(timeout=120_000)
    page.locator('a[href$="/runbook#files_readable"]').first.wait_for(timeout=20_000)
    page.get_by_text("Bring them again").first.wait_for(timeout=20_000)
