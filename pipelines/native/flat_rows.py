"""Sources whose records are flat rows of picture, text and box: a map of columns, and the few lines that are special.

`Columns` says which native column holds what. `FlatRowAdapter` then reads, checks and counts; as it stands it asks
"Where is <text>?" for the centre of the box. A source that differs overrides the one method that differs.
"""

from abc import ABC
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pipelines.mapping.adapter import Adapter, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import SampleBuilder
from pipelines.mapping.items import ItemError, is_text, notices, picture_bytes, unknown_fields
from pipelines.native.named_boxes import unit_box

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """Native column → what it is. A row that lacks one of `required` is quarantined: `missing_field`."""

    picture: str = "image"
    """An encoded picture, `{"bytes": …}` as parquet files of the hub have it; or a name, for an own `screen`."""
    text: str = "instruction"
    box: str = "bbox"
    required: tuple[str, ...]
    platform: str | None = None
    """Column that names the platform; None: the descriptor's only one."""
    rules: tuple[str, ...] = ()
    """Columns that a sample's provenance quotes as `name=value`, where they hold a text."""
    unused: tuple[str, ...] = ()
    """Columns that are known and say nothing that a sample needs; any further one is noticed, `unknown_field`."""

    @property
    def known(self) -> frozenset[str]:
        """All columns that the source is known to have."""
        platform = () if self.platform is None else (self.platform,)
        return frozenset({self.picture, self.text, self.box, *self.required, *platform, *self.rules, *self.unused})


class FlatRowAdapter(Adapter, ABC):
    """One record a row, one native item a record."""

    columns: ClassVar[Columns]
    word: ClassVar[str] = "row"
    """What the item is counted under."""

    def row(self, record: Record) -> Row:
        """The payload, checked. Raises `RecordError`: missing_field, and what else quarantines a whole row."""
        row = record.payload
        # The last is named apart, for the sentence only.
        *others, last = self.columns.required
        if not isinstance(row, Mapping) or not set(self.columns.required) <= set(row):
            shown = sorted(row) if isinstance(row, Mapping) else type(row).__name__
            raise RecordError("missing_field", f"expected {', '.join(others)} and {last}, found {shown}")
        return row

    def record_id(self, record: Record) -> str:
        """What the ids of the samples are made from: where the row stands, unless the source gives it an id."""
        return record.native_id or f"{record.file}#{record.locator}"

    def platform(self, row: Row) -> str:
        """Raises `RecordError("unknown_platform:…")`."""
        known = self.descriptor.platforms
        # A source of one platform doesn't say so in its rows.
        found = row.get(self.columns.platform) if self.columns.platform is not None else known[0]
        if found not in known:
            raise RecordError(f"unknown_platform:{str(found)[:40]}", f"expected one of {known}")
        return str(found)

    def split(self, record: Record, raw: Raw) -> str:
        """The split of a row; train, unless overridden."""
        return "train"

    def screen(self, record: Record, raw: Raw) -> RecordScreen:
        """The picture in the row. Coordinates are fractions, so its size needn't be known."""
        return RecordScreen.load(self.encoded(record.payload), normalised=True)

    def encoded(self, row: Row) -> bytes | None:
        """The bytes of the picture in the row; None if it holds none."""
        return picture_bytes(row.get(self.columns.picture))

    def frame(self, row: Row, screen: RecordScreen) -> tuple[float, float]:
        """Width and height of the frame that boxes are given in: fractions, unless overridden."""
        return 1.0, 1.0

    def rules(self, row: Row) -> list[str]:
        """What the provenance of a sample quotes from the row."""
        return [
            f"{name}={value}"[:80] for name in self.columns.rules if isinstance(value := row.get(name), str) and value
        ]

    def samples(self, builder: SampleBuilder, row: Row, screen: RecordScreen) -> None:
        """Add the samples of a row, the first one counted. Raises `ItemError`, which rejects the row."""
        text = row.get(self.columns.text)
        if not isinstance(text, str) or not is_text(text):
            raise ItemError("missing_field", f"{self.columns.text}: expected a text, found {text!r:.60}", self.word)
        box = unit_box(row.get(self.columns.box), self.frame(row, screen), self.word)
        rules = self.rules(row)
        builder.grounding(self.expression(text), box, screen, 0, self.word, rules=rules)
        self.more_samples(builder, row, box, screen)

    def expression(self, text: str) -> str:
        """What is asked for: the text as it stands, unless overridden."""
        return text

    def more_samples(
        self, builder: SampleBuilder, row: Row, box: tuple[float, float, float, float], screen: RecordScreen
    ) -> None:
        """Further samples of the same item, uncounted; `box` in 0..1000. None, unless overridden."""

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One row → its samples. Raises `RecordError`: see `row`, `platform` and `screen`."""
        row = self.row(record)
        platform = self.platform(row)
        screen = self.screen(record, raw)
        builder = SampleBuilder(
            self.descriptor, record, record_id=self.record_id(record), platform=platform, split=self.split(record, raw)
        )
        try:
            self.samples(builder, row, screen)
        except ItemError as error:
            # Pictures would fill the quarantine; a path is kept.
            native = {
                name: value
                for name, value in row.items()
                if not (name == self.columns.picture and picture_bytes(value))
            }
            builder.reject(error.reason, native=native, native_index=0, word=error.word, detail=error.detail)
        return notices(builder.finish(), unknown_fields(row, self.columns.known))
