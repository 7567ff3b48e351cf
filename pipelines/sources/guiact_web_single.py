"""GUIAct web-single (GUICourse): one instruction on one web page → one or more actions.

A raw row (element of `web-single_train_data.json`; pictures in `web-single_train_images.parquet`, PNG as base64):

    {"uid": "uid_image_<uuid>_qa_01", "image_id": "<uuid>", "image_size": {"width": 1920, "height": 1200},
     "question": "Open the basket", "actions_history": [], "logs": [], "thoughts": "click on the 'Basket' link",
     "actions_label": [{"name": "click", "element": {"id": 3, "absolute": "<box>900, 17, 967, 55</box>",
                        "related": "<box>0.879, 0.022, 0.944, 0.072</box>"}}]}

| native | unified |
|---|---|
| click, hover | `Click`, `Hover` at the centre of `related` |
| input | `Type`; with an element `Click`, `Type` |
| enter | `PressEnter` |
| scroll | `Scroll(direction)` from the signs of down and right (the page moves there) |
| select | `Click`, `Type(text)`, lossy: the box is the list's, not the option's. Under v2 `SelectOption` |
| select_text | `Drag` |
| copy | `Hotkey(ctrl, c)` |
| answer | `Finished(text)` |

`absolute` contradicts the picture's size in real records: only `related` is read. A row is an episode of one picture
(rows that share a picture are independent); its actions share the screen.
"""

from functools import partial
from typing import Any

from pipelines.mapping.adapter import Adapter, Mapped, Raw, Record, RecordError
from pipelines.mapping.builders import EpisodeBuilder
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.items import ItemError, notices, unknown_fields
from pipelines.native import guicourse
from pipelines.native.record_readers import count_of, field_id, json_list
from schemas.ids import digest

DESCRIPTOR = Descriptor(
    id="guiact_web_single",
    title="GUIAct web-single (GUICourse)",
    licence="CC-BY-4.0 (README) or apache-2.0 (tag)",
    platforms=("web",),
    size="67,660 rows in train and test",
    citation="Chen et al., GUICourse: From General Vision Language Model to Versatile GUI Agent, arXiv 2406.11317",
    frame="fractions of the picture (related), x first, origin top left",
    known_problems=(
        "absolute boxes contradict the size of the picture",
        "names in upper case occur (Click)",
        "related scroll amounts are rounded to 0: the sign of the absolute one is taken",
        "up to twelve independent questions on one picture",
    ),
    loss=(*guicourse.WEB_LOSSES, Loss("answer", "Finished", "kept"), *guicourse.OTHER_LOSSES),
    download=Download("yiye2023/GUIAct", files=("web-single_*",)),
)


class GuiactWebSingleAdapter(Adapter):
    """One record per row."""

    descriptor = DESCRIPTOR
    version = 2
    items_at = ("actions_label",)
    patterns = (f"**/*{guicourse.DATA}",)
    reader = partial(json_list, of_id=field_id("uid"), count=count_of('"name"'))

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One row → step rows. Raises `RecordError`: bad_value, missing_field, empty_text."""
        row: Any = record.payload
        actions = row.get("actions_label") if isinstance(row, dict) else None
        items = len(actions) if isinstance(actions, list) else 1
        question = guicourse.question_of(row, items)
        if not isinstance(actions, list):
            raise RecordError("missing_field", f"actions_label: expected a list, found {actions!r:.60}")
        if not actions:
            raise RecordError("missing_field", "actions_label is empty", items=0)
        builder = EpisodeBuilder(
            self.descriptor,
            record,
            episode_id=record.native_id or digest(row),
            instruction=question,
            split=guicourse.split_of_file(record.file),
        )
        # All actions of the row share one picture: only the first is sure to be taken on it.
        screen = guicourse.screen_of(raw, record.file, row)
        thought = row.get("thoughts")
        thought = thought if isinstance(thought, str) and thought.strip() else None
        for place, action in enumerate(actions):
            try:
                mapped = guicourse.web_action(action, self.space, bool(place))
            except ItemError as error:
                builder.reject(error.reason, native=action, native_index=place, word=error.word, detail=error.detail)
                continue
            builder.take(mapped, action, place, screen, thought=thought)
            # Said once, before the first action.
            thought = None
        return notices(builder.finish(), unknown_fields(row, guicourse.ROW))
