"""Where everything lies: content-addressed screens, and versioned assets committed by manifest.

    $VESPER_HOME/screens/ab/<sha256>.<ext>
    $VESPER_HOME/assets/<asset>/<version>/part-<key>.<table>.parquet, manifest.json
    $VESPER_HOME/assets/<asset>/parts/<digest>.json       which files a finished part consists of
    $VESPER_HOME/assets/<asset>/current.json              the last version whose checks all passed, or one that a
                                                          person chose (`current_version`)

A commit writes parts under a fresh version, then the manifest, then `current.json` in one PUT: nothing is ever
renamed over or overwritten, and a process killed at any point leaves only parts that the next run takes up.
`run_part` is the one mechanism for skip and resume.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.asset_locks import writing
from pipelines.code_revision import code_revision
from pipelines.current_version import point_built, read_pointer
from pipelines.free_space import require_space_for_build
from pipelines.images import ImageInfo, read_image
from pipelines.known_pictures import KnownPictures
from pipelines.manifest import Check, FileEntry, Manifest, StoreError, data_version, file_sha256
from schemas.ids import digest

__all__ = ["Check", "FileEntry", "Manifest", "PartResult", "PartSpec", "PartWriter", "Store", "StoreError"]

TOUCH_AFTER_S = 3600
"""A screen that is put again is marked as new once it is older than this, so that `vesper gc` sees it in use."""
TOMBSTONE = "taken_down.json"
"""Stands in the folder of a version that `vesper takedown` replaced."""
_KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ASSET = re.compile(r"[a-z0-9_]+(/[a-z0-9_]+)*")
ROW_GROUP_ROWS = 50_000
_UNIQUE = frozenset({"action_text", "native_action", "native", "provenance"})
"""Columns of texts most of which are different: a dictionary of them would be made for nothing."""
_ORDERED = frozenset({"episode_id", "step_index", "sample_id", "screenshot_sha256"})
"""Columns that tables are sorted by. Only their first and last values tell a reader which rows it can leave out: the
others have about the same ones everywhere."""


@dataclass(frozen=True, slots=True)
class PartSpec:
    """A unit of work: its name within the asset, and the digest of all that its result depends on."""

    key: str
    inputs_digest: str

    def __post_init__(self) -> None:
        if not _KEY.fullmatch(self.key):
            raise ValueError(f"part key: expected letters, digits, '.', '_' and '-', found {self.key!r}")


@dataclass(frozen=True, slots=True)
class PartResult:
    """A finished part: its files, its counts, and whether it was there already."""

    key: str
    files: list[FileEntry]
    side_files: list[FileEntry]
    counts: dict[str, Any]
    skipped: bool


class PartWriter:
    """Given to a part's function: collects the files it writes, all in the version's folder."""

    def __init__(self, root: Path, version: str, stem: str) -> None:
        self._root = root
        self._version = version
        self._stem = stem
        self._entries: list[tuple[str, str | None, int | None, bool]] = []
        (root / version).mkdir(parents=True, exist_ok=True)

    def table(
        self, name: str, table: pa.Table, *, hashed: bool = True, row_group_rows: int = ROW_GROUP_ROWS, chunk: int = 0
    ) -> None:
        """Write a table as `part-<key>.<name>.parquet`. A part too large for one file writes several: those of chunk n
        are named `part-<key>.<n>.<name>.parquet`, and stand for a part of their own to whoever reads the asset."""
        number = f".{chunk:04d}" if chunk else ""
        relative = f"{self._version}/part-{self._stem}{number}.{name}.parquet"
        repeating = [column for column in table.column_names if column not in _UNIQUE]
        pq.write_table(
            table, self._root / relative, compression="zstd", row_group_size=row_group_rows,
            use_dictionary=repeating, write_statistics=[name for name in table.column_names if name in _ORDERED],
            write_batch_size=row_group_rows,
        )  # fmt: skip
        self._entries.append((relative, name, table.num_rows, hashed))

    def path(self, name: str, *, table: str | None = None, hashed: bool = True) -> Path:
        """A path to write a file of one's own to, under the version's folder (`a/b.txt` makes the folder)."""
        relative = f"{self._version}/{name}"
        if not (self._root / relative).resolve().is_relative_to((self._root / self._version).resolve()):
            raise ValueError(f"file name {name!r} leaves the version's folder")
        (self._root / relative).parent.mkdir(parents=True, exist_ok=True)
        self._entries.append((relative, table, None, hashed))
        return self._root / relative

    def side(self, kind: str, data: bytes) -> None:
        """Write a small file about the part, `part-<key>.<kind>`, which isn't part of the data version."""
        self.bytes(f"part-{self._stem}.{kind}", data, hashed=False)

    def arrow(self, kind: str, table: pa.Table) -> None:
        """The same with a table, `part-<key>.<kind>.arrow`, which opens many times faster than a parquet file."""
        path = self.path(f"part-{self._stem}.{kind}.arrow", hashed=False)
        with pa.ipc.new_file(path, table.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
            stream.write_table(table)

    def bytes(self, name: str, data: bytes, *, hashed: bool = True) -> None:
        """Write a small file."""
        self.path(name, hashed=hashed).write_bytes(data)

    def finish(self) -> tuple[list[FileEntry], list[FileEntry]]:
        """Hash what was written: (files, side files)."""
        lists: tuple[list[FileEntry], list[FileEntry]] = ([], [])
        for relative, table, rows, hashed in self._entries:
            path = self._root / relative
            if table is not None and rows is None:
                rows = pq.ParquetFile(path).metadata.num_rows
            entry = FileEntry(relative, table, rows, path.stat().st_size, file_sha256(path))
            lists[0 if hashed else 1].append(entry)
        return lists


PartFunction = Callable[[PartWriter], Mapping[str, Any] | None]


def run_part(
    root: Path, version: str, spec: PartSpec, function: PartFunction, *, stem: str | None = None
) -> PartResult:
    """Run one part unless it is there already; the marker is written last, so a killed part is done anew.

    `root` is the asset's folder; `stem` is what the part's files are named after (default: its key). Safe to call from
    several processes on different parts.
    """
    if (found := find_part(root, spec)) is not None:
        return found
    writer = PartWriter(root, version, stem or spec.key)
    counts = dict(function(writer) or {})
    files, side_files = writer.finish()
    result = PartResult(spec.key, files, side_files, counts, skipped=False)
    put_text(_marker(root, spec), json.dumps(asdict(result), sort_keys=True))
    return result


def find_part(root: Path, spec: PartSpec) -> PartResult | None:
    """A part that was run before and whose files are all there; else None."""
    return _finished(root, _marker(root, spec))


def _marker(root: Path, spec: PartSpec) -> Path:
    return root / "parts" / f"{digest([spec.key, spec.inputs_digest])[:32]}.json"


def _finished(root: Path, marker: Path) -> PartResult | None:
    if not marker.exists():
        return None
    plain = json.loads(marker.read_text())
    files = [FileEntry(**entry) for entry in plain["files"]]
    side_files = [FileEntry(**entry) for entry in plain["side_files"]]
    for entry in (*files, *side_files):
        path = root / entry.path
        if not path.exists() or path.stat().st_size != entry.bytes:
            return None
    return PartResult(plain["key"], files, side_files, plain["counts"], skipped=True)


def put_text(path: Path, text: str) -> None:
    """Make a small file appear whole or not at all, as one PUT does on an object store."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".put-")
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(temporary, path)


class Build:
    """A version of an asset in the making; see `Store.build`."""

    def __init__(
        self, root: Path, asset: str, code_version: str, config_hash: str, inputs: Mapping[str, str], version: str
    ) -> None:
        self.root = root
        self.asset = asset
        self.version = version
        self.results: list[PartResult] = []
        self._code_version = code_version
        self._config_hash = config_hash
        self._inputs = dict(inputs)

    def run_part(self, spec: PartSpec, function: PartFunction) -> PartResult:
        """Run (or skip) a part here and add its files to the version."""
        result = run_part(self.root, self.version, spec, function)
        self.results.append(result)
        return result

    def add(self, result: PartResult) -> None:
        """Add a part that was run elsewhere (a Beam worker)."""
        self.results.append(result)

    @property
    def skipped(self) -> bool:
        """Whether every part was there already."""
        return all(result.skipped for result in self.results)

    def commit(self, *, counts: Mapping[str, Any] | None = None, checks: Sequence[Check] = ()) -> Manifest:
        """Write the manifest; make it current iff all blocking checks passed (and nobody set this version aside, see
        `current_version`). Returns it either way. Raises `StoreError` if a part that was there has gone since."""
        ordered = sorted(self.results, key=lambda result: result.key)
        for entry in (e for result in ordered if result.skipped for e in (*result.files, *result.side_files)):
            if not (self.root / entry.path).exists():
                raise StoreError(f"{self.asset}: {entry.path} was there and has gone since (collected?); run it again")
        files = [entry for result in ordered for entry in result.files]
        manifest = Manifest(
            asset=self.asset,
            version=self.version,
            data_version=data_version(files),
            code_version=self._code_version,
            config_hash=self._config_hash,
            inputs=self._inputs,
            files=files,
            side_files=[entry for result in ordered for entry in result.side_files],
            counts=dict(counts or {}),
            checks=list(checks),
            checks_passed=all(check.passed for check in checks if check.blocking),
            root=self.root,
            code_revision=self._made_by(),
        )
        path = self.root / self.version / "manifest.json"
        if not path.exists() or path.read_text(encoding="utf-8") != manifest.to_json():
            put_text(path, manifest.to_json())
        if manifest.checks_passed:
            point_built(self.root, self.version, manifest.data_version, put_text)
        return manifest

    def _made_by(self) -> str:
        """The revision that the version's manifest names, if nothing is made anew; else that of this code."""
        path = self.root / self.version / "manifest.json"
        if self.skipped and path.exists():
            with contextlib.suppress(ValueError, TypeError, AttributeError):  # a damaged manifest is written again
                return str(json.loads(path.read_text(encoding="utf-8")).get("code_revision", ""))
        return code_revision() or ""


class Store:
    """Screens and assets under one home folder."""

    def __init__(self, home: str | Path) -> None:
        self.home = Path(home).resolve()

    def put_screen(self, data: bytes, info: ImageInfo | None = None) -> ImageInfo:
        """Keep a picture's bytes as they are, once. It is verified first unless `info` says that it was. Raises
        `ImageError`."""
        info = info or read_image(data)
        path = self.home / "screens" / info.sha256[:2] / f"{info.sha256}.{info.ext}"
        if not _in_use(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".put-")
            with os.fdopen(handle, "wb") as stream:
                stream.write(data)
            os.replace(temporary, path)
        return info

    def known_pictures(self) -> KnownPictures:
        """What is known of the pictures verified so far."""
        return KnownPictures(self.home / "cache" / "pictures", self.home / "screens")

    def screen_path(self, sha256: str) -> Path:
        """The file of a screen. Raises `StoreError` if it isn't there."""
        if not re.fullmatch(r"[0-9a-f]{64}", sha256):
            raise StoreError(f"screen: expected a sha256 of 64 hex digits, found {sha256[:80]!r}")
        for path in (self.home / "screens" / sha256[:2]).glob(f"{sha256}.*"):
            return path
        raise StoreError(f"screen {sha256} is not in {self.home / 'screens'}")

    def screen_bytes(self, sha256: str) -> bytes:
        """The encoded bytes of a screen."""
        return self.screen_path(sha256).read_bytes()

    def root(self, asset: str) -> Path:
        """The folder of an asset; `asset` is a key such as `unified/aitw`."""
        if not _ASSET.fullmatch(asset):
            raise ValueError(f"asset key: expected words of a-z, 0-9 and _ joined by '/', found {asset!r}")
        return self.home / "assets" / asset

    def current(self, asset: str) -> Manifest | None:
        """The version that others read: the last whose checks passed, or the one that a person chose; or None."""
        pointer = read_pointer(self.root(asset))
        return self.version(asset, pointer["version"]) if pointer else None

    def screens_of(self, source: str) -> Manifest | None:
        """The manifest with a source's table `screens`: `unified/<source>`, or its gold where that is made from nothing
        unified (generated trajectories); None if there is none."""
        unified = self.current(f"unified/{source}")
        if unified is not None:
            return unified
        gold = self.current(f"gold/{source}")
        return gold if gold is not None and gold.paths("screens") else None

    def version(self, asset: str, version: str) -> Manifest:
        """One committed version, passed or not. Raises `StoreError` if there is none."""
        path = self.root(asset) / version / "manifest.json"
        if not path.exists():
            gone = path.with_name(TOMBSTONE)
            found = json.loads(gone.read_text(encoding="utf-8")) if gone.exists() else {}
            more = f"; records of it were taken down, {found['replaced_by']} took its place" if found else ""
            raise StoreError(f"{asset}: no manifest of version {version}{more}")
        return Manifest.from_json(path.read_text(encoding="utf-8"), self.root(asset))

    def require(self, asset: str) -> Manifest:
        """The current version; `StoreError` if there is none, or it lacks `checks_passed` and nobody forced it."""
        manifest = self.current(asset)
        if manifest is None:
            raise StoreError(f"{asset}: nothing committed yet in {self.home}; materialise it first")
        if not manifest.checks_passed and not read_pointer(manifest.root).get("change", {}).get("forced"):
            failed = ", ".join(check.name for check in manifest.checks if check.blocking and not check.passed)
            raise StoreError(f"{asset} {manifest.version}: refused, checks failed: {failed}")
        return manifest

    @contextlib.contextmanager
    def build(
        self,
        asset: str,
        *,
        code_version: str,
        config: Mapping[str, Any] | None = None,
        inputs: Mapping[str, str] | None = None,
        parts: Sequence[PartSpec] = (),
    ) -> Iterator[Build]:
        """Hold the asset's lock and make a version of it.

        The version's name is a digest of what goes in (code, config, inputs, parts), so a rerun of equal inputs
        is the same version. Raises `StoreError` if another living process holds the lock, or the disk has no room
        for as much as the last version took.
        """
        root = self.root(asset)
        config_hash = digest(dict(config or {}))
        named = [[spec.key, spec.inputs_digest] for spec in parts]
        version = digest([asset, code_version, config_hash, dict(inputs or {}), sorted(named)])[:16]
        require_space_for_build(self.home, asset, self._last(asset), lambda: _share_missing(root, parts))
        with writing(self.home, root, version, inputs or {}):
            yield Build(root, asset, code_version, config_hash, inputs or {}, version)

    def _last(self, asset: str) -> Manifest | None:
        """The current version, for its size; None where what is current is damaged and is to be made again."""
        try:
            return self.current(asset)
        except StoreError:
            return None


def _share_missing(root: Path, parts: Sequence[PartSpec]) -> float:
    """How much of a version must be made: parts that aren't there, of all (1 if they aren't known beforehand)."""
    return sum(not _marker(root, spec).exists() for spec in parts) / len(parts) if parts else 1.0


def _in_use(path: Path) -> bool:
    """Whether a file is there; if so it looks new from now on."""
    try:
        if time.time() - path.stat().st_mtime > TOUCH_AFTER_S:
            os.utime(path)
    except FileNotFoundError:
        return False
    return True
