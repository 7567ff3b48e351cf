"""GUIEnv-local (GUICourse): a text on a web page and its box, asked either way.

Raw rows (elements of `ocr_grounding_train_stage2_data.json`; pictures in `ocr_grounding_train_stage2_images.parquet`):

    {"uid": "uid_img_7_text2bbox_00", "image_id": "img_7", "image_size": {"width": 1920, "height": 1080},
     "task_type": "text2bbox", "question": "Contact us",
     "answer": {"absolute": ["<box>960, 54, 1152, 108</box>"], "related": ["<box>0.5, 0.05, 0.6, 0.1</box>"]}}
    {..., "task_type": "bbox2text", "question": {"absolute": "...", "related": "<box>0.5, 0.05, 0.6, 0.1</box>"},
     "answer": "Contact us"}

| native | unified |
|---|---|
| text2bbox, one box | grounding: the text → the centre of its box |
| text2bbox, several boxes | the same with the first box, lossy; all boxes are targets (the text is ambiguous) |
| bbox2text | perception: what is at the centre of the box → the text |

`related` (fractions) is read, never `absolute`. Splits follow the file's name.
"""

from functools import partial
from typing import Any

from pipelines.mapping.adapter import Adapter, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import SampleBuilder
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.items import ItemError, notices, unknown_fields
from pipelines.native import guicourse
from pipelines.native.record_readers import count_of, field_id, json_list
from schemas.coordinates import centre_in_units
from schemas.ids import digest

_KNOWN = frozenset({"uid", "image_id", "image_size", "task_type", "question", "answer"})
_OTHER = "other tasks"

DESCRIPTOR = Descriptor(
    id="guienv_local",
    title="GUIEnv-local (GUICourse)",
    licence="CC-BY-4.0",
    platforms=("web",),
    language="multi",
    objectives=("grounding", "perception"),
    size="about 0.7 million pairs of a text and a box",
    citation="Chen et al., GUICourse: From General Vision Language Model to Versatile GUI Agent, arXiv 2406.11317",
    frame="fractions of the picture (related), left, top, right, bottom",
    item_unit="question",
    known_problems=("fragments of recognised text, some of one letter", "several boxes for one text"),
    loss=(
        Loss("text2bbox", "grounding", "kept", "lossy with several boxes: the first is asked for"),
        Loss("bbox2text", "perception", "kept"),
        Loss(_OTHER, "-", "dropped", "unknown_action:<task_type>"),
    ),
    download=Download("yiye2023/GUIEnv", files=("ocr_grounding_*",)),
)


class GuienvLocalAdapter(Adapter):
    """One record per row."""

    descriptor = DESCRIPTOR
    version = 2
    patterns = (f"**/*{guicourse.DATA}",)
    reader = partial(json_list, of_id=field_id("uid"), count=count_of('"task_type"'))

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One row → one sample. Raises `RecordError("bad_value")`."""
        row: Any = record.payload
        if not isinstance(row, dict):
            raise RecordError("bad_value", f"expected an object, found {type(row).__name__}")
        builder = SampleBuilder(
            self.descriptor,
            record,
            record_id=record.native_id or digest(row),
            split=guicourse.split_of_file(record.file),
        )
        try:
            _map(builder, row, guicourse.screen_of(raw, record.file, row))
        except ItemError as error:
            word = error.word if error.word in ("text2bbox", "bbox2text") else _OTHER
            builder.reject(error.reason, native=row, native_index=0, word=word, detail=error.detail)
        return notices(builder.finish(), unknown_fields(row, _KNOWN))


def _map(builder: SampleBuilder, row: dict[str, Any], screen: RecordScreen) -> None:
    task = row.get("task_type")
    if task not in ("text2bbox", "bbox2text"):
        raise ItemError(f"unknown_action:{str(task)[:60]}", "task_type: expected text2bbox or bbox2text", _OTHER)
    # The same facts asked in both directions.
    said, place = (
        (row.get("question"), row.get("answer")) if task == "text2bbox" else (row.get("answer"), row.get("question"))
    )
    if not isinstance(said, str):
        raise ItemError("missing_field", f"expected a text, found {said!r:.60}", task)
    listed = guicourse.related(place, task)
    boxes = [guicourse.unit_box(tag, task) for tag in (listed if isinstance(listed, list) else [listed])]
    if not boxes or (task == "bbox2text" and len(boxes) > 1):
        raise ItemError("bad_value", f"{task}: found {len(boxes)} boxes", task)
    if task == "bbox2text":
        builder.region(said, boxes[0], screen, 0, task)
    elif len(boxes) == 1:
        builder.grounding(said, boxes[0], screen, 0, task)
    elif not said.strip():
        raise ItemError("empty_text", "the expression is empty", task)
    else:
        # One expression for several boxes: any of them is right, so the first stands for all.
        at, rules = centre_in_units(boxes[0]), ["centre_of_first_box", "several_boxes"]
        builder.point(said, at, screen, 0, task, lossy=True, target_boxes=boxes, rules=rules)
