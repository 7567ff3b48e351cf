"""Aliases: names that a person gives to a version of an asset, beside which version is current (`current_version`).

    <asset>/alias-production.json   {"version", "data_version", "changes"}: what it names, and how it came to that

A build never moves an alias: who serves `production` gets the same weights tomorrow. The file carries its own history,
so that one PUT changes both, on a disk as behind a URL, and a process killed before it changes neither.
"""

import json
from dataclasses import asdict
from pathlib import Path

from pipelines.store.current_version import Put, VersionChange, forget, read_small, replace_small
from pipelines.store.files import StoreError

ALIASES = ("candidate", "production")
"""A fixed few: a name with a slip of the pen is refused, and none can be taken for the beginning of a version."""
AGENT = "checkpoints/unified"
"""The asset whose alias a bare `production` means."""


def require_alias(name: str) -> str:
    """The name itself. Raises `StoreError` if it is no alias."""
    if name not in ALIASES:
        raise StoreError(f"alias: expected {' or '.join(ALIASES)}, found {name[:60]!r}")
    return name


def alias_history(root: Path, name: str) -> list[VersionChange]:
    """How an alias of an asset's folder came to name what it does, oldest first; empty if it was never set. Raises
    `StoreError` if its file is damaged."""
    path = _path(root, name)
    text = read_small(path)
    if text is None:
        return []
    try:
        changes = [VersionChange(**change) for change in json.loads(text)["changes"]]
    except (KeyError, TypeError, ValueError) as error:
        forget(path)
        # Read it anew next time: the damage may be in the copy, and not in the store behind the URL.
        raise StoreError(
            f"{path}: expected an alias with its changes, found {error}; set it anew after a look"
        ) from None
    return changes


def aliased(root: Path) -> dict[str, str]:
    """Alias → the version that it names, of an asset's folder."""
    found = {name: alias_history(root, name) for name in ALIASES}
    return {name: changes[-1].version for name, changes in found.items() if changes}


def point_alias(root: Path, name: str, change: VersionChange, data_version: str, put: Put) -> None:
    """Make an alias name a version. To be called `holding` the asset. Raises `StoreError` if another machine changed it
    in this moment."""
    changes = [*alias_history(root, require_alias(name)), change]
    plain = {"version": change.version, "data_version": data_version, "changes": [asdict(one) for one in changes]}
    replace_small(_path(root, name), json.dumps(plain, sort_keys=True, ensure_ascii=False), put)


def _path(root: Path, name: str) -> Path:
    return root / f"alias-{name}.json"
