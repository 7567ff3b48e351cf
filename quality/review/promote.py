"""People's answers → `feedback/human_verdicts`: a frozen human set that gates judges and recalibrates thresholds.

`promote` writes `feedback/human_verdicts/<digest>/` (tables `verdicts`, `decisions`, `steps`, `samples`, `screens`,
and `manifest.json`) and points `current.json` at it. The digest is that of the sorted file hashes, so equal answers
have an equal digest; times lie beside them and don't enter it. Consumers pin the digest; no asset depends on another
through it.
"""

import json
import math
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.store import Store, put_text
from pipelines.store.files import FileEntry, StoreError, file_sha256
from pipelines.store.frozen import frozen_digest, point_to, read_frozen
from pipelines.store.manifest import Check, data_version
from pipelines.store.remembered import remember, remembered
from quality.code_version import code_digest
from quality.items.item import Episode, Item, Row, Sample, base_id
from quality.items.part import SourcePart
from quality.items.screens import Screen, ScreenBank
from quality.judges.judge import BAND_RANK, Judge, Verdict, identity
from quality.judges.verdicts import split_pending
from quality.model_client.errors import ModelError
from quality.model_client.spending import CeilingReached
from quality.review.agreement import agreement, consensus
from quality.review.calibrate import HumanSet, Pair, gate, judge_agreement, pairs_of, report
from quality.review.queue import OpenQueue, open_earlier
from quality.review.requested import REQUESTED, open_with_requests
from quality.review.verdict_store import HumanVerdict, ReviewError, VerdictStore, answers_path
from schemas.ids import digest
from schemas.tables import Column, Samples, Screens, Steps, Table

KEY = "feedback/human_verdicts"
CODE_VERSION = "2"
GATED_FROM = 20
"""Items of a human set from which on it gates judges: κ of fewer says little."""


class HumanVerdicts(Table, version=1):
    """One person's answer that counts."""

    item_id = Column(pa.string(), "the item")
    annotator = Column(pa.string(), "who answered")
    role = Column(pa.string(), "annotator or adjudicator")
    decision = Column(pa.string(), "what they decided")
    first_wrong_step = Column(pa.int32(), "place in the trajectory, from 0", null=True)
    note = Column(pa.string(), "what they wrote beside it")


class Decisions(Table, version=1):
    """What people settled on, with what the judge had said and how many items this one stands for."""

    item_id = Column(pa.string(), "the item")
    source = Column(pa.string(), "name of the dataset")
    stratum = Column(pa.string(), "stratum that it was drawn from")
    decision = Column(pa.string(), "what people settled on")
    judged = Column(pa.list_(pa.string()), "items whose lowest score is this one's")
    score = Column(pa.int8(), "what the judge had said, 0 to 10", null=True)
    weight = Column(pa.float64(), "how many items it stands for; 0 if an earlier queue drew it")


def promote(store: Store, judge: Judge | None = None, overlap: int = 2, precision: float = 0.9) -> dict[str, Any]:
    """Freeze what at least `overlap` people agreed on (or somebody settled) and make it current; returns the manifest.

    `judge`, the one in use, is asked about the frozen items, and its agreement with the people is recorded: what later
    judges mustn't fall below. (The scores of the queue won't do: they were given beside all other items of a source.)
    Raises `ReviewError` if nothing is settled yet, `StoreError` without a queue, `CeilingReached` if the judge may not
    answer all tonight: another night then makes it current. The same answers again write nothing.
    """
    path = answers_path(store.home)
    if not path.is_file():
        raise ReviewError(f"{path}: nobody has answered yet; run `vesper review serve`")
    queue = open_with_requests(store, elements=True)
    answers = VerdictStore(path)
    try:
        given = answers.verdicts()
    finally:
        answers.close()
    # What somebody asked for by hand is no random sample: it is settled like the rest, and measures nobody.
    drawn = frozenset(item_id for item_id, row in queue.rows.items() if row["band"] != REQUESTED)
    # What was answered before the queue was drawn again is found in its earlier versions.
    queue = _with_earlier(store, queue, given)
    # An answer about another content isn't one about this.
    said = [
        one for one in given if one.item_id in queue.items and queue.trajectories[one.item_id].digest == one.content
    ]
    agreed = consensus(said, overlap)
    settled = {item_id: agreed[item_id] for item_id in sorted(_one_version(agreed, said, drawn))}
    said = [one for one in said if one.item_id in settled or one.item_id not in agreed]
    if not settled:
        raise ReviewError(f"nothing to promote: no item has {overlap} equal answers or a last word yet")
    root = store.home / KEY
    root.mkdir(parents=True, exist_ok=True)
    _sweep(root)
    # In the same folder, so that the copy is one within a disk.
    with tempfile.TemporaryDirectory(dir=root, prefix=".making-") as folder:
        manifest = _write(Path(folder), queue, drawn, said, settled, precision)
        manifest["outdated"] = len(given) - len(said)
        text = json.dumps(manifest, indent=1, sort_keys=True) + "\n"
        (Path(folder) / "manifest.json").write_text(text, encoding="utf-8")
        target = root / manifest["digest"]
        if not (target / "manifest.json").exists():
            shutil.rmtree(target, ignore_errors=True)  # what a killed run left
            shutil.copytree(folder, target, ignore=shutil.ignore_patterns("manifest.json"))
            shutil.copyfile(Path(folder) / "manifest.json", target / "manifest.json")  # last: it says all is there
    if judge is not None:
        # Before it becomes current: a set without a record holds later judges to the floor alone.
        _record(store, judge, str(manifest["digest"]))
    point_to(store.home, KEY, manifest["digest"])
    return manifest


def _one_version(agreed: Iterable[str], said: Sequence[HumanVerdict], drawn: frozenset[str]) -> set[str]:
    """Of several versions of one item (before and after a repair) that people settled, the one in the current queue,
    else the one answered last: their rows have the same keys and would run into one another."""
    # The id grows with every answer.
    answered = {one.item_id: one.id for one in sorted(said, key=lambda one: one.id)}
    # Later ones replace earlier ones in the dictionary below.
    in_order = sorted(agreed, key=lambda item_id: (item_id in drawn, answered[item_id]))
    return set({base_id(item_id): item_id for item_id in in_order}.values())


def _sweep(root: Path) -> None:
    """Remove what killed runs left an hour ago or more."""
    for left in root.glob(".making-*"):
        if time.time() - left.stat().st_mtime > 3600:
            shutil.rmtree(left, ignore_errors=True)


def _write(
    folder: Path,
    queue: OpenQueue,
    drawn: frozenset[str],
    said: Sequence[HumanVerdict],
    settled: dict[str, str],
    precision: float,
) -> dict[str, Any]:
    items = [queue.items[item_id] for item_id in settled]
    # What was asked for by hand stands for nothing but itself.
    weights = dict.fromkeys(settled, 0.0) | _weights(queue, drawn, [item_id for item_id in settled if item_id in drawn])
    tables = {
        "verdicts": HumanVerdicts.table({n: getattr(v, n) for n in HumanVerdicts.schema.names} for v in said),
        "decisions": Decisions.table(
            {**_decision(queue, item_id, decision), "weight": weights[item_id]} for item_id, decision in settled.items()
        ),
        "steps": Steps.table(step.row for item in items if isinstance(item, Episode) for step in item.steps),
        "samples": Samples.table(item.row for item in items if isinstance(item, Sample)),
        "screens": Screens.table(_screens(queue, items)),
    }
    files = []
    for name, table in tables.items():
        path = folder / f"{name}.parquet"
        pq.write_table(table, path, compression="zstd")
        files.append(FileEntry(path.name, name, table.num_rows, path.stat().st_size, file_sha256(path)))
    # Seconds and times stay out of the digest: the same answers are the same set.
    times = [{"item_id": v.item_id, "annotator": v.annotator, "seconds": v.seconds, "created": v.created} for v in said]
    pq.write_table(pa.Table.from_pylist(times), folder / "times.parquet")
    pairs = [Pair(i, queue.rows[i]["score"], decision, weights[i]) for i, decision in settled.items() if i in drawn]
    manifest = {
        "asset": KEY,
        "code_version": CODE_VERSION,
        "digest": data_version(files),
        "queue": queue.version,
        "files": [asdict(entry) for entry in files],
        "items": len(drawn),
        "agreed": len(settled),
        "agreement": agreement(said).plain(),
        "judge_agreement": report(pairs, precision),
    }
    return manifest


def _record(store: Store, judge: Judge, digest: str) -> None:
    """`gate.json` beside the set: who was asked, and how far it agreed."""
    human = human_set(store, digest)
    found = judge_agreement(pairs_of(_verdicts_on(store, judge, digest), human))
    kappa = None if math.isnan(found.kappa) else found.kappa
    plain = {**identity(judge), "kappa": kappa, "items": found.items}
    put_text(store.home / KEY / digest / "gate.json", json.dumps(plain, indent=1, sort_keys=True) + "\n")


def _verdicts_on(store: Store, judge: Judge, digest: str) -> list[Verdict]:
    """A judge's verdicts on a promoted set, each item on its own merits: cleaning, which looks at whole sources, is
    left out. Raises `CeilingReached` if it may not answer all tonight: a part of them says nothing of the judge."""
    part = human_part(store, digest)
    verdicts, waiting = split_pending(judge.judge(part.items, 0) if part.items else [])
    if waiting:
        raise CeilingReached(
            f"judge {judge.name}: the ceiling left {len(waiting)} of {len(verdicts) + len(waiting)} answers about "
            f"the promoted set {digest[:12]} unasked; asked another night"
        )
    return verdicts


def _decision(queue: OpenQueue, item_id: str, decision: str) -> Row:
    row, item = queue.rows[item_id], queue.items[item_id]
    judged = [item_id, *(step.item_id for step in item.actions)] if isinstance(item, Episode) else [item_id]
    return {
        "item_id": item_id,
        "source": row["source"],
        "stratum": row["stratum"],
        "decision": decision,
        "judged": judged,
        "score": row["score"],
    }


def _with_earlier(store: Store, queue: OpenQueue, given: Sequence[HumanVerdict]) -> OpenQueue:
    """The queue and the answered items that have left it since: what people said isn't lost when it is generated
    again."""
    wanted = {one.item_id: one.content for one in given if one.item_id not in queue.rows}
    rows, items, screens = dict(queue.rows), dict(queue.items), list(queue.screens)
    for earlier in open_earlier(store, wanted, elements=True) if wanted else ():
        rows |= earlier.rows
        items |= earlier.items
        screens += earlier.screens
    return OpenQueue(rows, items, queue.version, tuple(screens))


def _weights(queue: OpenQueue, all_drawn: Iterable[str], settled: Iterable[str]) -> dict[str, float]:
    """How many candidates each settled item stands for: those of its cell that aren't settled (yet) are shared out."""
    drawn = Counter((queue.rows[item_id]["stratum"], queue.rows[item_id]["band"]) for item_id in all_drawn)
    rows = {item_id: queue.rows[item_id] for item_id in settled}
    there = Counter((row["stratum"], row["band"]) for row in rows.values())
    return {
        # What the cell stood for, divided among those that are settled.
        item_id: row["weight"] * drawn[row["stratum"], row["band"]] / there[row["stratum"], row["band"]]
        for item_id, row in rows.items()
    }


def _screens(queue: OpenQueue, items: Sequence[Item]) -> list[Row]:
    """Rows of `screens` for the pictures of these items, as far as they are known, each once."""
    shown = {screen.sha256 for item in items for screen in _shown(item)}
    rows = {row["screenshot_sha256"]: row for row in queue.screens if row["screenshot_sha256"] in shown}
    return [rows[sha] for sha in sorted(rows)]


def _shown(item: Item) -> list[Screen]:
    if isinstance(item, Episode):
        return [step.screen for step in item.steps if step.screen]
    return item.screens


# --- reading ----------------------------------------------------------------------------------------------------------
def current(store: Store) -> dict[str, Any] | None:
    """The manifest of the promoted set, or None. Raises `StoreError` if its files aren't those it names."""
    promoted = frozen_digest(store.home, KEY)
    return version(store, promoted) if promoted else None


def version(store: Store, digest: str) -> dict[str, object]:
    """One promoted set by its digest, verified. Raises `StoreError`."""
    # It becomes part of a path.
    if not (len(digest) == 64 and set(digest) <= set("0123456789abcdef")):
        raise StoreError(f"{KEY}: expected a digest of 64 hex digits, found {digest[:80]!r}")
    folder = store.home / KEY / digest
    if not (folder / "manifest.json").is_file():
        raise StoreError(f"{KEY}: no promoted set {digest[:16]}; run `vesper review promote`")
    manifest = read_frozen(store.home, KEY, digest)
    files = [FileEntry(**entry) for entry in manifest["files"]]
    for entry in files:
        path = folder / Path(entry.path).name
        if not path.is_file() or file_sha256(path) != entry.sha256:
            raise StoreError(f"{KEY} {digest[:16]}: {entry.path} is missing or was changed; promote again")
    # The files fit their list, but the list may not be the one that was promoted.
    if data_version(files) != digest:
        raise StoreError(f"{KEY} {digest[:16]}: the manifest was changed; promote again")
    return manifest


def human_set(store: Store, digest: str) -> HumanSet:
    """A promoted set as the gate needs it."""
    version(store, digest)
    rows = pq.read_table(store.home / KEY / digest / "decisions.parquet").to_pylist()
    judged = {row["item_id"]: tuple(row["judged"]) for row in rows}
    decisions = {row["item_id"]: row["decision"] for row in rows}
    path = store.home / KEY / digest / "gate.json"
    recorded = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return HumanSet(digest, decisions, judged, recorded.get("kappa"), str(recorded.get("judge", "")))


def human_part(store: Store, digest: str) -> SourcePart:
    """The items of a promoted set, to be judged again: pictures come from the store."""
    version(store, digest)
    folder = store.home / KEY / digest
    tables = {name: pq.read_table(folder / f"{name}.parquet") for name in ("steps", "samples", "screens")}
    return SourcePart(
        digest[:16], tables["steps"], tables["samples"], tables["screens"], ScreenBank(tables["screens"], store)
    )


def gate_judge(store: Store, judge: Judge, digest: str | None = None, **limits: float) -> Check:
    """Have a judge judge the promoted set (the current one, or a pinned one) and hold it against the people.
    Raises `StoreError` if nothing is promoted, `CeilingReached` if the judge may not answer all tonight."""
    if digest is None:
        promoted = current(store)
        if promoted is None:
            raise StoreError(f"{KEY}: nothing promoted yet; run `vesper review promote`")
        digest = str(promoted["digest"])
    return gate(_verdicts_on(store, judge, digest), human_set(store, digest), **limits)


def admit(store: Store, judge: Judge) -> Check | None:
    """Let a judge work only if it agrees with people on the promoted set; None if there is no set, a small one, or
    one of a single band.

    What was found is stored in `cache/judge_gate/`, so a judge is asked once a set. Raises `ModelError` if it fails,
    `CeilingReached` if it may not answer all tonight; nothing is kept then, and another night asks for the rest.
    """
    promoted = current(store)
    if promoted is None or promoted["agreed"] < GATED_FROM:
        return None
    decided = set(human_set(store, str(promoted["digest"])).decisions.values())
    if len({BAND_RANK[one] for one in decided if one in BAND_RANK}) < 2:
        return None  # κ is undefined where people gave one band to all
    # The code that compares counts too: another comparison, another answer.
    name = digest([identity(judge), promoted["digest"], code_digest(("review/calibrate", "review/promote"))])[:32]
    retained = store.home / "cache" / "judge_gate" / f"{name}.json"
    if (plain := remembered(retained)) is not None:
        found = Check(**plain)
    else:
        found = gate_judge(store, judge, str(promoted["digest"]))
        remember(retained, asdict(found))
    if not found.passed:
        raise ModelError(
            f"judge {judge.name}: {found.name} fails: {found.found}, expected {found.expected}; ask another judge, or "
            "look at the disagreements with `vesper review serve`"
        )
    return found
