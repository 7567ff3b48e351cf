"""GUIAct web-multi (GUICourse): tasks of several steps on web pages, in Chinese and English.

A raw row, one step (element of `web-multi_train_data.json`; pictures in `web-multi_train_images.parquet`):

    {"uid": "uid_record_00001_step_01", "image_id": "uid_record_00001_step_01", "image_size": {"width": 1280, ...},
     "question": "Find the opening hours", "actions_history": "step 0: hover", "logs": "", "thoughts": "",
     "actions_label": [{"name": "click", "element": {"related": "<box>0.1, 0.2, 0.3, 0.4</box>", ...},
                        "point": {"absolute": "...", "related": "<point>0.2, 0.3</point>"}}]}

| native | unified |
|---|---|
| click, hover, input, enter, scroll, select, select_text, copy | as in guiact_web_single; `point` before the box |
| answer, the last action | `Finished(text)` |
| answer before it | `CallUser(text)` |

An episode is a run of rows with one id and one question, in the order of their steps: 24 ids name two tasks each, and
ids repeat between train and test. The history says which step a row is; where steps before it have no row, the gap is
marked (rule `steps_missing_in_source`). Actions of one row share its picture. Two equal clicks are two clicks.
"""

from dataclasses import replace
from typing import Any

from pipelines.mapping.adapter import Adapter, Mapped, Raw, Record
from pipelines.mapping.builders import EpisodeBuilder
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.items import ItemError, notices, unknown_fields
from pipelines.native import guicourse
from pipelines.native.guicourse import OTHER
from schemas.action_types import ActionSpace
from schemas.actions import CallUser

DESCRIPTOR = Descriptor(
    id="guiact_web_multi",
    title="GUIAct web-multi (GUICourse)",
    licence="CC-BY-4.0 (README) or apache-2.0 (tag)",
    platforms=("web",),
    language="multi",
    size="5,696 tasks (5,694 distinct ids)",
    citation="Chen et al., GUICourse: From General Vision Language Model to Versatile GUI Agent, arXiv 2406.11317",
    frame="fractions of the picture (related), x first, origin top left",
    record_unit="episode",
    known_problems=(
        "most test episodes miss steps that their history names",
        "24 ids are used for two tasks each; ids repeat between train and test",
        "scrolls by nothing, and a few coordinates outside the picture",
        "an answer in mid-episode (11 train episodes)",
    ),
    loss=(
        *guicourse.WEB_LOSSES,
        Loss("answer", "Finished, CallUser", "kept", "CallUser before the last action"),
        *guicourse.OTHER_LOSSES,
    ),
    download=Download("yiye2023/GUIAct", files=("web-multi_*",)),
)


class GuiactWebMultiAdapter(Adapter):
    """One record per episode."""

    descriptor = DESCRIPTOR
    version = 2
    patterns = (f"**/*{guicourse.DATA}",)
    reader = guicourse.episodes

    def count_items(self, record: Record) -> int:
        """Actions of all rows; a row without a list of them is one item."""
        return _count(record.payload) if isinstance(record.payload, list) else 1

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One episode → step rows. Raises `RecordError`: bad_value, missing_field, empty_text."""
        rows: list[Any] = record.payload
        items = _count(rows)
        builder = guicourse.builder_of(self.descriptor, record, items)
        found: list[tuple[str, str, Any]] = []
        number = 0
        for _, row in guicourse.steps_of(builder, rows):
            found += unknown_fields(row, guicourse.ROW)
            number = _row(builder, raw, record, row, number, items, self.space)
        return notices(builder.finish(), found)


def _count(rows: list[Any]) -> int:
    return sum(len(listed) if isinstance(listed := _label(row), list) else 1 for row in rows)


def _label(row: object) -> Any:
    return row.get("actions_label") if isinstance(row, dict) else None


def _row(
    builder: EpisodeBuilder, raw: Raw, record: Record, row: dict[str, Any], number: int, items: int, space: ActionSpace
) -> int:
    """Add or reject the actions of a row; `number` = native actions before it. Returns the number after it."""
    actions = _label(row)
    if not isinstance(actions, list):
        builder.reject(
            "missing_field",
            native=row.get("uid"),
            native_index=number,
            word=OTHER,
            detail=f"actions_label: expected a list, found {actions!r:.60}",
        )
        return number + 1
    if not actions:  # 38 one-step episodes are like this
        builder.reject(
            "missing_field",
            native=row.get("uid"),
            native_index=number,
            word=OTHER,
            items=0,
            detail="actions_label is empty",
        )
        return number
    screen = guicourse.screen_of(raw, record.file, row)
    thought = row.get("thoughts")
    thought = thought if isinstance(thought, str) and thought.strip() else None
    for place, action in enumerate(actions):
        native = {"uid": row.get("uid"), "action": action}
        try:
            mapped = guicourse.web_action(action, space, bool(place))
        except ItemError as error:
            builder.reject(error.reason, native=native, native_index=number, word=error.word, detail=error.detail)
        else:
            # An answer in the middle is a message to the user, and only the last one ends the task.
            last = number == items - 1
            if mapped.word == "answer" and not last:
                mapped = replace(mapped, actions=[CallUser(action["text"])])
            builder.take(mapped, native, number, screen, thought=thought)
            # Said once, before the first action of the row.
            thought = None
        number += 1
    return number
