"""How figures are taken: CPU seconds on one core, best of some rounds, one line of results.json each."""

import gc
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def one_core() -> None:
    """Arrow, torch and datasets keep to one thread, so that both sides of a comparison have the same core."""
    import datasets
    import pyarrow as pa

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    datasets.disable_progress_bars()
    datasets.disable_caching()


def best(function: Callable[[], Any], rounds: int = 3, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds of the fastest of some rounds."""
    times = []
    for _ in range(rounds):
        gc.collect()
        began = clock()
        function()
        times.append(clock() - began)
    return min(times)


def cpu(function: Callable[[], Any], rounds: int = 3) -> float:
    """The same in CPU seconds of this process: what else runs on the machine counts less."""
    return best(function, rounds, time.process_time)


def alternately(
    ours: Callable[[], Any], theirs: Callable[[], Any], rounds: int = 2, clock: Callable[[], float] = time.process_time
) -> tuple[float, float]:
    """CPU seconds of one call of each, of the best of some rounds. In a round theirs runs once, then ours as often as
    fills the same time: so a pace that wanders (neighbours on the machine) meets both alike, where the best of some
    calls of ours would be a quiet moment that a call many times as long never finds. Both were called before."""
    one, found = spent(ours, clock), []
    for _ in range(rounds):
        whole = spent(theirs, clock)
        found.append((spent(ours, clock, max(1, round(whole / one))), whole))
    first, second = zip(*found, strict=True)
    return min(first), min(second)


def spent(function: Callable[[], Any], clock: Callable[[], float], calls: int = 1) -> float:
    """Mean seconds of some calls; the garbage of what ran before is not theirs."""
    gc.collect()
    began = clock()
    for _ in range(calls):
        function()
    return (clock() - began) / calls


def measured_memory(function: Callable[[], Any]) -> dict[str, float]:
    """Of one call: wall and CPU seconds, and the peak of memory in MiB less what the process held before (Linux)."""
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before, began, worked = _kib("VmRSS"), time.perf_counter(), time.process_time()
    function()
    spent = {"seconds": time.perf_counter() - began, "cpu": time.process_time() - worked}
    return {**spent, "mib": (_kib("VmHWM") - before) / 1024}


def _kib(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def result(name: str, value: float, unit: str, peer: str, peer_value: float, *, digits: int = 1) -> dict[str, Any]:
    """One line of results.json; ratio = value / peer_value."""
    ratio = value / peer_value if peer_value else None
    return {
        "name": name,
        "value": round(value, digits),
        "unit": unit,
        "peer": peer,
        "peer_value": round(peer_value, digits),
        "ratio": None if ratio is None else float(f"{ratio:.3g}"),
        "command": "make bench",
    }
