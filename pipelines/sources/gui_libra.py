"""GUI-Libra 81K: steps of seven older sources with checked coordinates; the RL part as parquet, the SFT part as chats.

Link: https://huggingface.co/datasets/GUI-Libra/GUI-Libra-81K-RL (and GUI-Libra-81K-SFT)

A raw parquet row (made up, shortened):

    {"data_source": "android_control", "images": [{"bytes": b"..."}],
     "extra_info": {"img_name": "1_2.png", "step_id": 2}, "system_prompt": "...",
     "context": "Please generate the next move ...\\n\\nInstruction: Open the clock\\n\\n
       Interaction History: ...", "answer": {"gt_action": "Click", "gt_bbox": [25, 196, 972, 519],
       "gt_input_text": "None", "gt_point_2d": [0.498, 0.3575], "gt_target": "the clock", "image_height": 2400,
       "image_width": 1080}}

A raw element of an SFT array `<source>-..._1000.json` (made up, shortened):

    {"image": "1_2.png", "conversations": [{"from": "human", "value": "<image>... Instruction: ..."}, {"from": "gpt",
     "value": "<think>...</think><answer>{\\"action_description\\": \\"Open it\\", \\"action_type\\": \\"Click\\",
       \\"value\\": \\"None\\", \\"point_2d\\": [498, 357]}</answer>"}]}

| native | unified |
|---|---|
| Click, LongPress | `Click`, `LongPress(point)` |
| Write | `Click(point)` if it has one, and `Type(value)` |
| Select | `Click(point)`; lossy: the value is lost. Under v2 `SelectOption(point, value)` |
| Scroll | `Scroll(direction)`: what the view does |
| Swipe | rejected (`ambiguous_direction`): whether finger or view is meant isn't said |
| Wait | `Wait`; lossy: the time is lost |
| NavigateBack, NavigateHome | `PressBack`, `PressHome` |
| OpenAPP | `Launch(app)` |
| KeyboardPress | `PressEnter`, else `Hotkey` |
| Answer, Terminate | `Finished(value)` |

"None" stands for null. A step is an episode of its own: nothing tells which belong together; one with an interaction
history is marked as standing after a gap (`steps_before_are_rows_of_their_own`). The box of the RL part is in
thousandths or in pixels; it becomes the target's box where one of both has the point at its centre. SFT files
without `_1000` in their names hold pixels of a size that nothing tells: refused (`unknown_schema`).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError
from pipelines.mapping.builders import EpisodeBuilder, MappedAction
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.items import ItemError, notices, unknown_fields
from pipelines.native.gui_libra_steps import OTHER, actions_of, rl_step, sft_source, sft_step
from pipelines.native.record_readers import json_list, parquet_rows
from schemas.ids import digest

_RL = frozenset({"data_source", "images", "extra_info", "answer", "system_prompt", "context"})
_ANSWER = frozenset(
    {"gt_action", "gt_bbox", "gt_input_text", "gt_point_2d", "gt_target", "image_height", "image_width"}
)
_SFT = frozenset({"image", "conversations"})
_SAID = frozenset({"action_description", "action_target", "action_type", "value", "point_2d"})
_PLATFORMS = {
    "mind2web": "web",
    "guiact": "web",
    "coat": "mobile",
    "aitz": "mobile",
    "amex": "mobile",
    "aitw": "mobile",
    "android": "mobile",
    "gui": "mobile",
}
DESCRIPTOR = Descriptor(
    id="gui_libra",
    title="GUI-Libra 81K",
    licence="apache-2.0 (tag); the licences of its sources go with it",
    platforms=("mobile", "web"),
    language="multi",
    size="some 81,000 steps",
    citation="Yang et al., GUI-Libra: Training Native GUI Agents to Reason and Act with Action-aware Supervision and "
    "Partially Verifiable RL, arXiv 2602.22190",
    frame="RL: fractions 0..1; SFT files named _1000: thousandths; x first, origin top left",
    record_unit="episode",
    known_problems=(
        "the same steps as in mind2web, guiact, aitw, aitz, amex, android_control and gui_odyssey",
        "'None' as a text stands for null",
        "a part is in Chinese",
        "what the direction of a Swipe means isn't told",
    ),
    loss=(
        Loss("Click", "Click", "kept"),
        Loss("LongPress", "LongPress", "kept"),
        Loss("Write", "Click, Type", "kept", "without a point: Type alone"),
        Loss("Select", "Click", "lossy", "the value stays in native_action. v2: SelectOption, kept"),
        Loss("Scroll", "Scroll(direction)", "kept"),
        Loss("Swipe", "-", "dropped", "ambiguous_direction: finger or view isn't told"),
        Loss("Wait", "Wait", "lossy", "the time stays in native_action"),
        Loss("NavigateBack", "PressBack", "kept"),
        Loss("NavigateHome", "PressHome", "kept"),
        Loss("OpenAPP", "Launch(app)", "kept"),
        Loss("KeyboardPress", "PressEnter, Hotkey", "kept", "more than three keys: no_counterpart"),
        Loss("Answer", "Finished", "kept"),
        Loss("Terminate", "Finished", "kept"),
        Loss(OTHER, "-", "dropped", "unknown_action:<word>, or no action at all"),
        Loss("gt_target", "-", "lossy", "stays in native_action"),
    ),
    download=Download("GUI-Libra/GUI-Libra-81K-RL", files=("*.parquet",)),
)


class GuiLibraAdapter(Adapter):
    """One record per step."""

    descriptor = DESCRIPTOR
    version = 3
    rows_alone = (".parquet",)

    def parts(self, raw: Raw) -> list[tuple[str, ...]]:
        """One part per parquet or JSON file."""
        return [(name,) for name in sorted([*raw.files("**/*.parquet"), *raw.files("**/*.json")])]

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """One row at a time. Rows of a file that can't be read take no part in the search for repeats."""
        for file in files:
            if file.endswith(".parquet"):
                yield from parquet_rows(raw, file, of_id=_name)
                continue
            # Only the names of known forms say which size the pixels are of.
            readable = sft_source(file) is not None
            for found in json_list(raw, file):
                if readable or isinstance(found, Broken):
                    yield found
                else:
                    why = "expected a name like <source>-reasoning..._1000.json: others hold pixels of no known size"
                    yield Broken(file, found.locator, "unknown_schema", why, 1, found.payload)

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One step → its rows. Raises `RecordError`: unknown_schema, missing_field, bad_frame, bad_value."""
        row = record.payload
        if not isinstance(row, Mapping) or not ("answer" in row or "conversations" in row):
            raise RecordError("unknown_schema", "expected a row with answer, or with conversations")
        found = unknown_fields(row, _RL if "answer" in row else _SFT)
        # Rows of the reinforcement part hold an answer; those of the other a chat.
        step = rl_step(row) if "answer" in row else sft_step(row, record, raw)
        found += unknown_fields(step.native, _ANSWER if "answer" in row else _SAID)
        # The file too: rows of two sources may be equal.
        name = record.native_id or digest({"file": record.file, **row})
        builder = EpisodeBuilder(
            self.descriptor,
            record,
            episode_id=name,
            instruction=step.instruction,
            platform=_platform(step.source),
            language="zh" if "chinese" in step.source.lower() else "en",
            split=_split(record.file),
        )
        # Rows are single steps of episodes that are nowhere whole.
        if step.follows:
            builder.gap("steps_before_are_rows_of_their_own")
        try:
            word, actions, lossy, rules = actions_of(step, self.space)
        except ItemError as error:
            builder.reject(error.reason, native=step.native, native_index=0, word=error.word, detail=error.detail)
        else:
            mapped = MappedAction(actions, word, lossy, rules, step.box)
            builder.take(mapped, step.native, 0, step.screen, thought=step.thought, step_instruction=step.said)
        return notices(builder.finish(), found)


def _name(row: Any) -> str | None:
    extra = row.get("extra_info")
    # Without the extra facts a row has no name of its own.
    named = isinstance(extra, Mapping) and extra
    parts = [row.get("data_source"), *(extra.get(name) for name in ("img_name", "step_id"))] if named else []
    return "/".join(map(str, parts)) if parts and all(isinstance(part, str | int) for part in parts) else None


def _split(file: str) -> str:
    name = file.rpartition("/")[2].lower()
    return "test" if "test" in name else "validation" if "val" in name else "train"


def _platform(source: str) -> str:
    found = _PLATFORMS.get(re.split(r"[^a-z0-9]", source.lower())[0])
    if found is None:
        raise RecordError("bad_value", f"data_source: expected one of the known sources, found {source[:60]!r}")
    return found
