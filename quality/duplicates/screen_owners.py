"""`hygiene/screens`: which screens and recordings several sources share, and the one source each belongs to.

Datasets are built from datasets: Rico's screens stand in a dozen of them, AITW's episodes in AITZ. A **screen** that
several sources hold byte for byte belongs to the first of them (by priority). A near copy (re-encoded, resized:
perceptual hashes within `radius` bits and one look, see `quality.duplicates.looks`) of another source's screen yields
to it, greedy in the order (source priority, sha256), without transitive merging, as
`quality.duplicates.neighbours.keep` does. Screens of one source are not compared with one another: consecutive screens
of a recording may well look alike.

Two **episodes** of different sources and one split are the same recording iff at least `share` of the shorter one's
steps, and at least `min_steps` on different screens, have their like in the other: the same screen (or its owner's),
the same action, points within `POINT_TOLERANCE` (a source that has none agrees). What they are told doesn't count, so a
recording that was given other words by the second source is found.

A shared screen is no duplicate lesson: a question and a box on one picture teach different things, so no sample is
displaced here. `quality.duplicates.dedup` reads this asset: near copies count as one picture in its keys, and pairs of
recordings join its episode pairs, so that one greedy order decides who stays and a withdrawn source revives what it had
displaced.

All of it is a pure function of the set of screens and steps. Pictures are decoded only where hashes are near, and their
looks are stored in the store's cache.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.store import CheckSpec, Manifest, PartSpec, PartWriter, Store
from quality.duplicates.looks import VERSION as LOOK_VERSION
from quality.duplicates.looks import LookBook, one_screen
from quality.duplicates.neighbours import keep
from quality.duplicates.screen_hashes import near_unique
from quality.evidence.words import plain
from schemas.ids import digest, item_episode
from schemas.tables import Column, Pairs, Screens, Steps, Table

ASSET = "hygiene/screens"
POINT_TOLERANCE = 60
"""Units of 0..1000."""
CODE_VERSION = f"2.{LOOK_VERSION}"
SHARED = pa.schema([("screenshot_sha256", pa.string()), ("owner", pa.string()), ("sources", pa.list_(pa.string()))])
"""Screens that several sources hold byte for byte."""
OWNERS_ORIGINAL = CheckSpec("no owner is itself a copy", "A screen counts as original and as a copy")
PAIRS_CROSS = CheckSpec("near pairs cross sources", "A near pair inside one source, which is no copy")
FEW_ALIKE = CheckSpec("few screens are alike", "More than 64 screens have one hash: not all compared", blocking=False)
CHECKS = (OWNERS_ORIGINAL, PAIRS_CROSS, FEW_ALIKE)


class Copies(Table, version=1):
    """Near copies, each with the screen it yields to."""

    screenshot_sha256 = Column(pa.string(), "the copy")
    source = Column(pa.string(), "dataset that it belongs to")
    canonical = Column(pa.string(), "digest of the screen that it yields to")
    owner = Column(pa.string(), "dataset of that screen")
    distance = Column(pa.uint8(), "bits between their perceptual hashes")


@dataclass(frozen=True, slots=True)
class OwnerConfig:
    """What enters the config hash."""

    radius: int = 6
    share: float = 0.8
    min_steps: int = 3
    """Fewer shared screens are a launcher and its drawer."""
    max_alike: int = 64
    """Screens of one and the same hash that are compared with others; more of them are a launcher or a blank page."""
    max_episodes: int = 50
    """A screen that more episodes show (a home screen) leads to no pair of recordings on its own."""

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1 or self.min_steps < 1 or self.max_alike < 1 or self.max_episodes < 2:
            raise ValueError(f"screens: expected 0 < share <= 1 and limits of at least 1, found {self}")


@dataclass(frozen=True, slots=True)
class _Screen:
    sha: str
    phash: int
    rank: int
    """Place of its owner in the order of sources."""


def find_screen_owners(store: Store, sources: Sequence[str], config: OwnerConfig | None = None) -> Manifest:
    """Screens and steps of all `sources` → `hygiene/screens` with tables shared, copies, near, recordings.

    Of `sources` the first that has a screen owns it. Raises `StoreError` if a source has no gold.
    """
    config = config or OwnerConfig()
    gold = {source: store.require(f"gold/{source}") for source in sources}
    unified = {source: found for source in sources if (found := store.screens_of(source)) is not None}
    order = list(sources)
    read = [*gold.values(), *unified.values()]
    settings = {**asdict(config), "order": order}
    spec = PartSpec("all", digest([CODE_VERSION, settings, {m.asset: m.data_version for m in read}]))

    def make(out: PartWriter) -> dict[str, Any]:
        return _write(out, store, order, gold, unified, config)

    with store.build(
        ASSET, code_version=CODE_VERSION, config=settings, inputs={m.asset: m.version for m in read}, parts=[spec]
    ) as build:
        counts = build.run_part(spec, make).counts
        checks = [
            OWNERS_ORIGINAL.check(counts["chained"] == 0, counts["chained"], 0),
            PAIRS_CROSS.check(counts["inside"] == 0, f"{counts['inside']} inside a source", 0, counts["inside"]),
            FEW_ALIKE.check(
                counts["capped"] == 0,
                f"{counts['capped']} hashes with more screens",
                f"at most {config.max_alike} a hash",
                counts["capped"],
                0,
            ),
        ]
        return build.commit(counts=counts, checks=checks)


def canonical_screens(manifest: Manifest | None) -> dict[str, str]:
    """sha256 of a near copy → sha256 of the screen it yields to; empty without the asset."""
    if manifest is None:
        return {}
    table = manifest.read("copies", Copies.schema, ["screenshot_sha256", "canonical"])
    return dict(zip(table["screenshot_sha256"].to_pylist(), table["canonical"].to_pylist(), strict=True))


def recording_pairs(manifest: Manifest | None) -> list[tuple[str, str, float]]:
    """(left, right, similarity) of episodes that are one recording; empty without the asset."""
    if manifest is None:
        return []
    columns = manifest.read("recordings", Pairs.schema).to_pydict()
    return list(zip(columns["left"], columns["right"], columns["similarity"], strict=True))


def _write(
    out: PartWriter,
    store: Store,
    order: Sequence[str],
    gold: Mapping[str, Manifest],
    unified: Mapping[str, Manifest],
    config: OwnerConfig,
) -> dict[str, Any]:
    screens, holders = _screens(order, unified)
    near, capped, compared = _near(store, screens, config)
    by_sha = {screen.sha: screen for screen in screens}
    # In the order of sources, and of hashes within one, which is the total order of `keep`.
    ranked = {screen.sha: (screen.rank, screen.sha) for screen in screens}
    _, displaced = keep(ranked, [(left, right) for left, right, _ in near])
    bits = {frozenset((left, right)): distance for left, right, distance in near}
    copies = [
        {
            "screenshot_sha256": sha,
            "source": order[by_sha[sha].rank],
            "canonical": winner,
            "owner": order[by_sha[winner].rank],
            "distance": bits[frozenset((sha, winner))],
        }
        for sha, winner in sorted(displaced.items())
    ]
    shared = [
        {"screenshot_sha256": sha, "owner": order[min(found)], "sources": [order[rank] for rank in sorted(found)]}
        for sha, found in sorted(holders.items())
        if len(found) > 1
    ]
    recordings, busy = _recordings(order, gold, displaced, config)
    out.table("shared", pa.Table.from_pylist(shared, schema=SHARED))
    out.table("copies", pa.Table.from_pylist(copies, schema=Copies.schema))
    out.table("near", Pairs.table({"left": a, "right": b, "similarity": 1 - d / 64} for a, b, d in sorted(near)))
    out.table("recordings", Pairs.table({"left": a, "right": b, "similarity": s} for a, b, s in recordings))
    return {
        "screens": len(screens),
        "shared": len(shared),
        "candidates": compared,
        "near_pairs": len(near),
        "copies": len(copies),
        "recordings": len(recordings),
        "capped": capped,
        "busy_screens": busy,
        # Winners that were themselves displaced: none, as `keep` is greedy without chains.
        "chained": sum(winner in displaced for winner in displaced.values()),
        "inside": sum(by_sha[a].rank == by_sha[b].rank for a, b, _ in near),
    }


def _screens(order: Sequence[str], unified: Mapping[str, Manifest]) -> tuple[list[_Screen], dict[str, set[int]]]:
    """Each picture once with its owner, and sha256 → ranks of all sources that hold it."""
    holders: dict[str, set[int]] = {}
    hashes: dict[str, int] = {}
    for rank, source in enumerate(order):
        if source not in unified:
            continue
        table = unified[source].read("screens", Screens.schema, ["screenshot_sha256", "phash"])
        for sha, value in zip(table["screenshot_sha256"].to_pylist(), table["phash"].to_pylist(), strict=True):
            holders.setdefault(sha, set()).add(rank)
            hashes[sha] = value
    return [_Screen(sha, hashes[sha], min(ranks)) for sha, ranks in sorted(holders.items())], holders


def _near(store: Store, screens: Sequence[_Screen], config: OwnerConfig) -> tuple[list[tuple[str, str, int]], int, int]:
    """(pairs of screens of different owners that show one screen, hashes with too many screens, pairs compared)."""
    groups: dict[int, list[_Screen]] = {}
    for screen in sorted(screens, key=lambda one: (one.rank, one.sha)):
        groups.setdefault(screen.phash, []).append(screen)
    # Counted, not hidden: of such a group not all are compared.
    capped = sum(len(group) > config.max_alike for group in groups.values())
    unique = np.array(sorted(groups), np.uint64)
    i, j, distance = near_unique(unique, config.radius)
    # Screens of one hash are candidates, too; different pictures may share it.
    meeting = [(group, group, 0) for group in groups.values() if len(group) > 1]
    meeting += [
        (groups[int(unique[a])], groups[int(unique[b])], int(d)) for a, b, d in zip(i, j, distance, strict=True)
    ]
    candidates = sorted({pair for one, two, d in meeting for pair in _cross(one, two, d, config.max_alike)})
    looks = LookBook(store.home / "cache" / "looks", store.screen_bytes)
    found = []
    # In chunks, as looks of all candidates needn't be in memory at once.
    for start in range(0, len(candidates), 20_000):
        chunk = candidates[start : start + 20_000]
        known = looks.get(sha for left, right, _ in chunk for sha in (left, right))
        found += [(a, b, d) for a, b, d in chunk if a in known and b in known and one_screen(known[a], known[b])]
    return found, capped, len(candidates)


def _cross(one: Sequence[_Screen], two: Sequence[_Screen], distance: int, limit: int) -> Iterator[tuple[str, str, int]]:
    """Pairs of two groups whose owners differ; left < right."""
    for a in one[:limit]:
        # Within one source screens may well look alike: they follow each other.
        for b in two[:limit]:
            if a.rank != b.rank:
                yield (*sorted((a.sha, b.sha)), distance)  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class _OwnedStep:
    """A step as far as recordings are concerned: its screen (or the one that this is a copy of), and its action."""

    sha: str
    kind: str
    point: tuple[int, int] | None
    words: str


_POINT = re.compile(r"\((\d+),(\d+)\)")
_LOOSE = frozenset(("Scroll", "Drag", "Finished", "CallUser", "Wait"))
"""Actions whose words sources write differently: a direction beside points or not, a closing remark or none."""


# Words without the points, which are compared with a tolerance of their own.
def _step(sha: str, action_text: str) -> _OwnedStep:
    kind, point = action_text.partition("(")[0], _POINT.search(action_text)
    words = "" if kind in _LOOSE else plain(_POINT.sub("", action_text))
    return _OwnedStep(sha, kind, (int(point[1]), int(point[2])) if point else None, words)


def _agree(one: _OwnedStep, two: _OwnedStep) -> bool:
    """Whether two steps on one screen are the same deed; a source without points agrees with any."""
    if one.kind != two.kind or one.words != two.words:
        return False
    if one.point is None or two.point is None:
        return True
    return max(abs(one.point[0] - two.point[0]), abs(one.point[1] - two.point[1])) <= POINT_TOLERANCE


def _recordings(
    order: Sequence[str], gold: Mapping[str, Manifest], copies: Mapping[str, str], config: OwnerConfig
) -> tuple[list[tuple[str, str, float]], int]:
    """Pairs of episodes that are one recording, sorted, and how many screens were too common to lead to any."""
    traces: dict[tuple[str, str], list[_OwnedStep]] = {}
    for source in order:
        for name, split, step in _steps(source, gold[source], copies):
            traces.setdefault((split, name), []).append(step)
    shows: dict[tuple[str, str], set[str]] = {}
    for (split, name), trace in traces.items():
        for step in trace:
            shows.setdefault((split, step.sha), set()).add(name)
    meeting: set[tuple[str, str, str]] = set()
    busy = 0
    for (split, _), held in shows.items():
        # A home screen leads from every recording to every other.
        if len(held) > config.max_episodes:
            busy += 1
            continue
        ordered = [(name, name.removeprefix("episode:").partition("/")[0]) for name in sorted(held)]
        # Episodes of different sources that share a screen: only these can be one recording.
        meeting |= {(split, a, b) for n, (a, one) in enumerate(ordered) for b, two in ordered[n + 1 :] if one != two}
    found = []
    for split, left, right in sorted(meeting):
        one, two = traces[split, left], traces[split, right]
        both = _shared(one, two)
        # Of the shorter one: the other may have been recorded further.
        share = len(both) / min(len(one), len(two))
        if share >= config.share and len(set(both)) >= config.min_steps:
            found.append((left, right, round(share, 6)))
    return sorted(found), busy


def _shared(one: Sequence[_OwnedStep], two: Sequence[_OwnedStep]) -> list[str]:
    """Screens of the steps that both have; each step is matched once."""
    left: dict[str, list[_OwnedStep]] = {}
    for step in two:
        left.setdefault(step.sha, []).append(step)
    both = []
    for step in one:
        # Matched once, so that a repeated step needs its like as often.
        match = next((other for other in left.get(step.sha, ()) if _agree(step, other)), None)
        if match is not None:
            left[step.sha].remove(match)
            both.append(step.sha)
    return both


def _steps(source: str, manifest: Manifest, copies: Mapping[str, str]) -> Iterator[tuple[str, str, _OwnedStep]]:
    """(episode, split, step) of each step that has a picture and an action."""
    columns = ["episode_id", "split", "screenshot_sha256", "action_text"]
    table = manifest.read("steps", Steps.schema, columns)
    for episode, split, sha, text in zip(*(table[name].to_pylist() for name in columns), strict=True):
        if sha is not None and text is not None:
            yield item_episode(source, episode), split, _step(copies.get(sha, sha), text)
