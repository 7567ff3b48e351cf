"""The durable record of executions: an append-only file that knows what was done, however the process ended.

    <folder>/<name>.journal      one record a line: crc32 in hex, a blank, JSON

A record counts once it is on the disk (fsync), so a `kill -9` costs the step in flight at most. A file has one writer
(a lock that the system takes back when its process dies); within it an attempt has one claim, and the newest claim
alone may write: a worker that was given up can't add to what its successor does. A torn last record is dropped and
counted; damage anywhere else raises, since nothing says what stood there.

Records, by "t": `begin` (an attempt from its first turn, with its contract), `resume` (it goes on elsewhere), `turn`,
`broke` (an infrastructure failure, with its reason), `end`, `reopen` (one that had ended lost is as if never begun).
"""

import fcntl
import json
import os
import re
import threading
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from generators.tasks.task_spec import TaskSpec
from generators.tasks.trajectory import ExecutedTrajectory, ExecutedTurn
from pipelines.whole_files import sync
from schemas.actions import format, parse

VERSION = 1
SUFFIX = ".journal"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class JournalError(RuntimeError):
    """The journal can't be read or written; the message names the file and what to do."""


class ClaimLost(RuntimeError):
    """Another worker holds the attempt now, or it has ended: what this one does counts for nothing."""


@dataclass
class Attempt:
    """An execution as far as it was recorded. `states` are the digests of the world's state before each turn ("" where
    the device reported none). `resumed` and `anew` count how it survived failures, `broken` says why; `stuck` of them
    came one after the other, without a turn between them. `reopened`: how often it was lost and begun again all the
    same; the rest is about the time since."""

    contract: TaskSpec
    seed: int
    policy: str
    device: str
    turns: list[ExecutedTurn] = field(default_factory=list)
    states: list[str] = field(default_factory=list)
    resumed: int = 0
    anew: int = 0
    stuck: int = 0
    broken: list[str] = field(default_factory=list)
    reopened: int = 0
    trajectory: ExecutedTrajectory | None = None

    @property
    def trajectory_id(self) -> str:
        return f"{self.contract.task_id}-{self.seed}"

    @property
    def lost(self) -> bool:
        """Whether it has ended as a failure of infrastructure."""
        return self.trajectory is not None and self.trajectory.failure_kind == "infrastructure"


def turn_to_plain(turn: ExecutedTurn) -> dict[str, object]:
    """A turn as plain JSON data."""
    plain = {name: getattr(turn, name) for name in ExecutedTurn.__dataclass_fields__}
    return plain | {
        "action": None if turn.action is None else format(turn.action),
        "elements": [dict(element) for element in turn.elements],
        "size_px": list(turn.size_px),
    }


def turn_from_plain(plain: Mapping[str, Any]) -> ExecutedTurn:
    """The inverse of `turn_to_plain`. Raises `ValueError`, `KeyError` or `TypeError` for what is none."""
    action = plain["action"]
    return ExecutedTurn(
        **{
            **plain,
            "action": None if action is None else parse(action),
            "elements": tuple(plain["elements"]),
            "size_px": tuple(plain["size_px"]),
        }
    )


def _end_to_plain(done: ExecutedTrajectory) -> dict[str, Any]:
    names = ("device", "end_state", "answer", "ended", "failure_kind", "failure", "resumed", "seconds", "extra")
    plain = {name: getattr(done, name) for name in names}
    return plain | {"end": None if done.end is None else turn_to_plain(done.end)}


class AttemptClaim:
    """Leave to write one attempt; the newest one counts. Every method raises `ClaimLost` once it isn't."""

    def __init__(self, journal: "Journal", attempt: Attempt, number: int) -> None:
        self.attempt = attempt
        self._journal, self._number = journal, number

    @property
    def lost(self) -> bool:
        return self._journal._claims.get(self.attempt.trajectory_id) != self._number

    def turn(self, turn: ExecutedTurn, state: str = "") -> None:
        """Record a turn; when this returns, it is on the disk."""
        self._write({"t": "turn", "turn": turn_to_plain(turn), "state": state, "at": len(self.attempt.turns)})

    def anew(self, device: str) -> None:
        """Forget the recorded turns: the attempt begins again."""
        self._write({"t": "begin", "device": device, **_contract_of(self.attempt)})

    def resume(self, device: str) -> None:
        """The recorded turns were carried out again elsewhere; it goes on from there."""
        self._write({"t": "resume", "device": device})

    def broke(self, reason: str) -> None:
        """An infrastructure failure ended this try."""
        self._write({"t": "broke", "reason": reason[:500]})

    def end(self, done: ExecutedTrajectory) -> None:
        """The attempt is over; nothing can be added."""
        self._write({"t": "end", **_end_to_plain(done)})

    def _write(self, record: Mapping[str, object]) -> None:
        self._journal._append({**record, "id": self.attempt.trajectory_id}, self._number)


def _contract_of(attempt: Attempt) -> dict[str, Any]:
    return {"task": attempt.contract.as_row(), "seed": attempt.seed, "policy": attempt.policy}


class Journal:
    """An open journal, for one writer; its methods may be called from several threads.

    Raises `JournalError` where another process writes the file or a record before the last is damaged, and
    `ValueError` for a name that is no file name. `dropped` counts torn records that were cut off.
    """

    def __init__(self, folder: Path, name: str = "main") -> None:
        self.path = _path(folder, name)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._claims: dict[str, int] = {}
        self._stream = open(self.path, "ab+", buffering=0)  # noqa: SIM115  (it stays open, and so locked)
        try:
            self._take()
            found, good, self.dropped = _read(self.path)
            # a torn record is cut off before anything is appended behind it
            os.ftruncate(self._stream.fileno(), good)
            self._size = good
            self._attempts = found
            if not good:
                self._put({"t": "journal", "version": VERSION})
                # the folder too, or a new file could be missing after a power cut
                sync(self.path.parent)
        except BaseException:
            self._stream.close()
            raise

    def _take(self) -> None:
        try:
            fcntl.flock(self._stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise JournalError(f"{self.path}: another process writes it; wait for its end or name another") from None

    def __enter__(self) -> "Journal":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file; claims can write nothing more."""
        with self._lock:
            self._claims.clear()
            self._stream.close()

    @property
    def attempts(self) -> dict[str, Attempt]:
        """All attempts, by id."""
        with self._lock:
            return dict(self._attempts)

    @property
    def finished(self) -> dict[str, ExecutedTrajectory]:
        """Trajectories that have ended, by id, infrastructure failures too."""
        with self._lock:
            return {name: one.trajectory for name, one in self._attempts.items() if one.trajectory is not None}

    @property
    def unfinished(self) -> dict[str, Attempt]:
        """Attempts that were begun and not ended, by id."""
        with self._lock:
            return {name: one for name, one in self._attempts.items() if one.trajectory is None}

    def claim(self, contract: TaskSpec, seed: int, policy: str, device: str) -> AttemptClaim:
        """Take an attempt: the recorded one, or a new one. Whoever held it before has lost it. Raises `JournalError`
        for one that has ended, and for one that another policy began."""
        key = f"{contract.task_id}-{seed}"
        with self._lock:
            known = self._attempts.get(key)
            if known is not None and known.trajectory is not None:
                raise JournalError(f"{self.path}: attempt {key} has ended already")
            if known is not None and known.policy != policy:
                raise JournalError(
                    f"{self.path}: attempt {key} was begun by the policy {known.policy[:60]!r}, found {policy[:60]!r}; "
                    "use a folder for each policy"
                )
            # a number that only grows: whoever holds a smaller one has lost the attempt
            number = self._claims.get(key, 0) + 1
            self._claims[key] = number
            if known is None:
                known = Attempt(contract, seed, policy, device)
                self._put({"t": "begin", "id": key, "device": device, **_contract_of(known)})
                self._attempts[key] = known
            return AttemptClaim(self, known, number)

    def reopen_lost(self, most: int) -> int:
        """Let attempts that ended as infrastructure failures be started again, each `most` times in its life; how many
        were let. All others that have ended stay so. For whoever calls it before a run: what was lost in an outage is
        lost for that run alone. Raises `JournalError`."""
        with self._lock:
            lost = [key for key, one in self._attempts.items() if one.lost and one.reopened < most]
            for key in lost:
                record = {"t": "reopen", "id": key}
                self._put(record)
                _apply(self._attempts, record)
            return len(lost)

    def revoke(self, trajectory_id: str) -> None:
        """Take an attempt from whoever holds it: its worker was given up."""
        with self._lock:
            # without a holder: the next claim takes a number of its own
            self._claims[trajectory_id] = self._claims.get(trajectory_id, 0) + 1

    def _append(self, record: dict[str, Any], number: int) -> None:
        with self._lock:
            known = self._attempts[record["id"]]
            if self._claims.get(record["id"]) != number or known.trajectory is not None:
                raise ClaimLost(f"attempt {record['id']}: another worker holds it or it has ended")
            self._put(record)
            _apply(self._attempts, record)

    def _put(self, record: Mapping[str, object]) -> None:
        """Write a record and wait for the disk; a record that can't be written leaves no trace."""
        line = _line(record)
        try:
            written = self._stream.write(line)
            if written != len(line):
                raise OSError(f"{written} of {len(line)} bytes were written")
            os.fsync(self._stream.fileno())
        except (OSError, ValueError) as error:
            if not self._stream.closed:
                # a part of a record would be damage in the middle once the next one is written
                os.ftruncate(self._stream.fileno(), self._size)
            raise JournalError(f"{self.path}: can't be written: {error}") from error
        self._size += len(line)


def read_journal(folder: Path, name: str = "main") -> dict[str, Attempt]:
    """The attempts of a journal that may be in use, by id; a torn last record is passed over."""
    return _read(_path(folder, name))[0]


def read_journals(folder: Path) -> dict[str, Attempt]:
    """The attempts of all journals of a folder, by id. Raises `JournalError` if two hold the same finished one: they
    share tasks that should be one's own."""
    found: dict[str, Attempt] = {}
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        for key, one in _read(path)[0].items():
            if key in found and one.trajectory is not None and found[key].trajectory is not None:
                raise JournalError(f"{path}: attempt {key} has also ended in another journal of this folder")
            if key not in found or one.trajectory is not None:
                found[key] = one
    return found


def _path(folder: Path, name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise ValueError(f"journal: expected a name of letters, digits, '.', '_' and '-', found {name[:80]!r}")
    return folder / f"{name}{SUFFIX}"


def _line(record: Mapping[str, object]) -> bytes:
    body = json.dumps(record, separators=(",", ":")).encode("ascii")  # escapes: no line break, any text comes back
    return b"%08x %s\n" % (zlib.crc32(body), body)


def _read(path: Path) -> tuple[dict[str, Attempt], int, int]:
    """(attempts, bytes that hold whole records, torn records)."""
    found: dict[str, Attempt] = {}
    if not path.exists():
        return found, 0, 0
    data = path.read_bytes()
    good = 0
    for number, line in enumerate(_lines(data), 1):
        record = _record(line)
        if record is None:
            # only a write that was cut off can tear a record, and that is the last one
            if good + len(line) < len(data):
                raise JournalError(f"{path}: line {number} is damaged and isn't the last; restore the file")
            return found, good, 1
        try:
            if record["t"] == "journal":
                if record["version"] != VERSION:
                    raise ValueError(f"expected version {VERSION}, found {record['version']!r:.40}")
            else:
                _apply(found, record)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise JournalError(f"{path}: line {number}: no record of this version: {error!r:.200}") from error
        good += len(line)
    return found, good, 0


def _lines(data: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(data):
        end = data.find(b"\n", start) + 1 or len(data)
        yield data[start:end]
        start = end


def _record(line: bytes) -> dict[str, Any] | None:
    """A whole record; None for a torn one."""
    if not line.endswith(b"\n") or line[8:9] != b" ":
        return None
    body = line[9:-1]
    if line[:8] != b"%08x" % zlib.crc32(body):
        return None
    plain: dict[str, Any] = json.loads(body)
    return plain


def _apply(attempts: dict[str, Attempt], record: Mapping[str, Any]) -> None:
    """What a record does to the attempts known so far; the same when it is written and when it is read."""
    kind, key = record["t"], record["id"]
    known = attempts.get(key)
    if kind == "begin":
        if known is None:
            contract = TaskSpec.from_row(record["task"])
            attempts[key] = Attempt(contract, record["seed"], record["policy"], record["device"])
        else:
            known.turns.clear()
            known.states.clear()
            known.device = record["device"]
            known.anew += 1
        return
    if known is None:
        raise ValueError(f"attempt {key} was never begun")
    if kind == "turn":
        if record["at"] != len(known.turns):
            raise ValueError(f"attempt {key}: expected turn {len(known.turns)}, found {record['at']}")
        known.turns.append(turn_from_plain(record["turn"]))
        known.states.append(record["state"])
        # progress: failures before it say nothing of the next step
        known.stuck = 0
    elif kind == "resume":
        known.device = record["device"]
        known.resumed += 1
    elif kind == "broke":
        known.broken.append(record["reason"])
        known.stuck += 1
    elif kind == "end":
        known.trajectory = _finish(known, record)
    elif kind == "reopen":
        attempts[key] = Attempt(known.contract, known.seed, known.policy, known.device, reopened=known.reopened + 1)
    else:
        raise ValueError(f"unknown record {kind!r:.40}")


def _finish(known: Attempt, record: Mapping[str, Any]) -> ExecutedTrajectory:
    blank = ExecutedTrajectory(known.contract, known.policy, "", known.seed, tuple(known.turns), None, {}, "", "failed")
    plain = {name: value for name, value in record.items() if name not in ("t", "id", "end")}
    return replace(blank, end=None if record["end"] is None else turn_from_plain(record["end"]), **plain)
