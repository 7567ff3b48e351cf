"""The gate that every task of the desktop must pass, on real programs; begun again, it goes on where it ended.

A task passes if its goal doesn't hold at the start, nor after a no-op, nor after its near miss, and holds after its
plan. All rounds must say the same. DIR/rows.jsonl has a line a task and round; lines of other code are done again.
"""

import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Lock
from time import monotonic

from generators.devices.device import DeviceError
from generators.tasks.world_interface import WorldError
from generators.worlds.desktop.desktop_task import DesktopTask
from generators.worlds.desktop.desktop_tasks import make_task, programs_of
from generators.worlds.desktop.desktop_world import DesktopWorld
from generators.worlds.desktop.plan import failed, prove, refute
from generators.worlds.desktop.programs import called, missing_packages
from generators.worlds.desktop.session import open_desktop
from schemas.actions import Wait
from schemas.ids import digest

SIZE = (1024, 768)
RETRIES = 3
"""How often a worker opens a fresh desktop because the last one broke."""


@dataclass(frozen=True)
class GateRow:
    """What came of a task in a round. `why` says what is wrong, "" for nothing; `skipped` names the line that installs
    what it needs. `actions` is a digest of what its plan did, points included; `reset_s` in seconds, as `seconds`."""

    family: str
    seed: int
    round: int
    code: str
    program: str
    why: str = ""
    skipped: str = ""
    steps: int = 0
    actions: str = ""
    reset_s: float = 0.0
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return not self.why and not self.skipped


@cache
def code_digest() -> str:
    """Of the code of the tasks and of the session: rows of another one are not counted."""
    folder = Path(__file__).parent
    # Text of the files: also a comment makes the gate run again, which is harmless and never too little.
    return digest([path.read_text("utf-8") for path in sorted(folder.glob("*.py"))])[:16]


def gate(task: DesktopTask, world: DesktopWorld) -> tuple[int, str, float]:
    """The steps of its plan, a digest of its actions, and how long its reset takes. Raises `WorldError` for a task that
    doesn't pass."""
    # The reset alone: it is what a round of generation pays for each task.
    begin = monotonic()
    world.reset(task.start)
    reset_s = monotonic() - begin
    world.act(Wait())
    # A wait changes nothing, so the goal must be false after it as at the start.
    if not failed(task, world):
        raise WorldError(f"task {task.name}: its goal holds after a no-op")
    done = prove(task, world)
    refute(task, world)
    return len(done), digest([str(action) for action in done])[:16], reset_s


def row_of(task: DesktopTask, seed: int, number: int, world: DesktopWorld) -> GateRow:
    """Gate a task. Raises `DeviceError` where the desktop broke."""
    begin, program = monotonic(), str(task.start["program"])
    row = GateRow(task.name, seed, number, code_digest(), program)
    # Not a failure: the machine lacks what the task needs, and the row says how to get it.
    if lacking := missing_packages(programs_of(task)):
        return GateRow(**{**asdict(row), "skipped": f"apt-get install {' '.join(lacking)}"})
    found: dict[str, object] = {}
    try:
        steps, actions, reset_s = gate(task, world)
        found = {"steps": steps, "actions": actions, "reset_s": round(reset_s, 2)}
    # The desktop's fault and not the task's: another desktop takes the task.
    except DeviceError:
        raise
    except (WorldError, ValueError) as error:
        found = {"why": str(error)[:400]}
    return GateRow(**{**asdict(row), **found, "seconds": round(monotonic() - begin, 1)})


class GateWork:
    """Tasks that workers take one by one, each on a desktop of its own; rows are written as they come."""

    def __init__(self, todo: Iterable[tuple[str, int, int]], path: Path) -> None:
        self._todo: SimpleQueue[tuple[str, int, int]] = SimpleQueue()
        for one in todo:
            self._todo.put(one)
        self._path, self._lock = path, Lock()

    def work(self) -> None:
        """Take tasks until none is left. Raises `DeviceError` where desktops break again and again."""
        broken = 0
        while not self._todo.empty():
            try:
                with open_desktop(SIZE) as endpoint, DesktopWorld(endpoint) as world:
                    self._drain(world)
            except DeviceError:
                # A broken desktop is replaced a few times; more means that something is wrong here.
                broken += 1
                if broken > RETRIES:
                    raise

    def _drain(self, world: DesktopWorld) -> None:
        while True:
            try:
                family, seed, number = self._todo.get_nowait()
            except Empty:
                return
            try:
                self._write(row_of(make_task(family, seed), seed, number, world))
            except DeviceError:
                # Put back before the worker gives up its desktop, so that no task is lost.
                self._todo.put((family, seed, number))
                raise

    def _write(self, row: GateRow) -> None:
        with self._lock, self._path.open("a", encoding="utf-8") as file:
            # A line at once: an interrupted gate goes on from here.
            file.write(json.dumps(asdict(row), ensure_ascii=False) + "\n")
            said = row.why or row.skipped or f"passed in {row.steps} steps"
            print(f"{row.round} {row.family:30} {row.seconds:5.1f} s  {said}", flush=True)


def rows_of(path: Path) -> dict[tuple[str, int, int], GateRow]:
    """The rows of this code in a file, the last of each task and round; a torn last line counts for nothing."""
    # Without its line break the last line was being written when the process ended.
    lines = path.read_text("utf-8").split("\n")[:-1] if path.exists() else []
    rows = [GateRow(**json.loads(line)) for line in lines]
    return {(row.family, row.seed, row.round): row for row in rows if row.code == code_digest()}


def table(rows: Sequence[GateRow]) -> list[str]:
    """A line a program: its version here and whether it has an accessibility tree; of the tasks that begin in it, how
    many there are, passed (in all rounds) and were skipped, the longest reset and all seconds."""
    lines = [f"{'program':26} {'version':24} tree  tasks  passed skipped  reset s  seconds"]
    for program in sorted({row.program for row in rows}):
        mine = [row for row in rows if row.program == program]
        tasks = len({(row.family, row.seed) for row in mine})
        passed, skipped = sum(row.passed for row in mine), sum(bool(row.skipped) for row in mine)
        slowest, total = max(row.reset_s for row in mine), sum(row.seconds for row in mine)
        known = called(program)
        about = f"{known.version():24} {'yes' if known.tree else 'no':4}" if known else f"{'':29}"
        lines.append(f"{program:26} {about} {tasks:6} {passed:7} {skipped:7} {slowest:8.2f} {total:8.1f}")
    return lines


def differing(rows: Iterable[GateRow]) -> list[str]:
    """Tasks that didn't come out the same in all rounds."""
    # Per task what each round said of it.
    found: dict[tuple[str, int], set[tuple[bool, str]]] = {}
    for row in rows:
        found.setdefault((row.family, row.seed), set()).add((row.passed, row.skipped))
    return sorted(family for (family, _), results in found.items() if len(results) > 1)


def run(out: Path, families: Sequence[str], seed: int, rounds: int, workers: int) -> list[GateRow]:
    """Gate what is not gated yet, on as many desktops as there are workers; gives all rows. Raises `DesktopMissing`
    where no session can start."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / "rows.jsonl"
    wanted = [(family, seed, number) for number in range(rounds) for family in families]
    known = rows_of(path)
    # Rows of failures are done again: they may have been mended.
    queue = GateWork([one for one in wanted if one not in known or not known[one].passed], path)
    with ThreadPoolExecutor(workers) as pool:
        for done in [pool.submit(queue.work) for _ in range(workers)]:
            # Raises what a worker raised.
            done.result()
    found = rows_of(path)
    return [found[one] for one in wanted]
