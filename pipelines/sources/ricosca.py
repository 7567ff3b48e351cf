"""RicoSCA: machine-made commands for elements of Rico screens, as flat rows of picture, command and box.

Link: https://github.com/google-research/google-research/tree/master/seq2act (the form: github.com/njucckevin/SeeClick)

A raw row (element of the JSON list `ricosca.json`; made up):

    {"img_filename": "123.jpg", "instruction": "select icon below zip code:", "bbox": [0.46, 0.45, 0.56, 0.49]}

| native | unified |
|---|---|
| instruction, bbox | grounding sample: where is <instruction without its verb>? → centre; the box is the target |
| instruction to swipe, flip or scroll, or to type into a field | rejected (`no_counterpart`): no place named |

`bbox` is left, top, right, bottom in 0..1. Pictures come from the companion `rico` by the number in the file name.
The rows have no split: screens that a list names (`split/{train,dev,test}.txt` of the raw folder or the companion) get
that one, the others are train. The chat form of the set (points without boxes) is refused: `unknown_schema`.
"""

import re
from functools import partial

from pipelines.derivers.grounding import expression as pointed_at
from pipelines.mapping.adapter import Adapter, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import SampleBuilder
from pipelines.mapping.card import Descriptor, Loss
from pipelines.mapping.items import ItemError, notices, refusing, text_of, unknown_fields
from pipelines.native import rico
from pipelines.native.named_boxes import unit_box
from pipelines.native.record_readers import count_of, json_list
from schemas.ids import digest

WORD = "instruction"
GESTURE = "instruction/gesture"
_KNOWN = frozenset({"img_filename", "instruction", "bbox"})
_GESTURE = re.compile(
    r"\s*(?:(?:swipe|flip|scroll)\b|(?:type|enter|input|write|put)\b.+\b(?:in|into|to|on|at)\b)", re.IGNORECASE
)

DESCRIPTOR = Descriptor(
    id="ricosca",
    title="RicoSCA",
    origin="https://github.com/google-research/google-research/tree/master/seq2act",
    licence="Rico's terms (research use)",
    platforms=("mobile",),
    objectives=("grounding",),
    size="295,476 commands for 177,962 elements of 25,677 screens; flat copies hold about 173,000",
    citation="Li et al., Mapping Natural Language Instructions to Mobile UI Action Sequences, arXiv 2005.03776",
    frame="0..1 of the picture, left, top, right, bottom, origin top left",
    item_unit="instruction",
    known_problems=(
        "templates wrote the commands, often relative to another text",
        "boxes come from Rico's view hierarchy and may be off the drawn element",
        "no split: without lists of held-out screens it overlaps the test screens of ScreenQA and Screen2Words",
    ),
    loss=(
        Loss(WORD, "grounding sample", "kept", "a leading verb is left out, the words stay in provenance"),
        Loss(GESTURE, "-", "dropped", "no_counterpart: swipe, flip, scroll, typing; none names a place to point at"),
        Loss("instruction/bad", "-", "dropped", "bad_value, bad_box or off_screen: no usable box"),
    ),
    companions=(rico.COMPANION,),
)


class RicoscaAdapter(Adapter):
    """One record per command."""

    descriptor = DESCRIPTOR
    version = 2
    side_lists = (rico.SPLIT_LISTS,)
    patterns = ("**/*.json",)
    reader = partial(json_list, count=count_of('"instruction"'))
    """One command at a time. The rows have no id."""

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One command → one grounding sample. Raises `RecordError`."""
        row = record.payload
        if not isinstance(row, dict):
            raise RecordError("bad_value", f"expected an object, found {type(row).__name__}")
        if "conversations" in row:
            raise RecordError("unknown_schema", "the chat form; expected img_filename, instruction, bbox")
        with refusing(1):
            words, name = (text_of(row, field, "instruction") for field in ("instruction", "img_filename"))
        identifier = rico.screen_id(rico.id_of_file(name))
        split = rico.listed_split(raw, identifier) or "train"
        builder = SampleBuilder(self.descriptor, record, record_id=digest(row), split=split)
        said = pointed_at(words)
        try:
            # A swipe, for one, happens anywhere.
            if _GESTURE.match(words):
                raise ItemError("no_counterpart", "the command names no place to point at", GESTURE)
            box = unit_box(row.get("bbox"), (1.0, 1.0), "instruction/bad")
            screen = RecordScreen.load(rico.picture(raw, identifier), normalised=True)
            rules = [f"verb left out of: {words}"] if said else []
            builder.grounding(said or words, box, screen, 0, WORD, rules=rules)
        except ItemError as error:
            builder.reject(error.reason, native=row, native_index=0, word=error.word, detail=str(error))
        return notices(builder.finish(), unknown_fields(row, _KNOWN))
