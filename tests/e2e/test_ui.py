"""Dagster's own web server and a real Chromium: the lineage is shown, and a run started from the page succeeds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ports import free_port

from dagster_project import instance
from dagster_project.deployment import EMBEDDED
from generators.browser import FLAGS, find_chromium
from pipelines.store import Store

ROOT = Path(__file__).parents[2]
MODULE = "dagster_project.definitions"
pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="finds its processes in /proc")


def _ours(home: Path) -> list[int]:
    """Processes that were given this $VESPER_HOME, whatever group or session they are in."""
    mark, found = f"VESPER_HOME={home}\0".encode(), []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:  # gone, or not ours to look at
            continue
    return [pid for pid in found if pid != os.getpid()]


def _stop(server: subprocess.Popen[bytes], home: Path) -> None:
    """End the server's group, then whatever of its children leads a group of its own."""
    server.send_signal(signal.SIGINT)
    try:
        server.wait(2)
    except subprocess.TimeoutExpired:
        pass
    for _ in range(50):
        for pid in _ours(home):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if server.poll() is not None and not _ours(home):
            return
        time.sleep(0.1)
    raise AssertionError(f"still running: {_ours(home)}")


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
    """The address of a running `dagster dev`, as `make dev` starts it."""
    port = free_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DAGSTER_HOME", "")
        folder = instance.prepare(home)
    environment = {
        **os.environ, "VESPER_HOME": str(home), "DAGSTER_HOME": str(folder), "DAGSTER_DISABLE_TELEMETRY": "1",
        "VESPER_NIGHTLY_CRON": "0 0 29 2 *", "PYTHONUNBUFFERED": "1",
    }  # fmt: skip
    command = [sys.executable, "-m", "dagster", "dev", "-h", "127.0.0.1", "-p", str(port), "-m", MODULE]
    with (home / "server.log").open("wb") as log:
        server = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True
        )  # fmt: skip
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 180
        while not _answers(f"{address}/server_info"):
            assert server.poll() is None and time.monotonic() < deadline, (home / "server.log").read_text()[-3000:]
            time.sleep(0.2)
        yield address
    finally:
        _stop(server, home)


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(address, timeout=2) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


@pytest.fixture(scope="module")
def page(url: str) -> Iterator[Any]:
    """A page of a Chromium with a new profile, from which nothing but loopback is reached."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=list(FLAGS))
        try:
            made = browser.new_page(viewport={"width": 1500, "height": 900})
            made.route(lambda address: not address.startswith(url), lambda route: route.abort())
            yield made
        finally:
            browser.close()


def _graphql(page: Any, query: str, **variables: Any) -> Any:
    """Ask as the page itself does, from within it."""
    reply = page.evaluate(
        "([query, variables]) => fetch('/graphql', {method: 'POST', headers: {'Content-Type': 'application/json'},"
        " body: JSON.stringify({query, variables})}).then(reply => reply.json())",
        [query, variables],
    )
    assert "errors" not in reply, reply["errors"]
    return reply["data"]


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
        found = _graphql(page, query)["runsOrError"]["results"]
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
