"""The soak of desktops: real programs behind a real gateway, all killed at random, and nothing left after it.

python bench/soak_desktop.py --minutes 20 --seed 0 [--json FILE]

One lease authority, a gateway node, two desktops and two workers that lease them and do tasks by their plans. From a
seed programs, X servers, keepers, whole desktops, workers, the node and the authority get `kill -9`, and are started
again. At the end all is stopped, and what stands is counted: processes, X servers with their sockets, leases, and the
folders of sessions. Exit code 1 if a process, X server or lease is left, or no task was done.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.gateway_soak import NOT_YET, GatewaySoak, arguments, parts, report
from generators.devices.client.sync_sdk import SyncClient, SyncSession
from generators.devices.device import DeviceError
from generators.tasks.world_interface import ScreenElement, WorldError
from generators.worlds.desktop.desktop_task import failed_checks
from generators.worlds.desktop.desktop_tasks import FAMILIES, make_task, programs_of
from generators.worlds.desktop.plan import IntentPerformer
from generators.worlds.desktop.session import open_desktop
from schemas.actions import Action, CallUser

DESKTOPS, WORKERS = 2, 2
DOWN_S = 10.0
"""How old a desktop must be before it counts as one that answers no more."""
END_S = 60.0
"""How long what was killed or ended may take to be gone; a busy machine needs it."""


class Leased:
    """A leased desktop, as what carries plans out takes it."""

    def __init__(self, session: SyncSession) -> None:
        self._session = session
        self.answer = ""

    def elements(self) -> tuple[ScreenElement, ...]:
        return self._session.observe().elements

    def act(self, action: Action) -> None:
        self.answer = action.content if isinstance(action, CallUser) else self.answer
        self._session.act(action)


def hold(name: str, folder: Path) -> None:
    """A desktop, and how to reach it in a file, until the input ends."""
    with open_desktop((1024, 768)) as endpoint:
        written = folder / f"{name}.tmp"
        written.write_text(json.dumps({"port": endpoint.port, "options": dict(endpoint.options or {})}))
        written.rename(folder / f"{name}.json")
        sys.stdin.read()


def work(number: int, url: str, folder: Path) -> None:
    """Tasks until the file `stop` is there; a line for each in a file of its own."""
    rng = random.Random(f"soak/{number}/{os.getpid()}")
    short = [name for name in FAMILIES if make_task(name, 0).expected_steps <= 6]
    with SyncClient(url, parts.CLIENT) as client, (folder / f"done-{number}").open("a") as done:
        while not (folder / "stop").exists():
            task = make_task(rng.choice(short), rng.randrange(1000))
            if not all(program.installed() for program in programs_of(task)):
                continue
            try:
                with client.lease("ssh", wait_s=30.0) as session:
                    session.reset({name: value for name, value in task.start.items() if name != "world"})
                    leased = Leased(session)
                    performer = IntentPerformer(leased)  # type: ignore[arg-type]
                    for intent in task.plan:
                        performer.do(intent)
                    time.sleep(1.0)
                    wrong = failed_checks(task.evaluator(), session.state(), leased.answer)
                done.write("unsolved\n" if wrong else "solved\n")
            except (DeviceError, WorldError, OSError) as error:
                done.write(f"broken: {type(error).__name__} {str(error)[:200]!r}\n")
                time.sleep(0.5)
            done.flush()


def processes(mark: str) -> list[tuple[int, str]]:
    """Process ids and names of those that have the mark in their environment or their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                said = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
                if mark.encode() in said:
                    found.append((int(entry.name), (entry / "comm").read_text().strip()))
    return found


def locks() -> set[str]:
    """Locks and sockets of X servers of this machine."""
    found = [*Path("/tmp").glob(".X*-lock"), *Path("/tmp/.X11-unix").glob("X*")]
    return {str(path) for path in found}


class DesktopSoak(GatewaySoak):
    """See the module."""

    nodes = 1
    kinds = ("program", "program", "xvfb", "keeper", "desktop", "worker", "worker", "node", "authority")

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder, seed)
        self.running: dict[str, subprocess.Popen[bytes]] = {}
        self.known: dict[str, str] = {}

    def _run(self, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, __file__, *arguments, "--folder", str(self.folder)]
        return self.start(command, stdin=subprocess.PIPE)

    def keep_up(self) -> None:
        """Start what is down, and tell the authority where desktops are now."""
        devices = self.keep_gateway()
        for name in [f"desktop-{n}" for n in range(DESKTOPS)] + [f"worker-{n}" for n in range(WORKERS)]:
            if name not in self.running or self.running[name].poll() is not None:
                kind, _, number = name.partition("-")
                more = ("--hold", name) if kind == "desktop" else ("--work", number, "--url", self.gateway.url)
                (self.folder / f"{name}.json").unlink(missing_ok=True)
                self.running[name] = self._run(*more)
        for path in sorted(self.folder.glob("desktop-*.json")):
            with contextlib.suppress(FileNotFoundError):
                if self.known.get(path.stem) != (said := path.read_text()):
                    self.known[path.stem] = said
                    where = json.loads(said)
                    self.gateway.register(path.stem, where["port"], options=where["options"])
        # A desktop that answers no more is ended and started again.
        for device in devices:
            path = self.folder / f"{device['id']}.json"
            if device["health"] == "down" and path.exists() and time.time() - path.stat().st_mtime > DOWN_S:
                self._end(self.running[device["id"]])

    @staticmethod
    def _end(desktop: subprocess.Popen[bytes]) -> None:
        """As its owner ends it: what a killed keeper left is cleaned up."""
        if desktop.stdin is not None and not desktop.stdin.closed:
            desktop.stdin.close()

    def strike_inside(self, kind: str) -> None:
        """A program, an X server, a keeper, a desktop or a worker, where one runs."""
        if victims := self._victims(kind):
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.rng.choice(victims), signal.SIGKILL)
                self.kills[kind] += 1

    def _victims(self, kind: str) -> list[int]:
        if kind in ("desktop", "worker"):
            return [p.pid for name, p in self.running.items() if name.startswith(kind) and p.poll() is None]
        inner = processes(str(self.left / "desktop-"))
        if kind == "xvfb":
            return [pid for pid, name in inner if name == "Xvfb"]
        if kind == "keeper":
            holders = {p.pid for name, p in self.running.items() if name.startswith("desktop")}
            return [pid for pid, _ in processes("keeper.py") if _parent(pid) in holders]
        return [pid for pid, name in inner if name in PROGRAM_NAMES]

    def stop(self) -> int:
        """Kill workers and half of the desktops, end the others; how many leases are held when their time is over."""
        (self.folder / "stop").touch()
        for name, process in self.running.items():
            if name.startswith("worker") or name == "desktop-0":
                process.kill()
            else:
                self._end(process)
        for process in self.running.values():
            # One that doesn't end in time is found standing.
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_S)
        held, end = 1, time.monotonic() + END_S
        while held and time.monotonic() < end:
            # The authority may be among what was killed last: it knows the leases, so it is started again.
            with contextlib.suppress(*NOT_YET):
                held = sum(bool(device["holder"]) for device in self.keep_gateway())
            time.sleep(0.5)
        return held

    def standing(self) -> list[str]:
        """What still runs of the desktops, when its time is over."""
        end = time.monotonic() + END_S
        while True:
            found = [f"process {pid} {name}" for pid, name in processes(str(self.left))]
            if not found or time.monotonic() > end:
                return found
            time.sleep(0.5)


PROGRAM_NAMES = frozenset(program.command[0][:15] for name in FAMILIES for program in programs_of(make_task(name, 0)))
"""As the kernel cuts them."""


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def soak(minutes: float, seed: int) -> dict[str, Any]:
    """The figures of a soak of so many minutes."""
    before, began = locks(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="soak-", ignore_cleanup_errors=True) as name:
        run = DesktopSoak(Path(name), seed)
        try:
            run.kill_for(minutes)
        finally:
            try:
                leases = run.stop()
            finally:
                run.gateway.stop()  # its processes would outlive this one
        standing = run.standing()
        folders = len(list(run.left.glob("desktop-*")))  # of those whose keeper and owner were both killed
        said = [line.split(":")[0] for path in Path(name).glob("done-*") for line in path.read_text().splitlines()]
    return {
        "tasks": dict(sorted(Counter(said).items())),
        "kills": dict(sorted(run.kills.items())),
        "leases left": leases,
        "left": standing + sorted(locks() - before),
        "folders left": folders,
        "minutes": minutes,
        "seed": seed,
        "seconds": round(time.monotonic() - began, 1),
    }


def main() -> int:
    parser = arguments("soak_desktop", __doc__ or "")
    for hidden in ("--hold", "--work", "--url", "--folder"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.hold or given.work:
        folder = Path(given.folder)
        hold(given.hold, folder) if given.hold else work(int(given.work), given.url, folder)
        return 0
    found = soak(given.minutes, given.seed)
    wrong = ["something is left"] if found["left"] or found["leases left"] else []
    wrong += [] if found["tasks"].get("solved") else ["no task was solved"]
    return report(found, given.json, ", ".join(wrong), "nothing left behind")


if __name__ == "__main__":
    sys.exit(main())
