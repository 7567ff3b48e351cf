"""GroundUI-18K: instructions for one element of a screen, gathered from five sets and reworded by a model.

Link: https://huggingface.co/datasets/agent-studio/GroundUI-18K
Licence: not stated for the data (UNCONFIRMED; code AGPL-3.0).

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

from __future__ import annotations

import posixpath

from pipelines.derivers.grounding import expression
from pipelines.mapping.adapter import Adapter, Mapped, Raw, Record, RecordError
from pipelines.mapping.builders import SampleBuilder
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.frames import fitting_screen
from pipelines.mapping.items import ItemError, is_text, notices, unknown_fields
from pipelines.native import named_boxes
from pipelines.native.record_readers import json_lines

WORD = "instruction"
_KNOWN = frozenset(
    {"image", "instruction", "bbox", "source", "platform", "resolution", "raw_instruction", "image_path"}
)
PLATFORMS = ("web", "mobile", "desktop")
EVALUATED = ("screenspot", "mind2web_test")
"""How the `source` of rows begins that come from evaluation sets."""

DESCRIPTOR = Descriptor(
    id="groundui_18k",
    title="GroundUI-18K",
    origin="https://huggingface.co/datasets/agent-studio/GroundUI-18K",
    licence="not stated for the data (UNCONFIRMED; code AGPL-3.0)",
    platforms=PLATFORMS,
    language="en",
    objectives=("grounding",),
    size="18,000 instructions on 13,522 screenshots",
    citation="Zheng et al., AgentStudio: A Toolkit for Building General Virtual Agents, arXiv 2403.17918",
    frame="pixels of `resolution`, left, top, right, bottom",
    record_unit="row",
    item_unit="expression",
    known_problems=(
        "holds evaluation items of ScreenSpot and Mind2Web's test splits: they go to split test",
        "instructions are rewritten by a model; some speak of a red box that isn't there",
        "boxes that lie off the picture",
    ),
    loss=(Loss(WORD, "grounding sample", "kept", "dropped without words or a usable box"),),
    download=Download("agent-studio/GroundUI-18K"),
)


class Groundui18kAdapter(Adapter):
    """One record per line."""

    descriptor = DESCRIPTOR
    version = 2
    patterns = ("**/*.jsonl",)
    reader = json_lines
    """One line at a time; lines have no id of their own."""

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One line → one grounding sample. Raises `RecordError`: missing_field, bad_frame, unknown_platform."""
        row = record.payload
        if not isinstance(row, dict) or not isinstance(row.get("image"), str):
            raise RecordError("missing_field", "expected an object with image, instruction and bbox")
        platform, size = row.get("platform"), row.get("resolution")
        if platform not in PLATFORMS:
            raise RecordError(f"unknown_platform:{str(platform)[:40]}", f"expected one of {PLATFORMS}")
        if not (isinstance(size, list) and len(size) == 2 and all(type(side) is int and side > 0 for side in size)):
            raise RecordError("bad_frame", f"resolution: expected two positive ints, found {size!r:.60}")
        frame = (size[0], size[1])
        screen = fitting_screen(_picture(raw, record.file, row["image"]), frame)
        builder = SampleBuilder(
            self.descriptor,
            record,
            record_id=f"{record.file}#{record.locator}",
            platform=platform,
            split="test" if str(row.get("source")).startswith(EVALUATED) else "train",
        )
        told = [f"{name}={row[name]}"[:80] for name in ("source", "raw_instruction") if isinstance(row.get(name), str)]
        try:
            words = row.get("instruction")
            if not isinstance(words, str) or not is_text(words):
                raise ItemError("missing_field", f"instruction: expected a text, found {words!r:.60}", WORD)
            box = named_boxes.unit_box(row.get("bbox"), frame, WORD)
            builder.grounding(expression(words) or words, box, screen, native_index=0, word=WORD, rules=told)
        except ItemError as error:
            builder.reject(error.reason, native=row, native_index=0, word=WORD, detail=error.detail)
        return notices(builder.finish(), unknown_fields(row, _KNOWN))


def _picture(raw: Raw, file: str, name: str) -> bytes | None:
    folder = posixpath.dirname(file)
    return raw.first(posixpath.join(folder, place, name) for place in ("images", ""))
