"""What the three ScreenQA sets share: rows by stream, ids of questions, and questions with answers of text alone."""

from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.mapping.adapter import Broken, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import SampleBuilder
from pipelines.mapping.card import Descriptor
from pipelines.mapping.items import is_text, notices, unknown_fields, whole_number
from pipelines.native import rico
from pipelines.native.record_readers import count_of, json_list
from schemas.ids import digest

WORD = "question"
UNANSWERED = "question/<no answer>"
NO_ANSWER = "<no answer>"
"""The native text for a question that the screen doesn't answer."""
REFUSAL_ANSWER = "The screen does not say."
"""What is answered instead: the native mark is no sentence."""

_KNOWN = frozenset({"image_id", "question", "ground_truth"})


def rows(raw: Raw, file: str) -> Iterator[Record | Broken]:
    """One question at a time, off the stream; it ends where the file is damaged."""
    return json_list(raw, file, of_id=row_id, count=count_of('"question"'))


def row_id(row: object) -> str | None:
    """The source numbers screens, not questions: screen and the question's digest."""
    if not isinstance(row, dict) or not isinstance(row.get("question"), str):
        return None
    if (screen := whole_number(row.get("image_id"))) is None:
        return None
    # A screen has several questions.
    return f"{screen}-{digest(row['question'])[:12]}"


def asked(row: object) -> tuple[str, list[Any]]:
    """Question and ground truth (not empty). Raises `RecordError`: bad_value, missing_field, empty_text."""
    if not isinstance(row, dict):
        raise RecordError("bad_value", f"expected an object, found {type(row).__name__}")
    question, truth = row.get("question"), row.get("ground_truth")
    if not isinstance(question, str) or not isinstance(truth, list) or not truth:
        raise RecordError("missing_field", "expected question and a ground_truth list that isn't empty")
    if not question.strip():
        raise RecordError("empty_text", "the question is empty")
    return question, truth


def image_id(row: Mapping[str, object]) -> str:
    """Id of the screen; these sets write it as a number. Raises `RecordError("unsafe_path")`."""
    return rico.screen_id(whole_number(row.get("image_id")))


def map_texts(descriptor: Descriptor, record: Record, raw: Raw, split: str) -> Mapped:
    """A question whose ground truth is a list of texts → a vqa sample: the first answer; the others stand as `or: …`
    in provenance. `<no answer>` alone becomes a refusal in words, beside an answer it is one of the others."""
    row = record.payload
    question, truth = asked(row)
    identifier = image_id(row)
    if not all(isinstance(text, str) and is_text(text) for text in [question, *truth]):
        raise RecordError("bad_value", "expected question and ground_truth as text")
    given = [text.strip() for text in truth if text.strip()]
    # "no answer" beside an answer is one rater's opinion.
    answers = [text for text in given if text != NO_ANSWER]
    if not given:
        raise RecordError("empty_text", "all answers are empty")
    screen = RecordScreen.load(rico.picture(raw, identifier), normalised=True)
    builder = SampleBuilder(descriptor, record, record_id=row_id(row) or digest(row), split=split)
    if answers:
        # Other answers are kept, as scoring may accept any of them.
        others = [f"or: {text}" for text in given if text != answers[0]]
        builder.sample("vqa", question, answers[0], screen, 0, WORD, rules=["first_answer", *others])
    else:
        builder.sample("vqa", question, REFUSAL_ANSWER, screen, 0, UNANSWERED, rules=["no_answer_on_screen"])
    return notices(builder.finish(), unknown_fields(row, _KNOWN))
