"""ScreenQA Short: the questions of ScreenQA with short answers, several wordings of one answer each.

Link: https://github.com/google-research-datasets/screen_qa (folder `short_answers`)

A raw row (element of the JSON list `train.json`, `validation.json` or `test.json`; made up):

    {"image_id": 5, "question": "How many exercises are there?", "ground_truth": ["12", "12 exercises"]}

| native | unified |
|---|---|
| question, ground_truth | a vqa sample: the first answer that isn't `<no answer>`; the others stand in provenance |
| question whose only answer is `<no answer>` | a vqa sample, refused in words ("The screen does not say.") |

The boxes of the same questions are in `screenqa`. Pictures come from the companion `rico` (`combined/<image_id>.jpg`);
without it the samples have no picture (`image_missing`). The split is the file's name.
"""

from pipelines.mapping.adapter import Adapter, Mapped, Raw, Record
from pipelines.mapping.card import Descriptor, Loss
from pipelines.native import rico, screenqa_rows
from pipelines.native.screenqa_rows import UNANSWERED, WORD

DESCRIPTOR = Descriptor(
    id="screenqa_short",
    title="ScreenQA Short",
    origin="https://github.com/google-research-datasets/screen_qa",
    licence="CC-BY-4.0",
    platforms=("mobile",),
    objectives=("vqa",),
    size="68,951 / 8,614 / 8,419 questions (train / validation / test)",
    citation="Hsiao et al., ScreenQA: Large-Scale Question-Answer Pairs over Mobile App Screenshots, arXiv 2209.08199",
    frame="none: text only",
    item_unit="question",
    known_problems=(
        "a model wrote the answers from the raters' data",
        "the same questions as screenqa, in the same order",
    ),
    loss=(
        Loss(WORD, "vqa sample", "kept", "the first answer; the other wordings stand in provenance"),
        Loss(UNANSWERED, "vqa sample", "kept", "the only answer is <no answer>: refused in words"),
    ),
    companions=(rico.COMPANION,),
)


class ScreenqaShortAdapter(Adapter):
    """One record per question."""

    descriptor = DESCRIPTOR
    patterns = ("**/*.json",)
    reader = screenqa_rows.rows

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One question → one vqa sample. Raises `RecordError`."""
        return screenqa_rows.map_texts(self.descriptor, record, raw, rico.file_split(record.file))
