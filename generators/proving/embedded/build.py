"""`build_raw`: the embedded data of one source, rendered, damaged at known rates, written in its native form.

A source's bytes are a function of (size, seed, code version, the machine's Chromium and fonts). The folder is built
beside its place and moved there whole; a receipt with every file's sha256 makes a second call do nothing.

The receipt also separates the generator's files from those of others, which are never deleted. So it names every file
that stands in the folder, whatever ends the process: the old folder is moved away first, then the receipt is put, then
the new folder.
"""

import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from generators.proving.embedded import defects
from generators.proving.embedded.defects import DefectRates
from generators.proving.embedded.makers import MAKERS, RawConfig, WrittenSource
from generators.proving.embedded.sizes import COUNTS, SOURCES, Size
from pipelines.raw.rawdata import register_raw
from pipelines.store import Store, put_text
from pipelines.store.files import file_sha256
from pipelines.store.manifest import Manifest
from pipelines.whole_files import PREFIX
from schemas.ids import digest


def make(root: Path, config: RawConfig) -> WrittenSource:
    """Render and write one source's files into an empty folder."""
    if config.source not in MAKERS:
        raise ValueError(f"embedded data: expected one of {', '.join(SOURCES)}, found {config.source!r}")
    return MAKERS[config.source](root, config)


def _receipt(raw_dir: Path) -> Path:
    return raw_dir.parent / "_receipts" / f"{raw_dir.name}.json"


def _read_receipt(raw_dir: Path) -> dict[str, Any] | None:
    """The receipt; None if there is none or it can't be read."""
    try:
        receipt: Any = json.loads(_receipt(raw_dir).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return None
    whole = isinstance(receipt, dict) and all(isinstance(receipt.get(key), dict) for key in ("files", "counts"))
    return receipt if whole else None


def _names(raw_dir: Path) -> set[str]:
    """Files of the folder, but for what a process left that was killed while it put one (`whole_files`)."""
    # What was left half-written isn't part of the data.
    found = (p for p in raw_dir.rglob("*") if p.is_file() and not p.name.startswith(PREFIX))
    return {p.relative_to(raw_dir).as_posix() for p in found}


def _is_there(raw_dir: Path, wanted: str) -> dict[str, Any] | None:
    """The receipt, if it was written for this config and every file still has its bytes."""
    receipt = _read_receipt(raw_dir)
    # Another size or seed is another source.
    if receipt is None or receipt.get("config") != wanted:
        return None
    if _names(raw_dir) != set(receipt["files"]) or not _truth(raw_dir).is_file():
        return None
    # By content: a file that was touched and not changed is still ours.
    return receipt if all(file_sha256(raw_dir / name) == sha for name, sha in receipt["files"].items()) else None


def _truth(raw_dir: Path) -> Path:
    return raw_dir.parent / "_truth" / f"{raw_dir.name}.jsonl"


def build_raw(store: Store, source: str, raw_dir: Path, *, size: Size = "demo", seed: int = 0) -> Manifest:
    """Make sure that `raw_dir` holds the embedded data of `source`, and commit `raw/<source>`.

    Files already there for this config (checked by sha256) are left alone, those of another config and damaged ones are
    made again. The truth about planted defects goes to `<raw_dir's parent>/_truth/<source>.jsonl`. Raises `ValueError`
    for an unknown source, and for a folder with files that no readable receipt names: they may be anybody's.
    """
    raw_dir = Path(raw_dir)
    if source not in MAKERS:
        raise ValueError(f"embedded data: expected one of {', '.join(SOURCES)}, found {source!r}")
    config = RawConfig(source, size, seed, DefectRates())
    wanted = digest({**asdict(config), "counts": COUNTS[size]})
    receipt = _is_there(raw_dir, wanted)
    if receipt is None:
        receipt = _build(raw_dir, config, wanted)
    return register_raw(store, source, raw_dir, extra=receipt["counts"])


def _refuse_files_of_others(source: str, raw_dir: Path) -> None:
    """Raises `ValueError` where the folder holds a file that the receipt doesn't name."""
    receipt, found = _read_receipt(raw_dir), _names(raw_dir)
    strange = sorted(found - set(receipt["files"] if receipt is not None else ()))
    if not strange:
        return
    beside = f"_receipts/{_receipt(raw_dir).name}"
    why = (
        f"that {beside} doesn't name"
        if receipt is not None
        else f"and {beside} can't be read"
        if _receipt(raw_dir).is_file()
        else f"but there is no {beside}"
    )
    raise ValueError(
        f"raw/{source}: {raw_dir.name}/ holds {len(strange)} files {why}, such as {strange[0]!r:.120}: nothing says "
        "that the generator wrote them. If they are yours, move them elsewhere or register them as they are; if the "
        "generator made them once, delete the folder and run it again"
    )


def _build(raw_dir: Path, config: RawConfig, wanted: str) -> dict[str, Any]:
    _refuse_files_of_others(config.source, raw_dir)
    # By process id: two builds of one source don't meet.
    beside = raw_dir.parent / "_partial" / f"{raw_dir.name}-{os.getpid()}"
    new, old = beside / "new", beside / "old"
    shutil.rmtree(beside, ignore_errors=True)
    new.mkdir(parents=True)
    try:
        made = make(new, config)
        # Of the new folder, before it is moved: nobody else can have written there.
        files = {p.relative_to(new).as_posix(): file_sha256(p) for p in sorted(new.rglob("*")) if p.is_file()}
        receipt = {
            "config": wanted,
            "files": files,
            "counts": {"size": config.size, "seed": config.seed, **made.counts},
        }
        _refuse_files_of_others(config.source, raw_dir)  # rendering takes minutes: somebody may have put files there
        # In this order, see the module. The truth goes with the folder, so it changes while there is none either.
        if raw_dir.exists():
            raw_dir.replace(old)
        defects.write_truth(_truth(raw_dir), made.truths)
        # After the old folder went and before the new one comes, so that
        # it never names files that aren't there.
        put_text(_receipt(raw_dir), json.dumps(receipt, indent=1, sort_keys=True))
        new.replace(raw_dir)
    finally:
        shutil.rmtree(beside, ignore_errors=True)
    return receipt
