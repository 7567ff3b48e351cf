"""GroundUI-18K: instructions for one element of a screen, gathered from five sets and reworded by a model.

A raw line of `metadata.jsonl` (made up); pictures lie in `images/`:

    {"image": "shop.png", "instruction": "Click on 'Cart'.", "bbox": [10, 20, 60, 40], "source": "omniact",
     "platform": "web", "resolution": [1440, 900], "raw_instruction": "cart"}

| native | unified |
|---|---|
| line | "Where is <what the instruction points at>?" → centre of `bbox`; other instructions are asked as they are |
| `source` screenspot, mind2web_test_… | split test: these rows are items of evaluation sets |
| `source`, `raw_instruction` | rules in the provenance |

Boxes are pixels of `resolution`, and a picture of another shape isn't used. Of omniact no row tells which split it was
in: `hygiene/contamination` must find its test items by what they show.
"""

import posixpath

from pipelines.derivers.grounding import expression
from pipelines.mapping.adapter import Raw, Record, RecordError, RecordScreen
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.frames import fitting_screen, whole_sides
from pipelines.native.flat_rows import Columns, FlatRowAdapter, Row
from pipelines.native.record_readers import json_lines

EVALUATED = ("screenspot", "mind2web_test")
"""How the `source` of rows begins that come from evaluation sets."""

DESCRIPTOR = Descriptor(
    id="groundui_18k",
    title="GroundUI-18K",
    licence="not stated for the data (UNCONFIRMED; code AGPL-3.0)",
    platforms=("web", "mobile", "desktop"),
    objectives=("grounding",),
    size="18,000 instructions on 13,522 screenshots",
    citation="Zheng et al., AgentStudio: A Toolkit for Building General Virtual Agents, arXiv 2403.17918",
    frame="pixels of `resolution`, left, top, right, bottom",
    item_unit="expression",
    known_problems=(
        "holds evaluation items of ScreenSpot and Mind2Web's test splits: they go to split test",
        "instructions are rewritten by a model; some speak of a red box that isn't there",
        "boxes that lie off the picture",
    ),
    loss=(Loss("instruction", "grounding sample", "kept", "dropped without words or a usable box"),),
    download=Download("agent-studio/GroundUI-18K"),
)


class Groundui18kAdapter(FlatRowAdapter):
    """One record per line; lines have no id of their own."""

    descriptor = DESCRIPTOR
    version = 3
    patterns = ("**/*.jsonl",)
    reader = json_lines
    rows_alone = (".jsonl",)
    word = "instruction"
    columns = Columns(
        required=("image",),
        platform="platform",
        rules=("source", "raw_instruction"),
        unused=("resolution", "image_path"),
    )

    def row(self, record: Record) -> Row:
        """Raises `RecordError("missing_field")`: a line without its other columns is still an item, rejected as one."""
        row = record.payload
        if not isinstance(row, dict) or not isinstance(row.get("image"), str):
            raise RecordError("missing_field", "expected an object with image, instruction and bbox")
        return row

    def split(self, record: Record, raw: Raw) -> str:
        """Items of evaluation sets are test."""
        return "test" if str(record.payload.get("source")).startswith(EVALUATED) else "train"

    def screen(self, record: Record, raw: Raw) -> RecordScreen:
        """The picture, if it has the shape of `resolution`. Raises `RecordError`: bad_frame, unsafe_path."""
        row, folder = record.payload, posixpath.dirname(record.file)
        said = row.get("resolution")
        size = whole_sides(said)
        if size is None:
            raise RecordError(
                "bad_frame", f"resolution: expected two positive ints, found {row.get('resolution')!r:.60}"
            )
        # Either layout of the files is read.
        data = raw.first(posixpath.join(folder, place, row["image"]) for place in ("images", ""))
        return fitting_screen(data, size)

    def frame(self, row: Row, screen: RecordScreen) -> tuple[float, float]:
        """Pixels of `resolution`."""
        width, height = row["resolution"]
        return width, height

    def rules(self, row: Row) -> list[str]:
        """Empty texts are quoted, too: `source=` says that the row names none."""
        return [f"{name}={row[name]}"[:80] for name in self.columns.rules if isinstance(row.get(name), str)]

    def expression(self, text: str) -> str:
        """What the instruction points at; the whole of it where that can't be said."""
        return expression(text) or text
