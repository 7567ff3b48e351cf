"""A stage of numbered parts for tests of engines: what its workers run stands where they can import it."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

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
