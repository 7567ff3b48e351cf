"""`vesper lineage CKPT`: manifests followed back to the native files."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipelines.manifest import Manifest
from pipelines.store import Store, StoreError


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = (
        "examples:\n  vesper lineage unified\n  vesper lineage gold/aitw --json\n  vesper lineage out/mid_trained"
    )
    parser.add_argument("checkpoint", metavar="CKPT", help="a checkpoint's name or folder, or any asset key")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("VESPER_HOME", ".vesper")),
                        help="the store ($VESPER_HOME)")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="all ancestors as JSON")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the tree, each ancestor's own ancestors once."""
    if not (options.data / "assets").is_dir():
        raise ValueError(f"--data {options.data}: expected a store (a $VESPER_HOME with assets/), found none")
    store = Store(options.data)
    name, inputs = start(store, options.checkpoint)
    if options.json:
        print(
            json.dumps(
                {"asset": name, "inputs": inputs, "ancestors": ancestors(store, inputs)}, indent=1, sort_keys=True
            )
        )
        return 0
    print(name)
    for line in tree(store, inputs):
        print(line)
    return 0


def start(store: Store, checkpoint: str) -> tuple[str, dict[str, str]]:
    """(what it is called, asset → version of its direct inputs). Raises `ValueError` if it isn't there."""
    folder = Path(checkpoint)
    if (folder / "lineage.json").is_file():
        plain = json.loads((folder / "lineage.json").read_text(encoding="utf-8"))
        parents = {k: str(v) for k, v in plain.get("parents", {}).items()}
        return f"{folder} ({plain.get('stage', plain.get('method', 'checkpoint'))})", parents
    for key in (checkpoint, f"checkpoints/{checkpoint}"):
        try:
            manifest = store.current(key)
        except (ValueError, StoreError):
            continue
        if manifest is not None:
            return f"{key} {manifest.version}", manifest.inputs
    raise ValueError(
        f"{checkpoint[:120]!r}: expected a checkpoint folder with lineage.json or a committed asset, found none"
    )


def _find(store: Store, asset: str, version: str) -> Manifest | None:
    try:
        return store.version(asset, version)
    except (StoreError, ValueError):  # collected since, or known by its weights' digest only
        return None


def ancestors(store: Store, inputs: dict[str, str]) -> dict[str, Any]:
    """`asset@version` → data version, code version and inputs, of everything upstream."""
    found: dict[str, Any] = {}
    waiting = list(inputs.items())
    while waiting:
        asset, version = waiting.pop()
        if f"{asset}@{version}" in found:
            continue
        manifest = _find(store, asset, version)
        found[f"{asset}@{version}"] = manifest and {
            "data_version": manifest.data_version, "code_version": manifest.code_version, "inputs": manifest.inputs
        }  # fmt: skip
        waiting += manifest.inputs.items() if manifest else []
    return found


def tree(store: Store, inputs: dict[str, str], indent: str = "", shown: set[str] | None = None) -> Iterator[str]:
    """Lines of the tree; an ancestor met again is named without what lies above it."""
    shown = set() if shown is None else shown
    for number, (asset, version) in enumerate(sorted(inputs.items())):
        last = number == len(inputs) - 1
        manifest, name = _find(store, asset, version), f"{asset}@{version}"
        more = bool(manifest and manifest.inputs)
        again = " (above)" if name in shown and more else ""
        gone = "" if manifest else " (not in this store)"
        files = f"  {manifest.counts['files']} files" if manifest and asset.startswith("raw/") else ""
        yield f"{indent}{'└─' if last else '├─'} {asset} {version}{files}{again}{gone}"
        if manifest and not again:
            shown.add(name)
            yield from tree(store, manifest.inputs, indent + ("   " if last else "│  "), shown)
