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

import contextlib
import hashlib
import json
import logging
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from pipelines.store.asset_locks import writing
from pipelines.store.code_revision import code_revision
from pipelines.store.current_version import point_built, read_pointer
from pipelines.store.files import FileEntry, StoreError, sealed
from pipelines.store.free_space import require_space_for_build
from pipelines.store.images import ImageInfo, picture_names, read_image
from pipelines.store.known_pictures import KnownPictures
from pipelines.store.manifest import Check, Manifest, data_version
from pipelines.store.object_store.binding import FILE, bind, copies_at, copies_of, url_for
from pipelines.store.object_store.copies import StoreCopies
from pipelines.store.object_store.leases import StoreLease
from pipelines.store.object_store.withdrawn import heed
from pipelines.store.parts import PartFunction, PartResult, PartSpec, marker_of, put_text, run_part
from pipelines.store.small_greys import SmallGreys
from pipelines.store.whole_versions import LISTING, link_parts, listing
from pipelines.whole_files import whole_file
from schemas.ids import digest
from schemas.settings import near

TOUCH_AFTER_S = 3600
"""A screen that is put again is marked as new once it is older than this, so that `vesper gc` sees it in use."""
TOMBSTONE = "taken_down.json"
"""Stands in the folder of a version that `vesper takedown` replaced."""
_VERSION = re.compile(r"[A-Za-z0-9_-]+")
_DIGEST = re.compile(r"[0-9a-f]{16}")
"""How the names of versions look that `Store.build` gives."""
_ASSET = re.compile(r"[a-z0-9_]+(/[a-z0-9_]+)*")


on_commit: list[Callable[[Manifest], None]] = []
"""Called with each manifest that this process writes, once it is there; who listens raises nothing."""

logger = logging.getLogger(__name__)


class Build:
    """A version of an asset in the making; see `Store.build`."""

    def __init__(
        self,
        root: Path,
        asset: str,
        code_version: str,
        config_hash: str,
        inputs: Mapping[str, str],
        version: str,
        lease: StoreLease | None = None,
    ) -> None:
        self._root = root
        self._lease = lease
        self._copies = copies_of(root)
        self.asset = asset
        self.version = version
        self.results: list[PartResult] = []
        self._code_version = code_version
        self._config_hash = config_hash
        self._inputs = dict(inputs)

    @property
    def root(self) -> Path:
        """The asset's folder, with all files of the parts so far in it: those that another machine made are fetched."""
        if self._copies is not None:
            files = [entry for result in self.results for entry in (*result.files, *result.side_files)]
            self._copies.fetch(self._root, files)
        return self._root

    def run_part(self, spec: PartSpec, function: PartFunction) -> PartResult:
        """Run (or skip) a part here and add its files to the version."""
        result = run_part(self._root, self.version, spec, function)
        self.results.append(result)
        return result

    def add(self, result: PartResult) -> None:
        """Add a part that was run elsewhere (by an engine's workers)."""
        self.results.append(result)

    @property
    def skipped(self) -> bool:
        """Whether every part was there already."""
        return all(result.skipped for result in self.results)

    def commit(self, *, counts: Mapping[str, object] | None = None, checks: Sequence[Check] = ()) -> Manifest:
        """Write the manifest; make it current iff all blocking checks passed (and nobody set this version aside, see
        `current_version`). Returns it either way. Raises `StoreError` if a part that was there has gone since."""
        # By key, so that the manifest doesn't depend on which worker was done first.
        ordered = sorted(self.results, key=lambda result: result.key)
        files = [entry for result in ordered for entry in result.files]
        side_files = [entry for result in ordered for entry in result.side_files]
        # Parts that were there may have been collected while the others ran.
        self._require_files([result for result in ordered if result.skipped], [*files, *side_files])
        manifest = Manifest(
            asset=self.asset,
            version=self.version,
            data_version=data_version(files),
            code_version=self._code_version,
            config_hash=self._config_hash,
            inputs=self._inputs,
            files=files,
            side_files=side_files,
            counts=dict(counts or {}),
            checks=list(checks),
            checks_passed=all(check.passed for check in checks if check.blocking),
            folder=self._root,
            code_revision=self._made_by(),
        )
        # Objects know no links: there the listing does what links do on a disk.
        if self._copies is None:
            link_parts(manifest)
        # An equal manifest is left as it is: its time says when the version was made.
        # One of an earlier checkout, which sealed no texts, is as good.
        bare = manifest.to_json(seal=False)
        text = sealed(bare)
        if is_new := self._written() not in (text, bare):
            put = put_text if self._copies is None else self._copies.write_text
            if self._copies is not None:
                # Before the manifest: whoever sees that finds the listing, too.
                put(self._manifest.with_name(LISTING), listing(manifest))
            put(self._manifest, text)
        # The pointer last. Killed before it, the version is there and another one stays current.
        if manifest.checks_passed:
            point_built(self._root, self.version, manifest.data_version, put_text)
        # Listeners hear of new versions only: a rerun that changed nothing is no event.
        for listen in on_commit if is_new else ():
            listen(manifest)
        return manifest

    @property
    def _manifest(self) -> Path:
        return self._root / self.version / "manifest.json"

    def _require_files(self, skipped: list[PartResult], entries: list[FileEntry]) -> None:
        if self._copies is not None:
            # Behind a URL the lease may have run out while a slow build was at work; then another may have
            # begun.
            self._copies.require_files(self._root, entries)
            if self._lease is not None:
                self._lease.require(self.asset)
            return
        for entry in (e for result in skipped for e in (*result.files, *result.side_files)):
            if not (self._root / entry.path).exists():
                raise StoreError(f"{self.asset}: {entry.path} was there and has gone since (collected?); run it again")

    def _written(self) -> str | None:
        """The version's manifest as it is now; None if there is none."""
        if self._copies is not None:
            return self._copies.read_text(self._manifest)
        return self._manifest.read_text("utf-8", "replace") if self._manifest.exists() else None

    def _made_by(self) -> str:
        """The revision that the version's manifest names, if nothing is made anew; else that of this code."""
        if self.skipped and (written := self._written()) is not None:
            with contextlib.suppress(ValueError, TypeError, AttributeError):  # a damaged manifest is written again
                return str(json.loads(written).get("code_revision", ""))
        return code_revision() or ""


class Store:
    """Screens and assets under one home folder, which may be the verified copy of a store behind a URL."""

    def __init__(self, home: str | Path, url: str | None = None) -> None:
        """`url` (default: $VESPER_STORE_URL, where `home` is $VESPER_HOME) makes the home a copy of that store for
        good; see `pipelines.store.object_store`. Raises `StoreError` if that can't be reached or the home is
        another's."""
        self.home = Path(home).resolve()
        self.small_greys = SmallGreys(self.home / "cache" / "greys")
        url = url_for(self.home) if url is None else url
        self.copies: StoreCopies | None = bind(self.home, url) if url else copies_at(self.home)
        if self.copies is not None:
            # Withdrawn records go before anything is read, as other machines' takedowns reach this one only
            # here.
            heed(self.copies)
            self.copies.refresh()

    def put_screen(self, data: bytes, info: ImageInfo | None = None) -> ImageInfo:
        """Keep a picture's bytes as they are, once. It is verified first unless `info` says that it was. Raises
        `ImageError`."""
        info = info or read_image(data)
        path = self.home / "screens" / info.sha256[:2] / f"{info.sha256}.{info.ext}"
        # A picture of that hash is the same picture: it is never written twice, nor over another.
        if not _in_use(path):
            with whole_file(path) as part:
                part.write_bytes(data)
        if info.grey is not None:
            self.small_greys.put(info.sha256, info.grey)
        return info

    def known_pictures(self) -> KnownPictures:
        """What is known of the pictures verified so far."""
        return KnownPictures(self.home / "cache" / "pictures", self.home / "screens")

    def screen_path(self, sha256: str) -> Path:
        """The file of a screen. Raises `StoreError` if it isn't there."""
        # Names come from tables and URLs of requests, and become paths.
        if not re.fullmatch(r"[0-9a-f]{64}", sha256):
            raise StoreError(f"screen: expected a sha256 of 64 hex digits, found {sha256[:80]!r}")
        for path in self.screen_files(sha256):
            return path
        if self.copies is not None and (fetched := self.copies.screen(sha256)) is not None:
            return fetched
        where = self.copies.objects.url if self.copies is not None else self.home / "screens"
        raise StoreError(f"screen {sha256} is not in {where}")

    def screen_files(self, sha256: str) -> Iterator[Path]:
        """The files here of a screen."""
        return (path for name in picture_names(sha256) if (path := self.home / name).exists())

    def screen_bytes(self, sha256: str) -> bytes:
        """The encoded bytes of a screen. Raises `StoreError` if it isn't there, or isn't what it is named after."""
        path = self.screen_path(sha256)
        data = path.read_bytes()
        if hashlib.sha256(data).hexdigest() != sha256:
            raise StoreError(
                f"{path} is damaged: its bytes have another sha256; put back a good copy, or remove it and "
                "materialise the source that it came from again"
            )
        return data

    def root(self, asset: str) -> Path:
        """The folder of an asset; `asset` is a key such as `unified/aitw`."""
        if not _ASSET.fullmatch(asset):
            raise ValueError(f"asset key: expected words of a-z, 0-9 and _ joined by '/', found {asset!r}")
        return self.home / "assets" / asset

    def current(self, asset: str) -> Manifest | None:
        """The version that others read: the last whose checks passed, or the one that a person chose; or None."""
        pointer = read_pointer(self.root(asset))
        if not pointer:
            return None
        found = self.version(asset, pointer["version"])
        # Both came over the network, so they are held against each other.
        if self.copies is not None and pointer.get("data_version") != found.data_version:
            raise StoreError(
                f"{self.copies.objects.url}: {asset} {found.version}: its pointer says data version "
                f"{str(pointer.get('data_version'))[:64]}, its manifest {found.data_version}; refused"
            )
        return found

    def compared_with(self, asset: str) -> Manifest | None:
        """The current version, for checks of the one that is about to replace it; None where it is damaged, or nothing
        could mend it."""
        try:
            return self.current(asset)
        except StoreError as error:
            logger.warning("%s: the new version is compared with none: %s", asset, error)
            return None

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
        if not _VERSION.fullmatch(version):
            raise StoreError(f"{asset}: expected the name of a version, found {version[:80]!r}")
        root = self.root(asset)
        text = self._text(root / version / "manifest.json")
        if text is None:
            # A version may have been replaced by a takedown: say so, as nobody collects those by mistake.
            found = json.loads(self._text(root / version / TOMBSTONE) or "{}")
            # A worker on another machine may have an empty folder of its own at the home's path.
            more = (
                f"records of it were taken down, {found['replaced_by']} took its place"
                if found
                else "was it collected, or is that another machine's disk? Machines share a home by a shared folder or "
                "an object store (VESPER_STORE_URL)"
            )
            raise StoreError(f"{asset}: no manifest of version {version} in {self.home}; {more}")
        if self.copies is None:
            return Manifest.from_json(text, root, root / version / "manifest.json")
        try:
            # It came from behind a URL, where nothing names a manifest by its hash.
            name = f"{self.copies.objects.url}/{self.copies.name(root)}/{version}/manifest.json"
            return Manifest.verified(text, root, asset, version, name)
        except StoreError:
            # Not remembered: a good one may be put there in the meantime.
            self.copies.forget(root / version / "manifest.json")
            raise

    def _text(self, path: Path) -> str | None:
        """A small file as it is now, behind the URL if there is one; None if it isn't there."""
        if self.copies is not None:
            return self.copies.read_text(path)
        # What isn't UTF-8 any more fails at its seal, with the file's name.
        return path.read_text("utf-8", "replace") if path.exists() else None

    def nothing_of(self, asset: str) -> str:
        """What is said where an asset, by its key or a checkpoint's short name, has no version: the nearest keys."""
        keys = list(_asset_keys(self.home / "assets"))
        short = asset if "/" in asset else f"checkpoints/{asset}"
        meant = near(asset, keys) or near(short, keys)
        return f"{asset}: nothing committed yet in {self.home}; materialise it first{meant and f'; {meant}'}"

    def require(self, asset: str) -> Manifest:
        """The current version; `StoreError` if there is none, or it lacks `checks_passed` and nobody forced it."""
        manifest = self.current(asset)
        if manifest is None:
            raise StoreError(self.nothing_of(asset))
        # Promoted by force in spite of its checks: a person answers for it, and readers take it.
        if not manifest.checks_passed and not read_pointer(manifest.folder).get("change", {}).get("forced"):
            failed = ", ".join(check.name for check in manifest.checks if check.blocking and not check.passed)
            raise StoreError(f"{asset} {manifest.version}: refused, checks failed: {failed}")
        return manifest

    @contextlib.contextmanager
    def build(
        self,
        asset: str,
        *,
        code_version: str,
        config: Mapping[str, object] | None = None,
        inputs: Mapping[str, str] | None = None,
        parts: Sequence[PartSpec] = (),
    ) -> Iterator[Build]:
        """Hold the asset's lock and make a version of it.

        The version's name is a digest of what goes in (code, config, inputs, parts), so a rerun of equal inputs
        is the same version. Raises `StoreError` if another living process holds the lock, or the disk has no room
        for as much as the last version took.
        """
        root = self.root(asset)
        # Again: this process may have been opened long before somebody's takedown.
        if self.copies is not None:
            heed(self.copies)
        config_hash = digest(dict(config or {}))
        # Keys as well as digests: the same work under another name would be written to other files.
        named = [[spec.key, spec.inputs_digest] for spec in parts]
        version = digest([asset, code_version, config_hash, dict(inputs or {}), sorted(named)])[:16]
        # Before any work: a full disk at the end would have cost a night.
        require_space_for_build(self.home, asset, self._last(asset), lambda: _share_missing(root, parts))
        with writing(self.home, root, version, inputs or {}) as lease:
            yield Build(root, asset, code_version, config_hash, inputs or {}, version, lease)

    def _last(self, asset: str) -> Manifest | None:
        """The current version, for its size; None where what is current is damaged and is to be made again."""
        try:
            return self.current(asset)
        except StoreError:
            return None


def _asset_keys(root: Path) -> Iterator[str]:
    """Keys of the assets below a folder that have a current version. What lies in versions isn't looked at: it may be
    millions of files."""
    for folder, below, files in os.walk(root):
        if "current.json" in files:
            yield Path(folder).relative_to(root).as_posix()
        # In place, as os.walk goes on with what is left in the list.
        below[:] = [name for name in below if name != "parts" and not _DIGEST.fullmatch(name)]


def has_store(home: Path) -> bool:
    """Whether a folder is a store: it has assets, or is (or is named to become) the copy of one behind a URL."""
    return (home / "assets").is_dir() or (home / FILE).is_file() or bool(url_for(home.resolve()))


def _share_missing(root: Path, parts: Sequence[PartSpec]) -> float:
    """How much of a version must be made: parts that aren't there, of all (1 if they aren't known beforehand)."""
    return sum(not marker_of(root, spec).exists() for spec in parts) / len(parts) if parts else 1.0


def _in_use(path: Path) -> bool:
    """Whether a file is there; if so it counts as new from now on."""
    try:
        # Put again, so it is in use: `vesper gc` goes by age. Not at each put, which would write to the disk
        # each time.
        if time.time() - path.stat().st_mtime > TOUCH_AFTER_S:
            os.utime(path)
    except FileNotFoundError:
        return False
    return True
