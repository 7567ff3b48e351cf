"""Semantic duplicates: which items say the same thing about the same thing, and which one of them stays.

Two items are duplicates iff they agree on a **key** and their texts' cosine similarity is at least T:

| item | text | key: equal in |
|---|---|---|
| episode | its instruction | split, platform, literals, first picture (perceptual hash), actions (points by cell) |
| sample | its prompt | split, platform, literals, objective, pictures (sha256), answer |

Where `hygiene/screens` (`quality.duplicates.screen_owners`) has a version, a near copy of another source's screen
counts as that screen in both keys, and its pairs of episodes that are one recording are duplicates too, whatever they
are reported.

The key is what keeps data that only *sounds* alike. "Set an alarm for 7:30" and "set an alarm for 7:35" are near one
another for an embedding, so the literals of a text (numbers and quoted words) must be equal, and nothing else
that vectors are deaf to (`quality.evidence.meaning`) may differ; a thousand recordings of
one instruction on other screens are a thousand lessons. Instructions alone are compared too, within a platform:
`instruction_pairs` says how much a corpus repeats itself. Splits are never compared with one another here; leaks
between them are contamination, a stage of its own.

`keep` is greedy in the total order (source priority, -score, item_id): an item goes iff one that stays before it is
its duplicate. Nothing is merged transitively (A~B, B~C keeps A and C), and it is recomputed from the pairs, so it is
a pure function of the set: in whatever order items were added, and a withdrawn source revives what it had displaced.

Items of one key and one text are a class (`quality.duplicates.item_classes`): the table `pairs` names each of them
beside its class's owner, the first in that order, and pairs of other texts by their owners.

Gold is read part by part, and samples are put into groups by their key, which are looked at one after another: beside
what episodes are told, memory holds one group, however many samples there are.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import pyarrow as pa

from pipelines.prompts import prompt_text
from pipelines.store import Build, CheckSpec, Manifest, PartSpec, PartWriter, Store
from quality.duplicates.item_classes import DuplicateCandidate, ItemClasses, item_classes
from quality.duplicates.neighbours import check_threshold, keep
from quality.duplicates.same_text import VERSION as MEANING_VERSION
from quality.duplicates.same_text import alike_pairs
from quality.duplicates.screen_owners import ASSET as SCREENS
from quality.duplicates.screen_owners import canonical_screens, recording_pairs
from quality.duplicates.spilled import SpilledLists
from quality.evidence.embedding import Embedder, normalise
from quality.judges.verdicts import last_verdicts
from schemas.ids import digest, item_episode, item_sample
from schemas.tables import Pairs, Samples, Screens, Steps, Verdicts

__all__ = ["DuplicateCandidate", "find_duplicates", "keep", "literals"]

ASSET = "hygiene/duplicates"
CODE_VERSION = f"5.{MEANING_VERSION}"
DEFAULT_THRESHOLD = 0.8
"""Lower than a bare text comparison could afford: the key already asks for one screen, one answer, equal literals.
all-MiniLM-L6-v2 puts "Remove the mail with the subject ..." and "Delete the message ..." at 0.805."""
POINT_CELL = 50
"""Units of 0..1000: points of two recordings count as one place if they lie in one cell of this size."""
GROUP_SAMPLES = 20_000
"""Samples that are compared at a time, on average, and rows of a file."""

KEEP = pa.schema([("item_id", pa.string()), ("source", pa.string()), ("score", pa.int8())])
DISPLACED = pa.schema(
    [
        ("item_id", pa.string()),
        ("source", pa.string()),
        ("kept", pa.string()),
        ("similarity", pa.float32()),
        ("reason", pa.string()),
    ]
)
"""`kept` is the item it yields to; `reason` is `duplicate`, `recording` for an episode told in other words, or
`episode` for a sample of a displaced episode; `similarity` is then that of the steps, or null."""
TEXTS = pa.schema([("text_id", pa.string()), ("platform", pa.string()), ("text", pa.string())])
ALL_ONCE = CheckSpec("every item is kept or displaced once", "An item is missing or counted twice")
NO_DUPLICATES = CheckSpec("no two kept items are duplicates", "Two kept items are as similar as duplicates")
NOT_EMPTY = CheckSpec("something is kept", "All items were displaced")
CHECKS = (ALL_ONCE, NO_DUPLICATES, NOT_EMPTY)
NOBODY: Mapping[str, str] = {}


def find_duplicates(store: Store, sources: Sequence[str], threshold: float = DEFAULT_THRESHOLD) -> Manifest:
    """Gold of all `sources` → `hygiene/duplicates` with tables pairs, keep, displaced, instruction_pairs, texts.

    A source's priority is its place in `sources`: of the first most stays. Vectors come from the store's cache and
    instruction pairs from the last version where its model and threshold were the same, so only new texts are
    embedded, and compared with all. Neither changes a byte of the result.

    Raises `StoreError` if a source has no gold, `ValueError` for a threshold outside (0, 1].
    """
    check_threshold(threshold)
    manifests = {source: store.require(f"gold/{source}") for source in sources}
    ranks = {source: place for place, source in enumerate(sources)}
    embedder = Embedder(cache=store.home / "cache" / "embeddings")
    config = {"threshold": threshold, "model": embedder.identity, "priority": ranks}
    judged = {source: found for source in sources if (found := store.current(f"verdicts/{source}")) is not None}
    looks = {source: found for source in sources if (found := store.screens_of(source)) is not None}
    screens = store.current(SCREENS)
    read = [*manifests.values(), *judged.values(), *looks.values(), *([screens] if screens is not None else [])]
    inputs = {manifest.asset: manifest.version for manifest in read}
    data = {manifest.asset: manifest.data_version for manifest in read}
    # By data versions: a rebuilt source with the same rows changes nothing here.
    spec = PartSpec("all", digest([CODE_VERSION, config, data]))
    before = store.compared_with(ASSET)
    with store.build(ASSET, code_version=CODE_VERSION, config=config, inputs=inputs, parts=[spec]) as build:

        def make(out: PartWriter) -> dict[str, Any]:
            copies = canonical_screens(screens)
            items = _read_items(manifests, judged, _phashes(looks, copies), ranks, copies)
            # By the rows alone, so that the files don't depend on how gold is cut.
            count = max(1, math.ceil(sum(m.rows("samples") for m in manifests.values()) / GROUP_SAMPLES))
            groups = SpilledLists[DuplicateCandidate](count, store.home / "cache" / "duplicates")
            return _write(out, items, groups, threshold, embedder, before, recording_pairs(screens))

        result = build.run_part(spec, make)
        return _commit(build, result.counts)


def _commit(build: Build, counts: Mapping[str, Any]) -> Manifest:
    whole = counts["kept"] + counts["displaced"]
    checks = [
        ALL_ONCE.check(whole == counts["items"], whole, counts["items"]),
        NO_DUPLICATES.check(counts["kept_pairs"] == 0, counts["kept_pairs"], 0),
        NOT_EMPTY.check(counts["kept"] > 0 or counts["items"] == 0, counts["kept"], "at least 1", limit=1),
    ]
    return build.commit(counts=dict(counts), checks=checks)


def _write(
    out: PartWriter,
    items: Iterable[DuplicateCandidate],
    samples: SpilledLists[DuplicateCandidate],
    threshold: float,
    embedder: Embedder,
    before: Manifest | None,
    recordings: Sequence[tuple[str, str, float]],
) -> dict[str, Any]:
    """`samples`: empty, a list for each group. Each of them writes a file of each table, which is sorted."""
    episodes: list[DuplicateCandidate] = []
    for item in items:
        if item.id.startswith("episode:"):
            episodes.append(item)
        else:
            # A key's samples stand in one group: only they are compared with one another.
            samples.add(int(item.key[:8], 16) * samples.count >> 32, item)
    rows: dict[str, list[tuple[Any, ...]]] = {"pairs": [], "keep": [], "displaced": []}
    counts: Counter[str] = Counter()
    gone = _compare(rows, counts, episodes, item_classes(episodes, threshold, embedder), recordings)
    for number in range(samples.count):
        group = samples.take(number)
        _compare(rows, counts, group, item_classes(group, threshold, embedder), (), gone)
        for table, schema in (("pairs", Pairs.schema), ("keep", KEEP), ("displaced", DISPLACED)):
            ordered = sorted(rows[table], key=itemgetter(0, 1))
            plain = [dict(zip(schema.names, row, strict=True)) for row in ordered]
            out.table(table, pa.Table.from_pylist(plain, schema=schema), chunk=number)
            rows[table].clear()
    return {**_instructions(out, episodes, threshold, embedder, before), **counts}


def _compare(
    rows: Mapping[str, list[tuple[Any, ...]]],
    counts: Counter[str],
    items: Sequence[DuplicateCandidate],
    classes: ItemClasses,
    recordings: Sequence[tuple[str, str, float]],
    gone: Mapping[str, str] = NOBODY,
) -> dict[str, str]:
    """Decide over some items that share no key with others, and add to the rows of tables and to the figures; returns
    what was displaced by its duplicate → its winner. `gone`: the same of episodes that were decided on before."""
    by_id = {item.id: item for item in items}
    # Only of items that are in gold, and that aren't duplicates by their texts already.
    recorded = [pair for pair in recordings if {*pair[:2]} <= by_id.keys() and classes.similarity(*pair[:2]) is None]
    retained, displaced, follow = decide(items, classes, recorded, gone)
    # Each recording pair by both of its ends, as either of them may be the one that yields.
    seen_alike = {frozenset(pair[:2]): pair[2] for pair in recorded}
    for name, winner in displaced.items():
        value = classes.similarity(name, winner)
        how = (seen_alike[frozenset((name, winner))], "recording") if value is None else (value, "duplicate")
        rows["displaced"].append((name, by_id[name].source, winner, *how))
    rows["displaced"] += [(name, by_id[name].source, winner, None, "episode") for name, winner in follow.items()]
    rows["keep"] += [(name, by_id[name].source, by_id[name].score) for name in retained]
    pairs = [*classes.pairs(), *recorded]
    rows["pairs"] += pairs
    standing, left = set(retained), [*displaced, *follow]
    counts.update(
        items=len(items),
        pairs=len(pairs),
        recordings=len(recorded),
        kept=len(retained),
        displaced=len(left),
        displaced_episodes=sum(name.startswith("episode:") for name in left),
        displaced_samples=sum(name.startswith("sample:") for name in left),
        # Pairs among what stays: none is the invariant that the check holds this stage to.
        kept_pairs=classes.pairs_among(standing) + sum(standing.issuperset(pair[:2]) for pair in recorded),
    )
    return displaced


def decide(
    items: Sequence[DuplicateCandidate],
    classes: ItemClasses,
    recordings: Sequence[tuple[str, str, float]] = (),
    gone: Mapping[str, str] = NOBODY,
) -> tuple[list[str], dict[str, str], dict[str, str]]:
    """(kept, displaced item → its winner, sample → the episode that its own episode yields to). `gone`: displaced
    episodes that aren't among the items, by their winners.

    Episodes first: a sample of a displaced episode goes with it *before* samples are compared, or it could take
    another sample down and then leave itself.
    """
    alike = list(classes.alike)
    recorded = [(left, right) for left, right, _ in recordings]
    episodes = {item.id: item.order for item in items if item.id.startswith("episode:")}
    stay, displaced = keep(episodes, recorded, classes.of, alike)
    samples = [item for item in items if not item.id.startswith("episode:")]
    # A sample goes with its episode, to which it would be an echo.
    yields = {**gone, **displaced} if episodes else gone
    follow = {item.id: yields[episode] for item in samples for episode in item.episodes if episode in yields}
    compared = {item.id: item.order for item in samples if item.id not in follow}
    retained, doubled = keep(compared, recorded, classes.of, alike)
    return [*stay, *retained], {**displaced, **doubled}, follow


def _instructions(
    out: PartWriter, episodes: list[DuplicateCandidate], threshold: float, embedder: Embedder, before: Manifest | None
) -> dict[str, Any]:
    """Instruction texts of episodes against one another within a platform; pairs known from `before` are taken over."""
    texts = {i.text_id: (i.platform, normalise(i.text)) for i in episodes}
    measure = digest([CODE_VERSION, threshold, embedder.identity])
    old_ids: set[str] = set()
    rows: list[tuple[str, str, float]] = []
    if before is not None and before.file("measure.json").read_text() == measure:
        # Pairs of old texts are known only if threshold and model were the same.
        old_ids = set(before.read("texts", TEXTS)["text_id"].to_pylist()) & texts.keys()
        columns = before.read("instruction_pairs", Pairs.schema).to_pydict()
        known = zip(columns["left"], columns["right"], columns["similarity"], strict=True)
        rows = [(left, right, value) for left, right, value in known if left in old_ids and right in old_ids]
    for platform in sorted({platform for platform, _ in texts.values()}):
        mine = sorted(name for name, (where, _) in texts.items() if where == platform)
        # Old texts first: those aren't compared among themselves again.
        ordered = [n for n in mine if n in old_ids] + [n for n in mine if n not in old_ids]
        new_from = sum(name in old_ids for name in ordered)
        if new_from == len(ordered):
            continue
        for i, j, value in alike_pairs([texts[n][1] for n in ordered], threshold, embedder, new_from=new_from):
            left, right = sorted((ordered[i], ordered[j]))
            rows.append((left, right, value))
    listed = [{"text_id": name, "platform": texts[name][0], "text": texts[name][1]} for name in sorted(texts)]
    out.table("texts", pa.Table.from_pylist(listed, schema=TEXTS))
    rows.sort(key=lambda row: row[:2])
    pairs = Pairs.table({"left": a, "right": b, "similarity": s} for a, b, s in rows)
    out.table("instruction_pairs", pairs)
    # Not hashed: it says how the table was made, and isn't part of it.
    out.bytes("measure.json", measure.encode(), hashed=False)
    return {"instructions": len(texts), "instruction_pairs": len(rows)}


_POINT = re.compile(r"\((\d+),(\d+)\)")
_LITERAL = re.compile(r"\d+(?:[.,:/-]\d+)*|\"[^\"]*\"|\u201c[^\u201d]*\u201d|(?<!\w)'[^']*'(?!\w)")


def literals(text: str) -> list[str]:
    """Numbers and quoted words of a text, casefolded and sorted: texts that differ in them mean different things."""
    return sorted(match.strip("\"'\u201c\u201d").casefold() for match in _LITERAL.findall(text))


def _read_items(
    manifests: Mapping[str, Manifest],
    judged: Mapping[str, Manifest],
    looks: Mapping[str, int],
    ranks: Mapping[str, int],
    copies: Mapping[str, str],
) -> Iterator[DuplicateCandidate]:
    """All items, a part of gold in memory at a time; no episode spans parts."""
    for source, manifest in manifests.items():
        for key in manifest.by_part:
            scores = _scores((judged.get(source), manifest), key)
            yield from _episodes(source, manifest, key, looks, scores, ranks[source])
            yield from _samples(source, manifest, key, scores, ranks[source], copies)


def _phashes(looks: Mapping[str, Manifest], copies: Mapping[str, str]) -> dict[str, int]:
    """sha256 → perceptual hash of all screens; of a near copy that of the screen it yields to."""

    found: dict[str, int] = {}
    for manifest in looks.values():
        seen = manifest.read("screens", Screens.schema, ["screenshot_sha256", "phash"])
        found.update(zip(seen["screenshot_sha256"].to_pylist(), seen["phash"].to_pylist(), strict=True))
    # A near copy has the hash of its owner, so that keys of both agree.
    return found | {sha: found[owner] for sha, owner in copies.items() if owner in found}


def _scores(manifests: Iterable[Manifest | None], key: str) -> dict[str, int]:
    """Item id without version → score of its last round (round 0 lies in `verdicts/<source>`, later ones in gold), of
    the items of a part."""
    columns = ["item_id", "round", "score", "confidence"]
    # A part's name says what its rows share: where there is none of this name, any part may hold them.
    places = ((m, part) for m in manifests if m is not None for part in ([key] if key in m.by_part else m.by_part))
    rows = (row for m, part in places for row in m.read_part(part, "verdicts", Verdicts.schema, columns).to_pylist())
    return {name: score for name, (_, score, _) in last_verdicts(rows).items() if score is not None}


def _episodes(
    source: str, manifest: Manifest, key: str, looks: Mapping[str, int], scores: Mapping[str, int], rank: int
) -> Iterator[DuplicateCandidate]:
    columns = ["episode_id", "step_index", "split", "platform", "instruction", "screenshot_sha256", "action_text"]
    steps = manifest.read_part(key, "steps", Steps.schema, columns).sort_by(
        [("episode_id", "ascending"), ("step_index", "ascending")]
    )
    episodes: dict[str, list[dict[str, Any]]] = {}
    for row in steps.to_pylist():
        episodes.setdefault(row["episode_id"], []).append(row)
    for episode_id, rows in episodes.items():
        first = rows[0]
        sha = first["screenshot_sha256"]
        # Without a known hash the picture's own digest: equal bytes at least are one picture.
        trace = [looks.get(sha, sha), [coarse(row["action_text"]) for row in rows]]
        if sha is None:
            trace.append(episode_id)  # without a picture nobody can say that two episodes are one
        name = item_episode(source, episode_id)
        same = digest(["episode", first["split"], literals(first["instruction"]), *trace])
        yield DuplicateCandidate(name, source, first["platform"], first["instruction"], same, scores.get(name), rank)


def coarse(action_text: str | None) -> str | None:
    """An action with its points rounded down to cells: what two recordings of one deed share."""
    if action_text is None:
        return None
    # Cells, so that two recordings of one click needn't hit the same pixel.
    return _POINT.sub(lambda m: f"({int(m[1]) // POINT_CELL},{int(m[2]) // POINT_CELL})", action_text)


def _samples(
    source: str, manifest: Manifest, key: str, scores: Mapping[str, int], rank: int, copies: Mapping[str, str]
) -> Iterator[DuplicateCandidate]:
    columns = ["sample_id", "split", "platform", "objective", "images", "messages", "answer", "parents"]
    for row in manifest.read_part(key, "samples", Samples.schema, columns).to_pylist():
        name = item_sample(row["sample_id"])
        # A sample without pictures is compared by its own id, so with no other sample.
        text, shown = prompt_text(row["messages"]), row["images"] or [row["sample_id"]]
        shown = [copies.get(sha, sha) for sha in shown]
        same = digest(["sample", row["split"], literals(text), row["objective"], shown, row["answer"]])
        # A derived sample has no verdict of its own; it is as good as the worst step behind it.
        score = scores.get(name, min((scores[p] for p in row["parents"] if p in scores), default=None))
        steps = (p.removeprefix("step:").rpartition("/")[0] for p in row["parents"] if p.startswith("step:"))
        # Only navigation repeats what its episode teaches; other objectives ask something else of the screen.
        episodes = tuple(f"episode:{step}" for step in steps) if row["objective"] == "navigation" else ()
        yield DuplicateCandidate(name, source, row["platform"], text, same, score, rank, episodes)
