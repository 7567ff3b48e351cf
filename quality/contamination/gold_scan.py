"""One part of a source's gold, held against the fingerprints of suites: its hits, and what may not train for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.store import Manifest, PartResult, PartSpec, PartWriter, Store, StoreError, run_part
from pipelines.store.images import ImageError, read_image
from quality.contamination.fingerprints import subject
from quality.contamination.suite_index import SuiteIndex, SuiteMatch, TrainingText, pinned_index
from quality.contamination.text_prints import text_print
from quality.duplicates.looks import LookBook
from schemas.ids import item_episode, item_sample, item_step
from schemas.tables import Column, Samples, Screens, Steps, Table


class Hits(Table, version=1):
    """Each training item once a suite and kind."""

    item_id = Column(pa.string(), "the training item")
    source = Column(pa.string(), "name of the dataset")
    suite = Column(pa.string(), "evaluation suite")
    suite_item = Column(pa.string(), "item of the suite that it is like")
    kind = Column(pa.string(), "how: by image, phash, text and so on")
    measure = Column(pa.float32(), "how like: bits for image and phash, else a similarity")
    threshold = Column(pa.float32(), "from where on it counts, in the same measure")


QUARANTINE = pa.schema(
    [
        ("item_id", pa.string()),
        ("source", pa.string()),
        ("reason", pa.string()),
        ("suite", pa.string()),
        ("suite_item", pa.string()),
        ("because", pa.string()),
        ("text", pa.string()),
        ("picture_sha256", pa.string()),
    ]
)
"""What may not train, each item once. `reason` is the kind of its first hit, `recording` for an episode most of whose
pictures are hit, or `episode` for what goes with its episode, which `because` names. `text` is what it asked."""

_STEPS = ["source", "episode_id", "step_index", "split", "app", "instruction", "screenshot_sha256"]
_SAMPLES = ["sample_id", "source", "split", "objective", "images", "messages", "answer", "target_boxes", "parents"]


@dataclass(frozen=True)
class GoldScanPart:
    """All a worker needs to hold a part against the suites: plain data."""

    home: str
    asset: str
    version: str
    spec: PartSpec
    suites: tuple[str, ...]
    index: str
    """Digest of the identity of their index."""
    gold: tuple[str, str]
    """Asset and version of the part."""
    key: str


_scans: "dict[str, GoldScan]" = {}
"""By the digest of the index's identity: the last one."""


def run_scan_part(item: GoldScanPart) -> PartResult:
    """Hold one part against the suites; called by an engine's workers."""
    store = Store(item.home)
    index = pinned_index(Path(item.home), item.suites, item.index)
    # The index is large, so a worker holds one at a time.
    if item.index not in _scans or _scans[item.index].index is not index:
        _scans.clear()
        _scans[item.index] = GoldScan(store, index)
    scan, gold = _scans[item.index], store.version(*item.gold)
    return run_part(store.root(item.asset), item.version, item.spec, lambda out: scan.part(out, gold, item.key))


class GoldScan:
    """Gold parts against the index."""

    def __init__(self, store: Store, index: SuiteIndex) -> None:
        self._store = store
        self.index = index
        self._looks = LookBook(store.home / "cache" / "looks", store.screen_bytes)
        self._screens: dict[str, Manifest | None] = {}

    def part(self, out: PartWriter, gold: Manifest, key: str) -> dict[str, int]:
        """Write a part's hits and its quarantine."""
        source = gold.asset.split("/", 1)[1]
        steps = _rows(gold, key, "steps", _STEPS, Steps.schema)
        samples = _rows(gold, key, "samples", _SAMPLES, Samples.schema)
        shas = {row["screenshot_sha256"] for row in steps} | {sha for row in samples for sha in row["images"]}
        # Pictures of the part by their stored hashes; only what has none is decoded.
        screens, unread = self._hashes(source, key, shas - {None})
        shown = self.index.match_pictures({sha: value for sha, (value, _) in screens.items()}, self._looks)
        found = {**_goal_hits(self.index, steps), **self._sample_hits(samples, screens)}
        # Pictures hit steps and samples; words hit samples, and episodes by their goal.
        for name, sha in _pictured(steps, samples):
            if sha in shown:
                found.setdefault(name, []).extend(shown[sha])
        quarantine = _quarantine(steps, samples, found)
        rows = [_hit(name, source, match) for name, matches in sorted(found.items()) for match in _once(matches)]
        out.table("hits", pa.Table.from_pylist(rows, schema=Hits.schema))
        out.table("quarantine", pa.Table.from_pylist(quarantine, schema=QUARANTINE))
        held = {row["item_id"] for row in quarantine}
        return {
            "steps": len(steps),
            "samples": len(samples),
            "pictures": len(screens),
            "pictures_unread": unread,
            "pictures_hit": len(shown),
            "hit_items": len(found),
            # As many as were hit, or the check of the stage fails.
            "hit_quarantined": len(held & found.keys()),
            "removed_samples": sum(name.startswith("sample:") for name in held),
            "removed_steps": sum(name.startswith("step:") for name in held),
            "removed_episodes": sum(name.startswith("episode:") for name in held),
        }

    def _hashes(self, source: str, key: str, shas: set[str]) -> tuple[dict[str, tuple[int, float]], int]:
        """sha256 → (phash, width / height), by the screens of the part that gold's part was made from, or by the
        picture; how many can't be read."""
        unified = self._screens_of(source)
        columns = ["screenshot_sha256", "phash", "width_px", "height_px"]
        rows = unified.read_part(key, "screens", Screens.schema, columns).to_pylist() if unified is not None else []
        known = {row["screenshot_sha256"]: (row["phash"], row["width_px"] / row["height_px"]) for row in rows}
        unread = 0
        # Generated screens, or those of a source that lost its table.
        for sha in sorted(shas - known.keys()):
            try:
                info = read_image(self._store.screen_bytes(sha))
            except (StoreError, ImageError):
                unread += 1
                continue
            known[sha] = (info.phash, info.width_px / info.height_px)
        return {sha: known[sha] for sha in sorted(shas) if sha in known}, unread

    def _screens_of(self, source: str) -> Manifest | None:
        if source not in self._screens:
            self._screens[source] = self._store.screens_of(source)
        return self._screens[source]

    def _sample_hits(
        self, samples: Sequence[Mapping[str, Any]], screens: Mapping[str, tuple[int, float]]
    ) -> dict[str, list[SuiteMatch]]:
        requested = [training_text_of(row, [screens.get(sha) for sha in row["images"]]) for row in samples]
        lines = [(row, one) for row, one in zip(samples, requested, strict=True) if one is not None]
        matches = self.index.match_texts([one for _, one in lines])
        return {item_sample(row["sample_id"]): found for (row, _), found in zip(lines, matches, strict=True) if found}


def training_text_of(row: Mapping[str, Any], screens: Sequence[tuple[int, float] | None]) -> TrainingText | None:
    """What a sample asks, with its first picture's (phash, shape); None if nothing.

    Where its prompt says nothing of its own ("What is at [x,y]?"), the answer counts if it is one line: it may be an
    evaluation instruction turned round."""
    text = subject(row["messages"])
    # A prompt that asks what is at a point says nothing itself: its answer may be an instruction.
    if not text and row["objective"] == "perception" and "\n" not in row["answer"]:
        text = row["answer"]
    if not text:
        return None
    phash, shape = screens[0] if screens and screens[0] is not None else (None, None)
    boxes = tuple(tuple(box) for box in row["target_boxes"] or ()) if row["objective"] == "grounding" else ()
    point = _point(row["answer"]) if row["objective"] == "grounding" else None
    return TrainingText(text_print(text), None, phash, shape, boxes, point)


def _point(answer: str) -> tuple[float, float] | None:
    numbers = answer.strip().removeprefix("[").removesuffix("]").split(",")
    try:
        x, y = (float(number) for number in numbers)
    except ValueError:
        return None
    # [-1,-1] says that the element isn't there.
    return (x, y) if x >= 0 and y >= 0 else None


def _rows(manifest: Manifest, key: str, table: str, columns: list[str], schema: pa.Schema) -> list[dict[str, Any]]:
    """Training rows of a part's table."""
    rows = manifest.read_part(key, table, schema, columns, [("split", "==", "train")]).to_pylist()
    return rows  # type: ignore[no-any-return]


def _goal_hits(index: SuiteIndex, steps: Sequence[Mapping[str, Any]]) -> dict[str, list[SuiteMatch]]:
    """Episodes whose instruction is an evaluation's."""
    # One goal an episode, whatever its steps say.
    goals = {item_episode(row["source"], row["episode_id"]): (row["instruction"], row["app"]) for row in steps}
    names = sorted(goals)
    matches = index.match_texts([TrainingText(text_print(goals[name][0]), goals[name][1]) for name in names])
    return {name: found for name, found in zip(names, matches, strict=True) if found}


def _pictured(steps: Sequence[Mapping[str, Any]], samples: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """(item, picture) of all steps and samples."""
    shown = [(item_step(r["source"], r["episode_id"], r["step_index"]), r["screenshot_sha256"]) for r in steps]
    return shown + [(item_sample(row["sample_id"]), sha) for row in samples for sha in row["images"]]


def _once(matches: Sequence[SuiteMatch]) -> list[SuiteMatch]:
    """The first match of each suite and kind."""
    # Reversed twice: the first match of each suite and kind stays.
    return list({(m.suite, m.kind): m for m in reversed(matches)}.values())[::-1]


def _hit(name: str, source: str, match: SuiteMatch) -> dict[str, Any]:
    return {
        "item_id": name,
        "source": source,
        "suite": match.suite,
        "suite_item": match.item,
        "kind": match.kind,
        "measure": match.measure,
        "threshold": match.threshold,
    }


def _quarantine(
    steps: Sequence[Mapping[str, Any]], samples: Sequence[Mapping[str, Any]], found: Mapping[str, Sequence[SuiteMatch]]
) -> list[dict[str, Any]]:
    """What goes: all that is hit; episodes by text or as recordings, with all their steps and samples."""
    rows: dict[str, dict[str, Any]] = {}

    def put(
        name: str, source: str, reason: str, match: SuiteMatch | None, because: str | None, text: str, sha: object
    ) -> None:
        # The first reason stays: that of the item itself goes before that of its episode.
        rows.setdefault(
            name,
            {
                "item_id": name,
                "source": source,
                "reason": reason,
                "suite": match.suite if match else None,
                "suite_item": match.item if match else None,
                "because": because,
                "text": text,
                "picture_sha256": sha,
            },
        )

    episodes: dict[str, list[Mapping[str, Any]]] = {}
    for row in steps:
        episodes.setdefault(item_episode(row["source"], row["episode_id"]), []).append(row)
    gone: dict[str, SuiteMatch] = {}
    for name, listed in sorted(episodes.items()):
        shown = [step for row in listed if row["screenshot_sha256"] is not None for step in [_step(row)]]
        hit = [step for step in shown if step in found]
        first = listed[0]
        # Its own goal is an evaluation's: the episode goes with all that it has.
        if name in found:
            gone[name] = found[name][0]
            put(
                name,
                first["source"],
                gone[name].kind,
                gone[name],
                None,
                first["instruction"],
                first["screenshot_sha256"],
            )
        elif 2 * len(hit) > len(shown):
            # Most of its pictures are an evaluation's: it is the same recording.
            gone[name] = found[hit[0]][0]
            put(
                name, first["source"], "recording", gone[name], hit[0], first["instruction"], first["screenshot_sha256"]
            )
        # All steps of an episode that goes, and single ones on pictures that were hit.
        for row in listed:
            step = _step(row)
            match = found[step][0] if step in found else gone.get(name)
            if match is not None:
                reason, because = (match.kind, None) if step in found else ("episode", name)
                put(step, row["source"], reason, match, because, row["instruction"], row["screenshot_sha256"])
    for row in samples:
        name = item_sample(row["sample_id"])
        # Derived from a step of an episode that goes: it shows what that showed.
        parents = (p.removeprefix("step:").rpartition("/")[0] for p in row["parents"] if p.startswith("step:"))
        episode = next((e for e in (f"episode:{p}" for p in parents) if e in gone), None)
        match = found[name][0] if name in found else gone.get(episode or "")
        if match is not None:
            reason, because = (match.kind, None) if name in found else ("episode", episode)
            text, sha = subject(row["messages"]), row["images"][0] if row["images"] else None
            put(name, row["source"], reason, match, because, text, sha)
    return [rows[name] for name in sorted(rows)]


def _step(row: Mapping[str, Any]) -> str:
    return item_step(row["source"], row["episode_id"], row["step_index"])
