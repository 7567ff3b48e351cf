"""Requests and tokens per minute: token buckets whose levels several processes can share.

Each bucket fills at limit ÷ 60 a second up to `burst_s` seconds' worth; a call takes its amount at once, into debt if
need be, and waits until the debt is filled. So calls start in the order in which they asked, none larger than the
bucket starves, and a span of t seconds starts at most limit · (t + burst_s) ÷ 60, and one call more.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class RateLimits:
    """Limits of an endpoint per minute, None for none. Tokens are those of prompt and answer together."""

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    burst_s: float = 2.0

    def __post_init__(self) -> None:
        for name in ("requests_per_minute", "tokens_per_minute"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name}: expected a number above 0, found {value!r}; leave it out for no limit")


@dataclass(frozen=True, slots=True)
class Level:
    """What a bucket held at a time (seconds); below 0 is debt."""

    held: float
    at: float


def filled(level: Level | None, now: float, per_s: float, capacity: float) -> Level:
    """A bucket's level now; a new one is full. A clock set back adds nothing."""
    if level is None:
        return Level(capacity, now)
    # A clock that was set back must not empty the bucket.
    return Level(min(capacity, level.held + max(now - level.at, 0.0) * per_s), now)


def take(level: Level | None, amount: float, now: float, per_s: float, capacity: float) -> tuple[Level, float]:
    """Take an amount: (new level, seconds to wait before it may be used)."""
    left = Level(filled(level, now, per_s, capacity).held - amount, now)
    # In debt the call waits until the debt is filled, so calls start in the order in which they asked.
    return left, max(-left.held / per_s, 0.0)


class Levels(Protocol):
    """Where levels are kept; `change` is atomic between threads and processes."""

    def change_level(self, bucket: str, change: Callable[[Level | None], Level]) -> None: ...


class RateLimiter:
    """The limits of one endpoint over shared levels."""

    def __init__(
        self, limits: RateLimits, levels: Levels, endpoint: str, clock: Callable[[], float] = time.time
    ) -> None:
        self._levels = levels
        self._clock = clock
        self._burst_s = limits.burst_s
        both = (("requests", limits.requests_per_minute), ("tokens", limits.tokens_per_minute))
        self._per_s = {f"{name} {endpoint}": limit / 60 for name, limit in both if limit is not None}

    def take(self, tokens: int) -> float:
        """Take one request and its estimated tokens; seconds to wait before it is sent."""
        return max([self._take(name, tokens if name.startswith("tokens") else 1) for name in self._per_s], default=0.0)

    def correct(self, estimated: int, billed: int, requests: int = 0) -> None:
        """Give back what was taken too much (or take what was too little): tokens, and requests not sent at all."""
        for name in self._per_s:
            # Tokens by the bill; requests only where nothing was sent.
            amount = billed - estimated if name.startswith("tokens") else -requests
            if amount:
                self._take(name, amount)

    def _take(self, name: str, amount: float) -> float:
        per_s, waits = self._per_s[name], [0.0]

        def change(level: Level | None) -> Level:
            # At least one whole request fits, however low the limit.
            left, waits[0] = take(level, amount, self._clock(), per_s, max(per_s * self._burst_s, 1.0))
            return left

        self._levels.change_level(name, change)
        return waits[0]
