"""How long a stage has worked, over all tries: wall time is what controls are given in equal measure."""

import json
import time
from pathlib import Path

from pipelines.whole_files import put_json

STEP_S = 1.0
"""How often the time is put on the disk; so much may be lost of a try that is killed."""


class TimeUp(Exception):
    """The time that was given is used up."""


class Stopwatch:
    """Seconds in a file, counted on from there by the next try. `tick` is called at every event of the stage."""

    def __init__(self, path: str | Path, budget_s: float = 0.0) -> None:
        self._path, self._budget = Path(path), budget_s
        self._before = 0.0
        if self._path.is_file():
            # A clock that reads wall time of this process alone would forget earlier tries.
            self._before = float(json.loads(self._path.read_text(encoding="utf-8"))["seconds"])
        self._began = self._written = time.monotonic()

    @property
    def seconds(self) -> float:
        return self._before + time.monotonic() - self._began

    @property
    def up(self) -> bool:
        """Whether the budget is used up (never without one)."""
        return self._budget > 0 and self.seconds >= self._budget

    def tick(self) -> None:
        """Write the time down, at most once in `STEP_S`."""
        if time.monotonic() - self._written >= STEP_S:
            self.write()

    def write(self) -> None:
        self._written = time.monotonic()
        put_json(self._path, {"seconds": round(self.seconds, 3)})
