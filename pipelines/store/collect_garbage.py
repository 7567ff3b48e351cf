"""`vesper gc`: delete what nobody needs any more (see `reachable`): versions, parts, and pictures that none names.

Nothing is deleted before its manifest is gone, so a process killed at any point leaves no manifest that names a missing
file; a second run takes up the rest. A build that begins meanwhile waits; the folder of an asset that is being built is
left as it is, and so are all pictures while a build runs that may just have found one there already.

Of a store behind a URL, what goes is deleted there first. Which pictures are needed is known from the receipts of the
parts; journals of rounds that are being generated name theirs only on their own machine, which puts them again.
"""

import contextlib
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pipelines.store.asset_locks import gate
from pipelines.store.named_screens import named_screens
from pipelines.store.object_store.copies import SCREENS, StoreCopies
from pipelines.store.reachable import VERSION, Asset, Status, find_assets, mark
from pipelines.store.store import TOMBSTONE, Store

MIN_AGE_S = 24 * 3600.0
ID_INDEX = Path("cache", "ids")
"""Below the home: which files hold which ids, a cache for `vesper explain` and its like. It goes with what it names."""
READS_SCREENS_ONLY = ("checkpoints/", "episodes/", "evaluations/", "hygiene/", "mid_training/", "suites/", "verdicts/")
"""Builds of these put no pictures into the store."""


@dataclass
class AssetPlan:
    """What goes of an asset. `files` are (path, bytes): manifests first, then the rest."""

    key: str
    kept: dict[str, str]
    dropped: list[str]
    files: list[tuple[Path, int]] = field(default_factory=list)
    bytes_kept: int = 0
    held: str = ""
    """Why nothing of it is touched; empty if that isn't so."""

    @property
    def bytes(self) -> int:
        return sum(size for _, size in self.files)


@dataclass
class GarbagePlan:
    """What goes of a store."""

    assets: list[AssetPlan]
    screens: list[tuple[Path, int]] = field(default_factory=list)
    screens_kept: int = 0
    """Pictures that stay."""
    screens_bytes_kept: int = 0
    screens_held: str = ""

    @property
    def bytes(self) -> int:
        """All that is freed."""
        return sum(asset.bytes for asset in self.assets) + sum(size for _, size in self.screens)

    @property
    def files(self) -> int:
        return sum(len(asset.files) for asset in self.assets) + len(self.screens)


def survey(store: Store, keep: int, *, min_age_s: float = MIN_AGE_S) -> GarbagePlan:
    """What `collect` would delete. Raises `ValueError` for a `keep` below 1, `StoreError` for what can't be read."""
    if keep < 1:
        raise ValueError(f"--keep: expected at least 1 version of each asset, found {keep}")
    assets = find_assets(store)
    # Needed versions first, over all assets, as inputs lead from one to another.
    mark(store, assets, keep, min_age_s)
    before = time.time() - min_age_s
    plan = GarbagePlan([])
    left: list[Path] = []
    for asset in assets.values():
        planned, stays = _plan(asset, before)
        plan.assets.append(planned)
        left += stays
    _plan_screens(store, plan, left, before)
    return plan


def collect(store: Store, keep: int, *, min_age_s: float = MIN_AGE_S) -> GarbagePlan:
    """Delete; returns what went."""
    # Exclusive: a build that began meanwhile would find parts that go a moment later.
    with gate(store.home, exclusive=True):
        plan = survey(store, keep, min_age_s=min_age_s)
        for batch in _batches(plan):
            # Behind the URL first: killed in between, only copies are left of what is gone, and the next run
            # finds them.
            if store.copies is not None:
                store.copies.delete(batch)
            for path in batch:
                path.unlink(missing_ok=True)
        for path, _ in plan.screens:
            store.small_greys.remove(path.stem)
        for asset in plan.assets:
            if asset.files:
                _remove_empty(store.root(asset.key))
        # Which files hold which ids is worked out again from those that are left.
        if plan.files:
            shutil.rmtree(store.home / ID_INDEX, ignore_errors=True)
    return plan


def _batches(plan: GarbagePlan) -> Iterator[list[Path]]:
    """What goes, in order: an asset's manifests before the rest of it, pictures last."""
    for asset in plan.assets:
        paths = [path for path, _ in asset.files]
        yield from _of_at_most_a_thousand([path for path in paths if path.name == "manifest.json"])
        # Manifests before the files they name: killed in between, no manifest is left that lacks a file.
        yield from _of_at_most_a_thousand([path for path in paths if path.name != "manifest.json"])
    yield from _of_at_most_a_thousand([path for path, _ in plan.screens])


def _of_at_most_a_thousand(paths: list[Path]) -> Iterator[list[Path]]:
    for start in range(0, len(paths), 1000):
        yield paths[start : start + 1000]


def _plan(asset: Asset, before: float) -> tuple[AssetPlan, list[Path]]:
    """(what goes of an asset, the files that stay)"""
    found = asset.all_files
    if asset.holder is not None:
        who = f"being built by process {asset.holder.pid} on {asset.holder.host}"
        size = sum(status.st_size for status in found.values())
        return AssetPlan(asset.key, dict.fromkeys(asset.manifests, "being built"), [], [], size, who), list(found)
    # Finished parts of a build that was killed lately: its rerun takes them up.
    needed = asset.files | _by_young_markers(asset.root, found, before)
    going: list[Path] = []
    for path, status in found.items():
        version = path.relative_to(asset.root).parts[0]
        # A tombstone stays for good: it is how those who name the old version find the new one.
        if path in needed or status.st_mtime >= before or version in asset.kept or path.name == TOMBSTONE:
            continue
        # Only what the store itself writes; a file that a person has put there is left alone.
        if VERSION.fullmatch(version) or path.name.startswith(".put-"):
            going.append(path)
    gone = set(going)
    markers = (path for path in found if path.parent == asset.root / "parts" and path.suffix == ".json")
    # A receipt whose files go would make the next build believe that its part is there.
    over = [path for path in markers if found[path].st_mtime < before and not _is_whole(path, asset.root, found, gone)]
    going += over + [screens for path in over if (screens := path.with_suffix(SCREENS)) in found]
    # The order in which they are deleted.
    going.sort(key=lambda path: (path.name != "manifest.json", path))
    dropped = sorted(version for version in asset.manifests if asset.root / version / "manifest.json" in gone)
    gone = set(going)
    left = [path for path in found if path not in gone]
    plan = AssetPlan(
        asset.key,
        asset.kept,
        dropped,
        [(path, found[path].st_size) for path in going],
        sum(found[path].st_size for path in left),
    )
    return plan, left


def _by_young_markers(root: Path, found: Mapping[Path, Status], before: float) -> set[Path]:
    """Files of parts that were finished lately, whose version isn't committed yet."""
    needed: set[Path] = set()
    for path, status in found.items():
        if path.parent == root / "parts" and path.suffix == ".json" and status.st_mtime >= before:
            needed |= {root / name for name in _named_by(path)}
    return needed


def _is_whole(marker: Path, root: Path, found: Mapping[Path, Status], gone: set[Path]) -> bool:
    # A part needs all of its files, and the receipts of those that lack one go with the rest.
    return all((path := root / name) in found and path not in gone for name in _named_by(marker))


def _named_by(marker: Path) -> list[str]:
    plain = json.loads(marker.read_text(encoding="utf-8"))
    return [entry["path"] for entry in (*plain["files"], *plain["side_files"])]


def _plan_screens(store: Store, plan: GarbagePlan, left: list[Path], before: float) -> None:
    """Pictures that nothing which stays names. A raw listing names raw files, not pictures of the store."""
    screens = {path: Status(*_size_and_time(path)) for path in (store.home / "screens").glob("*/*") if path.is_file()}
    if store.copies is not None:
        there = store.copies.objects.listing("screens")
        screens.update({store.home / name: Status(found.bytes, found.made) for name, found in there.items()})
    # A build may just have found a picture in the store and not have named it in any table yet.
    builds = [asset.key for asset in plan.assets if asset.held and not asset.key.startswith(READS_SCREENS_ONLY)]
    if builds:
        plan.screens_held = f"{', '.join(builds)} being built"
    else:
        raw = store.home / "assets" / "raw"
        # Journals of rounds and what people promoted name pictures as well, outside of any asset.
        beside = (path for name in ("feedback", "generation") for path in (store.home / name).rglob("*"))
        tables = [path for path in left if not path.is_relative_to(raw)]
        named: set[str] = set()
        # Behind a URL the tables aren't here; the receipts of their parts list what they name.
        if store.copies is not None:
            named, tables = _named_by_receipts(store.copies, tables)
        named |= named_screens(path for path in (*tables, *beside) if path.is_file())
        for path, status in screens.items():
            if path.stem not in named and status.st_mtime < before:
                plan.screens.append((path, status.st_size))
    plan.screens_kept = len(screens) - len(plan.screens)
    plan.screens_bytes_kept = sum(s.st_size for s in screens.values()) - sum(size for _, size in plan.screens)


def _size_and_time(path: Path) -> tuple[int, float]:
    status = path.stat()
    return status.st_size, status.st_mtime


def _named_by_receipts(copies: StoreCopies, left: list[Path]) -> tuple[set[str], list[Path]]:
    """(pictures that finished parts name, files that are left to be read: fetched if they aren't here)"""
    named: set[str] = set()
    listed: set[Path] = set()
    receipts = [path for path in left if path.parent.name == "parts" and path.suffix == ".json"]
    for receipt in receipts:
        listing = receipt.with_suffix(SCREENS)
        if listing.exists():
            named |= set(listing.read_text(encoding="utf-8").split())
            # Their pictures are known by the list, so these files needn't be fetched and read.
            listed |= {receipt.parent.parent / name for name in _named_by(receipt)} | {receipt, listing}
    rest = [path for path in left if path not in listed]
    copies.fetch_unnamed(path for path in rest if not path.exists())
    return named, rest


def _remove_empty(root: Path) -> None:
    """Folders of versions in which nothing is left."""
    for folder, _, _ in os.walk(root, topdown=False):
        path = Path(folder)
        if VERSION.fullmatch(path.relative_to(root).parts[0] if path != root else ""):
            with contextlib.suppress(OSError):  # not empty, or a build has just begun in it
                path.rmdir()
