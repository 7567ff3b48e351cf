"""Aguvis stage 2, the original phone files: chats whose last turn is the code of one step.

A raw element of the arrays `android_control.json`, `coat.json`, `amex-l2.json`, … (made up, shortened):

    {"image": "17_0.png", "conversations": [
        {"from": "system", "value": "You can call mobile.swipe(...)"},
        {"from": "human", "value": "<image>\\nPlease …\\nInstruction: Find tea\\n\\nPrevious actions:\\nNone"},
        {"from": "gpt", "value": "Action: Tap the shop", "recipient": "all"},
        {"from": "gpt", "value": "pyautogui.click(x=0.41, y=0.178)", "recipient": "os", "end_turn": true}]}

Each row is an episode of one step: the table of `pipelines.native.calls` says what its calls become;
`scroll(page=-0.1)` shows what lies below. `Thought:` and `Action:` of the turns before the code are the thought and the
step's instruction. Files `-l1` and `-l3` hold the steps of `-l2` with less and more text and are refused
(`duplicate_level`). Pictures lie in `<file without its level>/images/`.
"""

import posixpath
import re
from collections.abc import Iterator
from dataclasses import replace

from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.card import Descriptor, Download
from pipelines.mapping.items import notices, optional_text, unknown_fields
from pipelines.native.calls import LOSSES, Vocabulary
from pipelines.native.chat import turns, without_pictures
from pipelines.native.record_readers import json_list
from pipelines.native.single_steps import goal_of, one_step
from schemas.ids import digest

VOCABULARY = Vocabulary(page_positive="up")
LEVEL = re.compile(r"-l([123])$")
READ_LEVEL = "2"
_ROW = frozenset({"image", "conversations"})
_SAID = re.compile(
    r"(?P<kind>Observation|Thought|Action):\s*(?P<text>.*?)\s*(?=(?:Observation|Thought|Action):|\Z)", re.DOTALL
)

DESCRIPTOR = Descriptor(
    id="aguvis_stage2_mobile",
    title="Aguvis stage 2, phone files",
    licence="not stated, originals carry their own (UNCONFIRMED)",
    platforms=("mobile",),
    size="13,586 episodes of AndroidControl, 2,330 of AITW, 1,904 of AITZ; others not known",
    citation="Xu et al., Aguvis: Unified Pure Vision Agents for Autonomous GUI Interaction, arXiv 2412.04454",
    frame="fractions 0..1 of the picture, x first",
    known_problems=(
        "android_control and coat never end a task",
        "some rows of coat begin within an episode",
        "three levels of the same steps",
        "the same recordings as android_control, aitz, gui_odyssey, amex, aitw",
    ),
    loss=LOSSES,
    download=Download("xlangai/aguvis-stage2", files=("*.json",)),
)


class AguvisStage2MobileAdapter(Adapter):
    """One record per row."""

    descriptor = DESCRIPTOR
    patterns = ("**/*.json",)

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """One row at a time, off the stream; rows of another level are refused one by one, so they are counted."""
        for file in files:
            level = LEVEL.search(posixpath.splitext(file)[0])
            other = level is not None and level[1] != READ_LEVEL
            for record in json_list(raw, file):
                if other and isinstance(record, Record):
                    detail = f"the same step as in -l{READ_LEVEL}"
                    yield Broken(file, record.locator, "duplicate_level", detail, 1, record.payload)
                else:
                    yield record

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One row → an episode of one step. Raises `RecordError`: missing_field, unsafe_path."""
        row = record.payload
        if not isinstance(row, dict):
            raise RecordError("bad_value", f"expected an object, found {type(row).__name__}")
        said = turns(row.get("conversations"))
        answers = [turn for turn in said if turn.role == "assistant"]
        asked = [turn for turn in said if turn.role == "user"]
        if not answers or not asked:
            raise RecordError("missing_field", "expected a human turn and the code of an action")
        goal, follows = goal_of(without_pictures(asked[0].text))
        # All turns but the last are words about the action; the last is the action.
        said_by_kind = {match["kind"]: match["text"] for turn in answers[:-1] for match in _SAID.finditer(turn.text)}
        screen = RecordScreen.load(_picture(raw, record.file, row.get("image")), normalised=True)
        mapped = one_step(
            DESCRIPTOR,
            record,
            0,
            episode_id=digest(row)[:32],
            goal=goal,
            code=answers[-1].text,
            screen=screen,
            vocabulary=replace(VOCABULARY, space=self.space),
            platform="mobile",
            native=row,
            follows=follows,
            thought=optional_text(said_by_kind.get("Thought")),
            step_instruction=optional_text(said_by_kind.get("Action")),
        )
        return notices(mapped, unknown_fields(row, _ROW))


def _picture(raw: Raw, file: str, image: object) -> bytes | None:
    """The last picture of the row: the current screen. Raises `RecordError("unsafe_path")`."""
    name = image[-1] if isinstance(image, list) and image else image
    if not isinstance(name, str) or not name:
        return None
    # Pictures lie below a folder named as the file without its level.
    stem = LEVEL.sub("", posixpath.splitext(file)[0])
    return raw.first(posixpath.join(folder, name) for folder in (f"{stem}/images", posixpath.dirname(file)))
