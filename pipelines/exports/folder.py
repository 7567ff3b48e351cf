"""An export as a folder: written part by part with receipts, so that a run that was killed goes on where it was.

DIR/data/…            the parts        DIR/README.md      the card
DIR/images/ab/….png   loose pictures   DIR/LICENSES.md    each source, its licence, its rows
DIR/.export/          plan.json (what is exported: a folder takes no other), and a receipt a part
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict
from itertools import count
from pathlib import Path

from pipelines.exports.export import ChosenRow, Export, ExportPlan
from pipelines.exports.filters import Refuses, require_allowed
from pipelines.exports.parts import Exported, WrittenPart, write_parts
from pipelines.exports.records import Picture
from pipelines.store.files import file_sha256
from pipelines.training_data.dataset_card import Group, write_texts
from pipelines.whole_files import put_json, whole_file
from schemas.settings import by_path

RECEIPTS = ".export"
Report = Callable[[str], None]
INSTEAD = "train it without that source"
"""What to do where the policy refuses a source that a checkpoint was trained on."""


def open_folder(folder: Path, plan: ExportPlan, groups: Collection[Group], refuses: Refuses) -> None:
    """Make `folder` the place of an export of `groups`, or find it to be one of the same plan. Raises `ValueError` if
    it holds something else, or if the licence policy refuses a group."""
    require_allowed(plan.asset, groups, refuses, INSTEAD if plan.kind == "checkpoint" else "")
    path = folder / RECEIPTS / "plan.json"
    if path.is_file():
        found, wanted = json.loads(path.read_text(encoding="utf-8")), asdict(plan)
        # Another plan's parts would stand beside these as if they were one export.
        if found != wanted:
            # Filters by their own names, as they are given.
            there, asked = (
                {name.removeprefix("settings.filters."): said[:80] for name, said in by_path(plan_).items()}
                for plan_ in (found, wanted)
            )
            other = [
                f"{name} {said}, found {there.get(name)}" for name, said in asked.items() if there.get(name) != said
            ]
            raise ValueError(
                f"{folder}: expected the export that was begun there to be of {'; '.join(other)}; give another folder, "
                "or delete this one"
            )
        return
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(f"{folder}: expected no folder, an empty one or an export, found other files in it")
    put_json(path, asdict(plan))


def write_folder(
    folder: Path, export: Export[ChosenRow, Exported], report: Report = lambda line: None, *, refuses: Refuses
) -> dict[Group, int]:
    """Write what is missing of an export → rows by group: a second call goes on where the first was stopped. Raises
    `ValueError` if the folder or a licence forbids it (see `open_folder`)."""
    open_folder(folder, export.plan, export.groups, refuses)
    done = list(_receipts(folder))
    # Rows are taken in one order, so their number says where to go on.
    records = export.read(export.rows, sum(part.rows for part in done))
    names = (f"{number:05d}" for number in count(len(done)))

    def put_picture(picture: Picture) -> None:
        if not (path := folder / picture.path).exists():  # a name by content: what is there is what would be written
            with whole_file(path, alone=True) as written:
                written.write_bytes(picture.data)

    def place(name: str) -> AbstractContextManager[Path]:
        return whole_file(folder / name, alone=True)

    for part in write_parts(export.form, records, export.shard_mb, names, place, put_picture):
        path = folder / part.name
        receipt = {**part.plain(), "bytes": path.stat().st_size, "sha256": file_sha256(path)}
        # The receipt after its part, so that a part without one is written again.
        put_json(folder / RECEIPTS / f"part-{len(done):05d}.json", receipt)
        done.append(part)
        report(f"{part.name}: {part.rows} rows, {path.stat().st_size} bytes")
    write_texts(folder, export.texts(groups := total(done)))
    return groups


def total(parts: list[WrittenPart]) -> dict[Group, int]:
    """Rows by group over all parts."""
    groups: Counter[Group] = Counter()
    for part in parts:
        groups.update(part.groups)
    return dict(groups)


def _receipts(folder: Path) -> Iterator[WrittenPart]:
    """The parts that are there, up to the first that is missing or has another size: what comes after it is written
    again."""
    for number in count():
        path = folder / RECEIPTS / f"part-{number:05d}.json"
        try:
            plain = json.loads(path.read_text(encoding="utf-8"))
            part = WrittenPart.parsed(plain)
            whole = (folder / part.name).stat().st_size == plain["bytes"]
        except (OSError, ValueError, KeyError, TypeError):
            return
        if not whole:
            return
        yield part
