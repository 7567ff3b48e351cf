"""ScreenQA Complex: questions on Rico screens that ask for counting, arithmetic or comparison.

Link: https://github.com/google-research-datasets/screen_qa (folder `complex_qa`)

A raw row (element of the JSON list `data.json`; made up):

    {"image_id": 5, "question": "How many exercises are left?", "ground_truth": ["10"]}

| native | unified |
|---|---|
| question, ground_truth | a vqa sample; the one answer as text, numbers too |

The file has no split. A screen that a list names (`split/{train,dev,test}.txt` of the raw folder or of the companion
`rico`, an id a line: the test screens of ScreenQA and Screen2Words belong there) gets that split, the others are train.
Pictures come from the companion (`combined/<image_id>.jpg`); without it the samples have no picture.
"""

from pipelines.mapping.adapter import Adapter, Mapped, Raw, Record
from pipelines.mapping.card import Descriptor, Loss
from pipelines.mapping.items import id_text
from pipelines.native import rico, screenqa_rows
from pipelines.native.screenqa_rows import UNANSWERED, WORD

DESCRIPTOR = Descriptor(
    id="screenqa_complex",
    title="ScreenQA Complex",
    origin="https://github.com/google-research-datasets/screen_qa",
    licence="CC-BY-4.0",
    platforms=("mobile",),
    objectives=("vqa",),
    size="11,781 questions over 10,286 screens",
    citation="Hsiao et al., ScreenQA: Large-Scale Question-Answer Pairs over Mobile App Screenshots, arXiv 2209.08199",
    frame="none: text only",
    item_unit="question",
    known_problems=(
        "a model wrote the questions and answers, raters checked them",
        "61 pairs of screen and question stand there twice",
        "no split: without lists of held-out screens it overlaps the test screens of ScreenQA and Screen2Words",
    ),
    loss=(
        Loss(WORD, "vqa sample", "kept"),
        Loss(UNANSWERED, "vqa sample", "kept", "refused in words; none is known in this set"),
    ),
    companions=(rico.COMPANION,),
)


class ScreenqaComplexAdapter(Adapter):
    """One record per question."""

    descriptor = DESCRIPTOR
    side_lists = (rico.SPLIT_LISTS,)
    patterns = ("**/*.json",)
    reader = screenqa_rows.rows

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One question → one vqa sample. Raises `RecordError`."""
        row = record.payload
        split = rico.listed_split(raw, id_text(row.get("image_id"))) if isinstance(row, dict) else None
        return screenqa_rows.map_texts(self.descriptor, record, raw, split or "train")
