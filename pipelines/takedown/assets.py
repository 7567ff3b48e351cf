"""Versions of assets without the rows that were taken down.

A version that holds any is made again without them, under a new name: only the files that held one are written, the
others are shared. The new manifest tells from which version it was made, how many rows of which table went, and which
rendered files (pictures and pages of cards, which can't tell whom they show) were left out. Then the old version goes:
its manifest first, then the files that no other names, and a small file says what took its place. Shards keep their row
groups' bounds, and what counts their rows (`index`, `mixture`) is counted again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.store import ROW_GROUP_ROWS, TOMBSTONE, Store, put_text
from pipelines.store.aliases import aliased, point_alias
from pipelines.store.current_version import VersionChange, holding, now, point, read_pointer, settle, user
from pipelines.store.files import FileEntry, file_sha256
from pipelines.store.manifest import CheckSpec, Manifest, data_version
from pipelines.store.object_store.copies import SCREENS
from pipelines.store.reachable import VERSION, Asset, files_of
from pipelines.store.whole_versions import LISTING, link_parts, listing
from pipelines.takedown.tables import SearchTerms, matches
from pipelines.takedown.withdrawn import REASON, TakenDown
from pipelines.training_data.shard_form import ShardConfig, write_shard
from schemas.ids import digest

RENDERED = frozenset({".gif", ".html", ".jpeg", ".jpg", ".md", ".png", ".svg", ".webp"})
"""Files of a version that show records without naming them: they go from versions that read a changed one."""
_EXPORTS = "exports/"
_KEEP_RENDERED = ("checkpoints/", "bench/", "raw/")
TAKEN_DOWN = CheckSpec("taken down", "Never fails: it says what `vesper takedown` removed", blocking=False)


@dataclass
class Moved:
    """A shard that was written again."""

    entry: FileEntry
    before: str
    """The sha256 that it had."""
    rows: dict[int, tuple[int, int]]
    """Row → (row, row group) now."""
    tokens: dict[int, int]


@dataclass
class VersionRewriter:
    """Goes through the versions in order of what they were made from."""

    store: Store
    taken: TakenDown
    replaced: dict[tuple[str, str], str] = field(default_factory=dict)
    """(asset, version) → the version in its place."""
    moved: dict[tuple[Path, str], Moved] = field(default_factory=dict)
    made: dict[tuple[Path, str], tuple[int, FileEntry]] = field(default_factory=dict)
    """(root, path) of a file → what came of it."""
    terms: SearchTerms = field(init=False)
    mark: str = field(init=False)
    """Digest of the names: equal lists make equal versions."""
    rows: Counter[str] = field(default_factory=Counter)
    """Asset → rows that went, over all its versions."""

    def __post_init__(self) -> None:
        self.terms = SearchTerms.of(self.taken, shown=True)
        self.mark = digest([sorted(self.taken.names), self.taken.records])

    def rewrite(self, asset: Asset, version: str) -> str | None:
        """Make a version anew without what was taken down; its new name, None if nothing of it changes."""
        old = asset.manifests[version]
        # Inputs that were replaced themselves: this version is made from the new ones, even if no row of its
        # own goes.
        reads = {name: self.replaced.get((name, value), value) for name, value in old.inputs.items()}
        # Named by what was taken down, so that a rerun after a kill finds the version that it had begun.
        name = digest([REASON, old.asset, version, self.mark])[:16]
        place = _Place(asset.root, name)
        files = [self._entry(place, old, entry, reads) for entry in old.files]
        side_files = [self._entry(place, old, entry, reads) for entry in old.side_files]
        went: Counter[str] = Counter()
        for entry, (gone, _) in zip((*old.files, *old.side_files), (*files, *side_files), strict=True):
            went[entry.table or Path(entry.path).suffix] += gone
        # Rendered files (pictures, pages) are dropped rather than cut: the graph draws them again.
        dropped = sum(new is None for _, new in (*files, *side_files))
        if not went.total() and not dropped:
            return None
        left, left_aside = ([new for _, new in found if new is not None] for found in (files, side_files))
        self._commit(old, name, reads, left, left_aside, +went, dropped)
        self.replaced[asset.key, version] = name
        self.rows[asset.key] += sum(went.values())
        return name

    def _entry(
        self, place: _Place, old: Manifest, entry: FileEntry, reads: Mapping[str, str]
    ) -> tuple[int, FileEntry | None]:
        """(rows that went, the file in its place or None). A file that versions share is written once."""
        suffix = Path(entry.path).suffix
        if suffix in RENDERED and reads != old.inputs and not old.asset.startswith(_KEEP_RENDERED):
            return 0, None
        if old.asset.startswith(_EXPORTS) and reads != old.inputs:
            return 0, None  # its tars name no row; the graph writes it again from shards without the records
        if suffix not in (".parquet", ".jsonl"):
            return 0, entry
        # A file that several versions share is cut once, and named by all of them.
        key = (old.root, entry.path)
        if key not in self.made:
            self.made[key] = (self._table if suffix == ".parquet" else self._lines)(place, old, entry)
        return self.made[key]

    def _table(self, place: _Place, old: Manifest, entry: FileEntry) -> tuple[int, FileEntry]:
        path = old.root / entry.path
        if entry.table == "mixture":
            return self._mixture(place, old, entry)
        if entry.table == "shard":
            return self._shard(place, old, entry)
        table = pq.read_table(path)
        hit = matches(table, self.terms)
        if not hit.any():
            return 0, entry
        left = table.filter(pa.array(~hit))
        # Rows moved up in their shards, and the index must say where they are now.
        if entry.table == "index" and "row_group" in left.column_names:
            left = self._counted_anew(left, old)
        pq.write_table(left, place.path(entry), compression="zstd", row_group_size=ROW_GROUP_ROWS)
        return int(hit.sum()), place.entry(entry, left.num_rows)

    def _shard(self, place: _Place, old: Manifest, entry: FileEntry) -> tuple[int, FileEntry]:
        file = pq.ParquetFile(old.root / entry.path)
        # By row groups, as they come: pictures of a row stay in the group that holds them.
        groups = [file.read_row_group(place) for place in range(file.metadata.num_row_groups)]
        hits = [matches(group, self.terms) for group in groups]
        gone = int(sum(hit.sum() for hit in hits))
        if not gone:
            return 0, entry
        left: list[pa.Table] = []
        rows: dict[int, tuple[int, int]] = {}
        tokens: dict[int, int] = {}
        before = after = 0
        for group, hit in zip(groups, hits, strict=True):
            stays = np.flatnonzero(~hit)
            counted = group["tokens"].to_pylist()
            for row in stays.tolist():
                rows[before + row], after = (after, len(left)), after + 1
            tokens.update({before + row: number for row, number in enumerate(counted)})
            before += group.num_rows
            if len(stays):
                left.append(group.take(pa.array(stays)))
        write_shard(place.path(entry), left, ShardConfig())
        rewritten = place.entry(entry, after)
        self.moved[old.root, entry.path] = Moved(rewritten, entry.sha256, rows, tokens)
        return gone, rewritten

    def _counted_anew(self, index: pa.Table, old: Manifest) -> pa.Table:
        """An index after rows of its shards went: where each row stands now."""
        by_name = {Path(path).name: moved for (root, path), moved in self.moved.items() if root == old.root}
        row, group = index["row"].to_pylist(), index["row_group"].to_pylist()
        for place, shard in enumerate(index["shard"].to_pylist()):
            if shard in by_name:
                row[place], group[place] = by_name[shard].rows[row[place]]
        for name, values in (("row", row), ("row_group", group)):
            field = index.schema.field(name)
            index = index.set_column(index.schema.get_field_index(name), field, pa.array(values, field.type))
        return index

    def _mixture(self, place: _Place, old: Manifest, entry: FileEntry) -> tuple[int, FileEntry]:
        """Chosen rows of shards that were written again. A shard of which nothing is chosen any more goes."""
        # By the digest of the shard as it was, which is how a mixture names it.
        moves = {moved.before: moved for moved in self.moved.values()}
        table = pq.read_table(old.root / entry.path)
        listed = table.to_pylist()
        if not any(row["sha256"] in moves for row in listed):
            return 0, entry
        left, gone = [], 0
        for row in listed:
            if (moved := moves.get(row["sha256"])) is None:
                left.append(row)
                continue
            chosen = list(zip(row["rows"], row["repeats"], strict=True))
            stays = [(moved.rows[number], repeats) for number, repeats in chosen if number in moved.rows]
            lost = sum(moved.tokens[number] * repeats for number, repeats in chosen if number not in moved.rows)
            gone += len(chosen) - len(stays)
            if stays:
                left.append(
                    {
                        **row,
                        "sha256": moved.entry.sha256,
                        "bytes": moved.entry.bytes,
                        "rows": [number for (number, _), _ in stays],
                        "row_groups": [group for (_, group), _ in stays],
                        "repeats": [repeats for _, repeats in stays],
                        "tokens": row["tokens"] - lost,
                    }
                )
        pq.write_table(pa.Table.from_pylist(left, schema=table.schema), place.path(entry), compression="zstd")
        # At least 1: the file is another one even where only the shard's digest changed.
        return max(gone, 1), place.entry(entry, len(left))

    def _lines(self, place: _Place, old: Manifest, entry: FileEntry) -> tuple[int, FileEntry]:
        """Lines of JSON that mean one of them."""
        lines = (old.root / entry.path).read_bytes().splitlines(keepends=True)
        left = [line for line in lines if not self.taken.is_meant_by(line)]
        if len(left) == len(lines):
            return 0, entry
        place.path(entry).write_bytes(b"".join(left))
        return len(lines) - len(left), place.entry(entry, entry.rows and len(left))

    def _commit(
        self,
        old: Manifest,
        version: str,
        inputs: Mapping[str, str],
        files: list[FileEntry],
        side_files: list[FileEntry],
        went: Counter[str],
        dropped: int,
    ) -> None:
        """Write the manifest and, if the old version was current, the pointer."""
        record = {"from": old.version, "reason": REASON, "rows": dict(sorted(went.items())), "files": dropped}
        check = TAKEN_DOWN.check(
            True, f"{sum(went.values())} rows, {dropped} files", "none of them left", sum(went.values())
        )
        counts = {**old.counts, REASON: [*old.counts.get(REASON, []), record]}
        manifest = replace(
            old,
            version=version,
            data_version=data_version(files),
            inputs=dict(inputs),
            files=files,
            side_files=side_files,
            counts=counts,
            checks=[*old.checks, check],
        )
        # Behind a URL files first, then the listing, then the manifest, as in any commit.
        if (copies := self.store.copies) is not None:
            copies.require_files(old.folder, [*files, *side_files])
            copies.write_text(old.folder / version / LISTING, listing(manifest))
            copies.write_text(old.folder / version / "manifest.json", manifest.to_json())
        else:
            link_parts(manifest)
            put_text(old.folder / version / "manifest.json", manifest.to_json())
        with holding(old.root):
            settle(old.root)
            pointer, why = read_pointer(old.root), f"{sum(went.values())} rows were taken down"
            # A version that was promoted by force stays so: nobody has looked at its checks anew.
            forced = pointer.get("version") == old.version and bool(pointer.get("change", {}).get("forced"))
            change = VersionChange(version, old.version, "taken down", user(), now(), why, forced)
            if pointer.get("version") == old.version:
                point(old.root, change, manifest.data_version, put_text)
            # Aliases follow, or whoever serves `production` would go on serving the record.
            for alias, named in aliased(old.folder).items():
                if named == old.version:
                    point_alias(old.folder, alias, change, manifest.data_version, put_text)

    def remove(self, assets: Mapping[str, Asset]) -> None:
        """Delete the replaced versions, and what no version names: files of versions that were replaced, now or before
        a kill, and unfinished ones that hold a record or can't be read."""
        for asset in assets.values():
            for version in asset.manifests:
                if (name := self.replaced.get((asset.key, version))) is not None:
                    notice = {"version": version, "replaced_by": name, "reason": REASON}
                    put = put_text if self.store.copies is None else self.store.copies.write_text
                    # The tombstone before the manifest goes: a kill in between leaves both, and a rerun goes
                    # on.
                    put(asset.root / version / TOMBSTONE, json.dumps(notice, sort_keys=True))
                    _delete(self.store, [asset.root / version / "manifest.json"])
            _remove_unnamed(self.store, asset.root, self.taken, self.terms)


def _delete(store: Store, paths: list[Path]) -> None:
    """Behind the store's URL first, if it has one."""
    if store.copies is not None:
        store.copies.delete(paths)
    for path in paths:
        path.unlink(missing_ok=True)


def _remove_unnamed(store: Store, root: Path, taken: TakenDown, terms: SearchTerms) -> None:
    _delete(store, _unnamed(root, taken, terms))
    _delete(store, _broken_receipts(root))


def _unnamed(root: Path, taken: TakenDown, terms: SearchTerms) -> list[Path]:
    manifests = [
        Manifest.from_json(path.read_text("utf-8", "replace"), root, path) for path in root.glob("*/manifest.json")
    ]
    named = {root / entry.path for manifest in manifests for entry in (*manifest.files, *manifest.side_files)}
    going = []
    for path, _ in files_of(root):
        folder = root / path.relative_to(root).parts[0]
        # Files of versions that stand are somebody's; those of no version are looked into.
        if path in named or not VERSION.fullmatch(folder.name) or path.name in (TOMBSTONE, "manifest.json"):
            continue
        replaced = (folder / TOMBSTONE).is_file() and not (folder / "manifest.json").is_file()
        if replaced or _holds(path, taken, terms):
            going.append(path)
    return going


def _broken_receipts(root: Path) -> list[Path]:
    """Receipts of parts of which a file has gone."""
    going = []
    for marker in (root / "parts").glob("*.json"):
        plain = json.loads(marker.read_text(encoding="utf-8"))
        if not all((root / entry["path"]).is_file() for entry in (*plain["files"], *plain["side_files"])):
            going += [marker, *marker.parent.glob(f"{marker.stem}{SCREENS}")]
    return going


def _holds(path: Path, taken: TakenDown, terms: SearchTerms) -> bool:
    """Whether an unfinished file holds a record, or nobody can tell."""
    if path.suffix != ".parquet":
        return path.suffix in (".jsonl", ".json") and taken.is_meant_by(path.read_bytes())
    try:
        return bool(matches(pq.read_table(path), terms).any())
    except (OSError, pa.ArrowException):
        return True


@dataclass(frozen=True)
class _Place:
    """A new version's folder: each file keeps the name that it had below the old one's."""

    root: Path
    version: str

    def path(self, entry: FileEntry) -> Path:
        path = self.root / self.version / entry.path.partition("/")[2]
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def entry(self, old: FileEntry, rows: int | None) -> FileEntry:
        """The file that was just written in the place of an old one."""
        path = self.path(old)
        relative = path.relative_to(self.root).as_posix()
        return FileEntry(relative, old.table, rows, path.stat().st_size, file_sha256(path))
