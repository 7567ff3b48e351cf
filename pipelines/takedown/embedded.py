"""What the generator of the embedded data keeps beside the raw files: the planted truth, and the receipt of its files.

    <raw root>/../_truth/<source>.jsonl       one JSON line per planted defect, by the native record
    <raw root>/../_receipts/<source>.json     the files with their sha256, by which the generator knows its own work

Lines of withdrawn records go. The receipt tells of the files as they are after the cut: with the old one the next
refresh would take them for damaged and make all of them anew, the withdrawn record too.
"""

import json
from pathlib import Path
from typing import Any

from pipelines.mapping.adapter import Raw
from pipelines.store.files import file_sha256
from pipelines.store.parts import put_text
from pipelines.takedown.withdrawn import TakenDown, TakenOfSource
from schemas.ids import split_json_lines


def cut_embedded(source: str, raw: Raw, taken: TakenDown) -> list[str]:
    """Cut both files of a source, and the receipts of its companions; the names of those that changed. Nothing for
    files that the generator didn't make. Raises `ValueError` for a line or receipt that isn't one."""
    beside, name = raw.root.parent, raw.root.name
    changed = []
    truth = beside / "_truth" / f"{name}.jsonl"
    if truth.is_file() and _cut_truth(truth, source, taken):
        changed.append(f"_truth/{truth.name}")
    for folder in (raw.root, *raw.companions.values()):
        receipt = folder.parent / "_receipts" / f"{folder.name}.json"
        if receipt.is_file() and _cut_receipt(receipt, folder):
            changed.append(f"_receipts/{receipt.name}")
    return changed


def _cut_truth(path: Path, source: str, taken: TakenDown) -> bool:
    mine = TakenOfSource(taken, source)
    lines = [line + "\n" for line in split_json_lines(path.read_text(encoding="utf-8"))]
    left = []
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line)
            record = str(entry["record"])
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path.name}:{number}: expected a truth line, found {line[:80]!r}") from error
        if mine.native(record):
            continue
        # What another record's defect was made of may be one that went: that defect stays, and what it was goes.
        stays = {**entry, "original": {}} if taken.stands_in(line.encode()) else None
        left.append(line if stays is None else json.dumps(stays, sort_keys=True, ensure_ascii=False) + "\n")
    if left == lines:
        return False
    put_text(path, "".join(left))
    return True


def _cut_receipt(path: Path, folder: Path) -> bool:
    try:
        receipt: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        files: dict[str, str] = receipt["files"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path.name}: expected a receipt with its files, found {error}") from error
    # Cut files have new digests; without them in the receipt the next refresh would draw the record again.
    there = {name: file_sha256(folder / name) for name in files if (folder / name).is_file()}
    if there == files:
        return False
    put_text(path, json.dumps({**receipt, "files": there}, indent=1, sort_keys=True))
    return True
