"""WaveUI-25k: elements of web, phone and desktop screens with a name, a description and a purpose written by a model.

A raw row of the parquet files (made up; `image` holds the encoded picture):

    {"image": {"bytes": b"...", "path": None}, "instruction": "cart", "bbox": [10, 20, 60, 40], "source": "webui",
     "resolution": [1440, 900], "platform": "web", "name": "Cart", "description": "A cart icon", "type": "icon",
     "OCR": "", "language": "English", "purpose": "opens the cart", "expectation": "the cart is shown"}

| native | unified |
|---|---|
| row | "Where is <instruction>?" → centre of `bbox` |
| `description`, else `name` | also "What is at [x,y]?" → it |
| `purpose` | also a question what the element at the point is for → it |
| `source`, `type` | rules in the provenance |

Boxes are pixels of the picture in the row. It contains GroundUI and with it evaluation items (ScreenSpot, Mind2Web's
test splits): nothing here says which, `hygiene/contamination` must find them by what they show and say.
"""

from pipelines.mapping.adapter import Raw, Record, RecordScreen
from pipelines.mapping.builders import SampleBuilder
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.items import is_text
from pipelines.native.flat_rows import Columns, FlatRowAdapter, Row
from pipelines.native.record_readers import parquet_rows
from pipelines.prompts import caption_text
from schemas.coordinates import centre_in_units

DESCRIPTOR = Descriptor(
    id="waveui_25k",
    title="WaveUI-25k",
    licence="not stated for this set (UNCONFIRMED)",
    platforms=("web", "mobile", "desktop"),
    language="multi",
    objectives=("grounding", "perception"),
    size="some 25,000 rows in 22 files",
    citation="AgentSea, WaveUI, 2024",
    frame="pixels of the picture in the row, left, top, right, bottom",
    item_unit="expression",
    known_problems=(
        "contains GroundUI, so evaluation items of ScreenSpot and Mind2Web's test splits",
        "descriptions and purposes are written by a model",
        "rows in several languages, and duplicate boxes",
    ),
    loss=(
        Loss("row", "grounding and perception samples", "kept", "dropped without words or a usable box"),
        Loss("OCR, expectation", "-", "lossy", "stay in the raw file"),
    ),
    download=Download("agentsea/wave-ui-25k", files=("*.parquet",)),
)


class Waveui25kAdapter(FlatRowAdapter):
    """One record per row; rows have no id of their own."""

    descriptor = DESCRIPTOR
    version = 2
    patterns = ("**/*.parquet",)
    reader = parquet_rows
    rows_alone = (".parquet",)
    columns = Columns(
        required=("image", "instruction", "bbox"),
        platform="platform",
        rules=("source", "type"),
        unused=("resolution", "name", "description", "OCR", "language", "purpose", "expectation"),
    )

    def screen(self, record: Record, raw: Raw) -> RecordScreen:
        """The picture, whose size is the frame of the box. Raises `RecordError("bad_frame")` where there is none."""
        return RecordScreen.load(self.encoded(record.payload))

    def frame(self, row: Row, screen: RecordScreen) -> tuple[float, float]:
        """The picture's own size: `resolution` is that of the screen it was taken on."""
        assert screen.width_px is not None and screen.height_px is not None, "loaded without `normalised`"
        return screen.width_px, screen.height_px

    def more_samples(
        self, builder: SampleBuilder, row: Row, box: tuple[float, float, float, float], screen: RecordScreen
    ) -> None:
        """What the element is, and what it is for."""
        rules = ["written_by_a_model"]
        # The description tells more than the name.
        if said := _text(row, "description") or _text(row, "name"):
            builder.region(said, box, screen, 0, self.word, k=1, count=False, rules=rules)
        if purpose := _text(row, "purpose"):
            builder.sample(
                "perception",
                # What is asked here may have a label.
                caption_text(*centre_in_units(box)).replace("unlabelled ", ""),
                purpose,
                screen,
                native_index=0,
                word=self.word,
                k=2,
                count=False,
                target_boxes=[box],
                rules=rules,
            )


def _text(row: Row, name: str) -> str:
    value = row.get(name)
    return value.strip() if isinstance(value, str) and is_text(value) else ""
