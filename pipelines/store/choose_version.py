"""Promote and roll back: a person decides which committed version of an asset others read (see `current_version`), or
which one an alias names (see `aliases`).

An asset is a key such as `unified/aitw`; versions are those with a manifest. The data is never touched.
"""

from dataclasses import dataclass
from pathlib import Path

from pipelines.store.aliases import AGENT, ALIASES, alias_history, aliased, point_alias, require_alias
from pipelines.store.current_version import (
    Action,
    VersionChange,
    holding,
    now,
    point,
    read_history,
    read_pointer,
    set_aside,
    settle,
    user,
)
from pipelines.store.files import FileEntry, StoreError
from pipelines.store.manifest import Manifest
from pipelines.store.object_store.binding import copies_of
from pipelines.store.parts import put_text
from pipelines.store.store import Store
from pipelines.store.whole_versions import complete, link_parts

SHOWN = 8
"""Versions that an error names."""


@dataclass(frozen=True, slots=True)
class Version:
    """A committed version as a list shows it."""

    manifest: Manifest
    made: float
    """When its manifest was written, seconds since 1970."""
    current: bool
    set_aside: bool
    aliases: tuple[str, ...] = ()
    """Those that name it."""

    @property
    def bytes(self) -> int:
        """Of its files, those that it shares with other versions included."""
        return sum(entry.bytes for entry in (*self.manifest.files, *self.manifest.side_files))


def versions(store: Store, asset: str) -> list[Version]:
    """All committed versions of an asset, the newest first. Raises `StoreError` if there is none."""
    root = store.root(asset)
    current, aside, named = read_pointer(root).get("version"), set_aside(read_history(root)), aliased(root)
    found = []
    for path in committed(root):
        manifest = store.version(asset, path.parent.name)
        name = manifest.version
        aliases = tuple(alias for alias, version in named.items() if version == name)
        found.append(Version(manifest, path.stat().st_mtime, name == current, name in aside, aliases))
    if not found:
        raise StoreError(store.nothing_of(asset))
    return sorted(found, key=lambda one: (one.made, one.manifest.version), reverse=True)


def committed(root: Path) -> list[Path]:
    """The manifests of an asset's folder; those of a store behind a URL come to be there."""
    if (copies := copies_of(root)) is not None:
        # What another machine committed a moment ago has to be on a list from which a person chooses.
        copies.refresh(every_s=0)
    return sorted(root.glob("*/manifest.json"))


def asset_of(said: str) -> tuple[str, str]:
    """(key, version or alias; "" for the current one) of what a command is given: an asset's key, a checkpoint's short
    name (`unified@1f2e`), or an alias, which is the unified agent's (`production`)."""
    asset, _, version = (f"{AGENT}@{said}" if said in ALIASES else said).partition("@")
    return asset if "/" in asset else f"checkpoints/{asset}", version


def asset_folder(store: Store, name: str) -> Path:
    """What `named_version` finds → its folder with all of its files in it. Raises `StoreError` if there is none."""
    return complete(named_version(store, name))


def named_version(store: Store, name: str) -> Manifest:
    """`checkpoints/unified` (the current version), `checkpoints/unified@1f2e` (the beginning of a version) or
    `checkpoints/unified@production` (an alias), or short as `asset_of` takes it → its manifest. Raises `StoreError` if
    there is none."""
    asset, version = asset_of(name)
    return _named(versions(store, asset), asset, version) if version else store.require(asset)


def promote(
    store: Store, asset: str, version: str | None = None, *, why: str = "", force: bool = False, alias: str = ""
) -> VersionChange:
    """Make a version current (default: the newest), or with `alias` have that name it and leave what is current as it
    is; returns the change that the journal, or the alias's history, holds.

    `force` takes one whose blocking checks failed, and needs a `why`. Promoting what is current already changes
    nothing but is noted. Raises `StoreError` if there is no such version, its checks failed, or its files are gone.
    """
    # Before anything is read or locked: what lacks its reason is refused at once.
    if force and not why.strip():
        raise StoreError(f"{asset}: --force needs a reason, which the journal keeps; found none")
    if alias:
        require_alias(alias)
    found = versions(store, asset)
    with holding(store.root(asset)):
        chosen = found[0].manifest if version is None else _named(found, asset, version)
        return _change(store, chosen, "promoted", why, force, alias)


def roll_back(
    store: Store, asset: str, version: str | None = None, *, why: str = "", force: bool = False, alias: str = ""
) -> VersionChange:
    """Make an earlier version current, or what `alias` names (default: the one before, by its history), as `promote`
    does.

    A version that was rolled back from doesn't become current again by a rerun, only by `promote`.
    """
    if force and not why.strip():
        raise StoreError(f"{asset}: --force needs a reason, which the journal keeps; found none")
    # Before the lock is taken: to read the manifests of all versions may take a while behind a URL.
    found = versions(store, asset)
    root = store.root(asset)
    with holding(root):
        history, current = settle(root), read_pointer(root).get("version")
        if alias:
            history = alias_history(root, require_alias(alias))
            current = history[-1].version if history else None
        if current is None and alias:
            raise StoreError(f"{asset}: {alias} names no version yet; `vesper promote {asset} --alias {alias}` sets it")
        if current is None:
            raise StoreError(f"{asset}: nothing is current, so there is nothing to roll back; `vesper promote` chooses")
        # Versions that were collected since stand in the history and can't be gone back to.
        if version is None:
            version = _earlier(history, str(current), {one.manifest.version for one in found})
        if version is None:
            raise StoreError(
                f"{asset}: the journal knows no earlier version than {current}; name one (--to, in the UI `version`), "
                f"of: {_told(found)}"
            )
        if version == current:
            raise StoreError(
                f"{asset}: {version} is {alias or 'current'} already; name another (--to, in the UI `version`), "
                f"of: {_told(found)}"
            )
        return _change(store, _named(found, asset, version), "rolled back", why, force, alias)


def _earlier(history: list[VersionChange], current: str, there: set[str]) -> str | None:
    """What was current before the current version became it, and is still there. Going back twice goes two back: a
    rollback to what had been current before takes back all that came after it."""
    trail: list[str] = []
    for change in history:
        if change.action == "rolled back" and change.version in trail:
            # Back to a version is as if nothing after it had been: the next rollback goes to what was before
            # that.
            while trail[-1] != change.version:
                trail.pop()
        else:
            trail.append(change.version)
    return next((version for version in reversed(trail) if version != current and version in there), None)


def _change(store: Store, chosen: Manifest, action: Action, why: str, force: bool, alias: str) -> VersionChange:
    # What a failed check held back is promoted by force alone, and the journal says so.
    if not chosen.checks_passed and not force:
        failed = ", ".join(check.name for check in chosen.checks if check.blocking and not check.passed)
        raise StoreError(
            f"{chosen.asset} {chosen.version}: blocking checks failed: {failed or 'its manifest says so'}; repair and "
            "rebuild it, or give --force with a reason"
        )
    # A pointer to a version without its files would stop every reader, and with it the way back.
    for entry in (*chosen.files, *chosen.side_files):
        if not _is_there(chosen, entry):
            raise StoreError(
                f"{chosen.asset} {chosen.version}: {entry.path} is missing or has another size than the manifest says; "
                "rebuild this version before it is promoted"
            )
    root = store.root(chosen.asset)
    # Whatever a killed process left undone comes first, or its line would stand behind this one.
    settle(root)
    before = aliased(root).get(alias) if alias else read_pointer(root).get("version")
    change = VersionChange(chosen.version, before, action, user(), now(), why.strip(), forced=not chosen.checks_passed)
    # Before the pointer: whoever reads the version by its folder finds it whole from the first moment.
    if copies_of(root) is None:
        link_parts(chosen)
    if alias:
        point_alias(root, alias, change, chosen.data_version, put_text)
    else:
        point(root, change, chosen.data_version, put_text)
    return change


def _is_there(chosen: Manifest, entry: FileEntry) -> bool:
    if (copies := copies_of(chosen.folder)) is not None:
        return copies.has(chosen.folder, entry)
    # By size only: to hash a checkpoint of many gigabytes here would hold the lock for minutes.
    path = chosen.folder / entry.path
    return path.is_file() and path.stat().st_size == entry.bytes


def _named(found: list[Version], asset: str, version: str) -> Manifest:
    """A version by its name, the beginning of it, or an alias."""
    if version in ALIASES:
        if meant := [one.manifest for one in found if version in one.aliases]:
            return meant[0]
        raise StoreError(
            f"{asset}@{version}: nobody has set this alias; `vesper promote {asset} --alias {version}` does"
        )
    meant = [one.manifest for one in found if one.manifest.version == version]
    # At least four signs, as for commits: of fewer nobody can say that they mean one version.
    meant = meant or [one.manifest for one in found if len(version) >= 4 and one.manifest.version.startswith(version)]
    if len(meant) != 1:
        said = "several versions begin so" if meant else "no committed version of that name"
        raise StoreError(f"{asset}@{version[:80]}: {said}; expected one of: {_told(found)}")
    return meant[0]


def _told(found: list[Version]) -> str:
    marks = (", ".join((("current",) if one.current else ()) + one.aliases) for one in found)
    names = [one.manifest.version + (f" ({mark})" if mark else "") for one, mark in zip(found, marks, strict=True)]
    return ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
