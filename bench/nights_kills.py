"""What is killed during the second night, one after the other."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench import nights_figures as figures
from bench.nights_house import House

AWAY_S = 8.0
"""How long PostgreSQL stays away: longer than a client goes on trying to connect."""
KILLED = ("run worker", "PostgreSQL", "daemon", "code location", "web server")


@dataclass
class Kills:
    """What is killed while a run is at work, one after the other."""

    house: House
    parts: figures.Parts
    before: frozenset[Path]
    done: list[dict[str, Any]] = field(default_factory=list)
    _last: float = 0.0
    _back: float = 0.0

    def __post_init__(self) -> None:
        kills: dict[str, Callable[[], Any]] = {
            "run worker": self.house.kill_workers,
            "PostgreSQL": self._kill_postgres,
            "daemon": lambda: self.house.kill("daemon", 2),
            "code location": self._kill_code_location,
            "web server": lambda: self.house.kill("web server", 1),
        }
        self._left = [(name, kills[name]) for name in KILLED]

    def step(self) -> None:
        """Kill the next one, if a run is at work that began after the last kill (first: that has made a part)."""
        now = time.monotonic()
        if self._back:
            if now >= self._back:
                self.house.postgres.start()
                self._back = 0.0
            return
        if not self._left:
            return
        try:
            runs = self.house.at_work("refresh_sources", "build_corpus")
        except (OSError, ValueError, KeyError, TypeError):
            return
        runs = [run for run in runs if (run["startTime"] or 0) > self._last]
        if not runs or (not self.done and not self.parts.seen.keys() - self.before):
            return
        name, kill = self._left.pop(0)
        found = kill()
        if name == "run worker" and not found:
            self._left.insert(0, (name, kill))
            return
        self._last = time.time()
        at_work = [run["jobName"] for run in runs]
        self.done.append({"killed": name, "at_work": at_work, "parts": len(self.parts.seen.keys() - self.before)})
        print(f"  kill -9 {name} while {', '.join(at_work)} was at work", flush=True)

    def _kill_postgres(self) -> bool:
        self.house.postgres.kill()
        self._back = time.monotonic() + AWAY_S
        return True

    def _kill_code_location(self) -> int:
        """With the runs that are made in it, as when its machine is gone."""
        self.house.kill_workers()
        return self.house.kill("code location", 1)

    @property
    def over(self) -> bool:
        return not self._left and not self._back
