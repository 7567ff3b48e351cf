"""MultiUI: captions, questions, titles and groundings on a million rendered web pages, made from accessibility trees.

A raw element of the array `stage1_data.json` (made up); the task stands in the id:

    {"id": "v4_50K_10_element_ground_bbox_12", "image": "12/a.png", "conversations": [
        {"from": "human", "value": "<image>\\nWhere is the element \\"Sign in\\"? Answer with a box."},
        {"from": "gpt", "value": "[0.1, 0.2, 0.3, 0.4]"}]}

| task in the id | unified |
|---|---|
| element_ground_bbox, action_ground_bbox | "Where is <what is quoted, or follows a colon>?" → centre of the box |
| the same with `_none_of_above` | refusal `[-1,-1]` |
| meta_generate, embed_caption, long_text_OCR, title_identification | perception: the question → the answer |
| webqa, embed_qa | vqa: the question → the answer |
| element_ground, action_ground | quarantined: `no_counterpart` (an option letter on a picture with drawn marks) |
| action_prediction | quarantined: `no_counterpart` (a choice among written options) |
| any other task | quarantined: `unknown_action:<id without its digits>` |
"""

import re
from functools import partial
from typing import Any

from pipelines.mapping.adapter import Adapter, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import SampleBuilder
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.items import ItemError, is_text, notices, unknown_fields
from pipelines.native.chat import exchanges, turns, without_pictures
from pipelines.native.named_boxes import unit_box
from pipelines.native.record_readers import field_id, json_list
from pipelines.prompts import REFUSAL, grounding_text

_KNOWN = frozenset({"id", "image", "conversations"})
BOXED = ("element_ground_bbox", "action_ground_bbox")
TOLD = {
    "meta_generate": "perception",
    "embed_caption": "perception",
    "long_text_OCR": "perception",
    "title_identification": "perception",
    "webqa": "vqa",
    "embed_qa": "vqa",
}
MARKED = ("element_ground", "action_ground", "action_prediction")
_BOX = re.compile(r"\[\s*(-?[\d.]+)\s*,\s*(-?[\d.]+)\s*,\s*(-?[\d.]+)\s*,\s*(-?[\d.]+)\s*\]")
_QUOTED = re.compile(r"[\"“](?P<what>[^\"”\n]{1,300})[\"”]")
_COLON = re.compile(r":\s*(?P<what>[^\n:]{1,300})\s*$")

DESCRIPTOR = Descriptor(
    id="multiui",
    title="MultiUI",
    licence="not stated (UNCONFIRMED, gated)",
    platforms=("web",),
    objectives=("perception", "vqa", "grounding"),
    size="7.29 million samples of a million pages",
    citation="Liu et al., Harnessing Webpage UIs for Text-Rich Visual Understanding, arXiv 2410.13824",
    frame="fractions 0..1 of the picture, left, top, right, bottom",
    item_unit="question",
    known_problems=(
        "texts are written by a model from accessibility trees",
        "option-letter tasks show pictures with drawn marks",
        "what is asked for must be parsed out of a prompt template",
    ),
    loss=(
        *(Loss(task, "grounding sample", "kept", "none_of_above is a refusal") for task in BOXED),
        *(Loss(task, f"{objective} sample", "kept") for task, objective in TOLD.items()),
        *(Loss(task, "-", "dropped", "no_counterpart: options, or marks drawn into the picture") for task in MARKED),
        Loss("?", "-", "dropped", "unknown_action: a task never seen; or no question and answer"),
    ),
    download=Download("neulab/MultiUI", files=("*.json",)),
)


class MultiuiAdapter(Adapter):
    """One record per row."""

    descriptor = DESCRIPTOR
    version = 2
    patterns = ("**/*.json",)
    reader = partial(json_list, of_id=field_id("id"))

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One row → one sample. Raises `RecordError`: missing_field, unsafe_path."""
        row = record.payload
        if not isinstance(row, dict) or record.native_id is None or not isinstance(row.get("image"), str):
            raise RecordError("missing_field", "expected id, image and conversations")
        pairs = exchanges(turns(row.get("conversations")))
        builder = SampleBuilder(self.descriptor, record)
        screen = RecordScreen.load(raw.read_if_there(row["image"]), normalised=True)
        try:
            _map(builder, record.native_id, pairs, screen)
        except ItemError as error:
            builder.reject(error.reason, native=row, native_index=0, word=error.word, detail=error.detail)
        return notices(builder.finish(), unknown_fields(row, _KNOWN))


def _map(builder: SampleBuilder, identifier: str, pairs: list[tuple[str, str]], screen: RecordScreen) -> None:
    task, none = _task(identifier)
    if len(pairs) != 1:
        raise ItemError("bad_value", f"expected one question with its answer, found {len(pairs)}", task)
    asked, answer = without_pictures(pairs[0][0]), pairs[0][1].strip()
    if not asked or not answer:
        raise ItemError("empty_text", "the question or its answer is empty", task)
    if not (is_text(asked) and is_text(answer)):
        raise ItemError("bad_value", "text that is not Unicode", task)
    if task in MARKED:
        raise ItemError("no_counterpart", "options, or marks drawn into the picture", task)
    if task in TOLD:
        builder.sample(TOLD[task], asked, answer, screen, 0, task)
        return
    what = _wanted(asked, task)
    if none:
        builder.sample("grounding", grounding_text(what), REFUSAL, screen, 0, task, rules=["none_of_above_refuses"])
        return
    box = _BOX.search(answer)
    if box is None:
        raise ItemError("bad_value", f"expected a box, found {answer[:60]!r}", task)
    builder.grounding(what, unit_box([float(side) for side in box.groups()], (1.0, 1.0), task), screen, 0, task)


def _task(identifier: str) -> tuple[str, bool]:
    """(task, whether it is its none-of-above form). Raises `ItemError`. The longest name that the id holds counts."""
    none = "none_of_above" in identifier
    # Longer names first, as some hold others.
    for task in sorted((*BOXED, *TOLD, *MARKED), key=len, reverse=True):
        if re.search(rf"(?:^|_){task}(?:_|$)", identifier):
            return task, none
    # Without its numbers, so that one word stands for all rows of a kind.
    shown = re.sub(r"\d+", "", identifier)[:60]
    raise ItemError(f"unknown_action:{shown}", "the id names no known task", "?")


def _wanted(asked: str, task: str) -> str:
    """What is asked for: the last quoted words, else what follows the last colon. Raises `ItemError`."""
    # The words before it may quote as well.
    quoted = _QUOTED.findall(asked)
    found: Any = quoted[-1] if quoted else (match["what"] if (match := _COLON.search(asked)) else None)
    if not isinstance(found, str) or not found.strip():
        raise ItemError("bad_value", f"nothing is quoted and nothing follows a colon: {asked[:80]!r}", task)
    return found.strip()
