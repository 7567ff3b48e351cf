"""What the soaks share: a gateway behind which everything is killed at random and started again, and a report."""

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

import gateway_parts as parts  # noqa: E402
import httpx  # noqa: E402

PROBE_S = 2.0
KILL_EVERY_S = (4.0, 15.0)
RULES = {"heartbeat_s": 1.0, "dead_s": 6.0}
NOT_YET = (AssertionError, httpx.TransportError)
"""What a start or a call ends with on a machine that is too busy for its time limit; the next round tries again."""


class GatewaySoak:
    """A soak under way; all it writes lies in `folder`. Its own are `keep_up()`, which starts what is down, and
    `strike_inside(kind)`, which kills one of a kind that is neither a node nor the authority."""

    nodes: int
    kinds: tuple[str, ...]
    """What is killed, as often as it stands here, in rounds of a random order."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.rng = folder, random.Random(f"soak/{type(self).__name__}/{seed}")
        self.left = folder / "t"  # what killed processes leave goes with it; short, as a socket's path must be
        self.left.mkdir()
        self.gateway = parts.Gateway(folder, RULES)
        self.kills: Counter[str] = Counter()
        self.readmitted = 0
        self._next: list[str] = []

    def start(self, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        """A process of the soak; what it says goes to `output.log`."""
        env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "TMPDIR": str(self.left)}
        with open(self.folder / "output.log", "ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env=env, **options)

    def keep_gateway(self) -> list[dict[str, Any]]:
        """Start what is down of the gateway, and take devices out of quarantine, as whoever mended them would; the
        devices as the authority lists them."""
        authority = self.gateway.authority
        if authority is None or authority.process.poll() is not None:
            self.gateway.start_authority(probe_s=PROBE_S)
        for name in (f"n{n}" for n in range(self.nodes)):
            node = self.gateway.nodes.get(name)
            if node is None or node.process.poll() is not None:
                self.gateway.start_node(name)
        status, said = self.gateway.call("GET", "/v1/devices")
        devices: list[dict[str, Any]] = said["devices"] if status == 200 else []
        for device in devices:
            if device["quarantined"]:
                self.gateway.call("POST", f"/v1/devices/{device['id']}/readmit")
                self.readmitted += 1
        return devices

    def strike(self) -> None:
        """One kill."""
        if not self._next:
            self._next = self.rng.sample(self.kinds, len(self.kinds))
        kind = self._next.pop()
        if kind not in ("node", "authority"):
            self.strike_inside(kind)
            return
        node = self.gateway.nodes.get(f"n{self.rng.randrange(self.nodes)}")
        if (killed := node if kind == "node" else self.gateway.authority) is not None:
            killed.stop(signal.SIGKILL)
            self.kills[kind] += 1

    def kill_for(self, minutes: float) -> None:
        """Kill at random for so long, and start again what is down."""
        end = time.monotonic() + 60 * minutes
        next_kill = time.monotonic() + 15.0
        while time.monotonic() < end:
            with contextlib.suppress(*NOT_YET):
                self.keep_up()
            if time.monotonic() >= next_kill:
                self.strike()
                next_kill = time.monotonic() + self.rng.uniform(*KILL_EVERY_S)
            time.sleep(0.2)


def arguments(name: str, about: str) -> argparse.ArgumentParser:
    """What every soak is asked."""
    parser = argparse.ArgumentParser(prog=name, description=about.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="where to leave the figures")
    return parser


def report(found: dict[str, Any], path: Path | None, wrong: str, fine: str) -> int:
    """Print the figures, leave them at `path`, and say how it went: the exit code; `wrong` is "" where nothing is."""
    for name, value in found.items():
        print(f"{name:20} {value}")
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
    print("soak: " + (f"FAILED: {wrong}" if wrong else fine))
    return 1 if wrong else 0
