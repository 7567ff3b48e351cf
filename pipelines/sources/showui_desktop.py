"""ShowUI-desktop: some 2,000 elements of desktop screens, each named in up to four ways (three of them by a model).

A raw row of the parquet file (made up; `image` holds the encoded picture):

    {"image_url": "win/1.png", "image": {"bytes": b"...", "path": "1.png"}, "instruction": "the button that saves",
     "bbox": [0.1, 0.02, 0.2, 0.05], "point": [0.15, 0.035], "type": "intent"}

| native | unified |
|---|---|
| row | "Where is <instruction>?" → centre of `bbox` |
| `point` | not used: the centre of the box |
| `type` | a rule in the provenance (original, appearance, spatial, intent, …) |

Values above 1 would be pixels: such a row is quarantined (`off_screen`), not guessed. The nested JSON twin
(`metadata/hf_train.json`) is the same data and isn't read.
"""

from pipelines.mapping.adapter import RecordScreen
from pipelines.mapping.builders import SampleBuilder
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.items import ItemError, is_text
from pipelines.native.flat_rows import Columns, FlatRowAdapter, Row
from pipelines.native.record_readers import parquet_rows

DESCRIPTOR = Descriptor(
    id="showui_desktop",
    title="ShowUI-desktop",
    licence="none on the card, Apache-2.0 on a mirror (UNCONFIRMED)",
    platforms=("desktop",),
    objectives=("grounding",),
    size="7,496 rows on about 100 screenshots (UNCONFIRMED) of 15 programs",
    citation="Lin et al., ShowUI: One Vision-Language-Action Model for GUI Visual Agent, arXiv 2411.17465",
    frame="fractions 0..1 of the picture, left, top, right, bottom",
    item_unit="expression",
    known_problems=(
        "three of four names are written by a model; spatial ones may be wrong",
        "screenshots come from OmniACT, which stands in GroundUI too",
        "the same screenshot in many rows",
    ),
    loss=(
        Loss("row", "grounding sample", "kept", "dropped without a name or a usable box"),
        Loss("point", "-", "lossy", "the centre of the box stands for it"),
    ),
    download=Download("showlab/ShowUI-desktop", files=("*.parquet",)),
)


class ShowuiDesktopAdapter(FlatRowAdapter):
    """One record per row; rows have no id of their own."""

    descriptor = DESCRIPTOR
    version = 2
    patterns = ("**/*.parquet",)
    reader = parquet_rows
    rows_alone = (".parquet",)
    columns = Columns(required=("instruction", "bbox"), rules=("type",), unused=("image_url", "point"))

    def samples(self, builder: SampleBuilder, row: Row, screen: RecordScreen) -> None:
        """As usual, but an instruction that is no text has a reason of its own here."""
        name = row["instruction"]
        if not isinstance(name, str) or not is_text(name):
            raise ItemError("bad_value", f"instruction: expected a text, found {name!r:.60}", self.word)
        super().samples(builder, row, screen)
