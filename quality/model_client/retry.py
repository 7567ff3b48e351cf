"""The one retry policy (the SDK's own retries are off), and the breaker that ends everything on a dead endpoint."""

import asyncio
import random
import threading
import time
from dataclasses import dataclass
from typing import Any

from quality.model_client.keys import key_withheld

RETRIED_STATUS = frozenset({408, 409, 425, 429})
"""Client errors worth another try; every 5xx is too."""
REFUSED_STATUS = frozenset({400, 413, 422})
"""The request itself is refused: another one may pass."""
POLL_S = 0.1
RERUN = "put it right and rerun: all answers so far are kept"


@dataclass(frozen=True, slots=True)
class Retry:
    """attempts in all, full-jitter backoff base_s·2^n up to cap_s, seconds per call and per request altogether (rate
    limits apart), failures in a row after which the endpoint is dead."""

    attempts: int = 6
    base_s: float = 0.5
    cap_s: float = 20.0
    timeout_s: float = 60.0
    deadline_s: float = 300.0
    breaker_limit: int = 12

    def __post_init__(self) -> None:
        for name in ("attempts", "breaker_limit", "timeout_s", "deadline_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"retry {name}: expected more than 0, found {getattr(self, name)!r}")

    def pause_s(self, attempt: int, asked_s: float | None) -> float:
        """Seconds before the next attempt: full jitter, on top of what the server asked for, so that those who were
        told the same time don't come back at once."""
        # Full jitter: those that failed together come back apart.
        return (asked_s or 0.0) + random.uniform(0, min(self.cap_s, self.base_s * 2**attempt))


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed call: what to say, whether another try may help, whether all others are in vain, whether the endpoint is
    to blame, seconds it asks to wait, whether it may have billed the call, and whether the question may be to blame."""

    said: str
    retried: bool = True
    final: bool = False
    endpoint: bool = True
    asked_s: float | None = None
    sent: bool = True
    question: bool = False


def sort_failure(error: Exception) -> Failure | None:
    """An exception of a call → what it means; None for one that is no failure of the endpoint."""
    import openai

    if isinstance(error, openai.APIStatusError):
        status = error.status_code
        said = f"HTTP {status}: {_one_line(error.message)}"
        if status in RETRIED_STATUS or status >= 500:
            requested = _retry_after(error.response.headers.get("retry-after"))
            # 429 is the server's word about us, and no sign that it is dying.
            return Failure(said, endpoint=status != 429, asked_s=requested, sent=False)
        if status in REFUSED_STATUS:
            return Failure(f"the request was refused, {said}", retried=False, endpoint=False, sent=False, question=True)
        hint = key_withheld(str(error.request.url).removesuffix("/chat/completions")) if status in (401, 403) else ""
        return Failure(f"{said}; {hint or 'check URL, model and key'}", retried=False, final=True, sent=False)
    if isinstance(error, TimeoutError | openai.APITimeoutError):
        return Failure("no complete answer in time")
    if isinstance(error, openai.APIConnectionError):
        cause: Any = error.__cause__ or error
        # Never connected, so nothing can have been billed.
        if _transport(cause) & {"ConnectError", "ConnectTimeout", "UnsupportedProtocol"}:
            return Failure(f"no connection: {_one_line(cause)}", sent=False)
        return Failure(f"connection lost: {_one_line(cause)}")
    if _transport(error) or isinstance(error, openai.APIError):
        return Failure(f"connection lost: {_one_line(error)}")
    return None


def _transport(error: BaseException) -> set[str]:
    """Names of an error's classes that come from the HTTP library; the SDK has changed to another one with equal names,
    and lets its errors through where a body breaks off."""
    return {kind.__name__ for kind in type(error).__mro__ if kind.__module__.partition(".")[0] in ("httpx", "httpx2")}


def _one_line(text: object) -> str:
    return " ".join(str(text).split())[:160]


def _retry_after(value: str | None) -> float | None:
    """Seconds of a Retry-After header; dates and nonsense are ignored."""
    try:
        seconds = float(value) if value else None
    except ValueError:
        return None
    # Negative or endless waits are nonsense, and are passed over.
    return seconds if seconds is not None and 0 <= seconds < 1e9 else None


class Breaker:
    """Counts failures in a row of one endpoint, for all threads that ask it.

    Calls that were in flight when a row of failures began are one incident and count once, whatever their number.
    Requests that end without a valid answer, whatever the cause, are counted the same way.
    """

    def __init__(self, limit: int, who: str) -> None:
        self.dead: str | None = None
        self._limit = limit
        self.who = who
        self._rows: dict[str, tuple[int, float]] = {}
        self._lock = threading.Lock()

    def stop(self, why: str) -> None:
        """End all; the first reason stays."""
        with self._lock:
            self.dead = self.dead or why

    def good(self, kind: str) -> None:
        """End a row: `call` when the endpoint answered, `request` when an answer was valid."""
        with self._lock:
            self._rows.pop(kind, None)

    def failed_call(self, began: float, now: float, said: str) -> None:
        number = self._count("call", began, now)
        if number >= self._limit:
            self.stop(f"{self.who} is dead: {number} failures in a row, the last: {said}; {RERUN}")

    def failed_request(self, began: float, now: float, said: str) -> None:
        number = self._count("request", began, now)
        if number >= self._limit:
            self.stop(
                f"{self.who} gives no valid answers: {number} requests in a row had none, the last: {said}; {RERUN}"
            )

    def _count(self, kind: str, began: float, now: float) -> int:
        with self._lock:
            number, since = self._rows.get(kind, (0, now))
            # Calls that began before the row did were in flight with its first failure: one incident.
            if number == 0 or began >= since:
                number += 1
            self._rows[kind] = number, since
            return number

    async def sleep(self, seconds: float) -> None:
        """Sleep, but not long beyond the end of all."""
        until = time.monotonic() + seconds
        while not self.dead and (left := until - time.monotonic()) > 0:
            await asyncio.sleep(min(left, POLL_S))
