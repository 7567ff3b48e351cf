"""Why an item is (or isn't) in a corpus: the first stage that kept it out, with that stage's own words."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dagster_project.lineage.corpus_versions import CorpusVersions, TracedItem
from dagster_project.lineage.manifests import Manifests
from dagster_project.lineage.rows import Row, isin, plain_json, with_rounds, without_round
from dagster_project.lineage.touched import MIXTURE, SHARDS, ShardRow, chosen, places
from pipelines.store.manifest import Manifest
from pipelines.training_data.mixture import DUPLICATES
from pipelines.training_data.removed import CONTAMINATION, PEOPLE, SAFETY

KINDS = {
    "trained": "in the mixture",
    "source_absent": "its source isn't there",
    "row_absent": "no such native row",
    "quarantined": "quarantined when it was mapped",
    "rejected": "rejected by judge or repair",
    "pending": "waits for a verdict",
    "derived_otherwise": "other samples are derived from its row",
    "renumbered": "its native row is another step",
    "not_gold": "its row isn't gold",
    "other_split": "not in the train split",
    "contaminated": "held by an evaluation suite",
    "unsafe": "unsafe",
    "refused": "refused by people",
    "without_picture": "a picture is missing",
    "held_out_picture": "shows a held-out picture",
    "duplicate": "a duplicate of what is kept",
    "not_drawn": "packed, not drawn by the mixture's rates",
    "not_packed": "not packed yet",
    "no_mixture": "packed, and there is no mixture of these shards yet",
}
"""Kind of outcome → what it means; the stages in the order of the graph."""


NativeKey = tuple[str, int | None, int]
"""(episode, native index or None, which of its steps)."""


@dataclass(frozen=True, slots=True)
class ItemOutcome:
    """What became of an item: one of `KINDS`, and the words of the stage that decided."""

    kind: str
    detail: str = ""


def item_outcomes(
    manifests: Manifests, corpus: CorpusVersions, own: CorpusVersions, items: Sequence[TracedItem], stop: str = MIXTURE
) -> dict[str, ItemOutcome]:
    """What becomes of each item in `corpus`; `own` is the corpus that the items come from. `stop`: the asset whose rows
    count as being in (the mixture; shards; a gold or unified asset)."""
    by_source: dict[str, list[TracedItem]] = {}
    for item in items:
        by_source.setdefault(item.source, []).append(item)
    found: dict[str, ItemOutcome] = {}
    left: list[TracedItem] = []
    for source, mine in sorted(by_source.items()):
        early = _before_gold(corpus, own, source, mine, stop)
        found |= early
        # Further stages say more of what is gold: it is looked up as this corpus has it.
        if stop in (SHARDS, MIXTURE):  # what is gold here has its split and pictures from here
            left += corpus.samples(f"gold/{source}", (item.id for item in mine if item.id not in early))
    if left:
        found |= _after_gold(manifests, corpus, left, stop)
    return found


def _before_gold(
    corpus: CorpusVersions, own: CorpusVersions, source: str, items: list[TracedItem], stop: str
) -> dict[str, ItemOutcome]:
    """Outcomes of the samples that aren't gold (or unified) rows of this source, and of steps, which the caller knows
    to be absent: by the same number another native action may go. Samples that are there get none."""
    gold, unified = corpus.get(f"gold/{source}"), corpus.get(f"unified/{source}")
    # A source that isn't in this corpus explains all of its items at once.
    if gold is None and unified is None:
        return {item.id: ItemOutcome("source_absent", source) for item in items}
    asset = stop if stop.partition("/")[0] in ("gold", "unified") else f"gold/{source}"
    there = _samples(corpus, asset, [item.id for item in items if not item.is_step])
    # Steps are always looked at: the same number may be another action here.
    lost = [item for item in items if item.is_step or item.id not in there]
    if not lost:
        return {}
    names = {name for item in lost for name in _names(item)}
    now = _now(corpus, own, source, names)
    # Names as they are here, which may differ from those in the corpus that the items come from.
    there_now = {name for name in now.values() if name is not None}
    golden = _steps(corpus, f"gold/{source}", there_now)
    golden |= {f"sample:{name}" for name in _samples(corpus, f"gold/{source}", _bare(there_now))}
    rejected = {row["item_id"]: row["reason"] for row in _by_id(corpus, f"gold/{source}", "rejects", "reason", names)}
    rejected |= {r["item_id"]: r["reason"] for r in _by_id(corpus, f"gold/{source}", "rejects", "reason", there_now)}
    waiting = {row["item_id"] for row in _by_id(corpus, f"verdicts/{source}", "pending", "item_id", there_now)}
    missing = {name for name, found in now.items() if found is None}
    # Only where there is a mapping is there a quarantine to have gone to.
    quarantine = _quarantine(corpus, own, source, missing) if unified is not None else {}
    return {
        item.id: _outcome_before_gold(item, now, golden, rejected, waiting, quarantine, unified is None)
        for item in lost
    }


def _outcome_before_gold(
    item: TracedItem,
    now: Mapping[str, str | None],
    golden: set[str],
    rejected: Mapping[str, str],
    waiting: set[str],
    quarantine: Mapping[str, str],
    unmapped: bool,
) -> ItemOutcome:
    """The first stage that an item's native rows didn't pass. `unmapped`: the source has no `unified`."""
    names = _names(item)
    there = [found for name in names if (found := now[name]) is not None]
    text = ", ".join(names[:2])
    # In the order of the graph: the first stage that stopped it is the reason.
    for name in names:
        if name in quarantine:
            return ItemOutcome("quarantined", quarantine[name])
    for name in there or (names if unmapped else ()):
        if name in rejected:
            return ItemOutcome("rejected", rejected[name])
    if not there:
        return ItemOutcome("row_absent", text)
    if any(name in waiting for name in there):
        return ItemOutcome("pending")
    # The same native action under other numbers: nothing is lost, only renumbered.
    if there != names and len(there) == len(names):
        return ItemOutcome("renumbered", f"{text} is {', '.join(there[:2])} there")
    return ItemOutcome("derived_otherwise" if any(name in golden for name in there) else "not_gold", text)


def _now(corpus: CorpusVersions, own: CorpusVersions, source: str, names: Iterable[str]) -> dict[str, str | None]:
    """Native items by the names that they have in `own` → their names in `corpus`, None where they aren't mapped.

    A step's number counts what was mapped before it, so the same native action can be another step in another version.
    """
    asset = f"unified/{source}" if corpus.get(f"unified/{source}") else f"gold/{source}"
    steps = {step_key(name): name for name in names if name.startswith("step:")}
    there = _samples(corpus, asset, _bare(names))
    found: dict[str, str | None] = {
        name: name if name.removeprefix("sample:") in there else None for name in names if not name.startswith("step:")
    }
    episodes = {episode for episode, _ in steps}
    mine = _native_keys(own, asset if own.get(asset) else f"gold/{source}", episodes)
    # Turned around: native action → its number here.
    other = {key: step for step, key in _native_keys(corpus, asset, episodes).items()}
    for step, name in steps.items():
        # A step without a native index goes by its number in both.
        place = other.get(mine.get(step, (step[0], None, step[1])))
        found[name] = None if place is None else f"step:{source}/{place[0]}/{place[1]}"
    return found


def _native_keys(corpus: CorpusVersions, asset: str, episodes: set[str]) -> dict[tuple[str, int], NativeKey]:
    """(episode, number) of steps → which native action each is."""
    columns = ["episode_id", "step_index", "provenance"]
    return native_keys(row for _, row in corpus.table(asset, "steps").with_ids(columns, "episode_id", episodes))


def native_keys(rows: Iterable[Row]) -> dict[tuple[str, int], NativeKey]:
    """Rows of steps → (episode, number) → (episode, native index, which of the steps that this native action became);
    a step whose provenance has no index goes by its number."""
    seen: dict[tuple[str, object], int] = {}
    found: dict[tuple[str, int], NativeKey] = {}
    for row in sorted(rows, key=lambda row: (row["episode_id"], row["step_index"])):
        step = (row["episode_id"], row["step_index"])
        stated = plain_json(row["provenance"])
        index = stated.get("native_index") if isinstance(stated, dict) else None
        # An added step (an answer, a terminal) has no native action, and is known by its number.
        if not isinstance(index, int):
            found[step] = (step[0], None, step[1])
            continue
        number = seen.get((step[0], index), 0)
        seen[step[0], index] = number + 1
        found[step] = (step[0], index, number)
    return found


def _names(item: TracedItem) -> list[str]:
    """The native items that an item stands on: itself, or its parents."""
    if item.is_step:
        return [item.id]
    # A sample without parents is native, and stands on itself.
    return [parent for parent in item.parents if parent.startswith(("step:", "sample:"))] or [f"sample:{item.id}"]


def _bare(names: Iterable[str]) -> list[str]:
    return [name.removeprefix("sample:") for name in names if name.startswith("sample:")]


def _samples(corpus: CorpusVersions, asset: str, ids: Iterable[str]) -> set[str]:
    rows = corpus.table(asset, "samples").with_ids(["sample_id"], "sample_id", set(ids))
    return {row["sample_id"] for _, row in rows}


def step_key(name: str) -> tuple[str, int]:
    """`step:<source>/<episode>/<number>` → (episode, number)."""
    episode, _, index = name.partition("/")[2].rpartition("/")
    return episode, int(index)


def _steps(corpus: CorpusVersions, asset: str, names: Iterable[str]) -> set[str]:
    """Which of `step:...` are rows of an asset."""
    keys = {step_key(name): name for name in names if name.startswith("step:")}
    episodes = {episode for episode, _ in keys}
    rows = corpus.table(asset, "steps").with_ids(["episode_id", "step_index"], "episode_id", episodes)
    return {keys[key] for _, row in rows if (key := (row["episode_id"], row["step_index"])) in keys}


def _by_id(corpus: CorpusVersions, asset: str, table: str, column: str, names: Iterable[str]) -> list[Row]:
    """Rows of a table by `item_id`; an episode's row stands for its steps."""
    wanted = set(names)
    episodes: dict[str, list[str]] = {}
    for name in wanted:
        if name.startswith("step:"):
            episodes.setdefault("episode:" + name.removeprefix("step:").rpartition("/")[0], []).append(name)
    columns = list(dict.fromkeys(["item_id", column]))
    rows = corpus.table(asset, table).with_ids(columns, "item_id", with_rounds(wanted | set(episodes)))
    # An episode's row stands for each of its steps.
    found = []
    for _, row in rows:
        row["item_id"] = without_round(row["item_id"])
        found += [{**row, "item_id": name} for name in episodes.get(row["item_id"], [])]
        found.append(row)
    # Own rows before those that an episode lends: the nearer reason is found first.
    return sorted(found, key=lambda row: row["item_id"] not in wanted)


def _quarantine(corpus: CorpusVersions, own: CorpusVersions, source: str, names: set[str]) -> dict[str, str]:
    """Native items that aren't mapped in `corpus` → why, found by the native record that they came from in `own`."""
    origin: dict[str, Mapping[str, object]] = {}
    keys = {step_key(name): name for name in names if name.startswith("step:")}
    episodes, columns = {episode for episode, _ in keys}, ["episode_id", "step_index", "provenance"]
    for _, row in own.table(f"unified/{source}", "steps").with_ids(columns, "episode_id", episodes):
        if (key := (row["episode_id"], row["step_index"])) in keys:
            origin[keys[key]] = plain_json(row["provenance"]) or {}
    columns = ["sample_id", "provenance"]
    for _, row in own.table(f"unified/{source}", "samples").with_ids(columns, "sample_id", _bare(names)):
        origin[f"sample:{row['sample_id']}"] = plain_json(row["provenance"]) or {}
    if not origin:
        return {}
    files = sorted({str(stated.get("file", "")) for stated in origin.values()})
    columns = ["file", "record", "reason", "detail", "native"]
    rows = [row for _, row in corpus.table(f"unified/{source}", "quarantine").where(columns, isin("file", files))]
    found: dict[str, str] = {}
    # By the native record: a row that was never mapped has no id of ours.
    for name, stated in origin.items():
        for row in rows:
            if quarantine_holds(row, stated):
                found[name] = f"{row['reason']}: {row['detail']}" if row["detail"] else row["reason"]
                break
    return found


def quarantine_holds(row: Row, told: Mapping[str, object]) -> bool:
    """Whether a quarantine row is of the native item that a provenance names."""
    if row["file"] != told.get("file"):
        return False
    native = plain_json(row["native"])
    # An item within a record is told by its index, a whole record by its place.
    if isinstance(native, dict) and "record" in native and "native_index" in native:
        return native["record"] == told.get("record") and native["native_index"] == told.get("native_index")
    record = told.get("record")
    return row["record"] == told.get("locator") or (record is not None and json.dumps(record) in row["native"])


def _after_gold(
    manifests: Manifests, corpus: CorpusVersions, items: list[TracedItem], stop: str
) -> dict[str, ItemOutcome]:
    """Outcomes of gold samples: left out of the shards, or of the mixture."""
    shards, mixture = corpus.get(SHARDS), corpus.get(MIXTURE)
    # An older mixture's word would be about other rows.
    if mixture is not None and shards is not None and mixture.inputs.get(SHARDS) != shards.version:
        mixture = None  # of older shards: it says nothing of these
    here: list[ShardRow] = []
    if shards is not None:
        all_places = places(manifests, frozenset(item.id for item in items), (SHARDS,))
        here = [place for place in all_places if place.shards == (shards.asset, shards.version)]
    packed = {place.sample_id for place in here}
    drawn = chosen(mixture, here) if mixture is not None else {}
    displaced = _displaced(corpus, items)
    contaminated, unsafe, refused = (corpus.removed(asset) for asset in (CONTAMINATION, SAFETY, PEOPLE))
    found = {}
    # In the order in which packing asks its questions, so that the reason is the one that decided.
    for item in items:
        if item.id in packed:
            found[item.id] = _mixed(item, stop, mixture, drawn, displaced)
        elif shards is None:
            found[item.id] = ItemOutcome("not_packed")
        elif item.split != "train":
            found[item.id] = ItemOutcome("other_split", item.split)
        elif contaminated.holds(item.id, item.parents):
            found[item.id] = ItemOutcome("contaminated", _words(corpus, CONTAMINATION, item))
        elif unsafe.holds(item.id, item.parents):
            found[item.id] = ItemOutcome("unsafe", _words(corpus, SAFETY, item))
        elif refused.holds(item.id, item.parents):
            found[item.id] = ItemOutcome("refused", _words(corpus, PEOPLE, item))
        elif not _packed_from(shards, corpus, item.source):
            # Shards from before a source's newest gold: they don't lack this sample, they are older.
            found[item.id] = ItemOutcome("not_packed")
        else:
            # Nothing else leaves a sample out, so its pictures did.
            found[item.id] = ItemOutcome(
                "held_out_picture" if item.images else "without_picture", ", ".join(item.images[:1])
            )
    return found


def _packed_from(shards: Manifest, corpus: CorpusVersions, source: str) -> bool:
    """Whether shards were built from what this corpus has of a source, and of all that it bars."""
    read = [f"gold/{source}", CONTAMINATION, SAFETY, PEOPLE]
    now = [manifest.version if (manifest := corpus.get(asset)) is not None else None for asset in read]
    return now == [shards.inputs.get(asset) for asset in read]


def _mixed(
    item: TracedItem, stop: str, mixture: Manifest | None, drawn: Mapping[str, int], displaced: Mapping[str, str]
) -> ItemOutcome:
    if stop == SHARDS:
        return ItemOutcome("trained", "packed")
    if item.id in drawn:
        return ItemOutcome("trained", f"{drawn[item.id]} times an epoch")
    if item.id in displaced:
        return ItemOutcome("duplicate", displaced[item.id])
    return ItemOutcome("no_mixture") if mixture is None else ItemOutcome("not_drawn")


def _displaced(corpus: CorpusVersions, items: list[TracedItem]) -> dict[str, str]:
    """Samples that are duplicates → of what, and how alike. One that goes with its episode has a row of its own; the
    episode's says nothing of its other samples, which stay."""
    columns = ["item_id", "kept", "similarity", "reason"]
    names = {f"sample:{item.id}" for item in items}
    rows = corpus.table(DUPLICATES, "displaced").with_ids(columns, "item_id", names)
    return {
        row["item_id"].removeprefix("sample:"): f"{row['reason']} of {row['kept']}" + _alike(row["similarity"])
        for _, row in rows
    }


def _alike(similarity: float | None) -> str:
    return "" if similarity is None else f", similarity {similarity:.3f}"


def _episodes(item: TracedItem) -> set[str]:
    steps = (parent for parent in item.parents if parent.startswith("step:"))
    return {"episode:" + parent.removeprefix("step:").rpartition("/")[0] for parent in steps}


def _words(corpus: CorpusVersions, asset: str, item: TracedItem) -> str:
    """The reason that a hygiene stage wrote down."""
    names = sorted({f"sample:{item.id}", *item.parents, *_episodes(item)})
    columns = ["item_id", "reason", *(["suite", "because"] if asset == CONTAMINATION else [])]
    rows = corpus.table(asset, "quarantine").with_ids(columns, "item_id", names)
    said = [" ".join(str(row[name]) for name in columns[1:] if row.get(name)) for _, row in rows]
    return "; ".join(sorted(set(said)))
