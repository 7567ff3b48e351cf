"""Parts of a stage, run by the engine that a setting names: `run_parts`.

A part is run by a function at the top of a module, called with one plain argument, wherever the engine likes. What
comes back is the part's receipt (`pipelines.store.parts`), which is found again here.
"""

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from pipelines.engines.beam import Beam
from pipelines.engines.cores import usable_cores
from pipelines.engines.engine import EngineError, PartsEngine, name_of
from pipelines.engines.in_process import InProcess
from pipelines.engines.ray import Ray
from pipelines.engines.settings import AUTO, IN_PROCESS, PROCESSES, EngineChoice, EngineSettings
from pipelines.engines.worker_processes import WorkerProcesses
from pipelines.extensions import find_part as find_member
from pipelines.store import PartResult, PartSpec, Store, find_part

T = TypeVar("T")
ENGINES: dict[str, Callable[[EngineChoice], PartsEngine]] = {
    IN_PROCESS: InProcess,
    PROCESSES: WorkerProcesses,
    "beam": Beam,
    "ray": Ray,
}
"""Engines by name; one of your own is a function of an `EngineChoice`, named as `pipelines.extensions` says."""
PAYS_FROM_S = 5.0
"""Seconds of work on one core from which worker processes pay. On two cores that others used, too, two workers were up
after 0.6 s, and after 2.2 to 2.6 s with what unify or judge import: they have won that back at twice as much work."""


@dataclass(frozen=True)
class PartCall(Generic[T]):
    """A part to run: its argument, and the receipts of which it leaves one."""

    argument: T
    receipts: tuple[PartSpec, ...]
    seconds: float = 0.0
    """What it takes on one core, roughly: whether more than one process pays, and how long the rest will take."""
    rows: int = 0
    """Rows that it reads, for the speed that is told; 0: unknown."""


@dataclass(frozen=True)
class Execution:
    """How parts are run: by which engine; who hears of each that has ended, and whether a bar shows on stderr."""

    engine: EngineSettings = EngineSettings()
    on_event: Callable[[Mapping[str, object]], None] = field(default=lambda event: None)
    progress: bool = False


def run_parts(
    store: Store,
    asset: str,
    function: Callable[[T], object],
    parts: Sequence[PartCall[T]],
    execution: Execution | None = None,
    *,
    stage: str = "",
    start_s: float = 0.0,
) -> list[PartResult]:
    """Run the parts of an asset that aren't there yet, and return the results of all, in order. `stage`: by whose
    setting, where that isn't the asset's own. `start_s`: what each worker loads before its first part, in seconds,
    beside what unify or judge import (an encoder of texts).

    The first error of a part is raised once those under way have ended; finished parts stay. Raises `EngineError` for
    a part whose receipt isn't here though it was run, `ValueError` for an unknown engine.
    """
    execution = execution or Execution()
    root = store.root(asset)
    # Receipts first: whatever a killed run finished is taken as it is.
    found = [_receipt(store, asset, part) for part in parts]
    missing = [part for part, result in zip(parts, found, strict=True) if result is None]
    if missing:
        progress = _Progress(asset, missing, execution)
        with progress:
            chosen_engine(execution.engine.of(stage or asset), missing, start_s).map(
                name_of(function), [part.argument for part in missing], progress.ended
            )
        if store.copies is not None:
            store.copies.sizes(root, fresh=True)  # workers elsewhere have put them there
    # A part that has no receipt now was written where this process can't see it.
    return [result or _made(store, asset, part) for part, result in zip(parts, found, strict=True)]


def chosen_engine(choice: EngineChoice, parts: Sequence[PartCall[T]], start_s: float = 0.0) -> PartsEngine:
    """The engine for these parts. `auto`: worker processes for two parts and more that take `PAYS_FROM_S` together, and
    twice `start_s` more, if there is more than one core (or worker) to run them."""
    name = choice.runner
    if name == AUTO:
        several = min(len(parts), choice.workers or usable_cores()) > 1
        # Two parts, one core: worker processes would only take turns.
        # Two workers halve the work, so they have won back what each loads at twice as much of it.
        pays = several and sum(part.seconds for part in parts) >= PAYS_FROM_S + 2 * start_s
        name = PROCESSES if pays else IN_PROCESS
    return find_member("engine", name, ENGINES)(choice)


def _receipt(store: Store, asset: str, part: PartCall[T]) -> PartResult | None:
    # Some parts leave one of several receipts, by what became of their items (`quality.refinement.gold`).
    results = (find_part(store.root(asset), spec) for spec in part.receipts)
    return next((result for result in results if result is not None), None)


def _made(store: Store, asset: str, part: PartCall[T]) -> PartResult:
    if (result := _receipt(store, asset, part)) is not None:
        # Run by this call, whatever its receipt says: it wasn't skipped.
        return dataclasses.replace(result, skipped=False)
    raise EngineError(
        f"{asset}: part {part.receipts[0].key} was run, but its receipt isn't here: the worker wrote to {store.home} "
        "as its own machine has it, which this process doesn't see; give both one home (a shared folder), or an "
        "object store (VESPER_STORE_URL)"
    )


class _Progress:
    """Tells of each part that has ended: an event, and a bar where one is wanted."""

    def __init__(self, asset: str, parts: Sequence[PartCall[T]], execution: Execution) -> None:
        self._asset, self._parts, self._execution = asset, list(parts), execution
        self._began = time.monotonic()
        self._done: list[int] = []

    def __enter__(self) -> "_Progress":
        from tqdm import tqdm

        quiet = not self._execution.progress
        self._bar = tqdm(desc=self._asset, total=len(self._parts), unit="part", disable=quiet, mininterval=2)
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.close()

    def ended(self, place: int) -> None:
        """A part has ended well."""
        self._done.append(place)
        self._bar.update()
        passed = time.monotonic() - self._began
        rows = sum(self._parts[place].rows for place in self._done)
        self._execution.on_event(
            {
                "kind": "part",
                "part": self._parts[place].receipts[0].key,
                "number": len(self._done),
                "of": len(self._parts),
                **({"rows_per_s": rows / max(passed, 1e-3)} if rows else {}),
                # The share of work that is done, by the estimates' proportions: their scale may be wrong for
                # this machine.
                "left_s": passed * (self._weight(range(len(self._parts))) / self._weight(self._done) - 1),
            }
        )

    def _weight(self, places: Sequence[int]) -> float:
        # A part without an estimate still counts, or the first division would be by nothing.
        return sum(self._parts[place].seconds or 1e-3 for place in places)
