"""Ids of records: the first of a name keeps it, an exact repeat goes, other content gets the name with a suffix.

128-bit digests in numpy arrays stand for the names and contents, 32 bytes a record, so that a million records cost
32 MB. Within a part `RecordIds` decides as the records come; across parts `across_parts` decides
from the digests alone, and tells each part which of its records (by number) must change.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xxhash

REPEAT, OTHER = "repeat", "other"
_Row = tuple[bytes, bytes]
"""(digest of the name, digest of the content)"""


def name_digest(native_id: str) -> bytes:
    """16 bytes that stand for a name. A fast hash (XXH3) serves: it isn't read back, and to be taken for a repeat
    a record's content would have to meet another's as well."""
    return xxhash.xxh3_128_digest(native_id.encode("utf-8", "backslashreplace"))


def _name_digests(native_ids: Sequence[str]) -> list[bytes]:
    """`name_digest` of many."""
    # Both maps run in C: names are most of what a batched part hashes.
    try:
        return list(map(xxhash.xxh3_128_digest, map(str.encode, native_ids)))
    except UnicodeEncodeError:  # a lone surrogate among them
        return list(map(name_digest, native_ids))


class _Name:
    """Contents that were met under one name."""

    def __init__(self) -> None:
        self._contents: set[bytes] = set()

    def decide(self, content: bytes) -> str | None:
        """None: the first of its name; `REPEAT`: met before; `OTHER`: new content under a name that is taken."""
        if content in self._contents:
            return REPEAT
        self._contents.add(content)
        return OTHER if len(self._contents) > 1 else None


class RecordIds:
    """The records of one part, in order. `decided` are the decisions taken across parts, by the record's number."""

    def __init__(self, decided: Mapping[int, str] | None = None) -> None:
        self._decided = decided or {}
        self._rows: list[np.ndarray] = []
        self._keys = np.zeros(0, np.uint64)
        self._count = 0
        self._sizes: list[int] = []

    def end_group(self) -> None:
        """All records of a group of files were checked."""
        self._sizes.append(self._count - sum(self._sizes))

    def check(self, native_ids: Sequence[str], contents: Sequence[bytes]) -> dict[int, str]:
        """The next records → {place in this call: `REPEAT` or `OTHER`} of those that don't keep their name."""
        if not native_ids:
            return {}
        if len(native_ids) != len(contents):
            raise ValueError(f"{len(native_ids)} names, {len(contents)} contents: expected equal numbers")
        # Four words of 64 bits a record: two of the name, two of the content.
        packed = b"".join(itertools.chain.from_iterable(zip(_name_digests(native_ids), contents, strict=True)))
        rows = np.frombuffer(packed, np.uint64).reshape(-1, 4)
        # Half a digest finds candidates fast; a false one is only looked at more closely in `_replayed`.
        keys = rows[:, 0]
        met = self._met(keys)
        found = self._replayed(rows, met) if met.any() else {}
        first = self._count
        # Decisions across parts know more than this part does, so they go over its own.
        for number, decision in self._decided.items():
            if first <= number < first + len(rows):
                found[number - first] = decision
        self._rows.append(rows)
        # Each array at least as long as the next: few to go through where records come one by one and names repeat, and
        # each row is copied a few times.
        while len(self._rows) > 1 and len(self._rows[-1]) >= len(self._rows[-2]):
            last = self._rows.pop()
            self._rows[-1] = np.concatenate([self._rows[-1], last])
        # Kept sorted for the binary search; contents aren't needed unless a name is met again.
        self._keys = np.sort(np.concatenate([self._keys, keys]), kind="stable")
        self._count += len(rows)
        return found

    def _met(self, keys: np.ndarray) -> np.ndarray:
        """Which keys stood before, or stand in this call more than once."""
        known = np.zeros(len(keys), bool)
        if len(self._keys):
            place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
            known = self._keys[place] == keys
        # Repeats within this call: neighbours, once sorted.
        if len(keys) > 1:
            order = np.argsort(keys, kind="stable")
            same = keys[order][1:] == keys[order][:-1]
            known[order[1:][same]] = known[order[:-1][same]] = True
        return known

    def _replayed(self, rows: np.ndarray, met: np.ndarray) -> dict[int, str]:
        """Decisions for rows whose names were met, by going through all records of these names again."""
        # Names repeat rarely, so going through everything again costs less than a dict of a million names.
        wanted = np.unique(rows[met, 0])
        names: dict[bytes, _Name] = {}
        for earlier in self._rows:
            for row in earlier[np.isin(earlier[:, 0], wanted)]:
                name, content = _split(row)
                names.setdefault(name, _Name()).decide(content)
        found = {}
        for place in np.flatnonzero(met).tolist():
            name, content = _split(rows[place])
            decision = names.setdefault(name, _Name()).decide(content)
            if decision is not None:
                found[place] = decision
        return found

    def dump(self) -> bytes:
        """All digests, 32 bytes a record, behind the number of groups and the records of each: what `across_parts`
        reads."""
        head = np.array([len(self._sizes), *self._sizes], np.uint64)
        return head.tobytes() + b"".join(rows.tobytes() for rows in self._rows)


def _split(row: np.ndarray) -> _Row:
    packed = row.tobytes()
    return packed[:16], packed[16:]


_Place = tuple[int, int]
"""Where a group of files, or a piece of one, stands among all of its source."""


def across_parts(files: Sequence[Path | None], places: Sequence[Sequence[_Place]]) -> dict[int, dict[int, str]]:
    """Dumps of all parts → {part: {number of the record: `REPEAT` or `OTHER`}} where names meet across parts.

    The first record of a name keeps it, in the order of `places`, which has one of each group of each part: so it is
    the same one whichever groups make up a part. Decisions that a part takes by itself are left out.
    """
    # By where groups stand in the adapter's list, not by part: joining files otherwise must not change who
    # was first.
    groups = sorted(_groups(files, places), key=lambda group: group.place)
    # A key that stands in two places at all, within a part or across; the others can't collide.
    keys = np.sort(np.concatenate([np.zeros(0, np.uint64), *(group.rows[:, 0] for group in groups)]))
    shared = np.unique(keys[1:][keys[1:] == keys[:-1]])
    if not shared.size:
        return {}
    names: dict[bytes, _Name] = {}
    alone: dict[tuple[int, bytes], _Name] = {}
    found: dict[int, dict[int, str]] = {}
    for group in groups:
        for row in np.flatnonzero(np.isin(group.rows[:, 0], shared)).tolist():
            name, content = _split(group.rows[row])
            # Two sets of books: what all parts together say, and what this part said when it was alone.
            decision = names.setdefault(name, _Name()).decide(content)
            by_itself = alone.setdefault((group.part, name), _Name()).decide(content)
            # Only a difference makes a part run again; what it decided by itself is written already.
            if decision is not None and decision != by_itself:
                found.setdefault(group.part, {})[group.first + row] = decision
    return found


@dataclass(frozen=True, slots=True)
class _GroupIds:
    place: _Place
    part: int
    first: int
    """Number of its first record within the part."""
    rows: np.ndarray


def _groups(files: Sequence[Path | None], places: Sequence[Sequence[_Place]]) -> Iterator[_GroupIds]:
    for part, (file, of_part) in enumerate(zip(files, places, strict=True)):
        held = np.fromfile(file, np.uint64) if file else np.zeros(1, np.uint64)
        sizes = held[1 : 1 + int(held[0])].astype(int).tolist()
        # Two numbers of 8 bytes each for name and content: four columns.
        rows, first = held[1 + len(sizes) :].reshape(-1, 4), 0
        # A part without a dump has no sizes, so strictness would only complain about nothing.
        for place, size in zip(of_part, sizes, strict=file is not None):
            yield _GroupIds(place, part, first, rows[first : first + size])
            first += size
