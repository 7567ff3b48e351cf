"""Aguvis stage 1, converted: one-step pointing tasks from eight grounding sets, several a screenshot.

A raw row of `<config>/*.parquet` (made up; `images` holds one encoded picture):

    {"images": [{"bytes": b"...", "path": None}], "source": "seeclick", "texts": [
        {"user": "Click on the sign-in link", "assistant": "click(x=0.41, y=0.178)"}]}

Each pair of a user's and an assistant's text is an episode of one step: the table of `pipelines.native.calls` says what
its call becomes. Of two pictures the second is the current one. The chat form of the original release is refused
(`unknown_schema`).
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError
from pipelines.mapping.card import Descriptor, Download
from pipelines.native.calls import LOSSES, Vocabulary
from pipelines.native.record_readers import parquet_rows
from pipelines.native.single_steps import map_pairs

VOCABULARY = Vocabulary(flip_vertical=True)
PLATFORMS = {
    "guienv": "web",
    "omniact": "desktop",
    "ricoig16k": "mobile",
    "ricosca": "mobile",
    "seeclick": "web",
    "webui350k": "web",
    "ui_refexp": "mobile",
    "widget_captioning": "mobile",
}
"""Configuration → platform."""
_ROW = frozenset({"images", "texts", "source"})

DESCRIPTOR = Descriptor(
    id="aguvis_stage1",
    title="Aguvis stage 1 (smolagents)",
    licence="not stated, originals carry their own (UNCONFIRMED)",
    platforms=("web", "mobile", "desktop"),
    size="some 400,000 samples of eight grounding sets",
    citation="Xu et al., Aguvis: Unified Pure Vision Agents for Autonomous GUI Interaction, arXiv 2412.04454",
    frame="fractions 0..1 of the picture, x first",
    known_problems=(
        "rows that the conversion couldn't parse are missing",
        "vertical scroll words are turned round by the conversion: they are flipped back",
        "the same data as seeclick_web, omniact, ricosca, ui_refexp, widget_captioning, guienv_local",
    ),
    loss=LOSSES,
    download=Download("smolagents/aguvis-stage-1", files=("*.parquet",)),
)


class AguvisStage1Adapter(Adapter):
    """One record per row; each of its pairs is an episode of one step."""

    descriptor = DESCRIPTOR
    rows_alone = (".parquet",)
    items_at = ("texts",)

    def parts(self, raw: Raw) -> list[tuple[str, ...]]:
        """One part per file."""
        return [(name,) for name in sorted(raw.files("**/*.parquet") + raw.files("**/*.json"))]

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """One row at a time."""
        for file in files:
            if file.endswith(".json"):
                yield Broken(file, "document", "unknown_schema", "the chats of the original release aren't read", 0)
            else:
                yield from parquet_rows(raw, file)

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One row → an episode for each pair. Raises `RecordError`: missing_field, unknown_source."""
        row: dict[str, Any] = record.payload
        # Rows that name no known source are told by their folder.
        platform = PLATFORMS.get(str(row.get("source"))) or PLATFORMS.get(record.file.split("/")[-2:][0])
        if platform is None:
            items = len(row["texts"]) if isinstance(row.get("texts"), list) else 1
            raise RecordError(f"unknown_source:{str(row.get('source'))[:40]}", "no platform is known", items)
        vocabulary = replace(VOCABULARY, space=self.space)
        return map_pairs(self.descriptor, record, platform=platform, vocabulary=vocabulary, known=_ROW)
