"""ms-swift: JSON lines with `<image>` in the texts and pictures by path; grounding with its `objects`."""

import re

from pipelines.exports.form import ExportForm
from pipelines.exports.records import MARKS, Sample, marked_turns

SWIFT_MARKS = (*MARKS, "<bbox>", "<ref-object>", "<cot-process>", "<start-image>")
_NOTHING = [0.0, 0.0, 1.0, 1.0]
"""The box of a row whose texts refer to none. Every row has `objects` of one type: `datasets` takes the columns of a
file from its first 10 MB, and refuses what comes later and isn't among them."""
_AIM = re.compile(r"\[(\d{1,4}),(\d{1,4})(?:,(\d{1,4}),(\d{1,4}))?\]")


def _line(sample: Sample) -> dict[str, object]:
    """A point or box as an answer becomes `<bbox>`, which ms-swift writes in the frame that its model counts in."""
    turns = marked_turns(sample.turns, SWIFT_MARKS)
    sides = _NOTHING
    aim = _AIM.fullmatch(sample.answer) if sample.group.objective == "grounding" else None
    if aim is not None and len(sample.pictures) == 1:
        turns[-1]["content"] = "<bbox>"
        # In 0..1 (`norm1`), from our 0..1000.
        sides = [int(side) / 1000 for side in aim.groups() if side is not None]
    objects = {"ref": [], "bbox": [sides], "bbox_type": "norm1"}
    images = [picture.path for picture in sample.pictures]
    return {"messages": turns, "images": images, "objects": objects, **sample.about}


FORM = ExportForm(
    name="ms-swift",
    loader="ms-swift",
    files="data/{split}-{part}.jsonl",
    row=_line,
    loading="cd 'THIS FOLDER' && swift sft --model MODEL --dataset data/train-*.jsonl",
    language="bash",
    notes="Paths of pictures are relative to this folder: run `swift` in it. A grounding answer `[250,140]` stands as "
    "`<bbox>` with `objects` (`norm1`), which ms-swift writes in the notation and frame of the model that it trains; "
    "in other rows nothing refers to the box.",
    loose_pictures=True,
    version="2",
)
