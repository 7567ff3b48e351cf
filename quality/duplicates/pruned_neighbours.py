"""Candidates for pairs with cosine >= T among many vectors: whatever a proven bound can't exclude.

Two bounds, both for unit vectors x, y and an angle t = arccos T:

1. *Cauchy-Schwarz on a head.* Let V have k orthonormal columns (the first principal axes), h(x) = V'x the head and
   r(x) = sqrt(1 - |h(x)|^2) the length of what the head leaves over. Then x.y = h(x).h(y) + (x - Vh(x)).(y - Vh(y))
   <= h(x).h(y) + r(x) r(y). With x* = (h(x), r(x)), a unit vector of k + 1 numbers, this reads x.y <= x*.y*:
   a pair with x*.y* < T is no pair. k is chosen on a seeded sample, for speed only.
2. *Triangle inequality on angles.* For any unit c: angle(x*, y*) >= angle(y*, c) - angle(x*, c). Vectors lie in cells
   around centres; of a chunk with centre c and radius R (its largest angle to c) no x pairs with a y of
   angle(y*, c) > R + t.

Rounding, with u = 2**-24 (float32). x* is computed in float64 and rounded once, so it is off by at most u in length. A
float32 product of n terms, in whatever order and with or without fused steps, is off by at most n u / (1 - n u) times
the product of the lengths. Hence a computed x*.y* is off by less than (k + 1 + 4) u, and so is a cosine to a centre.
`slack` exceeds that by 3 u, enough for a threshold that is rounded to float32 too: x*.y* is held against T - slack, R
is the angle of a cosine smaller by slack, and y is skipped if its cosine is below cos(R + t) - slack. r(x) is rounded
up by more than float64 can err (1e-12 under the root), so x*.y* never falls short for that, and t is taken a little
larger for it. The last check here, a float32 product of the whole vectors, has n = d and allows lengths of 1 +- `UNIT`.
What is left is decided elsewhere, in float64.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

UNIT = 1e-6
"""Rows whose length is farther from 1 are scaled, in a copy. Rows of zeros have no cosine and are left out."""
HEADS = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
SAMPLE = 4096
CHUNK = 512
RING = np.radians(10)
"""A cell is cut into rings of this width around its centre, and a ring into chunks of at most CHUNK vectors."""
LARGEST_CENTRES = 1024
TARGETS = 8192
"""Vectors that a chunk is compared with at a time: bounds the memory to a matrix of CHUNK x TARGETS."""
ROUNDS = 6
GATHERED = 20_000
"""What a single candidate costs beside one multiplication of a matrix product; for speed only."""


@dataclass(frozen=True, slots=True)
class Chunks:
    """Vectors in order of their chunks; chunk n holds the positions starts[n]..starts[n + 1]."""

    rows: np.ndarray
    """Position → row of the caller's vectors, int64."""
    heads: np.ndarray
    """x* by position, float32 [positions, k + 1]."""
    starts: np.ndarray
    cells: np.ndarray
    """The cell of each chunk."""
    radii: np.ndarray
    """Upper bound of the angle of a chunk's vectors to the centre of its cell, radians."""


def slack(terms: int) -> float:
    """More than a float32 product of so many terms of two unit vectors, each rounded once, can be off."""
    return (terms + 8) * 2.0**-24 * 1.01 + 1e-9


def candidates(vectors: np.ndarray, threshold: float, new_from: int = 0) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Pairs (i, j), i < j, new_from <= j, in blocks: all whose cosine reaches the threshold, each once, and few others.

    `vectors` is float32 [n, d]. The blocks come in no useful order. Raises `ValueError` for vectors that aren't finite
    and for a threshold that isn't above 0.
    """
    if not threshold > 0:
        raise ValueError(f"neighbours: expected a threshold above 0, found {threshold!r}")
    unit, alive = _unit(vectors)
    if not len(alive) or alive[-1] < new_from:
        return
    # Seeded: bounds are right for any centres, but the time shouldn't vary between runs.
    rng = np.random.default_rng(0)
    sample = unit[np.sort(rng.choice(alive, min(SAMPLE, len(alive)), replace=False))]
    axes = _axes(sample, threshold)
    heads = _heads(unit, axes)
    # Centres are for both sets, so that a chunk can be compared with either.
    centres = _centres(heads, alive, rng)
    old = _chunks(heads, alive[alive < new_from], centres)
    new = _chunks(heads, alive[alive >= new_from], centres)
    del heads
    for targets in (old, new):
        for start in range(0, len(targets.rows), TARGETS):
            yield from _block(unit, threshold, new, targets, start, centres)


def _unit(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(vectors of length 1 +- UNIT, rows that have a length)."""
    lengths = np.empty(len(vectors))
    for start in range(0, len(vectors), TARGETS):
        block = vectors[start : start + TARGETS].astype(np.float64)
        # In double precision, as lengths decide whether rows are scaled.
        lengths[start : start + TARGETS] = np.sqrt((block * block).sum(axis=1))
    if not np.isfinite(lengths).all():
        raise ValueError(f"neighbours: row {int(np.argmin(np.isfinite(lengths)))} isn't finite")
    alive = np.flatnonzero(lengths > 0)
    if (np.abs(lengths[alive] - 1) <= UNIT).all():
        return np.ascontiguousarray(vectors, np.float32), alive
    scaled = np.zeros(vectors.shape, np.float32)
    for start in range(0, len(alive), TARGETS):
        part = alive[start : start + TARGETS]
        scaled[part] = vectors[part].astype(np.float64) / lengths[part, None]
    return scaled, alive


def _axes(sample: np.ndarray, threshold: float) -> np.ndarray:
    """V: principal axes (about the origin) of a sample, float64 [d, k]; k by the cost that the sample lets expect."""
    whole = sample.astype(np.float64)
    # eigh gives the smallest first.
    _, axes = np.linalg.eigh(whole.T @ whole)
    axes = axes[:, ::-1]
    turned = whole @ axes
    half = len(turned) // 2
    # Two halves of the sample, so that no vector meets itself.
    left, right = turned[:half][:1024], turned[half : 2 * half][:1024]
    dimension = axes.shape[1]
    best, least = dimension, float(dimension + 16)
    for k in HEADS:
        if k >= dimension or not half:
            break
        rest = [np.sqrt(np.maximum(1 - (side[:, :k] ** 2).sum(axis=1), 0)) for side in (left, right)]
        bound = left[:, :k] @ right[:, :k].T + np.outer(*rest)
        # A product of k terms, some overhead, and what the candidates cost that the bound lets through.
        cost = k + 16 + min(GATHERED * float((bound >= threshold).mean()), 1.5 * dimension)
        if cost < least:
            best, least = k, cost
    return axes[:, :best]


def _heads(unit: np.ndarray, axes: np.ndarray) -> np.ndarray:
    """x* of all rows."""
    built = np.empty((len(unit), axes.shape[1] + 1), np.float32)
    for start in range(0, len(unit), TARGETS):
        block = unit[start : start + TARGETS].astype(np.float64)
        lengths = np.sqrt((block * block).sum(axis=1, keepdims=True))
        head = np.divide(block, lengths, out=np.zeros_like(block), where=lengths > 0) @ axes
        built[start : start + TARGETS, :-1] = head
        # Rounded up (1e-12): the rest must never come out too short, or a pair would be missed.
        built[start : start + TARGETS, -1] = np.sqrt(np.maximum(1 - (head * head).sum(axis=1), 0) + 1e-12)
    return built


def _centres(heads: np.ndarray, alive: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Unit centres of cells by k-means on a sample, float32 [cells, k + 1]."""
    cells = int(np.clip(len(alive) // CHUNK, 1, LARGEST_CENTRES))
    sample = heads[np.sort(rng.choice(alive, min(len(alive), 32 * cells), replace=False))]
    centres = sample[np.sort(rng.choice(len(sample), cells, replace=False))]
    for _ in range(ROUNDS):
        nearest, _ = _nearest(sample, centres)
        sums = np.zeros(centres.shape)
        np.add.at(sums, nearest, sample)
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        # A cell whose vectors cancel out keeps its old centre.
        centres = np.where(lengths > 0.5, sums / np.maximum(lengths, 0.5), centres).astype(np.float32)
    return np.asarray(centres)


def _nearest(heads: np.ndarray, centres: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the nearest centre of each vector, its cosine)."""
    cell, cosine = np.empty(len(heads), np.int64), np.empty(len(heads), np.float32)
    for start in range(0, len(heads), TARGETS):
        cut = slice(start, start + TARGETS)
        products = heads[cut] @ centres.T
        cell[cut] = products.argmax(axis=1)
        cosine[cut] = products[np.arange(len(products)), cell[cut]]
    return cell, cosine


def _chunks(heads: np.ndarray, rows: np.ndarray, centres: np.ndarray) -> Chunks:
    """Rows by cell, in a cell from its centre outwards, in chunks of at most CHUNK."""
    cell, cosine = _nearest(heads[rows], centres)
    ring = (np.arccos(np.clip(cosine, -1, 1)) / RING).astype(np.int64)
    # Within a cell from the centre outwards, so that a chunk's radius is small.
    order = np.lexsort((rows, -cosine, ring, cell))
    rows, cell, cosine, ring = rows[order], cell[order], cosine[order], ring[order]
    edges = np.flatnonzero((np.diff(cell) != 0) | (np.diff(ring) != 0)) + 1
    bounds = zip([0, *edges.tolist()], [*edges.tolist(), len(rows)], strict=True)
    # Cut where the cell or the ring changes, and at most CHUNK vectors.
    starts = np.array([*(cut for first, last in bounds for cut in range(first, last, CHUNK)), len(rows)], np.int64)
    farthest = np.minimum.reduceat(cosine, starts[:-1]) if len(rows) else cosine
    # The smallest cosine of a chunk, less what rounding can hide, is its radius.
    radii = np.arccos(np.clip(farthest.astype(np.float64) - slack(heads.shape[1]), -1, 1))
    return Chunks(rows, heads[rows], starts, cell[starts[:-1]], radii)


def _block(
    unit: np.ndarray, threshold: float, new: Chunks, targets: Chunks, start: int, centres: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Candidates of all chunks of `new` among the TARGETS vectors of `targets` from position `start` on."""
    heads = targets.heads[start : start + TARGETS]
    rows = targets.rows[start : start + TARGETS]
    margin = slack(heads.shape[1])
    reach = float(np.arccos(np.clip(threshold - 1e-11, -1, 1))) + 1e-9
    # Angles beyond pi don't exist; cos of more would grow again.
    least = (np.cos(np.minimum(new.radii + reach, np.pi)) - margin - 1e-9).astype(np.float32)
    cosines = centres @ heads.T
    # Chunks whose cell has any vector of the block within reach.
    met = cosines.max(axis=1)[new.cells] >= least
    # Among the new ones themselves a chunk that begins behind the block has no later position in it.
    if targets is new:
        met &= new.starts[:-1] < start + TARGETS
    for chunk in np.flatnonzero(met):
        own = slice(new.starts[chunk], new.starts[chunk + 1])
        near = np.flatnonzero(cosines[new.cells[chunk]] >= least[chunk])
        # Only later positions: each pair is met from its first.
        if targets is new and own.start >= start:
            near = near[near > own.start - start]
        bound = new.heads[own] @ heads[near].T
        left, right = np.divmod(np.flatnonzero(bound >= np.float32(threshold - margin)), max(len(near), 1))
        if targets is new:  # each pair once
            later = near[right] + start > left + own.start
            left, right = left[later], right[later]
        if len(left):
            yield from _whole(unit, threshold, new.rows[own], rows[near], left, right)


def _whole(
    unit: np.ndarray, threshold: float, rows: np.ndarray, others: np.ndarray, left: np.ndarray, right: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Of candidates (rows[left], others[right]) those whose whole product reaches the threshold in float32."""
    dimension = unit.shape[1]
    least = np.float32(threshold - slack(dimension) - 3 * UNIT)
    used, mine = np.unique(left, return_inverse=True)
    met, theirs = np.unique(right, return_inverse=True)
    # By the costs above: many candidates of few rows are a matrix product, few of many are single products.
    if len(left) * GATHERED > len(used) * len(met) * dimension:  # so dense that the product of all is cheaper
        products = (unit[rows[used]] @ unit[others[met]].T)[mine, theirs]
    else:
        products = np.empty(len(left), np.float32)
        for start in range(0, len(left), TARGETS):
            cut = slice(start, start + TARGETS)
            products[cut] = np.einsum("nd,nd->n", unit[rows[left[cut]]], unit[others[right[cut]]])
    retained = products >= least
    i, j = rows[left[retained]], others[right[retained]]
    yield np.minimum(i, j), np.maximum(i, j)
