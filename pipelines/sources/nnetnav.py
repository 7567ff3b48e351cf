"""NNetNav: WebArena-style text episodes on live sites; element ids, no coordinates, no pictures.

Link: https://huggingface.co/datasets/stanfordnlp/nnetnav-live (and nnetnav-wa)

A raw row, one step (line of `train.jsonl`, shortened; `prompt` and `output` repeat `messages` in a model's notation):

    {"dataset": "openweb_x", "id": "openweb_1", "task_name": "openweb_1", "n_tokens": 5102, "output": "...",
     "prompt": "...", "messages": [{"role": "system", "content": "..."}, {"role": "user", "content":
       "OBSERVATION:\\n[89] textbox 'Search'...\\nURL: https://...\\nOBJECTIVE: Find x\\nPREVIOUS ACTIONS:\\n1: None"},
      {"role": "assistant", "content": "Let's think ... the next action I will perform is ```type [89] [x] [1]```"}]}

| native | unified |
|---|---|
| click [id], hover [id] | rejected (`no_coordinates`): the tree has no boxes |
| type [id] [text] [0 or 1] | `Type(text)`, and `PressEnter` unless 0; lossy: the click into the field is lost |
| press [keys] | `PressEnter` for Enter, else `Hotkey` |
| scroll [down or up] | `Scroll(direction)`: what the view does |
| goto [url] | `Launch(url)` |
| go_back | `PressBack` |
| stop [answer] | `Finished(answer)` |
| new_tab, tab_focus, close_tab, go_forward | rejected (`no_counterpart`) |

Text between brackets is read from the right: it may hold `]`. What the assistant wrote before the action is the
thought. Consecutive rows of one id are an episode. Split by the file's name.
"""

import re
from collections.abc import Iterator
from typing import Any

from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError
from pipelines.mapping.builders import EpisodeBuilder
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.items import notices, unknown_fields
from pipelines.native.chat import turns
from pipelines.native.record_readers import json_lines, runs
from pipelines.native.webarena_actions import LOSSES, add_step

_KNOWN = frozenset({"dataset", "id", "task_name", "messages", "output", "prompt", "n_tokens"})
_OBJECTIVE = re.compile(r"^OBJECTIVE:(.*?)^PREVIOUS ACTIONS?:", re.MULTILINE | re.DOTALL)

DESCRIPTOR = Descriptor(
    id="nnetnav",
    title="NNetNav",
    licence="Apache-2.0",
    platforms=("web",),
    size="10,000 to 100,000 steps (live 3.2 GB, WebArena 1.8 GB)",
    citation="Murty et al., NNetNav, arXiv 2410.02907",
    frame="none: element ids of an accessibility tree without boxes",
    record_unit="episode",
    known_problems=(
        "no coordinates and no pictures: clicks and hovers can't be mapped",
        "objectives are written by a model after the fact",
    ),
    loss=(*LOSSES, Loss("the accessibility tree", "-", "lossy", "stays in the raw file")),
    download=Download("stanfordnlp/nnetnav-live", files=("*.jsonl",)),
)


class NnetnavAdapter(Adapter):
    """One record per run of lines with one id."""

    descriptor = DESCRIPTOR
    items_at = (".",)
    patterns = ("**/*.jsonl",)

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """One episode at a time."""
        for file in files:
            yield from runs(json_lines(raw, file), _id, named=True)

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One episode → step rows. Raises `RecordError`: missing_field, empty_text, unknown_role."""
        rows: list[Any] = record.payload
        if record.native_id is None:
            raise RecordError("missing_field", "expected an object with an id, a text", len(rows))
        chats = [turns(row.get("messages"), len(rows)) for row in rows]
        asked = next((turn.text for turn in chats[0] if turn.role == "user"), "")
        # Prompts hold examples with objectives of their own; the last is the task's.
        objective = _OBJECTIVE.findall(asked)
        if not objective:
            raise RecordError("missing_field", "OBJECTIVE: not found in the first step", len(rows))
        if not objective[-1].strip():
            raise RecordError("empty_text", "OBJECTIVE", len(rows))
        builder = EpisodeBuilder(
            self.descriptor,
            record,
            instruction=objective[-1].strip(),
            split="test" if "test" in record.file.rpartition("/")[2].lower() else "train",
        )
        found: list[tuple[str, str, Any]] = []
        for place, (row, chat) in enumerate(zip(rows, chats, strict=True)):
            found += unknown_fields(row, _KNOWN)
            add_step(builder, place, chat[-1].text if chat[-1].role == "assistant" else "")
        return notices(builder.finish(), found)


def _id(row: object) -> str | None:
    name = row.get("id") if isinstance(row, dict) else None
    return name if isinstance(name, str) else None
