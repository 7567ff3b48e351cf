"""RicoIG16k: where the icons of Rico screens are, as chats of a request and a click (part of Aguvis stage 1).

Link: https://huggingface.co/datasets/xlangai/aguvis-stage1 (`ricoig16k.json`)

A raw row (element of the JSON list; made up):

    {"image": "123.jpg", "conversations": [
      {"from": "human", "value": "<image>\\nclick on the menu icon"},
      {"from": "gpt", "value": "pyautogui.click(x=0.8018, y=0.6183)"}]}

| native | unified |
|---|---|
| a request and its `pyautogui.click(x, y)` | grounding sample: where is <request without its verb>? → the point |
| a request answered otherwise (another call, two calls, no call) | rejected |

x and y are fractions 0..1; there is no box. Only the first request bears the picture's mark, all are about the same
picture: `images/<image>`, `<image>` or, if its name is a number, the companion `rico`. The rows have no split: screens
that a list names (`split/{train,dev,test}.txt` of the raw folder or the companion) get that one, the others are train.
"""

from functools import partial

from pipelines.derivers.grounding import expression as pointed_at
from pipelines.mapping.adapter import Adapter, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import SampleBuilder
from pipelines.mapping.card import Descriptor, Loss
from pipelines.mapping.items import ItemError, is_text, notices, unknown_fields
from pipelines.native import rico
from pipelines.native.chat import ChatTurn, said_by, turns, without_pictures
from pipelines.native.pyautogui import gestures, parse_script
from pipelines.native.record_readers import count_of, json_list
from schemas.actions import Click
from schemas.ids import digest

WORD = "click"
OTHER = "other calls"
_KNOWN = frozenset({"image", "conversations"})

DESCRIPTOR = Descriptor(
    id="rico_icon",
    title="RicoIG16k",
    origin="https://huggingface.co/datasets/xlangai/aguvis-stage1",
    licence="not stated",
    platforms=("mobile",),
    objectives=("grounding",),
    size="16,133 rows of as many screens, about 43 % with several requests",
    citation="Xu et al., Aguvis: Unified Pure Vision Agents for Autonomous GUI Interaction, arXiv 2412.04454",
    frame="0..1 of the picture, x before y, origin top left",
    item_unit="expression",
    known_problems=(
        "points only, no boxes",
        "where the labels come from isn't documented",
        "no split: without lists of held-out screens it overlaps the test screens of other sets on Rico",
    ),
    loss=(
        Loss(WORD, "grounding sample", "kept", "a leading verb is left out, the words stay in provenance"),
        Loss(OTHER, "-", "dropped", "the answer to a request isn't one click with a point in 0..1"),
        Loss("unanswered", "-", "dropped", "missing_field: a request without an answer, or the reverse"),
    ),
    companions=(rico.COMPANION,),
)


class RicoIconAdapter(Adapter):
    """One record per screen."""

    descriptor = DESCRIPTOR
    side_lists = (rico.SPLIT_LISTS,)
    patterns = ("**/*.json",)
    reader = partial(json_list, count=count_of('"gpt"'))
    """One screen at a time. The rows have no id."""

    def count_items(self, record: Record) -> int:
        """As many as the chat has turns of human."""
        payload = record.payload if isinstance(record.payload, dict) else {}
        return max(said_by(payload.get("conversations"), "human", "user"), 1)

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One screen → a grounding sample for each request. Raises `RecordError`."""
        row = record.payload
        if not isinstance(row, dict) or not isinstance(row.get("image"), str):
            raise RecordError("missing_field", "expected image and conversations")
        listed = row.get("conversations")
        said = [turn.get("from") for turn in listed if isinstance(turn, dict)] if isinstance(listed, list) else []
        items = max(said.count("gpt"), 1)
        pairs = _pairs(turns(listed, items))
        name: str = row["image"]
        identifier = rico.id_of_file(name)
        # Screens of Rico's own test sets must not train.
        split = rico.listed_split(raw, identifier) if identifier else None
        screen = RecordScreen.load(_picture(raw, name, identifier, len(pairs) or 1), normalised=True)
        builder = SampleBuilder(self.descriptor, record, record_id=digest(row), split=split or "train")
        for index, (asked, answer) in enumerate(pairs):
            try:
                _ground(builder, asked, answer, screen, index)
            except ItemError as error:
                native = {"human": asked, "gpt": answer}
                builder.reject(error.reason, native=native, native_index=index, word=error.word, detail=str(error))
        if not pairs:
            raise RecordError("missing_field", "no request and no answer")
        return notices(builder.finish(), unknown_fields(row, _KNOWN))


def _picture(raw: Raw, name: str, identifier: str | None, items: int) -> bytes | None:
    """Raises `RecordError("unsafe_path")` with the record's items."""
    data = raw.first((f"images/{name}", name), items)
    return rico.picture(raw, identifier) if data is None and identifier else data


def _pairs(found: list[ChatTurn]) -> list[tuple[str | None, str | None]]:
    """(request, answer) in order; None for the half that is missing. System turns say nothing of the screen."""
    pairs: list[tuple[str | None, str | None]] = []
    for turn in found:
        if turn.role == "user":
            pairs.append((without_pictures(turn.text), None))
        elif turn.role == "assistant" and pairs and pairs[-1][1] is None:
            pairs[-1] = (pairs[-1][0], turn.text)
        elif turn.role == "assistant":
            # Two answers in a row: the second has no request.
            pairs.append((None, turn.text))
    return pairs


def _ground(builder: SampleBuilder, asked: str | None, answer: str | None, screen: RecordScreen, index: int) -> None:
    """Raises `ItemError`."""
    if asked is None or answer is None:
        raise ItemError("missing_field", "a request without an answer, or the reverse", "unanswered")
    if not asked or not is_text(asked):
        raise ItemError("bad_value" if asked else "empty_text", "the request is no text", OTHER)
    # A request that begins with a verb asks for an action; what it points at is the expression.
    said = pointed_at(asked)
    rules = [f"verb left out of: {asked}"] if said else []
    builder.point(said or asked, _point(answer), screen, index, WORD, rules=rules)


def _point(answer: str) -> tuple[int, int]:
    """The one click's point in 0..1000. Raises `ItemError`."""
    try:
        gestures_read = list(gestures(parse_script(answer), (1.0, 1.0)))
    except ItemError as error:
        raise ItemError(error.reason, str(error), OTHER) from error
    if len(gestures_read) != 1:
        raise ItemError("bad_value", f"expected one call, found {len(gestures_read)}: {answer[:80]!r}", OTHER)
    if (problem := gestures_read[0].error) is not None:
        raise ItemError(problem.reason, str(problem), OTHER)
    actions = gestures_read[0].actions
    if len(actions) != 1 or not isinstance(actions[0], Click):
        raise ItemError("bad_value", f"expected a click, found {answer[:80]!r}", OTHER)
    return actions[0].box
