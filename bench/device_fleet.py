"""A fleet in virtual time: python bench/device_fleet.py [--trajectories 1000000] [--devices 5000] [--seed 0]

Runs of equal priority, one urgent run that begins later and takes devices, and a run whose process is killed work
through their trajectories on one fleet. The lease authority (`Leases` with its SQLite file) and the queues of tasks
(`TaskQueue`) are the real ones under a virtual clock; what a worker does between them follows `execution.scheduling`
and `GatewayPool` without their threads. Drawn are: how long a trajectory takes, faults of devices and policies, calls
that hang, probes that find a device down.

Prints how long leases are waited for, how much of the fleet is in use, how evenly runs of one priority share it, tries
that were lost and to what, trajectories lost or done twice (exit code 1 for any, as for two leases on one device), and
CPU of authority and queues per trajectory.
"""

import argparse
import json
import math
import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from bench.device_fleet_runs import KINDS, MEAN_S, SPREAD, Findings, Run, Timeline  # noqa: E402
from generators.devices.authority.leases import Leases  # noqa: E402
from generators.devices.records import DeviceLease, DeviceRecord  # noqa: E402
from generators.execution.limits import AttemptLimits  # noqa: E402

EQUAL_RUNS = 8
WORKERS_PER_DEVICE = 1.2
"""So that leases are waited for."""
URGENT = 10
"""Priority of the run that begins later; a twentieth of the trajectories are its."""
DOWN_PER_HOUR, DOWN_S, READMIT_S = 0.01, 300.0, 900.0
"""A device's chance an hour to be found down, and for how long; when somebody takes one out of quarantine."""


class Fleet:
    """The devices, the authority, and the runs that share them."""

    def __init__(self, path: Path, trajectories: int, devices: int, seed: int) -> None:
        self.seed, self.draw, self.limits = seed, random.Random(seed), AttemptLimits()
        self.median_s = MEAN_S / math.exp(SPREAD**2 / 2)
        self.time, self.found = Timeline(), Findings()
        self.leases = Leases(path, clock=lambda: self.time.now + 1e9)
        self.waiters: dict[str, Callable[[], object]] = {}
        self.live: dict[str, tuple[DeviceLease, float]] = {}
        self.of_kind = {kind: max(1, round(devices * share)) for kind, (*_, share) in KINDS.items()}
        self.devices = devices
        for kind, (protocol, labels, _) in KINDS.items():
            for number in range(self.of_kind[kind]):
                record = DeviceRecord(f"{kind}-{number}", protocol, "127.0.0.1", 1 + number, labels)
                self.leases.register(record)
                self.leases.set_health(record.id, True)
        urgent = trajectories // 20
        each = (trajectories - urgent) // EQUAL_RUNS
        workers = max(1, round(devices * WORKERS_PER_DEVICE / EQUAL_RUNS))
        self.equal = [Run(self, f"run-{number}", each, workers, 0) for number in range(EQUAL_RUNS)]
        self.urgent = Run(self, "urgent", urgent, workers, URGENT)
        self.trajectories = each * EQUAL_RUNS + urgent

    @property
    def runs(self) -> list[Run]:
        return [*self.equal, self.urgent]

    def given(self, lease: DeviceLease) -> None:
        """A lease was granted: no other may live on its device."""
        before = self.live.get(lease.device)
        self.found.two_leases += before is not None and self.leases.lease(before[0].id).state == "live"
        if before is not None:
            self.ended(before[0])
        self.live[lease.device] = lease, self.time.now

    def ended(self, lease: DeviceLease) -> None:
        """It lives no more."""
        held = self.live.get(lease.device)
        if held is not None and held[0].id == lease.id:
            del self.live[lease.device]
            seconds = self.time.now - held[1]
            self.found.held_s += seconds
            self._run(lease).device_s += seconds

    def _run(self, lease: DeviceLease) -> Run:
        return next(run for run in self.runs if run.name == lease.holder)

    def answer(self, device: str) -> None:
        """A device was given back: who has it now hears of it at once, for the authority answers its long poll."""
        lease = self.leases.device(device).lease
        if lease is not None:
            self.poll(self.leases.lease(lease).request)

    def poll(self, request: str) -> None:
        """A long poll is answered."""
        again = self.waiters.pop(request, None)
        if again is not None:
            again()

    def readmit_later(self, device: str) -> None:
        """Somebody looks after a device in quarantine."""
        self.found.again["quarantines"] += 1
        self.time.after(READMIT_S, lambda: self.leases.readmit(device))

    def probe(self) -> None:
        """Some devices are found down, and up again later."""
        names = [f"{kind}-{n}" for kind, count in self.of_kind.items() for n in range(count)]
        for device in self.draw.sample(names, round(len(names) * DOWN_PER_HOUR / 60)):
            self.leases.set_health(device, False, "no answer")
            self.time.after(DOWN_S, lambda device=device: self.leases.set_health(device, True))
        self.time.after(60.0, self.probe)

    def note_shares(self) -> None:
        """When the first of the equal runs is over: what each of them has had of the fleet so far."""
        if not any(run.share_s for run in self.equal):
            for lease, since in self.live.values():
                self._run(lease).share_s += self.time.now - since
            for run in self.equal:
                run.share_s += run.device_s

    def play(self) -> None:
        """All runs to their end."""
        length = self.trajectories * MEAN_S / self.devices
        for run in self.equal:
            self.time.after(self.draw.random() * length / 10, run.start)
        self.time.after(length * 0.4, self.urgent.start)
        self.time.after(length * 0.3, self.equal[0].kill)
        self.time.after(60.0, self.probe)
        self.time.play(lambda: all(run.over_at for run in self.runs))


def fairness(runs: list[Run]) -> float:
    """Jain's index of the device seconds that runs had until the first was over: 1 is even, 1/n all to one."""
    held = [run.share_s for run in runs]
    return sum(held) ** 2 / (len(held) * sum(one**2 for one in held))


def report(fleet: Fleet) -> dict[str, object]:
    """The figures, by name."""
    found, waits = fleet.found, sorted(fleet.found.waits_s)
    lost = sum(len(run.tasks) - len(run.ended) for run in fleet.runs)
    done = sum(len(run.ended) for run in fleet.runs)
    return {
        "trajectories": done,
        "devices": fleet.devices,
        "virtual_hours": fleet.time.now / 3600,
        "in_use": found.held_s / fleet.time.now / fleet.devices,
        "wait_s": {f"p{p}": waits[min(len(waits) - 1, len(waits) * p // 100)] for p in (50, 95, 100)},
        "fairness": fairness(fleet.equal[1:]),
        "shares_h": {run.name: run.share_s / 3600 for run in fleet.equal},
        "ended_at_h": {run.name: run.over_at / 3600 for run in fleet.runs},
        "tried_again": dict(found.again.most_common()),
        "lost": lost,
        "doubled": found.doubled,
        "two_leases_on_a_device": found.two_leases,
        "cpu_us_per_trajectory": {name: 1e6 * s / done for name, s in sorted(found.cpu_s.items())},
        "us_per_call": {name: 1e6 * s / found.calls[name] for name, s in sorted(found.cpu_s.items())},
        "share_of_a_core": sum(found.cpu_s.values()) / fleet.time.now,
    }


def main() -> int:
    """Play a fleet and print its figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trajectories", type=int, default=1_000_000)
    parser.add_argument("--devices", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        fleet = Fleet(Path(folder) / "leases.db", options.trajectories, options.devices, options.seed)
        fleet.play()
        said = report(fleet)
    print(json.dumps(said, indent=1))
    return 1 if said["lost"] or said["doubled"] or said["two_leases_on_a_device"] else 0


if __name__ == "__main__":
    sys.exit(main())
