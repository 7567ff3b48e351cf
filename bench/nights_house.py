"""Vesper as a house that runs for days: PostgreSQL, code location, web server and daemon, each a process of its own.

Each is started again when it ends, as a container would be. What the house does is asked of its web server (GraphQL),
as the UI asks.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from ports import free_port  # `bench/nights.py` has put tests/support on the path

ROOT = Path(__file__).parents[1]
MODULE = "dagster_project.definitions"
WHERE = {"repositoryName": "__repository__", "repositoryLocationName": "vesper"}
READY_S = 180.0
OPEN = ("QUEUED", "NOT_STARTED", "MANAGED", "STARTING", "STARTED", "CANCELING")
"""States of a run that hasn't ended."""


@dataclass
class Server:
    """A process that leads a group of its own and is kept up."""

    name: str
    command: list[str]
    process: subprocess.Popen[bytes] | None = None
    started: int = 0
    down_until: float = 0.0


@dataclass
class House:
    """A running deployment; all it writes lies in `folder`."""

    folder: Path
    postgres: Any
    environment: Mapping[str, str]
    """Of all its processes, beside what is set here."""
    servers: list[Server] = field(default_factory=list)
    url: str = ""

    @property
    def home(self) -> Path:
        return self.folder / "home"

    def begin(self) -> None:
        """Write the instance's settings, start everything, wait until the UI answers."""
        self.home.mkdir(parents=True, exist_ok=True)
        self._run(["-m", "dagster_project.cli", "dagster-home"])
        settings = self.home / "dagster" / "dagster.yaml"
        said = yaml.safe_load(settings.read_text(encoding="utf-8"))
        said["run_monitoring"] |= {
            "poll_interval_seconds": 5,
            "free_slots_after_run_end_seconds": 10,
        }  # nights are short
        settings.write_text(yaml.safe_dump(said), encoding="utf-8")
        code, web = free_port(), free_port()
        workspace = self.folder / "workspace.yaml"
        place = {"host": "127.0.0.1", "port": code, "location_name": "vesper"}
        workspace.write_text(yaml.safe_dump({"load_from": [{"grpc_server": place}]}), encoding="utf-8")
        self.url = f"http://127.0.0.1:{web}"
        at = ["-h", "127.0.0.1", "-p"]
        commands = {
            "code location": ["dagster", "api", "grpc", *at, str(code), "-m", MODULE, "--location-name", "vesper"],
            "web server": ["dagster_webserver", *at, str(web), "-w", str(workspace)],
            "daemon": ["dagster._daemon", "run", "-w", str(workspace)],
        }
        self.servers = [Server(name, [sys.executable, "-m", *words]) for name, words in commands.items()]
        self.keep_up()
        self.wait(lambda: self._stop_sensor("training_tail"), READY_S, "the web server and the code location to answer")

    def keep_up(self) -> None:
        """Start what has ended."""
        for server in self.servers:
            ended = server.process is None or server.process.poll() is not None
            if ended and time.monotonic() >= server.down_until:
                log = (self.folder / f"{server.name.replace(' ', '_')}.log").open("ab")
                with log:
                    server.process = subprocess.Popen(
                        server.command,
                        cwd=ROOT,
                        env=self._environment(),
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                    )
                server.started += 1

    def wait(self, true: Callable[[], Any], limit_s: float, what: str, each: Callable[[], None] | None = None) -> Any:
        """Keep everything up until a condition holds; its value. `SystemExit` if it doesn't in time."""
        end = time.monotonic() + limit_s
        while True:
            self.keep_up()
            if each is not None:
                each()
            with contextlib.suppress(OSError, KeyError, TypeError, ValueError):
                if found := true():
                    return found
            if time.monotonic() > end:
                raise SystemExit(f"nights: waited {limit_s:.0f} s in vain for {what}; see {self.folder}")
            time.sleep(0.5)

    def kill(self, name: str, down_s: float = 0.0) -> int:
        """`kill -9` of a server and its group; it is started again after `down_s`. Returns its process id."""
        server = next(one for one in self.servers if one.name == name)
        assert server.process is not None
        server.down_until = time.monotonic() + down_s
        with contextlib.suppress(ProcessLookupError):
            os.killpg(server.process.pid, signal.SIGKILL)
        server.process.wait(30)
        return server.process.pid

    def kill_workers(self) -> int:
        """`kill -9` of the processes that runs are made in (children of the code location); how many that were."""
        server = next(one for one in self.servers if one.name == "code location")
        assert server.process is not None
        found = [pid for pid in children(server.process.pid) if "spawn_main" in command_of(pid)]
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return len(found)

    def stop(self) -> None:
        for server in reversed(self.servers):
            server.down_until = float("inf")
            if server.process is not None and server.process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(server.process.pid, signal.SIGKILL)
                server.process.wait(30)

    # -- what it says -----------------------------------------------------------------------------------------------
    def ask(self, query: str, **variables: Any) -> Any:
        """A GraphQL query. Raises `OSError` while the web server is away, `ValueError` for an error in the answer."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.url}/graphql", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as reply:
            said = json.loads(reply.read())
        if said.get("errors"):
            raise ValueError(str(said["errors"])[:300])
        return said["data"]

    def runs(self, job: str = "") -> list[dict[str, Any]]:
        """Runs, newest first: runId, jobName, status, creationTime, startTime, endTime, tags."""
        fields = "runId jobName status creationTime startTime endTime tags { key value }"
        found = self.ask(f"{{ runsOrError(limit: 200) {{ ... on Runs {{ results {{ {fields} }} }} }} }}")
        runs = found["runsOrError"]["results"]
        for run in runs:
            run["tags"] = {tag["key"]: tag["value"] for tag in run["tags"]}
        return [run for run in runs if job in ("", run["jobName"])]

    def at_work(self, *jobs: str) -> list[dict[str, Any]]:
        """Runs of these jobs (all jobs, if none is said) that have begun and not ended."""
        return [run for run in self.runs() if run["status"] == "STARTED" and (not jobs or run["jobName"] in jobs)]

    def _stop_sensor(self, name: str) -> bool:
        """Switch a sensor off, as its switch in the UI does."""
        found = self.ask(
            "query($where: RepositorySelector!) { sensorsOrError(repositorySelector: $where) "
            "{ ... on Sensors { results { name id } } } }",
            where=WHERE,
        )["sensorsOrError"]["results"]
        sensor = next(one for one in found if one["name"] == name)
        said = self.ask("mutation($id: String!) { stopSensor(id: $id) { __typename } }", id=sensor["id"])
        return bool(said["stopSensor"]["__typename"] == "StopSensorMutationResult")

    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "VESPER_HOME": str(self.home),
            "OMP_NUM_THREADS": "1",
            "DAGSTER_HOME": str(self.home / "dagster"),
            "VESPER_POSTGRES_URL": self.postgres.url,
            "DAGSTER_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "PYTHONUNBUFFERED": "1",
            "VESPER_UPSTREAM_CRON": "0 0 29 2 *",
            **self.environment,
        }

    def _run(self, arguments: list[str]) -> None:
        done = subprocess.run(
            [sys.executable, *arguments], cwd=ROOT, env=self._environment(), capture_output=True, text=True
        )
        if done.returncode:
            raise SystemExit(f"nights: {' '.join(arguments)}: {done.stderr.strip()[-1500:]}")


def children(pid: int) -> Iterator[int]:
    """All processes below one (Linux)."""
    below: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            below.setdefault(int(path.read_text().rpartition(")")[2].split()[1]), []).append(int(path.parent.name))
    waiting = [pid]
    while waiting:
        for child in below.get(waiting.pop(), []):
            waiting.append(child)
            yield child


def command_of(pid: int) -> str:
    """The command line of a process; "" if it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""
