"""Answers of people, in one SQLite file: who joined, who was given what, and every answer ever given.

Nothing is overwritten: a changed mind is a new row, an undo is a row that names the one it undoes, and the last row
that isn't undone counts. The file is in WAL mode with `synchronous = FULL`: once `add` has returned, the answer is on
disk, whatever is killed afterwards. SQL takes values as parameters only. The file stays on a local disk.
"""

import contextlib
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

DECISIONS = ("keep", "rewrite", "reconstruct", "discard", "unsure")
ROLES = ("annotator", "adjudicator")
SCHEMA_VERSION = 1
MAX_NOTE = 4000
MAX_STEPS = 100_000
HOLD_S = 2 * 3600.0
"""How long an item that was given to somebody and not answered is kept for them before others may have it."""
_NAME = re.compile(r"\w[\w .@+-]{0,79}")
_CONTENT = re.compile(r"[0-9a-f]{0,64}")
_REQUEST = re.compile(r"[A-Za-z0-9:._-]{8,120}")
_SCHEMA = """
CREATE TABLE annotators (name TEXT PRIMARY KEY, created REAL NOT NULL) STRICT;
CREATE TABLE assignments (
    item_id TEXT NOT NULL, annotator TEXT NOT NULL REFERENCES annotators, created REAL NOT NULL,
    PRIMARY KEY (item_id, annotator)) STRICT;
CREATE TABLE verdicts (
    id INTEGER PRIMARY KEY AUTOINCREMENT, item_id TEXT NOT NULL, annotator TEXT NOT NULL REFERENCES annotators,
    role TEXT NOT NULL, decision TEXT, first_wrong_step INTEGER, note TEXT NOT NULL, seconds REAL NOT NULL,
    created REAL NOT NULL, request TEXT NOT NULL UNIQUE, content TEXT NOT NULL,
    undoes INTEGER UNIQUE REFERENCES verdicts, CHECK ((decision IS NULL) = (undoes IS NOT NULL))) STRICT;
CREATE INDEX verdicts_by_item ON verdicts (item_id, annotator, id);
"""
_COLUMNS = "item_id, annotator, role, decision, first_wrong_step, note, seconds, created, request, content, id"
_COUNTING = (
    f"SELECT {_COLUMNS} FROM verdicts AS v WHERE undoes IS NULL AND id NOT IN "
    "(SELECT undoes FROM verdicts WHERE undoes IS NOT NULL)"
)


class ReviewError(ValueError):
    """An answer or a file that can't be accepted; the message says what was expected."""


@dataclass(frozen=True, slots=True)
class HumanVerdict:
    """One answer. `first_wrong_step` is the step's place in the trajectory, from 0; `seconds` the time it took;
    `created` Unix time; `request` names the answer, so that one sent twice counts once; `content` is the digest of what
    was shown (`Trajectory.digest`): an item that changed since wants a new answer; `id` its row, 0 before."""

    item_id: str
    annotator: str
    role: str
    decision: str
    first_wrong_step: int | None = None
    note: str = ""
    seconds: float = 0.0
    created: float = 0.0
    request: str = ""
    content: str = ""
    id: int = 0

    def check(self) -> None:
        """Raises `ReviewError` unless every value is allowed."""
        check_name(self.annotator)
        if not self.item_id or len(self.item_id) > 2000:
            raise ReviewError(f"item_id: expected 1 to 2000 characters, found {len(self.item_id)}")
        if self.decision not in DECISIONS:
            raise ReviewError(f"decision: expected one of {', '.join(DECISIONS)}, found {self.decision[:40]!r}")
        if self.role not in ROLES:
            raise ReviewError(f"role: expected one of {', '.join(ROLES)}, found {self.role[:40]!r}")
        step = self.first_wrong_step
        if step is not None and (type(step) is not int or not 0 <= step < MAX_STEPS):
            raise ReviewError(f"first_wrong_step: expected a step's place from 0 or nothing, found {step!r}")
        if len(self.note) > MAX_NOTE:
            raise ReviewError(f"note: expected at most {MAX_NOTE} characters, found {len(self.note)}")
        if not 0 <= self.seconds < 1e7:  # NaN fails too
            raise ReviewError(f"seconds: expected a time of 0 or more, found {self.seconds!r}")
        if not _CONTENT.fullmatch(self.content):
            raise ReviewError(f"content: expected a digest of hex digits or nothing, found {self.content[:40]!r}")
        if not _REQUEST.fullmatch(self.request):
            raise ReviewError(f"request: expected 8 to 120 letters, digits, : . _ -, found {self.request[:40]!r}")


def answers_path(home: Path) -> Path:
    """Where the answers of a store (or of a folder) lie."""
    return home / "feedback" / "review.sqlite"


def check_name(name: str) -> str:
    """An annotator's name, without blanks around it. Raises `ReviewError`."""
    return stripped(name, _NAME, "annotator: expected 1 to 80 letters, digits, blanks and . @ + _ -")


def stripped(name: str, form: re.Pattern[str], expected: str) -> str:
    """A text without blanks around it. Raises `ReviewError` for one of another form."""
    if not form.fullmatch(name.strip()):
        raise ReviewError(f"{expected} (first a letter or digit), found {name[:100]!r}")
    return name.strip()


class AppendedFile:
    """One SQLite file to which rows are only added. Safe for several threads, and for several processes on one machine.

    `schema`: its tables as SQL; `what`: what the file is, in words; `by`: the command that makes one."""

    schema, what, by = "", "", ""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        """Open or make the file. Raises `ReviewError` if it is none of ours or of another version."""
        self.path = path
        self._clock = clock
        self._lock = threading.RLock()
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self._db = sqlite3.connect(path, timeout=20, isolation_level=None, check_same_thread=False)
            # Readers don't wait for a writer, and what was answered survives a power cut.
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("PRAGMA foreign_keys = ON")
            with self._write():
                self._prepare()
        except sqlite3.Error as error:
            raise ReviewError(f"{path}: expected {self.what} made by `{self.by}`, found: {error}") from error

    def _prepare(self) -> None:
        found = self._db.execute("PRAGMA user_version").fetchone()[0]
        # The usual case, without a look at the tables.
        if found == SCHEMA_VERSION:
            return
        tables = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        # A file with tables but no number isn't ours.
        if found != 0 or tables:
            raise ReviewError(f"{self.path}: expected {self.what} of version {SCHEMA_VERSION}, found {found}")
        for statement in self.schema.split(";"):
            self._db.execute(statement)
        self._db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    @contextlib.contextmanager
    def _write(self) -> Iterator[None]:
        """One transaction: whole or not at all, and on disk when the block has ended."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                # Also when the program is interrupted.
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()


class VerdictStore(AppendedFile):
    """The file of answers."""

    schema, what, by = _SCHEMA, "a review file", "vesper review"

    # --- people -------------------------------------------------------------------------------------------------------
    def join(self, annotator: str) -> str:
        """Know an annotator from now on; returns the name as it is kept. Raises `ReviewError`."""
        name = check_name(annotator)
        with self._write():
            self._db.execute("INSERT OR IGNORE INTO annotators VALUES (?, ?)", (name, self._clock()))
        return name

    def annotators(self) -> list[str]:
        """Names in the order they joined."""
        with self._lock:
            return [row[0] for row in self._db.execute("SELECT name FROM annotators ORDER BY created, name")]

    # --- who gets what ------------------------------------------------------------------------------------------------
    def upcoming(self, annotator: str, queue: Mapping[str, str], overlap: int, count: int = 3) -> list[str]:
        """The next items of an annotator in the queue's order, at most `count`; they are held for them. `queue`: item →
        digest of its content; what was said of another content doesn't count.

        An item goes to `overlap` people: those who answered it, and those who were given it less than `HOLD_S` ago.
        """
        if overlap < 1:
            raise ReviewError(f"overlap: expected at least 1 annotator an item, found {overlap}")
        # One instant for all, so that holds compare.
        now = self._clock()
        # In a transaction, as two people who ask at once mustn't get the same last place.
        with self._write():
            answered: dict[str, set[str]] = {}
            for item_id, name, content in self._db.execute(_COUNTING.replace(_COLUMNS, "item_id, annotator, content")):
                if queue.get(item_id) == content:
                    answered.setdefault(item_id, set()).add(name)
            held: dict[str, set[str]] = {}
            for item_id, name, since in self._db.execute("SELECT item_id, annotator, created FROM assignments"):
                # Whoever closed the page without answering gives it back after a while.
                if now - since < HOLD_S:
                    held.setdefault(item_id, set()).add(name)
            found: list[str] = []
            for item_id in queue:
                done, given = answered.get(item_id, set()), held.get(item_id, set())
                # Others who hold it count as if they had answered.
                if annotator in done or len((done | given) - {annotator}) >= overlap:
                    continue
                found.append(item_id)
                if len(found) == count:
                    break
            self._db.executemany(
                "INSERT INTO assignments VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET created = excluded.created",
                [(item_id, annotator, now) for item_id in found],
            )
        return found

    # --- answers ------------------------------------------------------------------------------------------------------
    def add(self, verdict: HumanVerdict) -> HumanVerdict:
        """Keep an answer; returns it as it stands on disk. The same `request` again returns the first one.

        Raises `ReviewError` on a value that isn't allowed, or a request name already used for another answer.
        """
        return self.add_all([verdict])[0]

    def add_all(self, verdicts: Sequence[HumanVerdict]) -> list[HumanVerdict]:
        """Keep several answers, all or (if one raises `ReviewError`) none of them."""
        for verdict in verdicts:
            verdict.check()
        with self._write():
            # Who answers without having joined is known from now on.
            for name in {verdict.annotator for verdict in verdicts}:
                self._db.execute("INSERT OR IGNORE INTO annotators VALUES (?, ?)", (name, self._clock()))
            return [self._insert(verdict) for verdict in verdicts]

    def _insert(self, verdict: HumanVerdict) -> HumanVerdict:
        self._db.execute(
            # The same request again inserts nothing, and the row that stands is returned.
            "INSERT OR IGNORE INTO verdicts (item_id, annotator, role, decision, first_wrong_step, note, seconds, "
            "created, request, content) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                verdict.item_id,
                verdict.annotator,
                verdict.role,
                verdict.decision,
                verdict.first_wrong_step,
                verdict.note,
                verdict.seconds,
                verdict.created or self._clock(),
                verdict.request,
                verdict.content,
            ),
        )
        row = self._db.execute(f"SELECT {_COLUMNS} FROM verdicts WHERE request = ?", (verdict.request,)).fetchone()
        # A name that was used for something else: the page would believe that its answer is kept.
        if tuple(row[:4]) != (verdict.item_id, verdict.annotator, verdict.role, verdict.decision):
            raise ReviewError(f"request {verdict.request!r}: it names another answer already; send a new name")
        return HumanVerdict(*row)

    def count(self) -> int:
        """Rows of all kinds: grows with everything that is added or undone."""
        with self._lock:
            return int(self._db.execute("SELECT count(*) FROM verdicts").fetchone()[0])

    def undo(self, annotator: str, request: str) -> HumanVerdict | None:
        """Take back the annotator's last answer; returns it, or None if there is none. What they had answered on that
        item before counts again. The same `request` again undoes nothing more."""
        if not _REQUEST.fullmatch(request):
            raise ReviewError(f"request: expected 8 to 120 letters, digits, : . _ -, found {request[:40]!r}")
        with self._write():
            # A lost reply makes a page ask again; undone is then what it was before.
            again = self._db.execute("SELECT undoes FROM verdicts WHERE request = ?", (request,)).fetchone()
            if again is None:
                where = " AND annotator = ? ORDER BY id DESC LIMIT 1"
                last = self._db.execute(_COUNTING + where, (annotator,)).fetchone()
                if last is None:
                    return None
                self._db.execute(
                    "INSERT INTO verdicts (item_id, annotator, role, note, seconds, created, request, content, undoes) "
                    "VALUES (?, ?, ?, '', 0.0, ?, ?, '', ?)",
                    (last[0], annotator, last[2], self._clock(), request, last[-1]),
                )
                return HumanVerdict(*last)
            row = self._db.execute(f"SELECT {_COLUMNS} FROM verdicts WHERE id = ?", again).fetchone()
        if row is None or row[1] != annotator:
            raise ReviewError(f"request {request!r}: it names another answer already; send a new name")
        return HumanVerdict(*row)

    def verdicts(self) -> list[HumanVerdict]:
        """The answers that count: the last of each person on each item in each role, by item, role and name."""
        with self._lock:
            rows = self._db.execute(_COUNTING + " ORDER BY id").fetchall()
        # Rows are in the order of their ids, so the last one of a key stays.
        last = {(row[0], row[2], row[1]): row for row in rows}
        return [HumanVerdict(*last[key]) for key in sorted(last)]

    def history(self, item_id: str) -> list[tuple[HumanVerdict, bool]]:
        """All answers ever given on an item, oldest first, each with whether it was undone."""
        with self._lock:
            rows = self._db.execute(
                f"SELECT {_COLUMNS}, id IN (SELECT undoes FROM verdicts WHERE undoes IS NOT NULL) FROM verdicts "
                "WHERE item_id = ? AND undoes IS NULL ORDER BY id",
                (item_id,),
            ).fetchall()
        return [(HumanVerdict(*row[:-1]), bool(row[-1])) for row in rows]
