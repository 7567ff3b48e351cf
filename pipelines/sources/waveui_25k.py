"""WaveUI-25k: elements of web, phone and desktop screens with a name, a description and a purpose written by a model.

Link: https://huggingface.co/datasets/agentsea/wave-ui-25k
Licence: not stated for this set (UNCONFIRMED).

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

from __future__ import annotations

from typing import Any

from pipelines.mapping.adapter import Adapter, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import SampleBuilder
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.items import ItemError, is_text, notices, unknown_fields
from pipelines.native import named_boxes
from pipelines.native.record_readers import parquet_rows
from pipelines.prompts import caption_text
from schemas.coordinates import centre_in_units

WORD = "row"
_KNOWN = frozenset(
    {
        "image",
        "instruction",
        "bbox",
        "resolution",
        "source",
        "platform",
        "name",
        "description",
        "type",
        "OCR",
        "language",
        "purpose",
        "expectation",
    }
)
PLATFORMS = ("web", "mobile", "desktop")

DESCRIPTOR = Descriptor(
    id="waveui_25k",
    title="WaveUI-25k",
    origin="https://huggingface.co/datasets/agentsea/wave-ui-25k",
    licence="not stated for this set (UNCONFIRMED)",
    platforms=PLATFORMS,
    language="multi",
    objectives=("grounding", "perception"),
    size="some 25,000 rows in 22 files",
    citation="AgentSea, WaveUI, 2024",
    frame="pixels of the picture in the row, left, top, right, bottom",
    record_unit="row",
    item_unit="expression",
    known_problems=(
        "contains GroundUI, so evaluation items of ScreenSpot and Mind2Web's test splits",
        "descriptions and purposes are written by a model",
        "rows in several languages, and duplicate boxes",
    ),
    loss=(
        Loss(WORD, "grounding and perception samples", "kept", "dropped without words or a usable box"),
        Loss("OCR, expectation", "-", "lossy", "stay in the raw file"),
    ),
    download=Download("agentsea/wave-ui-25k", files=("*.parquet",)),
)


class Waveui25kAdapter(Adapter):
    """One record per row."""

    descriptor = DESCRIPTOR
    version = 1
    patterns = ("**/*.parquet",)
    reader = parquet_rows
    """One row at a time; rows have no id of their own."""

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One row → samples. Raises `RecordError`: missing_field, bad_frame, unknown_platform."""
        row: dict[str, Any] = record.payload
        if not {"image", "instruction", "bbox"} <= set(row):
            raise RecordError("missing_field", f"expected image, instruction and bbox, found {sorted(row)}")
        platform = row.get("platform")
        if platform not in PLATFORMS:
            raise RecordError(f"unknown_platform:{str(platform)[:40]}", f"expected one of {PLATFORMS}")
        image = row["image"]
        data = image.get("bytes") if isinstance(image, dict) else None
        screen = RecordScreen.load(data if isinstance(data, bytes) else None)
        if screen.width_px is None or screen.height_px is None:
            raise RecordError("bad_frame", "no usable picture, so no size of the screen")
        builder = SampleBuilder(self.descriptor, record, record_id=f"{record.file}#{record.locator}", platform=platform)
        try:
            _map(builder, row, screen, (screen.width_px, screen.height_px))
        except ItemError as error:
            native = {name: value for name, value in row.items() if name != "image"}
            builder.reject(error.reason, native=native, native_index=0, word=WORD, detail=error.detail)
        return notices(builder.finish(), unknown_fields(row, _KNOWN))


def _map(builder: SampleBuilder, row: dict[str, Any], screen: RecordScreen, size: tuple[int, int]) -> None:
    words = row["instruction"]
    if not isinstance(words, str) or not is_text(words):
        raise ItemError("missing_field", f"instruction: expected a text, found {words!r:.60}", WORD)
    box = named_boxes.unit_box(row["bbox"], size, WORD)
    told = [f"{name}={row[name]}"[:80] for name in ("source", "type") if isinstance(row.get(name), str) and row[name]]
    builder.grounding(words, box, screen, native_index=0, word=WORD, rules=told)
    said = _text(row, "description") or _text(row, "name")
    if said:
        builder.region(said, box, screen, native_index=0, word=WORD, k=1, count=False, rules=["written_by_a_model"])
    purpose = _text(row, "purpose")
    if purpose:
        asked = caption_text(*centre_in_units(box))
        builder.sample(
            "perception",
            asked.replace("unlabelled ", ""),
            purpose,
            screen,
            native_index=0,
            word=WORD,
            k=2,
            count=False,
            target_boxes=[box],
            rules=["written_by_a_model"],
        )


def _text(row: dict[str, Any], name: str) -> str:
    value = row.get(name)
    return value.strip() if isinstance(value, str) and is_text(value) else ""
