"""What people marked while browsing: tags on items, and items that they asked to have reviewed; who said so, and when.

One SQLite file, `feedback/marks.sqlite`, as durable as the answers beside it (`quality.review.verdict_store`): WAL,
`synchronous = FULL`, values as parameters only. Nothing is overwritten: taking a mark off is a row of its own, and the
last row of an item and a mark counts.
"""

import contextlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from quality.review.verdict_store import AppendedFile, ReviewError, check_name, stripped

MAX_ITEMS = 10_000
"""Items that one request marks at most."""
REVIEW = "review"
"""Kind of mark: the item is to be reviewed. The other kind is `tag`."""
_TAG = re.compile(r"\w[\w .:/+-]{0,39}")
_SCHEMA = """
CREATE TABLE marks (
    id INTEGER PRIMARY KEY AUTOINCREMENT, item_id TEXT NOT NULL, kind TEXT NOT NULL, name TEXT NOT NULL,
    who TEXT NOT NULL, created REAL NOT NULL, removed INTEGER NOT NULL) STRICT;
CREATE INDEX marks_by_item ON marks (item_id, kind, name, id);
"""
_COUNTING = (
    "SELECT item_id, name, who, created FROM marks WHERE kind = ? AND removed = 0 AND id IN "
    "(SELECT max(id) FROM marks GROUP BY item_id, kind, name)"
)


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark that counts. `name`: the tag, or "" for a wish to have it reviewed; `created`: Unix time."""

    item_id: str
    name: str
    who: str
    created: float


def marks_path(home: Path) -> Path:
    """Where the marks of a store lie."""
    return home / "feedback" / "marks.sqlite"


def check_tag(name: str) -> str:
    """A tag without blanks around it. Raises `ReviewError`."""
    return stripped(name, _TAG, "tag: expected 1 to 40 letters, digits, blanks and . : / + -")


class MarkStore(AppendedFile):
    """The file of marks."""

    schema, what, by = _SCHEMA, "a file of marks", "vesper browse"

    def tag(self, items: Sequence[str], name: str, who: str, *, remove: bool = False) -> int:
        """Put a tag on items, or take it off; how many are concerned. Raises `ReviewError`."""
        return self._add(items, "tag", check_tag(name), who, remove)

    def request_review(self, items: Sequence[str], who: str) -> int:
        """Ask for the review of items. Raises `ReviewError`."""
        return self._add(items, REVIEW, "", who, False)

    def _add(self, items: Sequence[str], kind: str, name: str, who: str, remove: bool) -> int:
        person = check_name(who)
        if not 1 <= len(items) <= MAX_ITEMS or any(not 0 < len(item) <= 2000 for item in items):
            raise ReviewError(f"ids: expected 1 to {MAX_ITEMS} item ids, found {len(items)}")
        # Rows are only added: a tag that was taken off is one more row.
        rows = [(item, kind, name, person, self._clock(), int(remove)) for item in dict.fromkeys(items)]
        with self._write():
            self._db.executemany(
                "INSERT INTO marks (item_id, kind, name, who, created, removed) VALUES (?, ?, ?, ?, ?, ?)", rows
            )
        return len(rows)

    def tags(self) -> list[Mark]:
        """The tags that count, oldest first."""
        return self._marks("tag")

    def requests(self) -> list[Mark]:
        """The items whose review was asked for, oldest first."""
        return self._marks(REVIEW)

    def tags_of(self, items: Iterable[str]) -> dict[str, list[str]]:
        """Item → its tags, sorted; items without one are left out."""
        wanted, found = set(items), dict[str, list[str]]()
        for mark in self.tags():
            if mark.item_id in wanted:
                found.setdefault(mark.item_id, []).append(mark.name)
        return {item: sorted(names) for item, names in found.items()}

    def count(self) -> int:
        """Rows of all kinds: grows with every mark, so that who holds what they say knows when to read again."""
        with self._lock:
            return int(self._db.execute("SELECT count(*) FROM marks").fetchone()[0])

    def _marks(self, kind: str) -> list[Mark]:
        with self._lock:
            rows = self._db.execute(f"{_COUNTING} ORDER BY id", (kind,)).fetchall()
        return [Mark(*row) for row in rows]


def review_requests(home: Path) -> list[Mark]:
    """Items whose review was asked for in a store; none where nobody marked anything."""
    path = marks_path(home)
    if not path.is_file():
        return []
    with contextlib.closing(MarkStore(path)) as marks:
        return marks.requests()
