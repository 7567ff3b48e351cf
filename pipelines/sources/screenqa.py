"""ScreenQA (original, with boxes): questions on Rico screens, answered by several raters who boxed the evidence.

Link: https://github.com/google-research-datasets/screen_qa (folder `answers_and_bboxes`)

A raw row (element of the JSON list `train.json`, `validation.json` or `test.json`; two more raters left out):

    {"image_id": 5, "image_width": 1080, "image_height": 1920, "question": "How many exercises in total ...?",
     "ground_truth": [{"full_answer": "There are 12 exercises in total to do.",
                       "ui_elements": [{"text": "12", "bounds": [509, 116, 569, 169], "vh_index": -1}]}]}

| native | unified |
|---|---|
| question, full_answer | a vqa sample |
| ui_elements | a grounding sample "the answer to ...": answer = centre of the first box, all boxes are targets |
| the raters | one is taken: the first who boxed something usable, for answer and boxes alike |
| no rater boxed anything | the first rater's answer as vqa, and the grounding answer `[-1,-1]`, marked lossy |

One row is one item, whatever number of samples it makes. The boxes are evidence for the answer, not click targets,
and name only a part of the screen: they don't enter `screens.elements`. Pictures come from the companion `rico`
(`combined/<image_id>.jpg`); without it the samples have no picture (`image_missing`).
"""

from typing import Any

from pipelines.mapping.adapter import Adapter, Mapped, Raw, Record, RecordError
from pipelines.mapping.builders import SampleBuilder
from pipelines.mapping.card import Descriptor, Loss
from pipelines.mapping.frames import fitting_screen, whole_sides
from pipelines.mapping.items import notices, unknown_fields
from pipelines.native import rico, screenqa_rows
from pipelines.native.named_boxes import unit_box
from pipelines.native.screenqa_rows import WORD
from pipelines.prompts import REFUSAL, grounding_text
from schemas.coordinates import ScreenBox, centre_in_units
from schemas.ids import digest

_KNOWN = frozenset({"image_id", "image_width", "image_height", "question", "ground_truth"})

DESCRIPTOR = Descriptor(
    id="screenqa",
    title="ScreenQA",
    origin="https://github.com/google-research-datasets/screen_qa",
    licence="CC-BY-4.0",
    platforms=("mobile",),
    objectives=("vqa", "grounding"),
    size="68,951 / 8,614 / 8,419 questions (train / validation / test) over 35,352 screens",
    citation="Hsiao et al., ScreenQA: Large-Scale Question-Answer Pairs over Mobile App Screenshots, arXiv 2209.08199",
    frame="pixels of the JPEG (image_width x image_height), left, top, right, bottom, origin top left",
    item_unit="question",
    known_problems=(
        "raters make typing errors, and their boxes differ by some pixels",
        "about 4 % of the answers have no boxes",
        "about 44 % of the boxes are drawn by hand (vh_index -1)",
    ),
    loss=(
        Loss(WORD, "vqa and grounding sample", "kept", "lossy where no rater boxed an element: grounding is a refusal"),
        Loss(
            "ground_truth of the other raters",
            "-",
            "lossy",
            "one rater is taken, not three rows; they stay in the raw file",
        ),
        Loss("ui_elements.text, vh_index", "-", "lossy", "no column for them; they stay in the raw file"),
    ),
    companions=(rico.COMPANION,),
)


class ScreenqaAdapter(Adapter):
    """One record per question."""

    descriptor = DESCRIPTOR
    version = 2
    patterns = ("**/*.json",)
    reader = screenqa_rows.rows

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One question → a vqa and (if its evidence is usable) a grounding sample. Raises `RecordError`."""
        row = record.payload
        question, raters = screenqa_rows.asked(row)
        frame, identifier = _frame(row), screenqa_rows.image_id(row)
        found = unknown_fields(row, _KNOWN)
        answer, boxes, boxed = _pick(raters, frame, found)
        screen = fitting_screen(rico.picture(raw, identifier), frame)
        builder = SampleBuilder(
            self.descriptor,
            record,
            record_id=screenqa_rows.row_id(row) or digest(row),
            # Splits are files.
            split=rico.file_split(record.file),
        )
        builder.sample(
            "vqa",
            question,
            answer,
            screen,
            0,
            WORD,
            lossy=not boxed,
            rules=["first_rater_with_elements" if boxes else "first_rater"],
        )
        # The question as an expression: where its answer stands.
        asked = f'the answer to "{question.strip().rstrip("?")}"'
        if boxes:
            at, rules = centre_in_units(boxes[0]), ["centre_of_first_box", "first_rater_with_elements"]
            builder.point(asked, at, screen, 0, WORD, k=1, target_boxes=boxes, rules=rules, count=False)
        elif not boxed:
            # All raters agree that nothing shows it, so nothing can be pointed at.
            rules, said = ["no_rater_boxed_anything"], grounding_text(asked)
            builder.sample("grounding", said, REFUSAL, screen, 0, WORD, k=1, lossy=True, rules=rules, count=False)
        return notices(builder.finish(), found)


def _frame(row: dict[str, Any]) -> tuple[int, int]:
    width, height = row.get("image_width"), row.get("image_height")
    size = whole_sides((width, height))
    if size is None:
        raise RecordError(
            "bad_frame", f"image_width, image_height: expected positive ints, found {width!r}, {height!r}"
        )
    return size


def _pick(
    raters: list[object], frame: tuple[int, int], found: list[tuple[str, str, Any]]
) -> tuple[str, list[ScreenBox], bool]:
    """Answer and boxes of one rater, and whether any rater boxed anything. Raises `RecordError`."""
    answers: list[str] = []
    boxed = False
    for place, rater in enumerate(raters):
        answer, listed = (
            (rater.get("full_answer"), rater.get("ui_elements")) if isinstance(rater, dict) else (None, None)
        )
        if not isinstance(answer, str) or not isinstance(listed, list):
            raise RecordError("missing_field", f"rater {place}: expected full_answer and ui_elements")
        # A rater who wrote nothing had no answer.
        if not answer.strip():
            continue
        answers.append(answer)
        boxed = boxed or bool(listed)
        boxes = _boxes(listed, frame, place, found)
        if boxes:
            return answer, boxes, True
    if not answers:
        raise RecordError("empty_text", "no rater wrote an answer")
    return answers[0], [], boxed


def _boxes(listed: list[Any], frame: tuple[int, int], place: int, found: list[tuple[str, str, Any]]) -> list[ScreenBox]:
    """Boxes of one rater in 0..1000; none of them if one is off the screen or has no area (noted as bad_box)."""
    boxes: list[ScreenBox] = []
    for element in listed:
        try:
            left, top, right, bottom = element["bounds"]
            boxes.append(unit_box([left, top, right, bottom], frame, WORD))
        except (KeyError, TypeError, ValueError) as error:
            found.append(("bad_box", f"rater {place}: {type(error).__name__}: {error}", element))
            # One wrong box makes the others doubtful.
            return []
    return boxes
