"""A slow network: after an action the screen before it shows until so many looks or waits have passed.

Counts, not wall time, so that a run is the same every time; `seconds` makes each late look take real time as well.
What was done is done at once: only the picture and the elements are late, never the truth.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from generators.tasks.world_interface import Observation, World
from generators.worlds.wrappers.wrapper import Wrapper, rate
from schemas.action_types import Wait
from schemas.actions import Action


@dataclass(frozen=True)
class Slowness:
    """`share` of the actions after which the screen is late, by 1 to `looks` looks or waits."""

    share: float = 0.0
    looks: int = 1
    seconds: float = 0.0

    def __post_init__(self) -> None:
        rate(self.share, "delay: share")
        if type(self.looks) is not int or self.looks < 1:
            raise ValueError(f"delay: looks: expected a number of 1 or more, found {self.looks!r:.60}")
        if not 0 <= self.seconds <= 60:
            raise ValueError(f"delay: seconds: expected 0 to 60, found {self.seconds!r:.60}")


class Delayed(Wrapper):
    """See the module. `late` = looks and waits still to pass."""

    def __init__(self, world: World, slowness: Slowness, seed: int = 0) -> None:
        super().__init__(world, seed)
        self.slowness = slowness
        self.late = 0
        self._shown: Observation | None = None

    def reset(self, start: Mapping[str, object]) -> None:
        self.late, self._shown = 0, None
        super().reset(start)

    def observe(self) -> Observation:
        if self.late and self._shown is not None:
            # Each look brings the true screen nearer, as does each Wait.
            self.late -= 1
            time.sleep(self.slowness.seconds)
            return self._shown
        self._shown = None
        return super().observe()

    def act(self, action: Action) -> None:
        if isinstance(action, Wait):
            # Waiting is what a careful agent does here, so it counts as a look.
            self.late = max(self.late - 1, 0)
            super().act(action)
            return
        # One generator for both draws: whether it is late, and for how long.
        chance = self.chance("late", self.step + 1)
        late = self.slowness.share > 0 and chance.random() < self.slowness.share
        if late and not self.late:  # what shows while it loads is what showed when it began
            self._shown = self.world.observe()
        super().act(action)
        if late:
            # After acting, so that a refused action (which raises) leaves nothing late behind.
            self.late = chance.randint(1, self.slowness.looks)
