"""OS-Genesis web: synthetic steps on the WebArena sites, thought and action by GPT-4o; element ids, no coordinates.

A raw row, a line of `os_genesis_web_training.jsonl` (made up, shortened):

    {"image": "x.png", "conversations": [{"from": "human", "value": "<image>\\n... Instruction: Find x\\n\\nAction
       History: ...\\n\\nAccessibility tree: [89] textbox 'Search'..."},
      {"from": "gpt", "value": "Let's think ... In summary, the next action ... is ```type [89] [x] [1]```"}]}

| native | unified |
|---|---|
| the actions of WebArena | as in nnetnav |

Consecutive rows with one instruction are an episode.
"""

import re
from collections.abc import Iterator
from functools import partial
from typing import Any

from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import EpisodeBuilder
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.items import notices, unknown_fields
from pipelines.mapping.unicode_text import check_texts
from pipelines.native.chat import exchanges, turns, without_pictures
from pipelines.native.record_readers import json_lines, runs
from pipelines.native.webarena_actions import LOSSES, add_step
from schemas.ids import digest

FOLDERS = ("", "images/", "screenshots/")
_KNOWN = frozenset({"id", "image", "conversations"})
_INSTRUCTION = re.compile(
    r"\bInstruction:(.*?)\n[^\S\n]*(?:Action History|Previous actions?|Accessibility tree|Observation|URL)\s*:",
    re.DOTALL | re.IGNORECASE,
)

DESCRIPTOR = Descriptor(
    id="os_genesis_web",
    title="OS-Genesis web",
    licence="none seen (UNCONFIRMED; code MIT)",
    platforms=("web",),
    size="UNCONFIRMED",
    citation="Sun et al., OS-Genesis: Automating GUI Agent Trajectory Construction via Reverse Task Synthesis, "
    "arXiv 2412.19723",
    frame="none: element ids of an accessibility tree without boxes",
    record_unit="episode",
    known_problems=(
        "no coordinates: clicks and hovers can't be mapped",
        "tasks, thoughts and actions are written by a model",
        "the tasks run on the sites that WebArena evaluates on",
    ),
    loss=(*LOSSES, Loss("the accessibility tree", "-", "lossy", "stays in the raw file")),
    download=Download("OS-Copilot/OS-Genesis-web-data"),
)


class OsGenesisWebAdapter(Adapter):
    """One record per run of lines with one instruction."""

    descriptor = DESCRIPTOR
    items_at = (".",)
    patterns = ("**/*.jsonl",)

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """One episode at a time; a broken line ends the run before it."""
        for file in files:
            yield from runs(json_lines(raw, file), _instruction)

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One episode → step rows. Raises `RecordError`: missing_field, empty_text, unsafe_path."""
        rows: list[Any] = record.payload
        check_texts(rows, len(rows))
        asked = _instruction(rows[0])
        if asked is None:
            raise RecordError("missing_field", "expected one exchange with an 'Instruction:', and an image", len(rows))
        if not asked:
            raise RecordError("empty_text", "Instruction", len(rows))
        builder = EpisodeBuilder(
            self.descriptor,
            record,
            # By their content with the file: rows have no id.
            episode_id=digest({"file": record.file, "rows": rows}),
            instruction=asked,
            split="test" if "test" in record.file.rpartition("/")[2].lower() else "train",
        )
        found: list[tuple[str, str, Any]] = []
        for place, row in enumerate(rows):
            found += unknown_fields(row, _KNOWN)
            add_step(
                builder, place, turns(row["conversations"])[-1].text, partial(_screen, raw, row["image"], len(rows))
            )
        return notices(builder.finish(), found)


def _instruction(row: object) -> str | None:
    """The instruction of a row that holds one exchange and an image; None for another row."""
    if not isinstance(row, dict) or not isinstance(row.get("image"), str):
        return None
    try:
        chat = turns(row.get("conversations"))
    except RecordError:
        return None
    pairs = exchanges(chat)
    match = _INSTRUCTION.search(without_pictures(pairs[0][0])) if len(pairs) == 1 else None
    return match[1].strip() if match and chat[-1].role == "assistant" else None


def _screen(raw: Raw, name: str, items: int) -> RecordScreen:
    return RecordScreen.load(raw.first((folder + name for folder in FOLDERS), items), normalised=True)
