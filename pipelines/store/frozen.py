"""Frozen manifests: what comes back to an earlier stage of the graph, pinned by a digest and never an edge. The jobs
`promote_*` and `vesper review promote` freeze them.

    $VESPER_HOME/feedback/<name>/<digest>/manifest.json   what was frozen; never changed
    $VESPER_HOME/feedback/<name>/current.json             {"digest"}: what was frozen last

A manifest holds its own `digest`, and the versions that it stands on: `inputs` (asset → version), or `rounds` (round →
version of `generation/verified/<round>`). (Which version of an asset is current is said in `current_version`, and
chosen by a person with `choose_version`.)
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipelines.store.files import StoreError
from pipelines.store.parts import put_text

MANIFEST, POINTER = "manifest.json", "current.json"


def frozen_digest(home: Path, feedback: str) -> str:
    """The digest that was frozen last of a `feedback/<name>`; "" before the first. Raises `StoreError` if the pointer
    isn't one."""
    pointer = home / feedback / POINTER
    return str(_read(pointer).get("digest", "")) if pointer.is_file() else ""


def read_frozen(home: Path, feedback: str, digest: str = "") -> dict[str, Any]:
    """A frozen manifest: that of a digest, else the current one; empty before the first. Raises `StoreError` if
    nothing was frozen as this digest, or if it can't be read."""
    digest = digest or frozen_digest(home, feedback)
    if not digest:
        return {}
    path = home / feedback / digest / MANIFEST
    # A digest comes from settings: letters and digits only, so that it names no path.
    if not digest.isalnum() or not path.is_file():
        raise StoreError(f"{feedback}: nothing was promoted as {digest[:40]!r}")
    return _read(path)


def frozen_inputs(home: Path, feedback: str, digest: str) -> dict[str, str]:
    """Asset → version behind a pinned digest, for the manifest of what goes by it; empty for no digest. Raises as
    `read_frozen`."""
    return {str(k): str(v) for k, v in read_frozen(home, feedback, digest)["inputs"].items()} if digest else {}


def freeze(home: Path, feedback: str, manifest: dict[str, Any]) -> dict[str, object]:
    """Keep a manifest under its `digest` and make it current; returns it. One that is there is left as it is."""
    path = home / feedback / manifest["digest"] / MANIFEST
    # The manifest before the pointer: whoever follows that finds it.
    if not path.is_file():
        put_text(path, json.dumps(manifest, indent=1, sort_keys=True) + "\n")
    point_to(home, feedback, manifest["digest"])
    return manifest


def point_to(home: Path, feedback: str, digest: str) -> None:
    """Make what lies under a digest the current one."""
    put_text(home / feedback / POINTER, json.dumps({"digest": digest}))


def frozen_versions(home: Path) -> Iterator[tuple[str, str]]:
    """(asset, version) that any frozen manifest stands on, current or not: consumers pin them by digest. Raises
    `StoreError` if one can't be read."""
    # All that were ever frozen: runs pin a digest, and are resumed long after the next was frozen.
    for path in sorted((home / "feedback").glob(f"*/*/{MANIFEST}")):
        plain = _read(path)
        yield from ((f"generation/verified/{name}", str(version)) for name, version in plain.get("rounds", {}).items())
        yield from ((str(name), str(version)) for name, version in plain.get("inputs", {}).items())


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise StoreError(f"{path}: expected JSON, found {error}; repair it first") from None
    return found
