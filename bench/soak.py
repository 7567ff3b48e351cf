"""The soak: the generation loop over real devices behind a real gateway, with everything killed at random.

python bench/soak.py --minutes 20 --seed 0 [--json FILE]

One lease authority, three gateway nodes, Chromiums that show FSM sites (CDP), emulated phones (ADB), two worker
processes of several threads each. From a seed, devices, nodes and workers get `kill -9` (a device is also frozen now
and then), the authority too; all are started again. At the end the outstanding tasks are finished and everything is
counted against records that the journal had no part in: what workers noted of each trajectory that was reported to
them, and of each decision.

Exit code 1 if a verified trajectory was lost, one is there twice, one differs from what was reported, or more decisions
were made again than steps were in flight at failures and kills.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.gateway_soak import NOT_YET, ROOT, GatewaySoak, arguments, parts, report  # noqa: I001 (adds tests/support)
from ports import free_port

from bench.soak_worker import batches, fingerprint
from generators.devices.browser import FLAGS, find_chromium
from generators.execution.journal import read_journals
from generators.execution.leased_worlds import SITE_OPTIONS
from generators.generation.annotators import TreeEvidence, WorldRule
from generators.generation.verify import Verifier
from generators.worlds.serve_sites import serve_sites
from pipelines.store import Store

SHARDS, THREADS = 2, 2
FROZEN_S = 8.0
FINISH_S = 600.0
"""How long the outstanding tasks may take after the last kill."""


@dataclass
class Part:
    """Something that runs in a process group of its own and is started again whenever it ends before its time."""

    name: str
    kind: str
    start: Callable[[], subprocess.Popen[Any]]
    process: subprocess.Popen[Any] | None = None
    started: int = 0
    down_until: float = 0.0

    def keep_up(self) -> bool:
        """Start it if it should run and doesn't; whether it was started."""
        if time.monotonic() < self.down_until or (self.process is not None and self.process.poll() is None):
            return False
        self.process = self.start()
        self.started += 1
        return True

    def signal(self, number: int) -> bool:
        if self.process is None or self.process.poll() is not None:
            return False
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)
        if number == signal.SIGKILL:
            self.process.wait(30)
        return True


class Soak(GatewaySoak):
    """See the module."""

    nodes = 3
    kinds = ("device", "device", "device", "node", "node", "worker", "worker", "authority")

    def __init__(self, folder: Path, seed: int, browsers: int, phones: int) -> None:
        super().__init__(folder, seed)
        self.browsers, self.phones = browsers, phones
        self.parts: list[Part] = []
        self.frozen: list[tuple[float, Part]] = []
        self.but: tuple[str, ...] = ()

    def begin(self, site_url: str) -> None:
        while len(self.gateway.nodes) < self.nodes:
            with contextlib.suppress(*NOT_YET):
                self.keep_gateway()
        self.gateway.until_nodes(self.nodes)
        for n in range(self.browsers):
            port = free_port()
            self.parts.append(Part(f"browser-{n}", "device", lambda port=port: self._browser(port)))  # type: ignore[misc]
            self.gateway.register(f"browser-{n}", port, "cdp", labels=["world=fsm"], options=SITE_OPTIONS)
        for n in range(self.phones):
            port = free_port()
            self.parts.append(Part(f"phone-{n}", "device", lambda port=port: self._phone(port)))  # type: ignore[misc]
            self.gateway.register(f"phone-{n}", port, "adb")
        plan = {
            "folder": str(self.folder),
            "authority": self.gateway.url,
            "key": parts.CLIENT,
            "site_url": site_url,
            "shards": SHARDS,
            "threads": THREADS,
        }
        path = self.folder / "plan.json"
        path.write_text(json.dumps(plan))
        path.chmod(0o600)
        for n in range(SHARDS):
            command = [sys.executable, str(ROOT / "bench/soak_worker.py"), str(path), str(n)]
            self.parts.append(Part(f"worker-{n}", "worker", lambda command=command: self._run(command)))  # type: ignore[misc]

    def _run(self, command: list[str]) -> subprocess.Popen[Any]:
        # A group of its own, so that a kill takes its children along.
        return self.start(command, start_new_session=True)

    def _browser(self, port: int) -> subprocess.Popen[Any]:
        profile = tempfile.mkdtemp(prefix="profile-", dir=self.left)
        program = find_chromium()
        if program is None:
            raise SystemExit("soak: expected a Chromium on PATH, found Playwright's own only; set VESPER_BROWSER")
        return self._run(
            [
                program,
                *FLAGS,
                "--headless=new",
                f"--remote-debugging-port={port}",
                "--window-size=1024,640",
                f"--user-data-dir={profile}",
                "about:blank",
            ]
        )

    def _phone(self, port: int) -> subprocess.Popen[Any]:
        return self._run([sys.executable, "-m", "dagster_project.cli", "devices", "phone", "--port", str(port)])

    def run(self, minutes: float) -> bool:
        """Kill at random for so long, then let what is left finish; whether it did."""
        self.kill_for(minutes)
        (self.folder / "stop").touch()
        end = time.monotonic() + FINISH_S
        waiting = {part.name for part in self.parts if part.kind == "worker"}
        while waiting and time.monotonic() < end:
            for part in self.parts:
                if part.name in waiting and part.process is not None and part.process.poll() == 0:
                    waiting.remove(part.name)
            # A worker that has finished stays down.
            self.but = tuple(part.name for part in self.parts if part.kind == "worker" and part.name not in waiting)
            with contextlib.suppress(*NOT_YET):
                self.keep_up()
            time.sleep(0.2)
        return not waiting

    def keep_up(self) -> None:
        """Start what is down; wake what was frozen."""
        now = time.monotonic()
        for until, part in list(self.frozen):
            if now >= until:
                part.signal(signal.SIGCONT)
                self.frozen.remove((until, part))
        for part in self.parts:
            if part.name not in self.but:
                part.keep_up()
        self.keep_gateway()

    def strike_inside(self, kind: str) -> None:
        """A device or a worker; a device is frozen instead one time in six."""
        part = self.rng.choice([part for part in self.parts if part.kind == kind])
        if kind == "device" and self.rng.random() < 1 / 6:
            if part.signal(signal.SIGSTOP):
                self.frozen.append((time.monotonic() + FROZEN_S, part))
                self.kills["device frozen"] += 1
        elif part.signal(signal.SIGKILL):
            self.kills[kind] += 1
            part.down_until = time.monotonic() + self.rng.uniform(0, 3)

    def stop(self) -> None:
        for part in self.parts:
            part.signal(signal.SIGCONT)
            part.signal(signal.SIGKILL)
        self.gateway.stop()


def _noted(path: Path) -> list[Any]:
    """Lines of a note; a torn last one counts for nothing."""
    lines = path.read_text("utf-8").split("\n") if path.exists() else []
    return [json.loads(line) for line in lines[:-1]]


def account(folder: Path, kills: int) -> dict[str, Any]:
    """What is in the journals against what was noted beside them."""
    ended = {key: one.trajectory for key, one in read_journals(folder / "journals").items() if one.trajectory}
    raw = Counter(
        json.loads(line[9:])["id"]
        for path in sorted((folder / "journals").glob("*.journal"))
        for line in path.read_bytes().splitlines()
        if b'"t":"end"' in line[:60]
    )
    verifier = Verifier([WorldRule(), TreeEvidence(Store(folder / "home"))])
    verdicts = {key: verifier.verify(done) for key, done in ended.items()}
    reported = _noted(folder / "told")
    verified_reported = {key for key, _, verified, _ in reported if verified}
    wanted = {f"{contract.task_id}-{seed}" for shard in range(SHARDS) for contract, seed in _begun(folder, shard)}
    decisions = [tuple(line) for line in _noted(folder / "decisions")]
    failures = sum(len(done.extra["broken"]) for done in ended.values())
    turns = sum(len(done.turns) for done in ended.values())
    return {
        "trajectories": len(ended),
        "told": len({key for key, *_ in reported}),
        "verified": sum(verdict.verified for verdict in verdicts.values()),
        "verified_lost": len(verified_reported - {key for key, verdict in verdicts.items() if verdict.verified}),
        "told_lost": len({key for key, *_ in reported} - set(ended)),
        "duplicated": sum(count - 1 for count in raw.values()) + len(reported) - len({key for key, *_ in reported}),
        "differing": sum(fingerprint(ended[key]) != print_ for key, print_, *_ in reported if key in ended),
        "missing": len(wanted - set(ended)),
        "infrastructure": sum(done.failure_kind == "infrastructure" for done in ended.values()),
        "turns": turns,
        "decisions": len(decisions),
        "decided_again": len(decisions) - len(set(decisions)),
        "in_flight_at_most": failures + kills * THREADS + sum(len(d.turns) for d in ended.values() if d.extra["anew"]),
        "failures": failures,
        "resumed": sum(done.resumed for done in ended.values()),
        "anew": sum(done.extra["anew"] for done in ended.values()),
    }


def _begun(folder: Path, shard: int) -> list[tuple[Any, int]]:
    """The tasks of all batches that a worker began."""
    count = 1 + max((line[1] for line in _noted(folder / "survived") if line[0] == shard), default=-1)
    found = []
    for number, (mine, seed) in enumerate(batches(shard, SHARDS)):
        if number == count:
            break
        found += [(contract, seed) for contract in mine]
    return found


def main() -> int:
    parser = arguments("soak", __doc__ or "")
    parser.add_argument("--browsers", type=int, default=2)
    parser.add_argument("--phones", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-", ignore_cleanup_errors=True) as folder, serve_sites() as site_url:
        soak = Soak(Path(folder), given.seed, given.browsers, given.phones)
        began = time.monotonic()
        try:
            soak.begin(site_url)
            finished = soak.run(given.minutes)
        finally:
            soak.stop()
        found = account(Path(folder), soak.kills["worker"])
        if not finished:
            print((Path(folder) / "output.log").read_text("utf-8", "replace")[-4000:], file=sys.stderr)
    found |= {
        "minutes": given.minutes,
        "seed": given.seed,
        "seconds": round(time.monotonic() - began, 1),
        "kills": dict(sorted(soak.kills.items())),
        "started": {p.name: p.started for p in soak.parts},
        "readmitted": soak.readmitted,
        "finished": finished,
    }
    lost = ("verified_lost", "told_lost", "duplicated", "differing", "missing")
    wrong = [name for name in lost if found[name]] + ([] if finished else ["finished"])
    wrong += ["decided_again"] if found["decided_again"] > found["in_flight_at_most"] else []
    wrong += [] if found["trajectories"] else ["no trajectory"]
    return report(found, given.json, ", ".join(wrong), "nothing lost, nothing twice")


if __name__ == "__main__":
    sys.exit(main())
