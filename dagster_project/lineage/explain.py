"""One item from its native row to the checkpoints that trained on it, and what its kind is worth to them: what each
stage decided, in its own words."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from dagster_project.lineage.corpus_versions import CorpusVersions
from dagster_project.lineage.identify import Identity, current, identify
from dagster_project.lineage.item_outcomes import KINDS, ItemOutcome, item_outcomes
from dagster_project.lineage.manifests import Manifests
from dagster_project.lineage.origins import dataset_licence, revision_of
from dagster_project.lineage.rows import Row, TableVersions, isin, plain_json, with_rounds, without_round
from dagster_project.lineage.subjects import find_subject
from dagster_project.lineage.touched import MIXTURE, SHARDS, chosen, forward, places
from dagster_project.settings import deployment
from dagster_project.settings.raw_folders import raw_folder
from pipelines import sources
from pipelines.mapping.adapter import Raw, Record
from pipelines.raw.rawdata import native_listing
from pipelines.training_data.mixture import DUPLICATES
from pipelines.training_data.removed import CONTAMINATION, PEOPLE, SAFETY
from schemas.ids import GENERATED_SOURCE, canonical_json
from schemas.tables import Verdicts
from trainer.worth import tables as worth

VERDICT = Verdicts.schema.names
STEP = [
    "source",
    "episode_id",
    "step_index",
    "split",
    "platform",
    "instruction",
    "action_text",
    "screenshot_sha256",
    "native_action",
    "provenance",
]
SAMPLE = [
    "sample_id",
    "source",
    "split",
    "platform",
    "objective",
    "images",
    "answer",
    "licence",
    "parents",
    "provenance",
]
Answer = dict[str, Any]


def explain(manifests: Manifests, word: str, native: bool = False) -> Answer:
    """What is known of an item in the current versions. With `native`, its record is read back from the raw files.
    Raises `ValueError` if there is no such item."""
    found = identify(manifests, word)
    corpus = CorpusVersions.current(manifests)
    # It never became a row, so no later stage knows of it.
    if found.kind == "quarantined":
        return _quarantined(corpus, found)
    rows = _rows(corpus, found)
    unified, gold = rows.get("unified", []), rows.get("gold", [])
    names = _names(found, [*unified, *gold])
    answer: Answer = {"item": found.item_id, "kind": found.kind, "source": found.source}
    answer["native"] = _origin(corpus, found, unified or gold, names, native)
    answer["row"] = [_shown(row) for row in unified or gold]
    answer["verdicts"] = _verdicts(corpus, found.source, names)
    answer["gold"] = _gold(corpus, found, gold, names)
    answer["trajectory"] = _trajectory(manifests, found)
    answer["hygiene"] = _hygiene(corpus, names)
    answer |= _corpus(manifests, corpus, found)
    answer["worth"] = _worth(corpus, found, unified or gold)
    return answer


def _quarantined(corpus: CorpusVersions, found: Identity) -> Answer:
    rows = [{**row, "native": plain_json(row["native"])} for row in found.rows]
    return {
        "item": found.item_id,
        "kind": found.kind,
        "source": found.source,
        "native": [_raw_file(corpus, found.source, str(row["file"]), str(row["record"])) for row in found.rows],
        "quarantine": rows,
        "checkpoints": [],
        "gold": {"fate": "quarantined"},
    }


def _rows(corpus: CorpusVersions, found: Identity) -> dict[str, list[Row]]:
    """The item's rows in `unified` and in `gold`."""
    if found.kind == "sample":
        table, columns, key, name, where = "samples", SAMPLE, "sample_id", found.key, None
    else:
        table, columns, key, where = "steps", STEP, "episode_id", None
        name = found.key.partition("/")[2]
        # The number is not in the id's column, but a filter beside it.
        if found.kind == "step":
            name, _, index = name.rpartition("/")
            where = pc.field("step_index") == int(index)
    rows = {}
    for group in ("unified", "gold"):
        tables = corpus.table(f"{group}/{found.source}", table)
        got = [row for _, row in tables.with_ids(columns, key, [name], where)]
        rows[group] = sorted(got, key=lambda row: row.get("step_index", 0))
    return rows


def _names(found: Identity, rows: list[Row]) -> list[str]:
    """Ids of the item, of its steps or its parents, and of their episodes: what stages after mapping speak of."""
    names = {found.item_id}
    for row in rows:
        if found.kind == "sample":
            names |= set(row["parents"])
        else:
            names.add(f"step:{row['source']}/{row['episode_id']}/{row['step_index']}")
    # Some stages speak of whole episodes, and so of each of their steps.
    episodes = {"episode:" + n.removeprefix("step:").rpartition("/")[0] for n in names if n.startswith("step:")}
    return sorted(names | episodes)


def _shown(row: Row) -> Row:
    return {key: plain_json(value) if key in ("provenance", "native_action") else value for key, value in row.items()}


def _origin(corpus: CorpusVersions, found: Identity, rows: list[Row], names: list[str], native: bool) -> list[Answer]:
    """Where the item's native rows lie; of a derived sample those of its parents."""
    lines = [plain_json(row["provenance"]) or {} for row in rows]
    # Derived in gold: its own provenance names the deriver, and its parents the native rows.
    if found.kind == "sample" and lines and not lines[0].get("file"):
        steps = [name for name in names if name.startswith("step:")]
        lines = [p for name in steps for p in _provenance(corpus, found.source, name)]
        samples = [name.removeprefix("sample:") for name in names if name.startswith("sample:")]
        lines += [p for name in samples for p in _sample_provenance(corpus, found.source, name) if p.get("file")]
    origins = []
    keys = ("record",) if found.source == GENERATED_SOURCE else ("file", "locator", "record", "native_index")
    # Several steps may come of one native row: it is shown once.
    for one in {tuple(str(t.get(key)) for key in keys): t for t in lines if t.get("file")}.values():
        place: Answer
        # Generated trajectories have no native file: their record lies in an asset of ours.
        if found.source == GENERATED_SOURCE:
            place = {"asset": "generation/trajectories", "file": "trajectories.jsonl", "place": one.get("record")}
        else:
            place = _raw_file(corpus, found.source, str(one["file"]), str(one.get("locator", "")))
        rules = {key: one[key] for key in ("rules", "lossy", "gap_at", "image_missing") if one.get(key)}
        place |= {"record": one.get("record"), "native_index": one.get("native_index"), **rules}
        if native:
            place["row"] = native_record(corpus, found.source, str(one["file"]), str(one.get("locator", "")))
        origins.append(place)
    return origins


def _provenance(corpus: CorpusVersions, source: str, name: str) -> list[Mapping[str, Any]]:
    episode, _, index = name.partition("/")[2].rpartition("/")
    where = pc.field("step_index") == int(index)
    for group in ("unified", "gold"):
        rows = corpus.table(f"{group}/{source}", "steps").with_ids(["provenance"], "episode_id", [episode], where)
        if rows:
            return [plain_json(row["provenance"]) or {} for _, row in rows]
    return []


def _sample_provenance(corpus: CorpusVersions, source: str, name: str) -> list[Mapping[str, Any]]:
    rows = corpus.table(f"unified/{source}", "samples").with_ids(["provenance"], "sample_id", [name])
    return [plain_json(row["provenance"]) or {} for _, row in rows]


def _raw_file(corpus: CorpusVersions, source: str, file: str, place: str) -> Answer:
    """A native file as `raw/<source>` lists it; without digest where it doesn't (it left the folder since)."""
    raw = corpus.get(f"raw/{source}")
    answer: Answer = {"file": file, "place": place, "asset": f"raw/{source}", "licence": dataset_licence(source)}
    if raw is None:
        # The raw asset may be gone; file and place stand in the row all the same.
        return answer
    answer |= {"version": raw.version, "revision": revision_of(raw)}
    return answer | next(({k: e[k] for k in ("sha256", "bytes")} for e in native_listing(raw) if e["path"] == file), {})


def native_record(corpus: CorpusVersions, source: str, file: str, place: str) -> object:
    """A record as its adapter reads it from the raw files; pictures as digests. Reads its part up to it. Raises
    `ValueError` if the source has no adapter or no files here, or the record isn't there any more."""
    adapter = sources.registry().get(source)
    if adapter is None:
        raise ValueError(f"--native: {source} has no adapter; its rows are Vesper's own")
    settings = deployment.load()

    def folder(name: str) -> Path:
        return raw_folder(settings, corpus.store.home, name)

    raw = Raw(folder(source), {name: folder(name) for name in adapter.descriptor.companions})
    for part in adapter.parts(raw) if raw.root.is_dir() else ():
        if file in part:
            for record in adapter.records(raw, part):
                # By file and place, which are what the row has kept of its record.
                if record.file == file and record.locator == place:
                    return plain_json(canonical_json(record.payload if isinstance(record, Record) else record.native))
    raise ValueError(f"--native: raw/{source}: no record at {place!r} of {file!r} in the native files as they are now")


def _verdicts(corpus: CorpusVersions, source: str, names: Iterable[str]) -> list[Row]:
    """All verdicts, first round first; by which judge, under which rubric."""
    rows = [
        {**row, "asset": asset}
        # Round 0 lies in `verdicts`, later rounds in `gold`.
        for asset in (f"verdicts/{source}", f"gold/{source}")
        for _, row in corpus.table(asset, "verdicts").with_ids(VERDICT, "item_id", with_rounds(names))
    ]
    return sorted(rows, key=lambda row: (row["round"], row["item_id"]))


def _gold(corpus: CorpusVersions, found: Identity, gold: list[Row], names: list[str]) -> Answer:
    """Kept, rewritten, reconstructed, or rejected and why; of an episode also which of its steps were."""
    kinds = ("episode:", "step:") if found.kind == "episode" else (f"{found.kind}:",)
    # Without gold rows anything that was rejected may be the reason, parents included.
    wanted = with_rounds(n for n in names if n.startswith(kinds) or not gold)
    tables = corpus.table(f"gold/{found.source}", "rejects")
    rejects = [row for _, row in tables.with_ids(["item_id", "reason", "score"], "item_id", wanted)]
    repairs = [r for row in gold for r in (plain_json(row["provenance"]) or {}).get("repairs", [])]
    if gold:
        outcome = "gold" if not repairs else "gold after " + ", ".join(map(str, repairs))
        # Of an episode in gold some steps may still have been rejected.
        if lost := len({without_round(row["item_id"]) for row in rejects if row["item_id"].startswith("step:")}):
            outcome += f", {lost} {'step' if lost == 1 else 'steps'} rejected"
    elif rejects:
        outcome = "rejected"
    else:
        outcome = "not gold" if corpus.get(f"gold/{found.source}") else "no gold yet"
    after = [_shown(row) for row in gold if (plain_json(row["provenance"]) or {}).get("repairs")]
    return {
        "fate": outcome,
        "after": after,
        "rejects": sorted(rejects, key=lambda row: row["item_id"]),
        "repairs": repairs,
    }


def _trajectory(manifests: Manifests, found: Identity) -> list[Answer]:
    """Of a generated item: the task, the policy, and what the annotators said."""
    if found.source != GENERATED_SOURCE or found.kind == "sample":
        return []
    rest = found.key.partition("/")[2]
    name = rest if found.kind == "episode" else rest.rpartition("/")[0]
    tables = TableVersions(current(manifests, "generation/verified/"), "trajectories")
    columns = ["trajectory_id", "task_id", "policy", "outcome", "verified", "reason", "failure_kind", "votes"]
    rows = tables.with_ids(columns, "trajectory_id", [name])
    return [{**row, "votes": plain_json(row["votes"]), "asset": sorted(tables.versions([p]))[0][0]} for p, row in rows]


def _hygiene(corpus: CorpusVersions, names: list[str]) -> Answer:
    """What the stages that see all sources found: evaluation data, safety, duplicates both ways."""
    answer: Answer = {}
    for key, asset, table, columns in (
        ("contamination", CONTAMINATION, "quarantine", ["item_id", "reason", "suite", "suite_item", "because"]),
        ("evaluation_hits", CONTAMINATION, "hits", ["item_id", "suite", "suite_item", "kind", "measure", "threshold"]),
        ("safety", SAFETY, "quarantine", ["item_id", "reason"]),
        ("refused", PEOPLE, "quarantine", ["item_id", "reason"]),
        ("safety_findings", SAFETY, "findings", ["item_id", "rule", "kind", "field", "detail"]),
        ("duplicate_of", DUPLICATES, "displaced", ["item_id", "kept", "similarity", "reason"]),
    ):
        answer[key] = [row for _, row in corpus.table(asset, table).with_ids(columns, "item_id", names)]
    columns = ["item_id", "kept", "similarity", "reason"]
    rows = corpus.table(DUPLICATES, "displaced").with_ids(columns, "kept", names)
    answer["displaces"] = [row for _, row in rows]
    # Stages that said nothing have no entry.
    return {key: value for key, value in answer.items() if value}


def _corpus(manifests: Manifests, corpus: CorpusVersions, found: Identity) -> Answer:
    """Samples, shards and rows, the mixture's repeats, why a sample doesn't train, and the checkpoints."""
    try:
        subject = find_subject(manifests, found.item_id)
    except ValueError:  # rejected before any row of it was written
        return {"samples": 0, "shards": [], "fates": {}, "checkpoints": [], "evaluations": []}
    items = corpus.samples(f"gold/{found.source}", subject.samples or ())
    here = places(manifests, frozenset(item.id for item in items))
    mixture, shards = corpus.get(MIXTURE), corpus.get(SHARDS)
    training = (shards.asset, shards.version) if shards else None
    drawn = chosen(mixture, here) if mixture else {}
    packed = [
        {
            "sample_id": p.sample_id,
            "shard": f"{p.shards[0]}/{_folder(manifests, p.shards, p.shard)}",
            "row": p.row,
            "version": p.shards[1],
            # Repeats are those of this mixture's own shards; of other versions nobody knows.
            "repeats": drawn.get(p.sample_id, 0) if p.shards == training else None,
        }
        for p in here
        if manifests.is_current(p.shards)
    ]
    decided = item_outcomes(manifests, corpus, corpus, items)
    reached = forward(manifests, subject)
    return {
        "samples": len(items),
        "shards": sorted(packed, key=lambda row: (row["shard"], row["row"])),
        "fates": {name: _plain(outcome) for name, outcome in sorted(decided.items())},
        "checkpoints": reached.plain()["checkpoints"],
        "evaluations": [t.asset for t in reached.evaluations],
    }


def _worth(corpus: CorpusVersions, found: Identity, rows: list[Row]) -> list[Answer]:
    """What probes measured of what the item belongs to: its source, a sample's deriver and objective. Nobody measures
    single items: their share of a training is far below what three seeds can tell."""
    wanted = {(kind, found.source) for kind in (worth.LEFT_OUT, worth.ALONE, worth.GENERATION)}
    for row in rows if found.kind == "sample" else ():
        deriver = (plain_json(row["provenance"]) or {}).get("deriver")
        wanted |= {(worth.OBJECTIVE, row["objective"]), (worth.DERIVER, str(deriver))}
    columns = ["kind", "subject", "points", "low", "high", "says", "questions", "seeds", "rows"]
    subjects = {subject for _, subject in wanted}
    return [
        # The version, as a measurement speaks of the corpus of its day.
        {**row, "asset": asset, "version": measured.version}
        for asset in worth.ASSETS
        if (measured := corpus.get(asset)) is not None
        for _, row in corpus.table(asset, "worth").where(columns, isin("subject", subjects))
        if (row["kind"], row["subject"]) in wanted
    ]


def _plain(outcome: ItemOutcome) -> Answer:
    return {"kind": outcome.kind, "meaning": KINDS[outcome.kind], "detail": outcome.detail}


def _folder(manifests: Manifests, node: tuple[str, str], shard: str) -> str:
    """Where a shard lies below its asset (an unchanged one in an older version's folder)."""
    manifest = manifests.find(node)
    paths = (entry.path for entry in manifest.files) if manifest else ()
    return next((path for path in paths if path.rpartition("/")[2] == shard), shard)
