"""raw → mapped: an adapter run over a source's files, part by part (which files: `parts_by_cost`).

What a part writes is decided by its own files, by what it read beside them (see `tracked_raw`), by the adapter's
version and by the ids it must change, so a rerun skips whatever stayed the same.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pipelines.engines.run_parts import Execution, PartCall, run_parts
from pipelines.mapping.adapter import Adapter, Raw
from pipelines.raw.file_hashes import RECENT, FileHashes
from pipelines.store import PartResult, PartSpec, Store, find_part, run_part
from pipelines.store.files import FileEntry
from pipelines.store.manifest import Manifest
from pipelines.unify.counts import report, sum_counts
from pipelines.unify.part import IDS, READS, PartArguments, unify_part
from pipelines.unify.parts_by_cost import FilesPart, LinePieces, parts_by_cost
from pipelines.unify.record_ids import across_parts
from pipelines.unify.tracked_raw import Folders, TrackedRaw, changes
from schemas.action_types import ACTION_SPACE
from schemas.ids import digest

CODE_VERSION = "13"
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
    """Native files, in the `groups` that an adapter reads together → `mapped/<source>`. Its counts are the report of
    the source: native units in and out, quarantine reasons, what the loss table became."""
    source, space = adapter.descriptor.id, adapter.space
    asset = f"mapped/{source}"
    root = store.root(asset)
    # How files are cut is the setting of `unified`, the asset that people know; `mapped` stands behind it.
    native = _NativeFiles.of(store.home, adapter, raw, groups, execution.engine.of(f"unified/{source}").part_bytes)
    known = _known_parts(root, adapter, raw, native)
    # Specs before anything runs: a build is named by them, so it is known whether it is there already.
    specs = [spec for spec, _ in known]
    code_version = f"{CODE_VERSION}.{adapter.mapping_version}"
    with store.build(asset, code_version=code_version, inputs=inputs, parts=specs) as build:
        shared = source, str(store.home), asset, build.version
        companions = {name: str(path) for name, path in raw.companions.items()}
        side_files = tuple(adapter.side_files(raw))
        arguments = [
            PartArguments(*shared, spec, str(raw.root), companions, part.groups, part.piece, side_files, space=space)
            for spec, part in zip(specs, native.parts, strict=True)
        ]
        work = _PartsWork(store, native.parts, arguments, execution)
        # First all parts by themselves, then those again whose ids collide with another part's.
        results = work.settled(work.run(arguments, [result for _, result in known]))
        # Bytes of files that were just hashed wait for their readers; no one comes for what is left.
        RECENT.clear()
        for result in results:
            build.add(result)
        return build.commit(counts=report(sum_counts(results)))


def _hash_of(lines: Iterable[str]) -> str:
    """One hash for many names and hashes: a part may have a hundred thousand files."""
    # Names of files may be no UTF-8, so they are hashed as the bytes that they are.
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogateescape")).hexdigest()


_Known = tuple[PartSpec, PartResult | None]
"""A part, and what it gave if it was run before."""


@dataclass
class _NativeFiles:
    """Hashes of a source's native files, and the parts that they make."""

    side: list[str]
    states: Mapping[str, str]
    """Path → hash; none of a link that leads out, which isn't read: its part is redone when the file itself comes."""
    parts: list[FilesPart]

    @classmethod
    def of(cls, home: Path, adapter: Adapter, raw: Raw, groups: Sequence[tuple[str, ...]], target: int) -> _NativeFiles:
        """Hash what isn't known, and cut and join it to parts of `target` bytes."""
        cache = home / "cache" / "raw" / adapter.descriptor.id
        # Hashes are remembered by each file's size, inode and times: a rerun over a million files reads none
        # of them.
        hashes = FileHashes(cache.with_name(f"{cache.name}.json"))
        side = hashes.all([raw.path(name) for name in sorted(adapter.side_files(raw))])
        places = (raw.place(name) for group in groups for name in group)
        # A link out of the folder is never followed: a downloaded archive could name /etc/passwd.
        inside = [place for place in places if not os.path.islink(place) or raw.is_inside(place)]
        states = dict(zip(inside, hashes.all(inside), strict=True))
        hashes.save()
        cuts = LinePieces(cache.with_name(f"{cache.name}.lines.json"), states)
        return cls(side, states, parts_by_cost(adapter, raw, groups, target, cuts))

    def digest_of(self, part: FilesPart, raw: Raw) -> str:
        """What names, bytes and cut of a part's files make up."""
        named = (f"{name}\0{self.states.get(raw.place(name), 'outside')}" for group in part.groups for name in group)
        cut = [part.piece.first, part.piece.past] if part.piece else []
        return digest([_hash_of(named), [len(group) for group in part.groups], cut])


def _known_parts(root: Path, adapter: Adapter, raw: Raw, native: _NativeFiles) -> list[_Known]:
    """What each part's result depends on: its files, the side files, the adapter, and what it read when it last ran."""
    # Whatever decides what a part writes, but for its own files and what it read beside them.
    common = [CODE_VERSION, adapter.descriptor.id, adapter.version, native.side, sorted(raw.companions)]
    # Only where it isn't the default, so that versions from before there was a choice keep their digests.
    common += [adapter.space] if adapter.space != ACTION_SPACE else []
    folders = Folders()
    found = functools.cache(raw.files)
    known_changes: dict[str, str | None] = {}

    def changed(entry: FileEntry) -> str | None:
        """Many parts read the same things: these are looked at once."""
        if entry.sha256 not in known_changes:
            known_changes[entry.sha256] = changes(root / entry.path, raw, folders, found)
        return known_changes[entry.sha256]

    # A Raw that tracks, for its quick way of resolving paths; what it notes down is not used.
    quick = TrackedRaw(raw.root, raw.companions)
    return [
        _known_part(root, part.key, digest([*common, native.digest_of(part, quick)]), changed) for part in native.parts
    ]


def _known_part(root: Path, key: str, own: str, changed: Callable[[FileEntry], str | None]) -> _Known:
    """`own` digests a part's own files. If it ran on them before but something else that it read has changed since,
    its digest tells how that is now; the run under that digest may in turn have read other things."""
    spec = PartSpec(key, own)
    # Each turn is one "ran, then something that it had read changed": it ends at a run whose reads are still
    # true, or at a digest under which nothing ran yet.
    while (result := find_part(root, spec)) is not None:
        now = next((changed(entry) for entry in result.side_files if entry.path.endswith(f".{READS}.arrow")), None)
        if now is None:
            break
        spec = PartSpec(key, digest([spec.inputs_digest, now]))
    return spec, result


@dataclass(frozen=True)
class _PartsWork:
    """The parts of a source, and who runs them."""

    store: Store
    parts: Sequence[FilesPart]
    arguments: Sequence[PartArguments]
    execution: Execution

    def run(self, arguments: Sequence[PartArguments], results: Sequence[PartResult | None]) -> list[PartResult]:
        """Parts that are there (`results`) stay; the others are run."""
        seconds = {part.key: part.bytes / BYTES_A_SECOND for part in self.parts}
        missing = [item for item, result in zip(arguments, results, strict=True) if result is None]
        calls = [PartCall(item, (item.spec,), seconds[item.spec.key]) for item in missing]
        asset, stage = self.arguments[0].asset, f"unified/{self.arguments[0].source}"
        # An engine that has nothing to do isn't started.
        fresh = iter(run_parts(self.store, asset, run_unify_part, calls, self.execution, stage=stage) if calls else ())
        return [result or next(fresh) for result in results]

    def settled(self, results: list[PartResult]) -> list[PartResult]:
        """Ids that stand in several parts: the first in the order of records keeps its id; the other parts run again
        with what was decided as part of their inputs, and write files of other names."""
        root = self.store.root(self.arguments[0].asset)
        dumps = [
            next((root / entry.path for entry in result.side_files if entry.path.endswith(f".{IDS}")), None)
            for result in results
        ]
        # Digests alone decide, so the driver doesn't hold a name of a million records.
        decided = across_parts(dumps, [part.places for part in self.parts])
        again = {place: _with(self.arguments[place], of_part) for place, of_part in decided.items()}
        # A part may have been run with the same decisions before, and is then there under that digest.
        there = [find_part(root, item.spec) for item in again.values()]
        redone = dict(zip(again, self.run(list(again.values()), there), strict=True))
        return [redone.get(place, result) for place, result in enumerate(results)]


def _with(item: PartArguments, decided: dict[int, str]) -> PartArguments:
    spec = PartSpec(item.spec.key, digest([item.spec.inputs_digest, sorted(decided.items())]))
    return dataclasses.replace(item, decided=decided, spec=spec)


def run_unify_part(item: PartArguments) -> PartResult:
    """Run (or skip) one part; called by an engine's workers."""
    root = Store(item.home).root(item.asset)
    return run_part(root, item.version, item.spec, functools.partial(unify_part, item), stem=item.stem)
