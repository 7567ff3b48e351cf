"""The book of a model: answers, what was sent and billed night by night, and the ceiling on it; an SQLite file.

A call is counted before it is sent, with an estimate of its tokens. Its answer is stored and its bill takes the place
of the estimate in one transaction: killed at any point, a process leaves both or neither. So no answer is paid twice,
a night never starts more calls than its ceiling, and calls in flight at a kill leave their estimates behind: they may
have been billed. Processes share the file, which lies on a local disk; a crash of the whole machine may lose the last
moments' answers, which are asked again, and never leaves half of one.
"""

import contextlib
import json
import math
import re
import sqlite3
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from quality.model_client.errors import ModelError
from quality.model_client.prices import Prices
from quality.model_client.questions import Usage
from quality.model_client.rate_limit import Level

_NIGHT = re.compile(r"\d{4}-\d{2}-\d{2}")
_TABLES = """
CREATE TABLE IF NOT EXISTS nights (night TEXT NOT NULL, model TEXT NOT NULL,
  requests INTEGER NOT NULL DEFAULT 0,
  answers INTEGER NOT NULL DEFAULT 0, garbage INTEGER NOT NULL DEFAULT 0, failed INTEGER NOT NULL DEFAULT 0,
  prompt_tokens INTEGER NOT NULL DEFAULT 0, completion_tokens INTEGER NOT NULL DEFAULT 0,
  unbilled_tokens INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (night, model)) STRICT;
CREATE TABLE IF NOT EXISTS open_calls (id TEXT PRIMARY KEY, night TEXT NOT NULL, model TEXT NOT NULL,
  estimate INTEGER NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, entry TEXT NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS batches (name TEXT PRIMARY KEY, endpoint TEXT NOT NULL, remote TEXT,
  calls TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS levels (bucket TEXT PRIMARY KEY, held REAL NOT NULL, at REAL NOT NULL) STRICT;
"""


def today() -> str:
    """The night that is on now: the date in UTC."""
    return datetime.now(UTC).date().isoformat()


class CeilingReached(ModelError):
    """The night's ceiling is reached: what is left is asked another night, and has no answer until then."""


@dataclass(frozen=True, slots=True)
class Ceiling:
    """At most so many requests (attempts) and tokens, and so much money, a night; None for no limit. `night` is a date
    YYYY-MM-DD. Money needs both `prices`: it bounds what all models that share the book cost at these prices."""

    requests: int | None = None
    tokens: int | None = None
    night: str = field(default_factory=today)
    money: float | None = None
    prices: Prices = Prices()

    def __post_init__(self) -> None:
        if self.money is not None and not (math.isfinite(self.money) and self.money >= 0 and self.prices.known):
            raise ValueError(
                f"ceiling of money a night: expected a number from 0 on and both prices, found "
                f"{self.money!r} with {self.prices.prompt!r} and {self.prices.completion!r}"
            )
        for name in ("requests", "tokens"):
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 0):
                raise ValueError(f"ceiling of {name} a night: expected a whole number from 0 on, found {value!r}")
        if not _NIGHT.fullmatch(self.night):
            raise ValueError(f"night: expected a date such as 2026-01-31, found {self.night[:40]!r}")


@dataclass(frozen=True, slots=True)
class Spent:
    """A night's totals. `open_tokens` are estimates of calls in flight or of a killed process, `unbilled_tokens` those
    of calls whose bill never came (timeouts, lost connections): both count against the ceiling, neither in `usage`."""

    requests: int = 0
    answers: int = 0
    garbage: int = 0
    failed: int = 0
    usage: Usage = Usage()
    unbilled_tokens: int = 0
    open_calls: int = 0
    open_tokens: int = 0

    def cost(self, prices: Prices) -> float:
        """Money for all that counts against the ceiling. Whether a token without a bill was asked or answered nobody
        knows: it counts as the dearer one."""
        billed = prices.of(self.usage.prompt_tokens, self.usage.completion_tokens)
        # A call that is open may still be billed.
        return billed + prices.at_most(self.unbilled_tokens + self.open_tokens)

    @property
    def tokens(self) -> int:
        """All that counts against the ceiling."""
        return self.usage.prompt_tokens + self.usage.completion_tokens + self.unbilled_tokens + self.open_tokens


@dataclass(frozen=True, slots=True)
class OpenBatch:
    """A batch under way: our name for it, key of each question → its call, and the server's id once that is known."""

    name: str
    calls: Mapping[str, str]
    remote: str | None = None


class AnswerBook:
    """The file `judge.sqlite` of a folder (None: in memory, and no answers are kept).

    Safe to use from several threads and processes. Raises `ModelError` if the file is damaged.
    """

    def __init__(self, folder: Path | None) -> None:
        self.path = None if folder is None else folder / "judge.sqlite"
        self._lock = threading.Lock()
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        with self._told():
            # In memory where nothing is cached.
            self._base = sqlite3.connect(
                self.path or ":memory:", timeout=60, isolation_level=None, check_same_thread=False
            )
            self._base.execute("PRAGMA journal_mode=WAL")
            self._base.execute("PRAGMA synchronous=NORMAL")
            self._base.executescript(_TABLES)

    def close(self) -> None:
        with self._lock:
            self._base.close()

    def open(self, ceiling: Ceiling, model: str, estimate: int) -> str | None:
        """Count a call before it is sent: its id, or None if the ceiling, shared by all models, has no room for it."""
        # Asked and counted in one transaction: several processes share a ceiling.
        with self._transaction() as base:
            spent = _spent(base, ceiling.night)
            if ceiling.requests is not None and spent.requests >= ceiling.requests:
                return None
            if ceiling.tokens is not None and spent.tokens + estimate > ceiling.tokens:
                return None
            if (
                ceiling.money is not None
                and spent.cost(ceiling.prices) + ceiling.prices.at_most(estimate) > ceiling.money
            ):
                return None
            call = uuid.uuid4().hex
            base.execute(
                "INSERT INTO nights (night, model, requests) VALUES (?, ?, 1) "
                "ON CONFLICT DO UPDATE SET requests = requests + 1",
                (ceiling.night, model),
            )
            # What it may cost is reserved until the bill comes.
            base.execute("INSERT INTO open_calls VALUES (?, ?, ?, ?)", (call, ceiling.night, model, estimate))
            return call

    def book(
        self, call: str, outcome: str, usage: Usage | None, *, sent: bool = True, entry: tuple[str, str] | None = None
    ) -> bool:
        """Put a call's bill in the place of its estimate and keep its answer (key, text), once; False after that.

        `outcome` is answers, garbage or failed. Without a usage the estimate stays as unbilled, unless nothing that a
        server would bill was sent (`sent`).
        """
        if outcome not in ("answers", "garbage", "failed"):
            raise ValueError(f"outcome: expected answers, garbage or failed, found {outcome!r}")
        with self._transaction() as base:
            row = base.execute(
                "DELETE FROM open_calls WHERE id = ? RETURNING night, model, estimate", (call,)
            ).fetchone()
            if row is None:
                # Booked before, by a reply that came late.
                return False
            night, model, estimate = row
            # Nobody knows what an unanswered call cost, so its estimate stands.
            billed, unbilled = usage or Usage(), estimate if usage is None and sent else 0
            base.execute(
                f"UPDATE nights SET {outcome} = {outcome} + 1, prompt_tokens = prompt_tokens + ?, "
                "completion_tokens = completion_tokens + ?, unbilled_tokens = unbilled_tokens + ? "
                "WHERE night = ? AND model = ?",
                (billed.prompt_tokens, billed.completion_tokens, unbilled, night, model),
            )
            # The answer and its bill together: neither is lost without the other.
            if entry is not None and self.path is not None:
                base.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", entry)
            return True

    def keep(self, key: str, text: str) -> None:
        """Keep a text under a key, for a question that was booked before."""
        if self.path is not None:
            with self._transaction() as base:
                base.execute("INSERT OR REPLACE INTO answers VALUES (?, ?)", (key, text))

    def answer(self, key: str) -> str | None:
        """The text kept under a key."""
        if self.path is None:
            return None
        with self._lock, self._told():
            row = self._base.execute("SELECT entry FROM answers WHERE key = ?", (key,)).fetchone()
        return row[0] if row else None

    def spent(self, night: str, model: str | None = None) -> Spent:
        """Totals of a night, of one model or of all."""
        with self._transaction() as base:
            return _spent(base, night, model)

    def put_batch(self, batch: OpenBatch, endpoint: str) -> None:
        """Write down what a batch asks, before it is created; or the id that it was given since."""
        with self._transaction() as base:
            row = (batch.name, endpoint, batch.remote, json.dumps(batch.calls))
            base.execute("INSERT OR REPLACE INTO batches VALUES (?, ?, ?, ?)", row)

    def open_batches(self, endpoint: str) -> list[OpenBatch]:
        """Batches of an endpoint whose results nobody has read to the end."""
        with self._transaction() as base:
            rows = base.execute("SELECT name, remote, calls FROM batches WHERE endpoint = ?", (endpoint,)).fetchall()
        return [OpenBatch(name, json.loads(calls), remote) for name, remote, calls in rows]

    def drop_batch(self, name: str) -> None:
        """Forget a batch: all of its calls are booked."""
        with self._transaction() as base:
            base.execute("DELETE FROM batches WHERE name = ?", (name,))

    def change_level(self, bucket: str, change: Callable[[Level | None], Level]) -> None:
        """Replace a bucket's level (see `rate_limit`)."""
        with self._transaction() as base:
            row = base.execute("SELECT held, at FROM levels WHERE bucket = ?", (bucket,)).fetchone()
            level = change(Level(*row) if row else None)
            base.execute("INSERT OR REPLACE INTO levels VALUES (?, ?, ?)", (bucket, level.held, level.at))

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._told():
            self._base.execute("BEGIN IMMEDIATE")
            try:
                yield self._base
            except BaseException:
                self._base.execute("ROLLBACK")
                raise
            self._base.execute("COMMIT")

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise ModelError(
                f"{self.path}: expected the judge's book of answers and bills, found {error}; put it aside and rerun "
                "(its answers are asked again)"
            ) from error


def _spent(base: sqlite3.Connection, night: str, model: str | None = None) -> Spent:
    names = ("requests", "answers", "garbage", "failed", "prompt_tokens", "completion_tokens", "unbilled_tokens")
    sums = ", ".join(f"coalesce(sum({name}), 0)" for name in names)
    # Of one model, or of all.
    where = "WHERE night = ?1 AND (?2 IS NULL OR model = ?2)"
    row = base.execute(f"SELECT {sums} FROM nights {where}", (night, model)).fetchone()
    calls, tokens = base.execute(
        f"SELECT count(*), coalesce(sum(estimate), 0) FROM open_calls {where}", (night, model)
    ).fetchone()
    return Spent(row[0], row[1], row[2], row[3], Usage(row[4], row[5]), row[6], calls, tokens)
