"""raw → mapped: an adapter run over a source's files, part by part.

What a part writes is decided by its own files, by what it read beside them (see `tracked_raw`), by the adapter's
version and by the ids it must change, so a rerun skips whatever stayed the same.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pipelines.engines.run_parts import Execution, PartCall, run_parts
from pipelines.mapping.adapter import Adapter, Raw
from pipelines.raw.file_hashes import RECENT, FileHashes
from pipelines.store import PartResult, PartSpec, Store, find_part, run_part
from pipelines.store.files import FileEntry
from pipelines.store.manifest import Manifest
from pipelines.unify.part import IDS, READS, PartArguments, unify_part
from pipelines.unify.record_ids import across_parts
from pipelines.unify.tracked_raw import Folders, TrackedRaw, changes
from schemas.ids import digest

CODE_VERSION = "9"
BYTES_A_SECOND = 10e6
"""Native bytes that one core maps in a second, roughly."""


def map_source(
    store: Store,
    adapter: Adapter,
    raw: Raw,
    groups: list[tuple[str, ...]],
    inputs: Mapping[str, str] | None,
    execution: Execution,
) -> Manifest:
    """Native files, in the `groups` that are parts → `mapped/<source>`. Its counts are the report of the source: native
    units in and out, quarantine reasons, what the loss table became."""
    source = adapter.descriptor.id
    asset = f"mapped/{source}"
    root = store.root(asset)
    known = _known_parts(store, root, adapter, raw, groups)
    specs = [spec for spec, _ in known]
    with store.build(asset, code_version=f"{CODE_VERSION}.{adapter.version}", inputs=inputs, parts=specs) as build:
        side_files = tuple(adapter.side_files(raw))
        companions = {name: str(path) for name, path in raw.companions.items()}
        arguments = [
            PartArguments(
                source, str(store.home), asset, build.version, spec, str(raw.root), companions, group, side_files
            )
            for spec, group in zip(specs, groups, strict=True)
        ]
        results = _run_parts(store, arguments, [result for _, result in known], execution)
        results = _resolve_duplicates(store, root, arguments, results, execution)
        RECENT.clear()
        for result in results:
            build.add(result)
        return build.commit(counts=_report(sum_counts(results)))


def _part_key(group: tuple[str, ...]) -> str:
    """A readable name with a digest of the paths, so that two files of one name don't collide."""
    stem = "".join(char if char.isalnum() or char in "._-" else "_" for char in Path(group[0]).name)[:40]
    return f"{stem.lstrip('._-') or 'part'}-{digest(list(group))[:8]}"


def _hash_of(lines: Iterable[str]) -> str:
    """One hash for many names and hashes: a part may have a hundred thousand files."""
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


_Known = tuple[PartSpec, PartResult | None]
"""A part, and what it gave if it was run before."""


def _known_parts(store: Store, root: Path, adapter: Adapter, raw: Raw, groups: list[tuple[str, ...]]) -> list[_Known]:
    """What each part's result depends on: its files, the side files, the adapter, and what it read when it last ran."""
    hashes = FileHashes(store.home / "cache" / "raw" / f"{adapter.descriptor.id}.json")
    side = hashes.all([raw.path(name) for name in sorted(adapter.side_files(raw))])
    common = [CODE_VERSION, adapter.descriptor.id, adapter.version, side, sorted(raw.companions)]
    folders, places = Folders(), TrackedRaw(raw.root, raw.companions)
    found = functools.cache(raw.files)
    known_changes: dict[str, str | None] = {}

    def changed(entry: FileEntry) -> str | None:
        """Many parts read the same things: these are looked at once."""
        if entry.sha256 not in known_changes:
            known_changes[entry.sha256] = changes(root / entry.path, raw, folders, found)
        return known_changes[entry.sha256]

    def is_outside(place: str) -> bool:
        """A link that leads out isn't read, so its part is redone when the file itself comes."""
        return os.path.islink(place) and not raw.is_inside(place)

    inside = [place for group in groups for name in group if not is_outside(place := places.place(name))]
    states = dict(zip(inside, hashes.all(inside), strict=True))
    known = []
    for group in groups:
        own = digest([*common, _hash_of(f"{name}\0{states.get(places.place(name), 'outside')}" for name in group)])
        known.append(_known_part(root, _part_key(group), own, changed))
    hashes.save()
    return known


def _known_part(root: Path, key: str, own: str, changed: Callable[[FileEntry], str | None]) -> _Known:
    """`own` digests a part's own files. If it ran on them before but something else that it read has changed since,
    its digest tells how that is now; the run under that digest may in turn have read other things."""
    spec = PartSpec(key, own)
    while (result := find_part(root, spec)) is not None:
        now = next((changed(entry) for entry in result.side_files if entry.path.endswith(f".{READS}.arrow")), None)
        if now is None:
            break
        spec = PartSpec(key, digest([spec.inputs_digest, now]))
    return spec, result


def _run_parts(
    store: Store, arguments: list[PartArguments], results: list[PartResult | None], execution: Execution
) -> list[PartResult]:
    """Parts that are there (`results`) stay; the others are run."""
    missing = [item for item, result in zip(arguments, results, strict=True) if result is None]
    if not missing:
        return [result for result in results if result is not None]
    parts = [PartCall(item, (item.spec,), _seconds(item)) for item in missing]
    asset, stage = missing[0].asset, f"unified/{missing[0].source}"
    made = iter(run_parts(store, asset, run_unify_part, parts, execution, stage=stage))
    return [result or next(made) for result in results]


def _seconds(item: PartArguments) -> float:
    """What a part takes on one core, roughly."""
    raw = TrackedRaw(Path(item.root), {name: Path(path) for name, path in item.companions.items()})
    places = [place for name in item.files if os.path.isfile(place := raw.place(name))]
    return sum(map(os.path.getsize, places)) / BYTES_A_SECOND


def run_unify_part(item: PartArguments) -> PartResult:
    """Run (or skip) one part; called by an engine's workers."""
    root = Store(item.home).root(item.asset)
    return run_part(root, item.version, item.spec, functools.partial(unify_part, item), stem=item.stem)


def _resolve_duplicates(
    store: Store, root: Path, arguments: list[PartArguments], results: list[PartResult], execution: Execution
) -> list[PartResult]:
    """Ids that stand in several parts: the first in (part, record) order keeps its id; the other parts run again
    with what was decided as part of their inputs, and write files of other names."""
    dumps = [next((root / e.path for e in result.side_files if e.path.endswith(f".{IDS}")), None) for result in results]
    specs = [item.spec for item in arguments]
    again = {
        place: dataclasses.replace(
            arguments[place],
            decided=decided,
            spec=PartSpec(specs[place].key, digest([specs[place].inputs_digest, sorted(decided.items())])),
        )
        for place, decided in across_parts(dumps).items()
    }
    there = [find_part(root, item.spec) for item in again.values()]
    redone = dict(zip(again, _run_parts(store, list(again.values()), there, execution), strict=True))
    return [redone.get(place, result) for place, result in enumerate(results)]


def sum_counts(results: Iterable[PartResult]) -> dict[str, Any]:
    """Counts of parts, added up; those by name are added name by name."""
    total: dict[str, Any] = {}
    for result in results:
        for name, value in result.counts.items():
            if isinstance(value, dict):
                total[name] = dict(Counter(total.get(name, {})) + Counter(value))
            else:
                total[name] = total.get(name, 0) + value
    return total


def _report(total: dict[str, Any]) -> dict[str, Any]:
    losses: dict[str, dict[str, int]] = {}
    for joined, number in sorted(total["losses"].items()):
        word, _, status = joined.rpartition("|")
        losses.setdefault(word, {})[status] = number
    return {**total, "reasons": dict(sorted(total["reasons"].items())), "losses": losses}
