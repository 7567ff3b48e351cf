"""Items of one key by their texts: equal ones are a class, and of classes it is said which are alike.

A corpus repeats itself: k equal items make k(k-1)/2 pairs, which nobody reads. So items are never paired: each distinct
text of a key is compared once, and a class knows its owner, the first of its members in the total order of `keep`. What
comes out depends on the items alone, in whatever order they are given.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import combinations

from quality.duplicates.same_text import similarities
from quality.evidence.embedding import Embedder, normalise
from schemas.ids import digest


@dataclass(frozen=True, slots=True)
class DuplicateCandidate:
    """An episode or sample as far as duplicates are concerned."""

    id: str
    source: str
    platform: str
    text: str
    key: str
    score: int | None = None
    priority: int = 0
    episodes: tuple[str, ...] = ()
    """Of a sample: the episodes it was derived from."""

    @property
    def order(self) -> tuple[int, int, str]:
        """The total order of `keep`: a lower priority number, then a higher score, then the id."""
        # An item that nobody judged comes after every judged one.
        return self.priority, -(self.score if self.score is not None else -1), self.id

    @property
    def text_id(self) -> str:
        """Texts are compared within a platform, so the platform is part of their identity."""
        return digest([self.platform, normalise(self.text)])[:32]


@dataclass(frozen=True)
class ItemClasses:
    """Classes are numbered; `members` are in the order of `keep`, so that the first is the owner."""

    members: tuple[tuple[str, ...], ...]
    of: Mapping[str, int]
    """Item → its class."""
    alike: Mapping[tuple[int, int], float]
    """(lower class, higher class) → similarity of their texts, where it reaches the threshold."""

    def similarity(self, one: str, two: str) -> float | None:
        """Of two items: 1 within a class, that of alike classes; None for items that are no duplicates."""
        left, right = sorted((self.of[one], self.of[two]))
        return 1.0 if left == right else self.alike.get((left, right))

    def pairs(self) -> Iterator[tuple[str, str, float]]:
        """(left, right, similarity), left < right: each item beside its class's owner, and owners of alike ones."""
        for owner, *others in self.members:
            yield from ((*_sorted(owner, other), 1.0) for other in others)
        for (left, right), value in self.alike.items():
            yield (*_sorted(self.members[left][0], self.members[right][0]), value)

    def pairs_among(self, items: AbstractSet[str]) -> int:
        """How many pairs of duplicates there are among some items."""
        left = [sum(item in items for item in members) for members in self.members]
        # Pairs of a class among those left, and for two alike classes each with each.
        return sum(n * (n - 1) // 2 for n in left) + sum(left[a] * left[b] for a, b in self.alike)


def item_classes(items: Sequence[DuplicateCandidate], threshold: float, embedder: Embedder) -> ItemClasses:
    """Items → their classes; alike are those of one platform and key whose texts' similarity is at least `threshold`.
    Only texts that meet another are embedded."""
    keys: dict[tuple[str, str], dict[str, list[DuplicateCandidate]]] = {}
    # In the order of `keep`, so the first member of a class is its owner.
    for item in sorted(items, key=lambda item: item.order):
        texts = keys.setdefault((item.platform, item.key), {})
        texts.setdefault(normalise(item.text), []).append(item)
    members: list[tuple[str, ...]] = []
    candidates: list[tuple[tuple[int, str], tuple[int, str]]] = []
    for key in sorted(keys):
        first = len(members)
        members += [tuple(item.id for item in keys[key][text]) for text in sorted(keys[key])]
        # Every two texts of one key: keys are narrow, so these are few.
        candidates += combinations(zip(range(first, len(members)), sorted(keys[key]), strict=True), 2)
    values = similarities([(one, two) for (_, one), (_, two) in candidates], embedder).tolist()
    alike = {
        (left, right): float(value)
        for ((left, _), (right, _)), value in zip(candidates, values, strict=True)
        # Rounded as the cosines are, or a threshold like 0.8 would miss by its last bit.
        if value >= round(threshold, 12)
    }
    return ItemClasses(tuple(members), {name: n for n, names in enumerate(members) for name in names}, alike)


def _sorted(one: str, two: str) -> tuple[str, str]:
    return (one, two) if one < two else (two, one)
