"""Texts that say the same: near by their vectors, and nothing that vectors are deaf to stands against it.

Everything that decides by the cosine of two texts whether one of them is superfluous decides here, so that none forgets
what embeddings don't hear (`quality.evidence.meaning`), nor what they can't read (`foreign_texts`). Vectors that only
rank (demonstrations for a prompt) or that a trained head weighs (the nano judge) come from `Embedder.encode` directly.
"""

from collections.abc import Sequence

import numpy as np

from quality.duplicates.foreign_texts import apart, characters, foreign, spelled_alike, understood
from quality.duplicates.neighbours import cosines, similar_pairs
from quality.evidence.embedding import Embedder, normalise
from quality.evidence.meaning import VERSION as MEANING_VERSION

__all__ = ["VERSION", "DistinctTexts", "alike_pairs", "similarities"]

VERSION = f"{MEANING_VERSION}.1"
"""Goes into the code version of all that drops a text for another."""


def similarities(pairs: Sequence[tuple[str, str]], embedder: Embedder) -> np.ndarray:
    """Float64 [n]: the cosine of each pair of texts, 1 for equal ones, 0 where the two can't mean the same.

    Only texts that may mean the same are embedded."""
    values = np.ones(len(pairs))
    listed = [(normalise(left), normalise(right)) for left, right in pairs]
    open_pairs = []
    for place, (left, right) in enumerate(listed):
        # Equal as they are written: nothing to embed, and certainly one.
        if left == right or spelled_alike(left, right):
            continue
        # Cheaper than embedding, so it comes first.
        if apart(left, right, embedder):
            values[place] = 0.0
        else:
            open_pairs.append(place)
    texts = sorted({text for place in open_pairs for text in listed[place]})
    vectors = embedder.encode(texts)
    row = {text: number for number, text in enumerate(texts)}
    if open_pairs:
        first, second = ([row[listed[place][side]] for place in open_pairs] for side in (0, 1))
        values[open_pairs] = cosines(vectors[first], vectors[second])
    return values


def alike_pairs(
    texts: Sequence[str], threshold: float, embedder: Embedder, *, new_from: int = 0, most: int | None = None
) -> list[tuple[int, int, float]]:
    """All (i, j, similarity), i < j, of texts that say the same: similarity >= threshold, sorted.

    Texts before `new_from` aren't compared among themselves. Raises `TooManyPairs` for more than `most`."""
    # What the encoder can't read has no vector worth comparing.
    readable = [n for n, text in enumerate(texts) if understood(text, embedder).readable]

    def believed(left: np.ndarray, right: np.ndarray) -> np.ndarray:
        chosen = zip(left.tolist(), right.tolist(), strict=True)
        named = ((texts[readable[i]], texts[readable[j]]) for i, j in chosen)
        # Equal spelling is found below, once; here it would be a pair twice.
        return np.array([not (spelled_alike(one, two) or apart(one, two, embedder)) for one, two in named], bool)

    found: list[tuple[int, int, float]] = []
    if readable:
        first = sum(n < new_from for n in readable)
        vectors = embedder.encode([texts[n] for n in readable])
        near = similar_pairs(vectors, threshold, new_from=first, most=most, believed=believed)
        found = [(readable[i], readable[j], float(value)) for i, j, value in zip(*near, strict=True)]
    same: dict[str, list[int]] = {}
    for place, text in enumerate(texts):  # equal but for how they are written
        if foreign(text) and (spelled := characters(text)):
            earlier = same.setdefault(spelled, [])
            found += [(other, place, 1.0) for other in earlier if place >= new_from]
            earlier.append(place)
    return sorted(found)


class DistinctTexts:
    """Texts no two of which say the same: grows by what is new."""

    def __init__(self, embedder: Embedder, epsilon: float, texts: Sequence[str] = ()) -> None:
        self.epsilon = epsilon
        self._embedder = embedder
        self.texts = list(texts)
        self._vectors = embedder.encode(self.texts) if self.texts else np.zeros((0, 0), np.float32)

    def admit_all(self, texts: Sequence[str]) -> list[tuple[bool, float, str]]:
        """For each text in turn: whether it is new, and was taken in; its largest similarity; to which text.

        The similarity is -1 where there is no text that could mean the same."""
        found = []
        for text, vector in zip(texts, self._embedder.encode(texts), strict=True):
            # Against those taken in so far, so a text is compared with earlier ones of the same call, too.
            value, place = self._nearest(text, vector, len(self.texts))
            found.append((value < self.epsilon, value, self.texts[place] if place >= 0 else ""))
            if value < self.epsilon:
                self._vectors = np.concatenate([self._vectors, vector[None, :]]) if self.texts else vector[None, :]
                self.texts.append(text)
        return found

    def closest_pair(self, first: int = 0) -> float:
        """Largest similarity of any two texts, one of them at least from place `first` on, by brute force; -1 where
        there are no two that could mean the same."""
        places = range(max(first, 1), len(self.texts))
        return max((self._nearest(self.texts[n], self._vectors[n], n)[0] for n in places), default=-1.0)

    def _nearest(self, text: str, vector: np.ndarray, among: int) -> tuple[float, int]:
        """(similarity, place) of the nearest of the first `among` texts that may mean the same; (-1, -1) if none."""
        near = self._vectors[:among] @ vector if among else np.zeros(0)  # float32 orders them, float64 decides
        # The nearest that may mean the same: what conflicts is passed over, however near it is.
        for place in np.argsort(-near, kind="stable").tolist():
            if spelled_alike(text, self.texts[place]):
                return 1.0, place
            if not apart(text, self.texts[place], self._embedder):
                return float(cosines(self._vectors[place : place + 1], vector[None, :])[0]), place
        return -1.0, -1
