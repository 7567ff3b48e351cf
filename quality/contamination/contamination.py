"""`hygiene/contamination`: training items that evaluation data holds too, found in gold and put into quarantine.

Everything with split `train` in the gold of all sources is held against the fingerprints of the suites and test splits
(`quality.contamination.fingerprints`), whatever a source says of itself: a set that ships evaluation items is caught by
its content.

| kind | a training item is hit if | goes |
|---|---|---|
| image | its picture has the bytes of an evaluation picture | every sample and step on that picture |
| phash | the pictures' hashes differ in <= 6 bits and `quality.duplicates.looks` sees one screen | the same |
| ngram | its instruction has the words, or 80 % of the 8-word runs, of an evaluation's | the sample, or whole episode |
| embedding | cosine >= 0.95, and no conflict (`quality.evidence.meaning`) | the same |

Words count on their own from 6 content words on (`quality.contamination.text_prints`). With fewer they count together
with the app (4 content words), or with the place: the target of a grounding sample lies on the item's target, and the
screens' hashes are within 12 bits. "close" alone hits nothing. An episode most of whose pictures are hit is the same
recording: it goes whole. The texts of single steps of a test split ("tap the search bar") aren't tasks: their pictures
alone count.

Thresholds were measured on 1,350 rendered screens of a handful of page templates: of 1,305 pairs within 6 bits, the
looks leave 14, pages that differ in one digit or star. Of copies as JPEG (quality 30 to 90), as WebP, at half size and
at a third of the size, 99 to 100 % are found. Not found: a picture cut by more than 1 % of its height, in another theme
or language, a text translated or told in quite other words. Cosines of paraphrases measured 0.935 to 0.987, of one
template with another slot at most 0.87. With 80 pictures and 20 goals of that corpus planted as a suite, all were
caught, one other picture was hit (two digits differ), and no other episode.

A part of the result is one gold part, so a changed part is searched alone. Pictures of at most `MAX_PAIRS` hits are
drawn side by side, spread over suites and kinds; the tables list every hit.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pipelines.engines.run_parts import Execution, PartCall, run_parts
from pipelines.store import Build, CheckSpec, Manifest, PartResult, PartSpec, Store
from pipelines.training_data.removed import CONTAMINATION
from quality.contamination.gold_scan import QUARANTINE, GoldScanPart, Hits, run_scan_part
from quality.contamination.pair_pictures import draw_pairs
from quality.contamination.suite_index import KINDS, SuiteIndex, pin, settings
from quality.evidence.embedding import LOAD_S
from quality.items.part import rows_by_part
from schemas.ids import digest

ASSET = CONTAMINATION
CODE_VERSION = "5"
MAX_PAIRS = 200
ROWS_A_SECOND = 300
"""Rows of gold that one core holds against the suites, roughly: most of it is embedding what is new."""
HITS_QUARANTINED = CheckSpec("every item that is hit is in quarantine", "What evaluation data holds isn't quarantined")
DATA_LEFT = CheckSpec("training data is left", "Every sample looks like evaluation data")
MOST_DATA_LEFT = CheckSpec("most training data is left", "Most samples look like evaluation data", blocking=False)
SUITES_PRINTED = CheckSpec("every suite has fingerprints", "A suite isn't here, to compare with", blocking=False)
CHECKS = (HITS_QUARANTINED, DATA_LEFT, MOST_DATA_LEFT, SUITES_PRINTED)


def find_contamination(
    store: Store, sources: Sequence[str], suites: Sequence[str], execution: Execution | None = None
) -> Manifest:
    """Gold of all `sources` against the fingerprints of all `suites` → tables hits, quarantine, pairs; `pairs/*.png`.

    Suites without fingerprints are passed over and listed in the counts (`absent`); one that has some is searched for
    even if `suites` doesn't name it. `execution` says who runs the parts. Raises `StoreError` if a source has no gold.
    """
    manifests = {source: store.require(f"gold/{source}") for source in sources}
    index = SuiteIndex(store, suites)
    # Thresholds and versions of comparing: other ones search anew.
    plain = {**settings(), "max_pairs": MAX_PAIRS}
    # The index's identity holds the suites' data, so a new suite searches all parts again.
    base = [CODE_VERSION, index.identity]
    specs = {
        (source, key): PartSpec(f"{source}-{key}", digest([base, files.get("steps"), files.get("samples")]))
        for source, manifest in manifests.items()
        for key, files in manifest.part_hashes.items()
    }
    read = [*manifests.values(), *index.manifests.values()]
    with store.build(
        ASSET,
        code_version=CODE_VERSION,
        config=plain,
        inputs={m.asset: m.version for m in read},
        parts=list(specs.values()),
    ) as build:
        rows = {source: rows_by_part(manifest) for source, manifest in manifests.items()}
        # Pinned, so that parts that run in this process don't build the index again.
        where, known = (str(store.home), ASSET, build.version), (tuple(suites), pin(store.home, index))
        calls = []
        for (source, key), spec in specs.items():
            part = GoldScanPart(*where, spec, *known, (manifests[source].asset, manifests[source].version), key)
            calls.append(PartCall(part, (spec,), rows[source][key] / ROWS_A_SECOND, rows[source][key]))
        parts = run_parts(store, ASSET, run_scan_part, calls, execution, start_s=LOAD_S)
        for result in parts:
            build.add(result)
        hits = _read(build, parts, "hits", Hits.schema)
        _draw(build, store, index, hits, _read(build, parts, "quarantine", QUARANTINE))
        return _commit(build, parts, index, hits)


def _read(build: Build, parts: Sequence[PartResult], table: str, schema: pa.Schema) -> pa.Table:
    paths = [build.root / entry.path for part in parts for entry in part.files if entry.table == table]
    return pa.concat_tables([pq.read_table(path) for path in paths] or [schema.empty_table()])


def _commit(build: Build, parts: Sequence[PartResult], index: SuiteIndex, hits: pa.Table) -> Manifest:
    counts: Counter[str] = Counter()
    for part in parts:
        counts.update(part.counts)
    by_suite = Counter(zip(hits["suite"].to_pylist(), hits["kind"].to_pylist(), strict=True))
    facts = {suite: {kind: by_suite[suite, kind] for kind in KINDS if by_suite[suite, kind]} for suite in index.present}
    share = counts["removed_samples"] / max(counts["samples"], 1)
    removed = f"{share:.1%} of the samples removed"
    checks = [
        # The invariant of this stage: what is hit doesn't train.
        HITS_QUARANTINED.check(
            counts["hit_items"] == counts["hit_quarantined"], counts["hit_quarantined"], counts["hit_items"]
        ),
        DATA_LEFT.check(counts["samples"] == 0 or share < 1, removed, "less than all", share, 1),
        MOST_DATA_LEFT.check(share <= 0.5, removed, "at most half", share, 0.5),
        SUITES_PRINTED.check(
            not index.absent, f"none of: {', '.join(index.absent) or '-'}", "fingerprints of each", len(index.absent), 0
        ),
    ]
    return build.commit(
        counts={**counts, "hits": hits.num_rows, "suites": facts, "absent": index.absent}, checks=checks
    )


def _draw(build: Build, store: Store, index: SuiteIndex, hits: pa.Table, quarantine: pa.Table) -> None:
    """The part `pairs`: pictures of the first hits of each (suite, kind) in turn, `MAX_PAIRS` at most."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in hits.sort_by([(name, "ascending") for name in ("suite", "kind", "item_id")]).to_pylist():
        groups.setdefault((row["suite"], row["kind"]), []).append(row)
    # One of each suite and kind in turn, so that a suite with many hits doesn't fill the pages.
    turns = [row for turn in range(MAX_PAIRS) for group in groups.values() for row in group[turn : turn + 1]]
    chosen = turns[:MAX_PAIRS]
    wanted = pa.array(sorted({row["item_id"] for row in chosen}), pa.string())
    drawn = quarantine.filter(pc.is_in(quarantine["item_id"], wanted)).to_pylist()
    shown = {row["item_id"]: row for row in drawn}
    # The chosen rows are part of the digest: pictures follow from them.
    spec = PartSpec("pairs", digest([CODE_VERSION, index.identity, chosen, [shown[r["item_id"]] for r in chosen]]))
    build.run_part(spec, lambda out: draw_pairs(out, store, index, chosen, shown))
