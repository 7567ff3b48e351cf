"""GUIAct smartphone (GUICourse): AITW episodes on Android, annotated anew, one row per step.

A raw row (element of `smartphone_train_data.json`; pictures in `smartphone_train_images.parquet`, JPEG as base64):

    {"uid": "uid_episode_10001_step_01", "image_id": "uid_episode_10001_step_01",
     "image_size": {"width": 540, "height": 1140}, "question": "Open the clock", "actions_history": "step 0: tap",
     "logs": "", "thoughts": "", "actions_label": {"name": "tap",
       "point": {"absolute": "<point>270, 1106</point>", "related": "<point>0.5, 0.97</point>"}}}

| native | unified |
|---|---|
| tap | `Click(related)` |
| swipe from, to | `Scroll(from, to)`: the finger's path, its direction follows |
| input | `Type(text)` |
| enter | `PressEnter` |
| answer "task complete", task_complete | `Finished`, episode_outcome = success |
| answer "task impossible", task_impossible | `Finished`, lossy, episode_outcome = failure |
| go_back, go_home | `PressBack`, `PressHome` (known to the official converter) |

Another text in an answer is refused (`bad_value`). An episode is a run of rows with one id and one question. The
history says which step a row is; where steps before it have no row, the gap is marked (`steps_missing_in_source`).
"""

from typing import Any

from pipelines.mapping.adapter import Adapter, Mapped, Raw, Record
from pipelines.mapping.builders import MappedAction
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.items import ItemError, bad_values, notices, unknown_fields
from pipelines.native import guicourse
from schemas.actions import Click, Finished, PressBack, PressEnter, PressHome, Scroll, Type, scroll_direction

_WORDS = ("tap", "swipe", "input", "enter", "answer", "go_back", "go_home", "task_complete", "task_impossible")
_ENDS = {"task complete": "success", "task impossible": "failure"}

DESCRIPTOR = Descriptor(
    id="guiact_smartphone",
    title="GUIAct smartphone (GUICourse)",
    licence="CC-BY-4.0 (README) or apache-2.0 (tag)",
    platforms=("mobile",),
    size="7,476 episodes: train 7,246, test 230",
    citation="Chen et al., GUICourse: From General Vision Language Model to Versatile GUI Agent, arXiv 2406.11317",
    frame="fractions of the picture (related), x first, origin top left",
    record_unit="episode",
    known_problems=(
        "steps are missing (1,713 cases); back and home steps seem to have been removed",
        "one episode has more than 100 swipes and taps",
        "the same episodes as in AITW and AITZ",
    ),
    loss=(
        Loss("tap", "Click", "kept"),
        Loss("swipe", "Scroll", "kept", "equal points: no_counterpart"),
        Loss("input", "Type", "kept"),
        Loss("enter", "PressEnter", "kept"),
        Loss("answer", "Finished", "kept", "lossy for task impossible; another text: bad_value"),
        Loss("go_back", "PressBack", "kept"),
        Loss("go_home", "PressHome", "kept"),
        Loss("task_complete", "Finished", "kept"),
        Loss("task_impossible", "Finished", "lossy", "episode_outcome = failure says it"),
        *guicourse.OTHER_LOSSES,
    ),
    download=Download("yiye2023/GUIAct", files=("smartphone_*",)),
)


class GuiactSmartphoneAdapter(Adapter):
    """One record per episode."""

    descriptor = DESCRIPTOR
    version = 2
    items_at = (".",)
    patterns = (f"**/*{guicourse.DATA}",)
    reader = guicourse.episodes

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One episode → step rows. Raises `RecordError`: bad_value, missing_field, empty_text."""
        rows: list[Any] = record.payload
        builder = guicourse.builder_of(self.descriptor, record, len(rows), _outcome(rows[-1]))
        found: list[tuple[str, str, Any]] = []
        for place, row in guicourse.steps_of(builder, rows):
            found += unknown_fields(row, guicourse.ROW)
            native = {"uid": row.get("uid"), "action": row.get("actions_label")}
            try:
                mapped = _action(row.get("actions_label"))
            except ItemError as error:
                builder.reject(error.reason, native=native, native_index=place, word=error.word, detail=error.detail)
                continue
            thought = row.get("thoughts")
            thought = thought if isinstance(thought, str) and thought.strip() else None
            builder.take(mapped, native, place, guicourse.screen_of(raw, record.file, row), thought=thought)
        return notices(builder.finish(), found)


def _outcome(row: Any) -> str | None:
    action = row.get("actions_label")
    name = str(action.get("name")).lower() if isinstance(action, dict) else ""
    # The end may be told as an answer's text or as the action's name.
    said = str(action.get("text")) if name == "answer" else name.replace("_", " ")
    return _ENDS.get(said.strip().lower())


def _action(action: Any) -> MappedAction:
    """One action (in the web parts a list holds it; of one here, none is lost). Raises `ItemError`."""
    if isinstance(action, list) and len(action) == 1:
        action = action[0]
    word = guicourse.word_of(action, _WORDS)
    with bad_values(word):
        if word == "tap":
            return MappedAction([Click(guicourse.unit_point(guicourse.related(action.get("point"), word), word))], word)
        if word == "swipe":
            start, end = guicourse.ends(action, word)
            if start == end:
                raise ItemError("no_counterpart", "a swipe from a point to itself", word)
            scroll = Scroll(start, end, scroll_direction(start, end))
            return MappedAction([scroll], word, rules=("direction_from_points",))
        if word == "input":
            return MappedAction([Type(guicourse.text_of(action, word))], word)
    if word in ("enter", "go_back", "go_home"):
        return MappedAction(
            [PressEnter() if word == "enter" else PressBack() if word == "go_back" else PressHome()], word
        )
    said = guicourse.text_of(action, word).strip().lower() if word == "answer" else word.replace("_", " ")
    if said not in _ENDS:
        raise ItemError("bad_value", f"answer: expected one of {tuple(_ENDS)}, found {said[:60]!r}", word)
    return MappedAction([Finished("")], word, lossy=_ENDS[said] == "failure")
