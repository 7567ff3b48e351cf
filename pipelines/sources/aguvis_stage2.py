"""Aguvis stage 2, converted: steps of web and phone recordings with a thought and the code of the action.

A raw row of `<config>/*.parquet` (made up; `images` holds the encoded picture):

    {"images": [{"bytes": b"...", "path": None}], "source": "mind2web", "texts": [
        {"user": "Please generate the next move … Instruction: Find tea\\n\\nPrevious actions:\\nNone",
         "assistant": "<think>\\nI open the shop.\\n</think>\\n<code>\\nclick(x=0.41, y=0.178)\\n</code>"}]}

Each pair is an episode of one step, since rows have no episode: the table of `pipelines.native.calls` says what its
calls become. The conversion turned the sign of vertical scrolls round; they are flipped back (`vertical_flipped`). The
configurations `-l1`, `-l2`, `-l3` are the same steps with more and more text: `-l2` is read, the others are refused
(`duplicate_level`).
"""

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError
from pipelines.mapping.card import Descriptor, Download
from pipelines.native.calls import LOSSES, Vocabulary
from pipelines.native.record_readers import parquet_rows
from pipelines.native.single_steps import map_pairs

VOCABULARY = Vocabulary(flip_vertical=True)
LEVEL = re.compile(r"-l([123])(?=[/-]|$)")
READ_LEVEL = "2"
WEB = ("mind2web", "guiact-web", "guiact_web", "miniwob")
MOBILE = ("coat", "android_control", "gui-odyssey", "gui_odyssey", "amex", "aitw", "aitz")
_ROW = frozenset({"images", "texts", "source"})

DESCRIPTOR = Descriptor(
    id="aguvis_stage2",
    title="Aguvis stage 2 (smolagents)",
    licence="not stated, originals carry their own (UNCONFIRMED)",
    platforms=("web", "mobile"),
    size="not known; 15 configurations of web and phone recordings",
    citation="Xu et al., Aguvis: Unified Pure Vision Agents for Autonomous GUI Interaction, arXiv 2412.04454",
    frame="fractions 0..1 of the viewport, x first",
    known_problems=(
        "vertical scroll words are turned round by the conversion: they are flipped back",
        "no episode id: a row's history is text",
        "three levels of the same steps",
        "the same recordings as mind2web, guiact, aitw, aitz, amex, gui_odyssey, android_control",
    ),
    loss=LOSSES,
    download=Download("smolagents/aguvis-stage-2", files=("*.parquet",)),
)


class AguvisStage2Adapter(Adapter):
    """One record per row; each of its pairs is an episode of one step."""

    descriptor = DESCRIPTOR
    items_at = ("texts",)
    patterns = ("**/*.parquet",)

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """One row at a time; a file of another level is refused as a whole."""
        for file in files:
            # The levels hold the same steps with more or fewer words; one of them is read.
            level = LEVEL.search(file)
            if level is not None and level[1] != READ_LEVEL:
                rows = _count(raw, file)
                yield Broken(file, "table", "duplicate_level", f"the same steps as -l{READ_LEVEL}", rows)
            else:
                yield from parquet_rows(raw, file)

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One row → an episode for each pair. Raises `RecordError`: missing_field, unknown_source."""
        row: dict[str, Any] = record.payload
        where = f"{row.get('source')} {record.file}".lower()
        platform = "web" if any(name in where for name in WEB) else "mobile"
        if platform == "mobile" and not any(name in where for name in MOBILE):
            items = len(row["texts"]) if isinstance(row.get("texts"), list) else 1
            raise RecordError(f"unknown_source:{str(row.get('source'))[:40]}", "no platform is known", items)
        vocabulary = replace(VOCABULARY, space=self.space)
        return map_pairs(self.descriptor, record, platform=platform, vocabulary=vocabulary, known=_ROW)


def _count(raw: Raw, file: str) -> int:
    """Rows of a parquet file; 0 where its footer is gone, so that nothing says how many there were."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return int(pq.read_metadata(raw.path(file)).num_rows)
    except (pa.ArrowException, OSError):
        return 0
