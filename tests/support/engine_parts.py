"""A stage of numbered parts for tests of engines: what its workers run stands where they can import it."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pipelines.engines.in_process import InProcess
from pipelines.engines.run_parts import PartCall
from pipelines.store import PartResult, PartSpec, PartWriter, Store, run_part

ASSET, VERSION = "verdicts/numbers", "v1"


@dataclass(frozen=True)
class Number:
    """A part that writes its number. `does`: what it does before that."""

    home: str
    number: int
    does: str = ""

    @property
    def spec(self) -> PartSpec:
        return PartSpec(f"n{self.number}", str(self.number))


class OddError(Exception):
    """An error that can't be made from its message alone, as pickle does."""

    def __init__(self, number: int, words: str) -> None:
        super().__init__(f"{words} {number}")


def parts(home: Path, count: int, **does: str) -> list[PartCall[Number]]:
    """Parts n0, n1, …; `does` says of some (`n2="fail"`) what they do."""
    items = [Number(str(home), number, does.get(f"n{number}", "")) for number in range(count)]
    return [PartCall(item, (item.spec,), seconds=1.0, rows=10) for item in items]


def note_collecting(seen: list[int]) -> None:
    """Note from how many containers on cycles are looked for while a part is run."""
    seen.append(gc.get_threshold()[0])


def write(item: Number) -> PartResult:
    """Run one part."""
    home = Path(item.home)
    home.mkdir(parents=True, exist_ok=True)
    with (home / f"begun-{item.number}").open("a") as begun:
        begun.write(f"{os.getpid()} {os.environ.get('OMP_NUM_THREADS')}\n")
    _do(item, len((home / f"begun-{item.number}").read_text().splitlines()))

    def make(out: PartWriter) -> dict[str, int]:
        out.bytes(f"{item.number}.txt", str(item.number).encode())
        return {"sum": item.number}

    return run_part(Store(home).root(ASSET), VERSION, item.spec, make)


def write_elsewhere(item: Number) -> PartResult:
    """A worker on a machine that has another folder under the home's name."""
    return write(Number(f"{item.home}-of-another-machine", item.number))


def begun(home: Path, number: int) -> list[str]:
    """A line for each time that a part was begun: process id, threads."""
    path = home / f"begun-{number}"
    return path.read_text().splitlines() if path.exists() else []


class Backwards(InProcess):
    """An engine that runs the last part first, as any number of workers might."""

    def map(self, function: str, arguments: Sequence[object], ended: Callable[[int], None]) -> None:
        super().map(function, arguments[::-1], lambda place: ended(len(arguments) - 1 - place))


@contextmanager
def running(home: Path, runner: str, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that has begun two parts which never end; the block ends it, and an error in the block kills it.

    A cluster that starts beside other tests takes minutes where two cores are all there is."""
    code = (
        "import signal, sys, engine_parts\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # it may have been started in the background\n"
        "from pathlib import Path\n"
        "from pipelines.engines.run_parts import Execution, run_parts\n"
        "from pipelines.engines.settings import EngineSettings\n"
        "from pipelines.store import Store\n"
        "home = Path(sys.argv[1])\n"
        "parts = engine_parts.parts(home, 2, n0='sleep long', n1='sleep long')\n"
        "by = Execution(EngineSettings(runner=sys.argv[2], workers=2))\n"
        "run_parts(Store(home), engine_parts.ASSET, engine_parts.write, parts, by)\n"
    )
    command = [sys.executable, "-c", code, str(home), runner]
    said = home / "said.txt"
    with said.open("w") as out, subprocess.Popen(command, stderr=out, env={**os.environ, **env}) as process:
        try:
            both = becomes(lambda: process.poll() is not None or all(begun(home, place) for place in (0, 1)), 300)
            assert both and process.poll() is None, said.read_text()
            yield process
            process.wait(120)
        except BaseException:
            process.kill()
            raise


def becomes(true: Callable[[], bool], seconds: float = 60) -> bool:
    """Whether it is true at some time of the next seconds."""
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.05)
    return true()


def _do(item: Number, times: int) -> None:
    if item.does == "fail":
        raise ValueError(f"part {item.number} is bad")
    if item.does == "fail oddly":
        raise OddError(item.number, "odd part")
    if item.does == "die" or (item.does == "die once" and times == 1):
        os.kill(os.getpid(), signal.SIGKILL)
    if item.does == "sleep":
        time.sleep(1)
    if item.does == "sleep long":
        time.sleep(600)
