"""Native units of a source, counted in each part and added up: the same however its files were cut and joined."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pipelines.store import PartResult

DAMAGES_NAMED = 20
"""Damaged files that the counts of a part, and of a source, name: the first ones."""


class FileLook(NamedTuple):
    """What reading a native file, or a piece of it, found."""

    file: str
    read: bool
    """A record of it could be read."""
    broken: str | None
    """Why the first record that couldn't be read couldn't."""
    ends: str | None
    """Why the file couldn't be read on."""

    @property
    def damage(self) -> str | None:
        """Why it counts as damaged: it can't be read to its end, or none of its records can."""
        return self.ends or (self.broken if not self.read else None)

    def joined(self, after: "FileLook") -> "FileLook":
        """With the next piece of the file."""
        return FileLook(self.file, self.read or after.read, self.broken or after.broken, self.ends or after.ends)


@dataclass
class Counts:
    """Native units of one part: records and items, in and out."""

    records_in: int = 0
    records_mapped: int = 0
    items_in: int = 0
    items_mapped: int = 0
    items_quarantined: int = 0
    records_quarantined: int = 0
    images_missing: int = 0
    images_broken: int = 0
    texts_cleaned: int = 0
    """Texts of rows out of which U+0000 was left."""
    files: int = 0
    damaged_files: int = 0
    """Native files that can't be read to their end, or of which no record could be read."""
    damages: Counter[str] = field(default_factory=Counter)
    """`<file>: <reason>` of some of them."""
    actions: Counter[str] = field(default_factory=Counter)
    """Action type → steps."""
    reasons: Counter[str] = field(default_factory=Counter)
    losses: Counter[str] = field(default_factory=Counter)
    piece: list[Any] = field(default_factory=list)
    """What is known of the only file by its piece, as `FileLook` has it."""

    def add_files(self, looks: Sequence[FileLook], *, whole: bool) -> None:
        """Count native files that were read; of one that was read in a piece, all pieces together say what it is."""
        # A piece alone can't tell whether its file is damaged (another piece may have been read):
        # `sum_counts` joins them.
        if not whole:
            self.piece = list(looks[0])
            return
        named = [f"{look.file}: {why}" for look in looks if (why := look.damage) is not None]
        self.files += len(looks)
        self.damaged_files += len(named)
        self.damages.update(sorted(named)[:DAMAGES_NAMED])

    def plain(self) -> dict[str, Any]:
        """For a receipt."""
        return {name: dict(value) if isinstance(value, Counter) else value for name, value in vars(self).items()}


def sum_counts(results: Iterable[PartResult]) -> dict[str, Any]:
    """Counts of parts, in order, added up; those by name are added name by name."""
    total: dict[str, Any] = {}
    files: dict[str, FileLook] = {}
    # Results come in the order of parts, so the pieces of a file are joined in the order in which they lie in
    # it.
    for result in results:
        counts = dict(result.counts)
        if piece := counts.pop("piece", None):
            look = FileLook(*piece)
            files[look.file] = files[look.file].joined(look) if look.file in files else look
        _add(total, counts)
    if files:
        whole = Counts()
        whole.add_files(list(files.values()), whole=True)
        _add(total, whole.plain())
    # The first names of all parts together, not of each part: the same however files were cut.
    if "damages" in total:
        total["damages"] = dict(sorted(total["damages"].items())[:DAMAGES_NAMED])
    total.pop("piece", None)
    return total


def _add(total: dict[str, Any], counts: dict[str, Any]) -> None:
    for name, value in counts.items():
        if isinstance(value, dict):
            total[name] = dict(Counter(total.get(name, {})) + Counter(value))
        else:
            # An empty value of the same type: numbers start at 0, lists at [].
            total[name] = total.get(name, type(value)()) + value


def report(total: dict[str, Any]) -> dict[str, Any]:
    """The counts of all parts as the manifest of a source has them."""
    losses: dict[str, dict[str, int]] = {}
    for joined, number in sorted(total["losses"].items()):
        # From the right: a word of a dataset may hold the sign itself.
        word, _, status = joined.rpartition("|")
        losses.setdefault(word, {})[status] = number
    return {**total, "reasons": dict(sorted(total["reasons"].items())), "losses": losses}
