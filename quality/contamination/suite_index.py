"""All evaluation fingerprints at once, and what of some training pictures and texts they match.

One index serves the search for contamination (`quality.contamination.contamination`) and the scan of the packed shards
(`quality.contamination.shard_scan`): both must judge alike, but they read different things.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.store import Manifest, Store, StoreError
from quality.contamination.fingerprints import PICTURES, Items, asset_of
from quality.contamination.text_prints import APP_WEIGHT, CONTAINMENT, COSINE, TEXT_WEIGHT, TextPrint, shingles
from quality.contamination.text_prints import VERSION as TEXT_VERSION
from quality.duplicates.looks import VERSION as LOOK_VERSION
from quality.duplicates.looks import PictureLook, one_screen
from quality.duplicates.neighbours import cosines
from quality.duplicates.screen_hashes import hamming, near_pairs
from quality.evidence.embedding import EMBEDDED, Embedder
from quality.evidence.meaning import Meaning, conflict
from quality.evidence.words import holds, plain
from schemas.coordinates import contains, iou
from schemas.ids import digest

KINDS = ("image", "phash", "ngram", "embedding")
PHASH_RADIUS = 6
"""Bits between perceptual hashes that make a candidate; the pictures decide (`quality.duplicates.looks`)."""
PLACE_RADIUS = 12
"""Bits that are allowed where the words and the place on the screen are the same too."""
VECTOR_BLOCK = 2048


def settings() -> dict[str, object]:
    """What counts as evaluation data, for a config hash: the thresholds, and the versions of the ways of comparing."""
    return {
        "phash_radius": PHASH_RADIUS,
        "place_radius": PLACE_RADIUS,
        "text_weight": TEXT_WEIGHT,
        "app_weight": APP_WEIGHT,
        "containment": CONTAINMENT,
        "cosine": COSINE,
        "model": EMBEDDED,
        "texts": TEXT_VERSION,
        "looks": LOOK_VERSION,
    }


@dataclass(frozen=True, slots=True)
class SuiteMatch:
    """A suite's item that something matches. `measure`: bits for phash, else a similarity in 0..1."""

    suite: str
    item: str
    kind: str
    measure: float
    threshold: float


@dataclass(frozen=True, slots=True)
class TrainingText:
    """A training text and what is known beside it: app, the picture's hash and shape, the target in 0..1000."""

    text: TextPrint
    app: str | None = None
    phash: int | None = None
    shape: float | None = None
    boxes: tuple[tuple[float, ...], ...] = ()
    point: tuple[float, float] | None = None


class LookSource(Protocol):
    """Where looks of training pictures come from: `quality.duplicates.looks.LookBook`, or the pictures of a shard."""

    def get(self, shas: Iterable[str]) -> dict[str, PictureLook]:
        """Looks by sha256; a picture that can't be read has none."""


def stored_suites(store: Store) -> list[str]:
    """Suites that have fingerprints in the store, sorted."""
    root = store.home / "assets" / "fingerprints"
    return sorted(path.parent.name for path in root.glob("*/current.json"))


_pinned: "dict[tuple[Path, str], SuiteIndex]" = {}


def pinned_index(home: Path, suites: Sequence[str], identity: str) -> "SuiteIndex":
    """The index of a store whose identity has this digest, built once a process. Raises `StoreError` if the
    fingerprints there have changed since."""
    # One a process: reading all fingerprints takes longer than most parts.
    if (home, identity) not in _pinned:
        index = SuiteIndex(Store(home), suites)
        # A worker may start later than the driver read them.
        if digest(index.identity) != identity:
            raise StoreError(f"{home}: fingerprints of suites changed while parts were held against them; run it again")
        pin(home, index)
    return _pinned[home, identity]


def pin(home: Path, index: "SuiteIndex") -> str:
    """Have parts that this process runs find the index; returns the digest of its identity."""
    identity = digest(index.identity)
    _pinned.clear()
    _pinned[home, identity] = index
    return identity


class SuiteIndex:
    """Fingerprints of the given suites and of all others that the store has: what is known of is always held against.

    `present` and `absent` say which of them there are.
    """

    def __init__(self, store: Store, suites: Sequence[str]) -> None:
        # Also those that nobody named: what has fingerprints is always held against.
        names = list(dict.fromkeys([*suites, *stored_suites(store)]))
        found = {suite: store.current(asset_of(suite)) for suite in names}
        self.manifests: dict[str, Manifest] = {suite: m for suite, m in found.items() if m is not None}
        self.present = list(self.manifests)
        self.absent = [suite for suite in names if suite not in self.manifests]
        self._embedder = Embedder(cache=store.home / "cache" / "embeddings")
        self._items: list[dict[str, Any]] = []
        self._places: dict[tuple[str, str], int] = {}
        self._exact: dict[str, list[int]] = {}
        self._runs: dict[int, list[int]] = {}
        self._of_picture: dict[str, list[int]] = {}
        self._read_items()
        self._read_pictures()
        self._vectors: np.ndarray | None = None

    @property
    def identity(self) -> Any:
        """All that a result depends on beside the training data: settings, model, and the suites' data."""
        return [settings(), self._embedder.identity, {s: m.data_version for s, m in self.manifests.items()}]

    def item(self, suite: str, item: str) -> dict[str, Any]:
        """A row of a suite's `items`. Raises `KeyError`."""
        return self._items[self._places[suite, item]]

    def thumbs(self, shas: Iterable[str]) -> dict[str, bytes]:
        """The small pictures kept of some evaluation pictures, read in one pass."""
        wanted = pa.array(sorted(set(shas)), pa.string())
        found: dict[str, bytes] = {}
        for manifest in self.manifests.values():
            for path in manifest.paths("thumbs"):
                with pq.ParquetFile(path) as file:
                    for batch in file.iter_batches(256, columns=["sha256", "thumb"]):
                        chosen = batch.filter(pc.is_in(batch["sha256"], wanted))
                        found.update(zip(chosen["sha256"].to_pylist(), chosen["thumb"].to_pylist(), strict=True))
        return found

    def _read_items(self) -> None:
        for suite, manifest in self.manifests.items():
            for row in manifest.read("items", Items.schema).sort_by("item_id").to_pylist():
                place = len(self._items)
                row["suite"], row["meaning"] = suite, Meaning.from_json(row["meaning"])
                self._items.append(row)
                self._places[suite, row["item_id"]] = place
                # Equal words are looked up, so they cost nothing.
                if row["words"]:
                    self._exact.setdefault(row["words"], []).append(place)
                # Too few words to tell by themselves.
                if row["weight"] >= TEXT_WEIGHT:
                    for run in row["shingles"]:
                        self._runs.setdefault(run, []).append(place)
                if row["picture_sha256"] is not None:
                    self._of_picture.setdefault(row["picture_sha256"], []).append(place)

    def _read_pictures(self) -> None:
        seen: dict[str, tuple[int, PictureLook]] = {}
        for manifest in self.manifests.values():
            columns = ["sha256", "phash", "width_px", "height_px", "cells"]
            for row in manifest.read("pictures", PICTURES, columns).to_pylist():
                shown = PictureLook.from_bytes(row["cells"], row["width_px"], row["height_px"])
                seen.setdefault(row["sha256"], (row["phash"], shown))
        # Pictures that no item shows are of no use.
        self._shas = sorted(sha for sha in seen if sha in self._of_picture)
        self._hashes = np.array([seen[sha][0] for sha in self._shas], np.uint64)
        self._looks = {sha: seen[sha][1] for sha in self._shas}
        self._hash_of = dict(zip(self._shas, self._hashes.tolist(), strict=True))

    # --- pictures -----------------------------------------------------------------------------------------------------
    def match_pictures(self, hashes: Mapping[str, int], looks: LookSource) -> dict[str, list[SuiteMatch]]:
        """sha256 → phash of training pictures → what each matches: one item (the first) of each suite."""
        shas = sorted(hashes)
        # The same bytes are a match without any look.
        pairs: dict[str, dict[str, int]] = {sha: {sha: 0} for sha in shas if sha in self._hash_of}
        queries = np.array([hashes[sha] for sha in shas], np.uint64)
        rows, columns, distances = near_pairs(queries, self._hashes, PHASH_RADIUS)
        near = [(shas[i], self._shas[j], int(d)) for i, j, d in zip(rows, columns, distances, strict=True)]
        # Already found by their bytes.
        near = [(mine, other, d) for mine, other, d in near if mine != other]
        known = looks.get(mine for mine, _, _ in near)
        for mine, other, distance in near:
            # Near hashes are candidates; the pictures decide.
            if mine in known and one_screen(known[mine], self._looks[other]):
                pairs.setdefault(mine, {})[other] = distance
        return {sha: self._picture_matches(sha, found) for sha, found in sorted(pairs.items())}

    def _picture_matches(self, sha: str, found: Mapping[str, int]) -> list[SuiteMatch]:
        best: dict[str, tuple[int, int, str]] = {}
        for other, distance in found.items():
            for place in self._of_picture[other]:
                row = self._items[place]
                # Equal bytes before near ones, then the first item: the same answer on each run.
                rank = (0 if other == sha else 1 + distance, place, row["item_id"])
                if row["suite"] not in best or rank < best[row["suite"]]:
                    best[row["suite"]] = rank
        return [
            SuiteMatch(
                suite, item, "phash" if rank else "image", float(max(rank - 1, 0)), float(PHASH_RADIUS if rank else 0)
            )
            for suite, (rank, _, item) in sorted(best.items())
        ]

    # --- texts --------------------------------------------------------------------------------------------------------
    def match_texts(self, asked: Sequence[TrainingText]) -> list[list[SuiteMatch]]:
        """For each text what it matches, one item of each suite: by equal words, shared shingles, or vectors."""
        # One product for all texts together.
        near = self._by_vector({one.text for one in asked})
        return [self._text_matches(one, near.get(one.text, ())) for one in asked]

    def _text_matches(self, one: TrainingText, near: Iterable[tuple[int, float]]) -> list[SuiteMatch]:
        best: dict[str, tuple[int, float, int, SuiteMatch]] = {}

        def add(place: int, kind: str, measure: float, threshold: float) -> None:
            row = self._items[place]
            # By kind in order of certainty, then by measure.
            rank = (KINDS.index(kind), -measure, place)
            if row["suite"] not in best or rank < best[row["suite"]][:3]:
                best[row["suite"]] = (*rank, SuiteMatch(row["suite"], row["item_id"], kind, measure, threshold))

        for place in self._exact.get(one.text.plain, ()):
            if self._tells(one, self._items[place]):
                add(place, "ngram", 1.0, CONTAINMENT)
        for place, share in self._by_shingles(one.text):
            add(place, "ngram", share, CONTAINMENT)
        for place, value in near:
            add(place, "embedding", value, COSINE)
        return [best[suite][3] for suite in sorted(best)]

    def _tells(self, one: TrainingText, row: Mapping[str, object]) -> bool:
        """Whether equal words are enough: long ones are, short ones with the app or the place on a like screen."""
        # The text of a single step is no task of the suite.
        if row["scope"] == "step":
            return False
        if one.text.weight >= TEXT_WEIGHT:
            return True
        # Short words count with the app: "open settings" of one app is one task.
        if one.app and row["app"] and plain(one.app) == plain(row["app"]):
            return one.text.weight >= APP_WEIGHT
        # Else with the place: the same few words on the same spot of a like screen.
        return row["scope"] == "target" and self._same_place(one, row) and self._like_screen(one, row)

    def _same_place(self, one: TrainingText, row: Mapping[str, Any]) -> bool:
        if row["box"]:
            return any(iou(box, row["box"]) >= 0.5 for box in one.boxes) or (
                one.point is not None and contains(row["box"], one.point)
            )
        return False

    def _like_screen(self, one: TrainingText, row: Mapping[str, object]) -> bool:
        other = row["picture_sha256"]
        if other is None or one.phash is None or one.shape is None or other not in self._looks:
            return False
        look = self._looks[other]
        # Plain screens look alike, and another shape is another screen.
        if look.is_plain or abs(one.shape - look.width_px / look.height_px) > 0.02 * one.shape:
            return False
        bits = hamming(np.array([one.phash], np.uint64), np.array([self._hash_of[other]], np.uint64))
        return int(bits[0]) <= PLACE_RADIUS

    def _by_shingles(self, text: TextPrint) -> list[tuple[int, float]]:
        if text.weight < TEXT_WEIGHT:
            return []
        shared: Counter[int] = Counter()
        for run in shingles(text.words):
            shared.update(self._runs.get(run, ()))
        found = []
        for place, count in sorted(shared.items()):
            row = self._items[place]
            # Of the suite's runs, as the training text may be longer and hold it whole.
            share = count / len(row["shingles"])
            # Tasks of one template share most runs, and differ in the literals.
            if share >= CONTAINMENT and all(holds(text.plain, literal) for literal in row["literals"]):
                found.append((place, round(share, 6)))
        return found

    def _by_vector(self, texts: Iterable[TextPrint]) -> dict[TextPrint, list[tuple[int, float]]]:
        """Text → (item, cosine) of at least the threshold, decided in float64 on the two vectors alone. Texts of equal
        plain words share a vector, but each has literals of its own."""
        facts: dict[str, list[TextPrint]] = {}
        for text in texts:
            if text.meaning.readable and text.weight >= TEXT_WEIGHT:
                facts.setdefault(text.plain, []).append(text)
        ours = sorted(facts)
        theirs = [n for n, row in enumerate(self._items) if row["meaning"].readable and row["weight"] >= TEXT_WEIGHT]
        if not ours or not theirs:
            return {}
        if self._vectors is None:
            self._vectors = self._embedder.encode(self._items[n]["words"] for n in theirs)
        vectors = self._embedder.encode(ours)
        found: dict[TextPrint, list[tuple[int, float]]] = {}
        for start in range(0, len(ours), VECTOR_BLOCK):
            block = vectors[start : start + VECTOR_BLOCK]
            # float32 proposes a little more than it should; float64 decides below.
            rows, columns = np.nonzero(block @ self._vectors.T >= COSINE - 1e-4)
            values = cosines(block[rows], self._vectors[columns])
            for i, j, value in zip(rows, columns, values, strict=True):
                row = self._items[theirs[j]]
                for text in facts[ours[start + i]] if value >= COSINE else ():
                    # Nearness is believed only between texts that don't conflict.
                    if not conflict(text.meaning, row["meaning"]):
                        found.setdefault(text, []).append((theirs[j], round(float(value), 6)))
        return found
