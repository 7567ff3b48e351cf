"""Records → files of an export, one after the other, each with a receipt: what it holds, and how far it came."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

from pipelines.exports.form import ExportForm
from pipelines.exports.records import Picture
from pipelines.exports.sinks import open_sink
from pipelines.training_data.dataset_card import Group

MB = 2**20


class Grouped(Protocol):
    """A row that is exported, before its record is read."""

    @property
    def group(self) -> Group:
        """What it is counted by."""


class Record(Grouped, Protocol):
    """What can be exported."""

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """Its pictures, in order of use."""


Exported = TypeVar("Exported", bound=Record)
PutPicture = Callable[[Picture], None]
Place = Callable[[str], AbstractContextManager[Path]]
"""Name within the export → where its bytes are to be written; at the end of the context they are there for good."""


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """A finished file."""

    name: str
    rows: int
    groups: dict[Group, int]

    def plain(self) -> dict[str, object]:
        """As JSON values; see `parsed`."""
        groups = [[*group, rows] for group, rows in sorted(self.groups.items())]
        return {"name": self.name, "rows": self.rows, "groups": groups}

    @classmethod
    def parsed(cls, plain: dict[str, object]) -> "WrittenPart":
        """From `plain`. Raises `ValueError` if it isn't one."""
        name, rows, groups = plain.get("name"), plain.get("rows"), plain.get("groups")
        if not isinstance(name, str) or not isinstance(rows, int) or not isinstance(groups, list):
            raise ValueError(f"receipt: expected name, rows and groups, found {sorted(plain)}")
        return cls(name, rows, {Group(*group): number for *group, number in groups})


def write_parts(
    form: ExportForm[Exported],
    records: Iterator[Exported],
    limit_mb: int,
    part_names: Iterator[str],
    place: Place,
    put_picture: PutPicture,
) -> Iterator[WrittenPart]:
    """Write records, which come split by split, into files of about `limit_mb` MB; a part is yielded once it is whole.

    Where a form keeps pictures as files, these are there before the part that names them.
    """
    record = next(records, None)
    while record is not None:
        split, size = record.group.split, 0
        groups: Counter[Group] = Counter()
        name = form.files.format(split=split, part=next(part_names))
        with place(name) as path, open_sink(path, Path(name).suffix, form.schema) as sink:
            # A part holds one split, and ends behind the record that fills it.
            while record is not None and record.group.split == split and size < limit_mb * MB:
                if form.loose_pictures:
                    # Pictures before the row that names them.
                    for picture in record.pictures:
                        put_picture(picture)
                size += sink.add(form.row(record))
                groups[record.group] += 1
                record = next(records, None)
        yield WrittenPart(name, groups.total(), dict(groups))
