"""An export of rows before it is written: which rows, how they are read, and what stands beside them.

`folder.write_folder` puts it into a folder, `asset.build_asset` retains it in the store.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from pipelines.exports.form import ExportForm
from pipelines.exports.parts import Exported, Grouped
from pipelines.training_data.dataset_card import Card, Group, card_texts


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """What an export is made of; equal plans give equal bytes."""

    kind: str
    """corpus, pool or checkpoint."""
    form: str
    asset: str
    version: str
    settings: Mapping[str, object]
    """What changes the bytes beside that: filters, size of files, version of the form."""


ChosenRow = TypeVar("ChosenRow", bound=Grouped)


class ExportPiece(NamedTuple, Generic[ChosenRow]):
    """Rows that are one part of an asset: they are written again where `made_from` is another."""

    name: str
    made_from: Sequence[object]
    """All that the records depend on, as JSON values."""
    rows: Sequence[ChosenRow]


@dataclass(frozen=True, slots=True)
class Export(Generic[ChosenRow, Exported]):
    """Rows that are exported, in the order in which a folder gets them: split by split."""

    plan: ExportPlan
    form: ExportForm[Exported]
    rows: Sequence[ChosenRow]
    read: Callable[[Sequence[ChosenRow], int], Iterator[Exported]]
    """The records of rows, from a position on."""
    pieces: Callable[[], Iterator[ExportPiece[ChosenRow]]]
    card: Callable[[Mapping[Group, int]], Card]
    shard_mb: int
    """Size from which a file is closed."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    """Asset → version that rows were chosen by, beside the plan's."""

    @property
    def groups(self) -> set[Group]:
        """The groups of all rows."""
        return {row.group for row in self.rows}

    def texts(self, groups: Mapping[Group, int]) -> dict[str, str]:
        """Name → text of what stands beside the parts, which hold the rows `groups`."""
        return {**self.form.beside(rows_by_split(groups)), **card_texts(self.card(groups))}


def rows_by_split(groups: Mapping[Group, int]) -> dict[str, int]:
    """Split → its rows."""
    rows: Counter[str] = Counter()
    for group, number in groups.items():
        rows[group.split] += number
    return dict(sorted(rows.items()))
