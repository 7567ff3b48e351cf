"""raw → unified: an adapter run over a source's files, part by part, on Beam.

Beam carries part specs only (`Create(parts) | Map(run part)`): no payload, no picture passes between stages. What a
part writes is decided by its input files, the adapter's version and the ids it must change, so a rerun skips it.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines import sources
from pipelines.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError
from pipelines.manifest import Manifest
from pipelines.rawdata import FileHashes
from pipelines.store import Check, PartResult, PartSpec, PartWriter, Store, run_part
from schemas.ids import canonical_json, digest
from schemas.tables import Quarantine, Samples, Screens, Steps

CODE_VERSION = "1"
IDS = pa.schema([("native_id", pa.string()), ("content", pa.string()), ("file", pa.string()), ("locator", pa.string())])
"""Side table of a part: which record ids it holds, to find duplicates across parts."""


@dataclass(frozen=True)
class PartArguments:
    """All a worker needs to run a part; plain data, so that any Beam runner can ship it."""

    source: str
    home: str
    asset: str
    version: str
    spec: PartSpec
    root: str
    companions: dict[str, str]
    files: tuple[str, ...]
    renames: dict[str, str] = field(default_factory=dict)
    """`file#locator` → "" (an exact repeat: quarantine) or the id that the record gets instead of its own."""


@dataclass
class _Counts:
    """Native units of one part: records and items, in and out."""

    records_in: int = 0
    records_mapped: int = 0
    items_in: int = 0
    items_mapped: int = 0
    items_quarantined: int = 0
    records_quarantined: int = 0
    images: int = 0
    images_missing: int = 0
    images_broken: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    losses: Counter[str] = field(default_factory=Counter)


def unify_source(
    store: Store,
    source: str,
    raw: Raw,
    *,
    asset: str | None = None,
    inputs: Mapping[str, str] | None = None,
    beam_options: Sequence[str] = (),
) -> Manifest:
    """Map a source's native files to `unified/<source>`: tables steps, samples, screens, quarantine.

    `raw` is the folder with its companions; `beam_options` are Beam flags (default: one process, FnApiRunner).
    Native units are counted, each exactly once: in = mapped + quarantined; the manifest's counts hold the report.
    Raises `ValueError` if the source is unknown or the folder has none of its files.
    """
    adapter = sources.get(source)
    asset = asset or f"unified/{source}"
    groups = adapter.parts(raw)
    if not groups:
        raise ValueError(f"{source}: no native files of it in {raw.root.name!r}; see `vesper sources list`")
    digests = _digests(store, adapter, raw, groups)
    specs = [PartSpec(_part_key(group), value) for group, value in zip(groups, digests, strict=True)]
    code_version = f"{CODE_VERSION}.{adapter.version}"
    with store.build(asset, code_version=code_version, inputs=inputs, parts=specs) as build:
        arguments = [
            PartArguments(
                source, str(store.home), asset, build.version, spec, str(raw.root),
                {name: str(path) for name, path in raw.companions.items()}, group,
            )
            for spec, group in zip(specs, groups, strict=True)
        ]  # fmt: skip
        results = _run_parts(arguments, beam_options)
        results = _resolve_duplicates(build.root, arguments, results, beam_options)
        for result in results:
            build.add(result)
        counts = _sum_counts(results)
        return build.commit(counts=counts, checks=_checks(counts))


def _part_key(group: tuple[str, ...]) -> str:
    """A readable name with a digest of the paths, so that two files of one name don't collide."""
    stem = "".join(char if char.isalnum() or char in "._-" else "_" for char in Path(group[0]).name)[:40]
    return f"{stem.lstrip('._-') or 'part'}-{digest(list(group))[:8]}"


def _digests(store: Store, adapter: Adapter, raw: Raw, groups: list[tuple[str, ...]]) -> list[str]:
    """What each part's result depends on: its files, side files, companions, and the adapter."""
    hashes = FileHashes(store.home / "cache" / "raw" / f"{adapter.descriptor.id}.json")
    side = [hashes.sha256(raw.path(name)) for name in sorted(adapter.side_files(raw))]
    companions = {
        name: digest([[file, hashes.sha256(Path(path) / file)] for file in Raw(Path(path)).files("**/*")])
        for name, path in sorted(raw.companions.items())
    }
    pictures = _unlisted(raw, groups, hashes)
    made = [
        digest([CODE_VERSION, adapter.descriptor.id, adapter.version, side, companions, pictures,
                [[name, hashes.sha256(raw.path(name))] for name in group]])
        for group in groups
    ]  # fmt: skip
    hashes.save()
    return made


def _unlisted(raw: Raw, groups: list[tuple[str, ...]], hashes: FileHashes) -> str:
    """Files that no part names (screenshot folders): any part may read them, so all depend on them."""
    named = {name for group in groups for name in group}
    return digest([[name, hashes.sha256(raw.path(name))] for name in raw.files("**/*") if name not in named])


def _run_parts(arguments: list[PartArguments], beam_options: Sequence[str]) -> list[PartResult]:
    """Parts that are there are picked up here; the others go through Beam, and are then picked up too."""
    missing = [item for item in arguments if not _is_there(item)]
    ran = {item.spec for item in missing}
    if missing:
        _beam_map(missing, beam_options)
    results = [run_unify_part(item) for item in arguments]
    return [
        PartResult(result.key, result.files, result.side_files, result.counts, skipped=item.spec not in ran)
        for item, result in zip(arguments, results, strict=True)
    ]


def _is_there(item: PartArguments) -> bool:
    root = Store(item.home).root(item.asset)
    marker = root / "parts" / f"{digest([item.spec.key, item.spec.inputs_digest])[:32]}.json"
    return marker.exists()


def _beam_map(arguments: list[PartArguments], beam_options: Sequence[str]) -> None:
    """Run parts on a Beam runner. One part in one process needs no runner (and no second of start-up)."""
    if not beam_options and len(arguments) == 1:
        run_unify_part(arguments[0])
        return
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    # The default DirectRunner first tries to download a Prism binary: always name the runner.
    options = PipelineOptions(["--runner=FnApiRunner", *beam_options])
    with beam.Pipeline(options=options) as pipeline:
        _ = pipeline | beam.Create(arguments, reshuffle=False) | beam.Map(run_unify_part)


def run_unify_part(item: PartArguments) -> PartResult:
    """Run (or skip) one part; called by Beam workers."""
    root = Store(item.home).root(item.asset)
    return run_part(root, item.version, item.spec, functools.partial(_unify_part, item))


def _unify_part(item: PartArguments, out: PartWriter) -> dict[str, Any]:
    adapter = sources.get(item.source)
    store = Store(item.home)
    raw = Raw(Path(item.root), {name: Path(path) for name, path in item.companions.items()})
    counts = _Counts()
    rows: dict[str, list[dict[str, Any]]] = {"steps": [], "samples": [], "screens": [], "quarantine": [], "ids": []}
    seen_screens: set[str] = set()
    seen_records: dict[str, str] = {}
    for record in adapter.records(raw, item.files):
        mapped = _map_one(adapter, raw, record, item, counts, rows, seen_records)
        if mapped is None:
            continue
        rows["steps"] += mapped.steps
        rows["samples"] += mapped.samples
        for sha256, screen in mapped.screens.items():
            if sha256 in seen_screens or screen.data is None or screen.info is None:
                continue
            seen_screens.add(sha256)
            store.put_screen(screen.data)
            rows["screens"].append(
                {
                    "screenshot_sha256": sha256, "width_px": screen.info.width_px, "height_px": screen.info.height_px,
                    "phash": screen.info.phash, "elements": list(screen.elements), "source": item.source,
                }
            )  # fmt: skip
    rows["steps"].sort(key=lambda row: (row["source"], row["episode_id"], row["step_index"]))
    rows["samples"].sort(key=lambda row: row["sample_id"])
    rows["screens"].sort(key=lambda row: row["screenshot_sha256"])
    counts.images = len(seen_screens)
    counts.images_missing = _count_missing(rows)
    for name, table in (("steps", Steps), ("samples", Samples), ("screens", Screens), ("quarantine", Quarantine)):
        if rows[name] or name == "quarantine":
            out.table(name, table.table(rows[name]))
    out.table("ids", pa.Table.from_pylist(rows["ids"], schema=IDS), hashed=False)
    return {**vars(counts), "reasons": dict(counts.reasons), "losses": dict(counts.losses)}


def _count_missing(rows: dict[str, list[dict[str, Any]]]) -> int:
    return sum(row["screenshot_sha256"] is None for row in rows["steps"]) + sum(
        not row["images"] for row in rows["samples"]
    )


def _map_one(
    adapter: Adapter,
    raw: Raw,
    record: Record | Broken,
    item: PartArguments,
    counts: _Counts,
    rows: dict[str, list[dict[str, Any]]],
    seen: dict[str, str],
) -> Mapped | None:
    """Map one record and book it: every native unit ends as mapped or as a quarantine row, once."""
    counts.records_in += 1

    def quarantine(unit: str, items: int, reason: str, detail: str, native: Any) -> None:
        rows["quarantine"].append(
            {
                "source": item.source, "unit": unit, "items": items, "reason": reason, "detail": detail[:500],
                "file": record.file, "record": record.locator, "native": canonical_json(native),
            }
        )  # fmt: skip
        counts.reasons[reason] += max(items, 1) if unit != "image" else 1
        counts.items_quarantined += items

    if isinstance(record, Broken):
        counts.records_quarantined += 1
        counts.items_in += record.items
        quarantine("record", record.items, record.reason, record.detail, record.native)
        return None
    content = digest(record.payload if record.content is None else record.content)
    native_id = record.native_id if record.native_id is not None else content
    rows["ids"].append(
        {"native_id": native_id, "content": content, "file": record.file, "locator": record.locator}
    )  # fmt: skip
    renamed = _rename(item, record, native_id, content, seen)
    try:
        mapped = _safely_map(adapter, raw, record)
        if renamed is not None:
            counts.records_quarantined += renamed == ""
            if renamed == "":
                raise RecordError("duplicate", f"an exact repeat of record {native_id!r}", items=mapped.items)
            _give_id(mapped, renamed)
    except RecordError as error:
        counts.records_quarantined += error.reason != "duplicate"
        counts.items_in += error.items
        quarantine("record", error.items, error.reason, error.detail, record.payload)
        return None
    _book(adapter, record, mapped, counts, quarantine)
    return mapped


def _rename(item: PartArguments, record: Record, native_id: str, content: str, seen: dict[str, str]) -> str | None:
    """None: the record keeps its id; "": an exact repeat; else its new id. Repeats within the part are seen here,
    those across parts come with the arguments."""
    known = item.renames.get(f"{record.file}#{record.locator}")
    if known is not None:
        return known
    if native_id not in seen:
        seen[native_id] = content
        return None
    if seen[native_id] == content:
        return ""
    other = f"{native_id}#{content[:8]}"
    if seen.get(other) == content:
        return ""
    seen[other] = content
    return other


def _safely_map(adapter: Adapter, raw: Raw, record: Record) -> Mapped:
    """Native records are hostile until mapped: a shape the adapter didn't foresee costs the record, not the run."""
    try:
        return adapter.map(record, raw)
    except RecordError:
        raise
    except KeyError as error:
        raise RecordError("missing_field", f"expected a field {error.args[0]!r}") from error
    except (TypeError, ValueError, IndexError, AttributeError) as error:
        raise RecordError("bad_record", f"{type(error).__name__}: {error}") from error


def _give_id(mapped: Mapped, new_id: str) -> None:
    suffix = new_id.rpartition("#")[2]
    for row in mapped.steps:
        row["episode_id"] = new_id
    for row in mapped.samples:
        row["sample_id"] = digest([row["sample_id"], suffix])[:32]


def _book(adapter: Adapter, record: Record, mapped: Mapped, counts: _Counts, quarantine: Any) -> None:
    rejected = sum(reject.items for reject in mapped.rejects)
    if mapped.items != mapped.mapped + rejected:
        raise AssertionError(
            f"{adapter.descriptor.id} {record.locator}: {mapped.items} items in, "
            f"{mapped.mapped} mapped + {rejected} quarantined: the adapter lost or invented some"
        )
    for reject in mapped.rejects:
        quarantine(reject.unit, reject.items, reject.reason, reject.detail, reject.native)
        counts.images_broken += reject.unit == "image"
    counts.records_mapped += 1
    counts.items_in += mapped.items
    counts.items_mapped += mapped.mapped
    for (word, status), number in mapped.losses.items():
        counts.losses[f"{word}|{status}"] += number


def _resolve_duplicates(
    root: Path, arguments: list[PartArguments], results: list[PartResult], beam_options: Sequence[str]
) -> list[PartResult]:
    """Ids that stand in several parts: the first in (file, record) order keeps its id; the other parts run again
    with the renames as part of their inputs."""
    renames: dict[int, dict[str, str]] = {}
    owner: dict[str, tuple[int, str]] = {}
    for place, native_id, content, where in _all_ids(root, results):
        first = owner.setdefault(native_id, (place, content))
        if first[0] == place:
            continue  # repeats within one part are the part's own business
        if content == first[1]:
            renames.setdefault(place, {})[where] = ""
            continue
        other = f"{native_id}#{content[:8]}"
        taken = (
            owner.setdefault(other, (place, content)) != (place, content) or other in renames.get(place, {}).values()
        )
        renames.setdefault(place, {})[where] = "" if taken else other
    if not renames:
        return results
    again = {
        place: PartArguments(**{**vars(arguments[place]), "renames": names, "spec": PartSpec(
            arguments[place].spec.key, digest([arguments[place].spec.inputs_digest, names]))})
        for place, names in renames.items()
    }  # fmt: skip
    redone = dict(zip(again, _run_parts(list(again.values()), beam_options), strict=True))
    return [redone.get(place, result) for place, result in enumerate(results)]


def _all_ids(root: Path, results: list[PartResult]) -> Iterator[tuple[int, str, str, str]]:
    import pyarrow.parquet as pq

    for place, result in enumerate(results):
        for entry in result.side_files:
            if entry.table == "ids":
                for row in pq.read_table(root / entry.path).to_pylist():
                    yield place, row["native_id"], row["content"], f"{row['file']}#{row['locator']}"


def _sum_counts(results: list[PartResult]) -> dict[str, Any]:
    """The report of a source: native units in and out, quarantine reasons, what the loss table became."""
    total: dict[str, Any] = {}
    for result in results:
        for name, value in result.counts.items():
            if isinstance(value, dict):
                total[name] = dict(Counter(total.get(name, {})) + Counter(value))
            else:
                total[name] = total.get(name, 0) + value
    losses: dict[str, dict[str, int]] = {}
    for joined, number in sorted(total.get("losses", {}).items()):
        word, _, status = joined.rpartition("|")
        losses.setdefault(word, {})[status] = number
    reasons = dict(sorted(total.get("reasons", {}).items()))
    return {**total, "reasons": reasons, "losses": losses}


def _checks(counts: dict[str, Any]) -> list[Check]:
    unseen = {name: number for name, number in counts["reasons"].items() if name.startswith("unknown_")}
    items = f"{counts['items_in']} in, {counts['items_mapped']} mapped + {counts['items_quarantined']} quarantined"
    return [
        Check("nothing_lost", counts["items_in"] == counts["items_mapped"] + counts["items_quarantined"], items,
              "in = mapped + quarantined"),
        Check("something_mapped", counts["items_mapped"] > 0, f"{counts['items_mapped']} items", "at least one"),
        Check("mostly_mapped", counts["items_mapped"] * 2 >= counts["items_in"], items, "at least half are mapped"),
        Check("vocabulary_known", not unseen, json.dumps(unseen),
              "no column or action word that the adapter doesn't know", blocking=False),
    ]  # fmt: skip
