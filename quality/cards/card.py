"""Dataset cards: what a source gave, what became of it, and twelve of its samples to look at; and one for the corpus.

`cards/<source>` and `cards/corpus` hold `card.json` (all figures), `card.md`, `card.html` with `pictures/`, and
`sheet.png`, the twelve pictures on one sheet. A card is a pure function of the manifests that it names.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines import sources as adapters
from pipelines.mapping.card import Descriptor
from pipelines.store import PartSpec, PartWriter, Store, StoreError
from pipelines.store.manifest import Check, CheckSpec, Manifest
from quality.cards.pages import Section, markdown, page
from quality.cards.pictures import draw_samples, first_pictures
from quality.items.drawing import DRAWING_VERSION
from schemas.ids import digest

CODE_VERSION = f"4.{DRAWING_VERSION}"
MOST_BARS = 30
STAGES = ("raw", "unified", "verdicts", "gold")
Row = dict[str, Any]
ADDS_UP = CheckSpec("figures add up", "The card's items are not the sum of mapped and quarantined", sometimes=True)
HAS_PICTURES = CheckSpec("there are pictures", "No sampled item has a picture", blocking=False, sometimes=True)
HAS_GOLD = CheckSpec("has gold", "No good gold yet: the corpus is built without it", blocking=False, sometimes=True)
ALL_HAVE_GOLD = CheckSpec("every source has gold", "The corpus was built without these sources", blocking=False)
CHECKS = (ADDS_UP, HAS_PICTURES, HAS_GOLD)
CORPUS_CHECKS = (ADDS_UP, HAS_PICTURES, ALL_HAVE_GOLD)


def build_card(store: Store, source: str) -> Manifest:
    """`gold/<source>` and what it was built from → `cards/<source>`.

    A source without gold gets a card that says how far it is (its counts' `waiting_for`): `cards/corpus` comes after
    all cards, so a failure here would keep it from every other source. Raises `StoreError` if there is gold and what it
    was built from is gone.
    """
    card = adapters.get(source).descriptor
    if store.current(f"gold/{source}") is None:
        return _build_waiting_card(store, card)
    found = {stage: store.require(f"{stage}/{source}") for stage in STAGES}
    inputs = {manifest.asset: manifest.version for manifest in found.values()}
    # Counts too: they may change where the data doesn't.
    read = {manifest.asset: [manifest.data_version, digest(manifest.counts)] for manifest in found.values()}
    # The source's own description is part of the card.
    spec = PartSpec("card", digest([CODE_VERSION, read, asdict(card)]))
    with store.build(f"cards/{source}", code_version=CODE_VERSION, inputs=inputs, parts=[spec]) as build:

        def write(out: PartWriter) -> Row:
            facts = gather(card, found)
            shown = draw_samples(out, store, found["unified"])
            _write(out, card.title, facts, [*_sections(card, facts), Section("Samples", pictures=shown)])
            named = ("items", "mapped", "quarantined", "gold", "steps", "samples", "screens")
            return {name: facts[name] for name in named} | {"pictures": len(shown)}

        counts = build.run_part(spec, write).counts
        return build.commit(counts=counts, checks=_checks(counts))


def _build_waiting_card(store: Store, card: Descriptor) -> Manifest:
    """The card of a source that has no gold: what there is of it, and what it waits for."""
    asset = f"cards/{card.id}"
    stages = {f"{stage}/{card.id}": store.current(f"{stage}/{card.id}") for stage in STAGES}
    there = {name: manifest for name, manifest in stages.items() if manifest is not None}
    waiting_for = [name for name in stages if name not in there]
    read = {name: [manifest.data_version, digest(manifest.counts)] for name, manifest in there.items()}
    spec = PartSpec("waiting", digest([CODE_VERSION, read, waiting_for, asdict(card)]))
    inputs = {name: manifest.version for name, manifest in there.items()}
    with store.build(asset, code_version=CODE_VERSION, inputs=inputs, parts=[spec]) as build:

        def write(out: PartWriter) -> Row:
            facts: Row = {
                "id": card.id,
                "title": card.title,
                "licence": card.licence,
                "origin": card.origin,
                "waiting_for": waiting_for,
                "versions": {name: data[0] for name, data in read.items()},
            }
            states = [(name, "there" if name in there else "not made yet, or its checks failed") for name in stages]
            sections = [
                Section("", rows=[("Licence", card.licence), ("Origin", card.origin)], names=("", " ")),
                Section("No gold yet", "Nothing of this source is in the corpus.", ("asset", "state"), states),
            ]
            _write(out, card.title, facts, sections)
            return {"gold": 0, "samples": 0, "waiting_for": waiting_for}

        counts = build.run_part(spec, write).counts
        found = f"nothing good of {', '.join(waiting_for)}"
        # It fails, so that the asset shows what is missing, but it is there.
        return build.commit(counts=counts, checks=[HAS_GOLD.check(False, found, f"gold/{card.id}")])


def gather(card: Descriptor, found: Mapping[str, Manifest]) -> Row:
    """All figures of a card, from the manifests of its stages (`STAGES`)."""
    unified, gold, verdicts = found["unified"], found["gold"], found["verdicts"]
    counts = unified.counts
    return {
        "id": card.id,
        "title": card.title,
        "licence": card.licence,
        "origin": card.origin,
        "language": card.language,
        "citation": card.citation,
        "frame": card.frame,
        "platforms": list(card.platforms),
        "objectives": list(card.objectives),
        "known_problems": list(card.known_problems),
        "revision": found["raw"].counts.get("revision"),
        "files": found["raw"].counts.get("files"),
        "bytes": found["raw"].counts.get("bytes"),
        "records": counts.get("records_in", 0),
        "items": counts.get("items_in", 0),
        "mapped": counts.get("items_mapped", 0),
        "quarantined": counts.get("items_quarantined", 0),
        "screens": counts.get("images", 0),
        "without_picture": counts.get("images_missing", 0),
        "reasons": counts.get("reasons", {}),
        "losses": counts.get("losses", {}),
        "actions": _tally(unified, "steps", "action_type"),
        "splits": _tally(unified, "steps", "split", "samples"),
        "by_platform": _tally(unified, "steps", "platform", "samples"),
        "native_objectives": _tally(unified, "samples", "objective"),
        "steps": unified.rows("steps"),
        "native_samples": unified.rows("samples"),
        "kinds": verdicts.counts.get("kinds", {}),
        "scores": verdicts.counts.get("scores", {}),
        "ends": {
            n: gold.counts.get(n, 0)
            for n in ("kept", "rewritten", "reconstructed", "discarded", "unrepaired", "dropped", "review")
        },
        "gold": gold.counts.get("gold", 0),
        "samples": gold.rows("samples"),
        "gold_objectives": _tally(gold, "samples", "objective"),
        "tokens": _tokens(gold),
        "versions": {manifest.asset: manifest.data_version for manifest in found.values()},
        "loss_table": [asdict(row) for row in card.loss],
    }


def build_corpus_card(store: Store, sources: Sequence[str]) -> Manifest:
    """The cards of all `sources` that have gold, and the shards, mixture and hygiene where they are → `cards/corpus`.

    Sources whose card says that they wait for gold are named (`without_gold` of the counts) and counted nowhere. Raises
    `StoreError` if no source has a card with gold.
    """
    cards = {name: found for name in sources if (found := store.current(f"cards/{name}")) is not None}
    # Sources without gold are named, never counted.
    waiting = {name: card for name, card in cards.items() if "waiting_for" in card.counts}
    cards = {name: card for name, card in cards.items() if name not in waiting}
    if not cards:
        raise StoreError("cards/corpus: no source with gold has a card yet; materialise cards/<source> first")
    wholes = ("mid_training/shards", "mid_training/mixture", "hygiene/duplicates", "hygiene/contamination")
    # Stages after gold, as far as they were built.
    whole = {name: found for name in wholes if (found := store.current(name)) is not None}
    named = (*cards.values(), *waiting.values(), *whole.values())
    inputs = {manifest.asset: manifest.version for manifest in named}
    read = {m.asset: [m.data_version, digest(m.counts)] for m in named}
    spec = PartSpec("card", digest([CODE_VERSION, read]))
    with store.build("cards/corpus", code_version=CODE_VERSION, inputs=inputs, parts=[spec]) as build:

        def write(out: PartWriter) -> Row:
            facts = [json.loads(card.file("card.json").read_text(encoding="utf-8")) for card in cards.values()]
            total = _corpus(facts, whole)
            if waiting:
                total["without_gold"] = sorted(waiting)
            shown = first_pictures(out, cards)
            _write(out, "The corpus", total, [*_corpus_sections(facts, total), Section("Samples", pictures=shown)])
            named = ("sources", "items", "mapped", "quarantined", "gold", "samples", "screens")
            return {name: total[name] for name in named} | {"pictures": len(shown)}

        counts = build.run_part(spec, write).counts
        stated = {**counts, "without_gold": sorted(waiting)} if waiting else counts
        without = ALL_HAVE_GOLD.check(
            not waiting, f"none of: {', '.join(sorted(waiting)) or '-'}", "gold of each", len(waiting), 0
        )
        return build.commit(counts=stated, checks=[*_checks(counts), without])


def _corpus(facts: Sequence[Row], whole: Mapping[str, Manifest]) -> Row:
    total: Row = {"sources": len(facts)}
    for name in ("items", "mapped", "quarantined", "gold", "steps", "samples", "screens"):
        total[name] = sum(card[name] for card in facts)
    for name in ("actions", "reasons", "by_platform", "gold_objectives", "tokens", "splits"):
        summed: Counter[str] = Counter()
        for card in facts:
            summed.update(card[name])
        # Most frequent first; names break ties.
        total[name] = dict(sorted(summed.items(), key=lambda item: (-item[1], item[0])))
    licences: dict[str, list[str]] = defaultdict(list)
    for card in facts:
        licences[card["licence"]].append(card["id"])
    total["licences"] = dict(sorted(licences.items()))
    total["stages"] = {name: manifest.counts for name, manifest in whole.items()}
    return total


def _sections(card: Descriptor, facts: Row) -> Iterator[Section]:
    yield Section(
        "",
        rows=[
            ("Licence", card.licence),
            ("Origin", card.origin),
            ("Revision", facts["revision"] or "not pinned"),
            ("Platforms", ", ".join(card.platforms)),
            ("Language", card.language),
            ("Native frame", card.frame),
            ("Known problems", "; ".join(card.known_problems) or "none known"),
            ("Citation", card.citation),
        ],
        names=("", " "),
    )
    yield Section(
        "Counts",
        f"Native units are {card.item_unit}s: in = mapped + quarantined.",
        ("", " "),
        [
            (f"{card.item_unit}s in", facts["items"]),
            ("mapped", facts["mapped"]),
            ("quarantined", facts["quarantined"]),
            ("records", facts["records"]),
            ("steps", facts["steps"]),
            ("native samples", facts["native_samples"]),
            ("screens", facts["screens"]),
            ("rows without picture", facts["without_picture"]),
            ("gold items", facts["gold"]),
            ("training samples", facts["samples"]),
        ],
    )
    yield Section("Actions", bars=_most(facts["actions"]))
    yield Section("Training samples by objective", bars=_most(facts["gold_objectives"]))
    yield Section("Platforms", bars=_most(facts["by_platform"]))
    yield Section("Splits", bars=_most(facts["splits"]))
    yield Section("Quarantine reasons", bars=_most(facts["reasons"]))
    met = facts["losses"]
    rows = [
        # What the table promised, beside how often it was met.
        (row["native"], row["unified"] or "-", row["status"], sum(met.get(row["native"], {}).values()), row["note"])
        for row in facts["loss_table"]
    ]
    yield Section(
        "Loss table",
        "What becomes of each native word, and how often it was met.",
        ("native", "unified", "status", "met", "why"),
        rows,
    )
    yield Section("What became of the items", bars={n: v for n, v in facts["ends"].items() if v})
    yield Section("Objections and cleaning rules", bars=_most(facts["kinds"]))


def _corpus_sections(facts: Sequence[Row], total: Row) -> Iterator[Section]:
    rows = [
        (
            card["id"],
            ", ".join(card["platforms"]),
            card["licence"],
            card["items"],
            card["mapped"],
            card["quarantined"],
            card["gold"],
            card["samples"],
            sum(card["tokens"].values()),
        )
        for card in facts
    ]
    names = ("source", "platforms", "licence", "items", "mapped", "quarantined", "gold", "samples", "tokens")
    without = f" Without gold yet: {', '.join(total['without_gold'])}." if "without_gold" in total else ""
    yield Section("Sources", f"{total['sources']} sources have gold.{without}", names, rows)
    yield Section("Actions", bars=_most(total["actions"]))
    yield Section("Training samples by objective", bars=_most(total["gold_objectives"]))
    yield Section("Tokens by objective", bars=_most(total["tokens"]))
    yield Section("Platforms", bars=_most(total["by_platform"]))
    yield Section("Licences", "", ("licence", "sources"), [(k, ", ".join(v)) for k, v in total["licences"].items()])
    yield Section("Quarantine reasons", bars=_most(total["reasons"]))


def _write(out: PartWriter, title: str, facts: Row, sections: list[Section]) -> None:
    shown = [section for section in sections if section.rows or section.bars or section.pictures or section.text]
    captions = [caption for section in shown for _, caption in section.pictures]
    facts = {**facts, "captions": captions} if captions else facts
    out.bytes("card.json", (json.dumps(facts, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode())
    out.bytes("card.md", markdown(title, shown).encode())
    out.bytes("card.html", page(title, shown).encode())


def _most(bars: Mapping[str, float]) -> dict[str, float]:
    return dict(sorted(bars.items(), key=lambda item: (-item[1], item[0]))[:MOST_BARS])


def _tally(manifest: Manifest, table: str, column: str, instead: str = "") -> dict[str, int]:
    """How often each value stands in a column; of the table `instead` if the first is empty."""
    counts: Counter[str] = Counter()
    # Only one of the tables: steps and samples count different things.
    for name in (table, instead):
        for path in manifest.paths(name) if name else []:
            for entry in pc.value_counts(pq.read_table(path, columns=[column])[column]).to_pylist():
                if entry["values"] is not None:
                    counts[entry["values"]] += entry["counts"]
        if counts:
            break
    return dict(sorted(counts.items()))


def _tokens(gold: Manifest) -> dict[str, int]:
    total: Counter[str] = Counter()
    for path in gold.paths("samples"):
        # Summed by Arrow: a corpus has more rows than Python should see.
        grouped = (
            pq.read_table(path, columns=["objective", "tokens"]).group_by("objective").aggregate([("tokens", "sum")])
        )
        for row in grouped.to_pylist():
            total[row["objective"]] += int(row["tokens_sum"])
    return dict(sorted(total.items()))


def _checks(counts: Mapping[str, Any]) -> list[Check]:
    items = f"{counts['items']} in, {counts['mapped']} mapped + {counts['quarantined']} quarantined"
    return [
        ADDS_UP.check(
            counts["items"] == counts["mapped"] + counts["quarantined"],
            items,
            "in = the sum",
            counts["mapped"] + counts["quarantined"],
            counts["items"],
        ),
        HAS_PICTURES.check(
            counts["pictures"] > 0 or not counts["screens"],
            f"{counts['pictures']} of {counts['screens']} screens",
            "at least one, where there are screens",
            counts["pictures"],
            1,
        ),
    ]
