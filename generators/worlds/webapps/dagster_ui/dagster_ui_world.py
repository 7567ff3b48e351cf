"""Dagster's UI as a world. The truth is read through its GraphQL API; what has happened is put back file by file.

Runs have times and ids of their own, so two openings of this world don't give the same pixels.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from generators.tasks.world_interface import WorldError
from generators.worlds.start_checks import check_start
from generators.worlds.webapps.server import WebAppServer, environment_of, json_of, need, start_command
from generators.worlds.webapps.sqlite_files import overwrite
from generators.worlds.webapps.web_app_world import WebAppWorld, open_app

NAME = "dagster_ui"
SEED_S, RUNS_S = 180.0, 120.0
"""Limits: on making the history, and on runs that are under way when the truth is read."""
HOME_FILE = """telemetry:
  enabled: false
nux:
  enabled: false
run_coordinator:
  module: dagster._core.run_coordinator
  class: DefaultRunCoordinator
"""
"""A run starts when it is launched: no daemon has to take it from a queue."""
ENDED = frozenset({"SUCCESS", "FAILURE", "CANCELED"})
QUERY = """{
  assetNodes { assetKey { path } groupName assetMaterializations(limit: 100) { runId } }
  runsOrError(limit: 500) { ... on Runs { results { jobName status } } }
  repositoriesOrError { ... on RepositoryConnection { nodes {
    schedules { name scheduleState { status } } sensors { name sensorState { status } } } } }
}"""


class DagsterData:
    """See `Data`."""

    name, quiet_s, still_clock = NAME, 0.5, False

    def __init__(self, server: WebAppServer) -> None:
        self._server = server
        self._home, self._snapshot = server.folder / "home", server.folder / "snapshot"

    def restore(self, start: Mapping[str, object]) -> None:
        """There is one snapshot; `seed` may be 0. Runs that are under way are waited for."""
        check_start(start, NAME, (), ("seed", "page"))
        if start.get("seed", 0) != 0:
            raise WorldError(f"{NAME}: seed: expected 0, the only snapshot, found {start['seed']!r:.60}")
        # A run that ends later would write into the restored files.
        self._quiet()
        kept = {path.relative_to(self._snapshot) for path in self._snapshot.rglob("*.db")}
        for path in sorted(kept):
            # Through SQLite and not by copying, since the server has them open.
            overwrite(self._snapshot / path, self._home / path)
        for path in self._home.rglob("*.db"):
            if path.relative_to(self._home) not in kept:  # a later run's events
                path.unlink()

    def cookies(self) -> list[tuple[str, str]]:
        return []

    def truth(self, path: str) -> dict[str, object]:
        """{"data": {"assets": {name: {"group", "materializations"}}, "runs": {job: {status: count}}, "schedules" and
        "sensors": {name: status}}, "view": {}} once no run is under way."""
        answer = self._quiet()
        runs: dict[str, dict[str, int]] = {}
        for run in answer["runsOrError"]["results"]:
            of_job = runs.setdefault(run["jobName"], {})
            of_job[run["status"]] = of_job.get(run["status"], 0) + 1
        locations = answer["repositoriesOrError"]["nodes"]
        assets = {
            "/".join(node["assetKey"]["path"]): {
                "group": node["groupName"],
                # Counted: times and ids differ from run to run.
                "materializations": len(node["assetMaterializations"]),
            }
            for node in answer["assetNodes"]
        }
        schedules = {
            one["name"]: one["scheduleState"]["status"] for location in locations for one in location["schedules"]
        }
        sensors = {one["name"]: one["sensorState"]["status"] for location in locations for one in location["sensors"]}
        return {"data": {"assets": assets, "runs": runs, "schedules": schedules, "sensors": sensors}, "view": {}}

    def _quiet(self) -> Any:
        """What the API says as soon as every run has ended."""
        end = time.monotonic() + RUNS_S
        while True:
            answer = self._ask()
            # Statuses between launching and ending.
            under_way = [run["jobName"] for run in answer["runsOrError"]["results"] if run["status"] not in ENDED]
            if not under_way:
                return answer
            if time.monotonic() > end:
                raise WorldError(f"{NAME}: runs of {under_way!r:.120} haven't ended within {RUNS_S:g} s")
            time.sleep(0.2)

    def _ask(self) -> Any:
        body = json.dumps({"query": QUERY}).encode()
        headers = {"Content-Type": "application/json"}
        status, found = self._server.call("/graphql", method="POST", body=body, headers=headers)
        answer = json_of(self._server, status, found, "/graphql")
        # GraphQL reports errors with status 200.
        if answer.get("errors"):
            raise WorldError(f"{NAME}: the API refused the question: {str(answer['errors'])[:200]}")
        return answer["data"]


def _make_home(folder: Path) -> dict[str, str]:
    """The bakery and its history in `folder`; gives the environment that Dagster's processes need."""
    here = Path(__file__).parent
    (folder / "home").mkdir()
    (folder / "home" / "dagster.yaml").write_text(HOME_FILE, "utf-8")
    shutil.copyfile(here / "definitions.txt", folder / "bakery.py")
    shutil.copyfile(here / "history.txt", folder / "history.py")
    environment = {"DAGSTER_HOME": str(folder / "home"), "DAGSTER_DISABLE_TELEMETRY": "1"}
    try:
        # In a process of its own, as the server sees it: same environment, same files.
        done = subprocess.run(
            [sys.executable, "history.py"],
            cwd=folder,
            env=environment_of(folder, environment),
            timeout=SEED_S,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
    except subprocess.TimeoutExpired:
        raise WorldError(f"{NAME}: the history wasn't made within {SEED_S:g} s") from None
    if done.returncode:
        raise WorldError(f"{NAME}: the history wasn't made: {done.stdout[-300:].decode('utf-8', 'replace')!r}")
    return environment


@contextmanager
def open_dagster_ui() -> Iterator[WebAppWorld]:
    """Dagster's UI in a browser of its own. Raises `AppMissing` without Dagster, `BrowserMissing` without Chromium."""
    need("dagster_webserver", extra="dagster")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vesper-dagster-")))
        environment = _make_home(folder)
        command = ["dagster_webserver", "-h", "127.0.0.1", "-f", "bakery.py"]
        server = stack.enter_context(start_command(NAME, folder, command, environment, ready="/server_info"))
        # After the server made what it needs, before anything is done.
        shutil.copytree(folder / "home", folder / "snapshot")
        yield stack.enter_context(open_app(server, DagsterData(server)))
