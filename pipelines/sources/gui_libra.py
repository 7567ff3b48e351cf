"""GUI-Libra 81K: steps of seven older sources with checked coordinates; the RL part as parquet, the SFT part as chats.

Link: https://huggingface.co/datasets/GUI-Libra/GUI-Libra-81K-RL (and GUI-Libra-81K-SFT)
Licence: apache-2.0 (tag); the licences of the sources it is built from go with it.

A raw parquet row (made up, shortened):

    {"data_source": "android_control", "images": [{"bytes": b"..."}],
     "extra_info": {"img_name": "1_2.png", "step_id": 2}, "system_prompt": "...",
     "context": "Please generate the next move ...\\n\\nInstruction: Open the clock\\n\\n
       Interaction History: ...", "answer": {"gt_action": "Click", "gt_bbox": [25, 196, 972, 519],
       "gt_input_text": "None", "gt_point_2d": [0.498, 0.3575], "gt_target": "the clock", "image_height": 2400,
       "image_width": 1080}}

A raw element of an SFT array `<source>-..._1000.json` (made up, shortened):

    {"image": "1_2.png", "conversations": [{"from": "human", "value": "<image>... Instruction: ..."}, {"from": "gpt",
     "value": "<think>...</think><answer>{\\"action_description\\": \\"Open it\\", \\"action_type\\": \\"Click\\",
       \\"value\\": \\"None\\", \\"point_2d\\": [498, 357]}</answer>"}]}

| native | unified |
|---|---|
| Click, LongPress | `Click`, `LongPress(point)` |
| Write | `Click(point)` if it has one, and `Type(value)` |
| Select | `Click(point)`; lossy: the value is lost |
| Scroll | `Scroll(direction)`: what the view does |
| Swipe | rejected (`ambiguous_direction`): finger or view isn't told |
| Wait | `Wait`; lossy: the time is lost |
| NavigateBack, NavigateHome | `PressBack`, `PressHome` |
| OpenAPP | `Launch(app)` |
| KeyboardPress | `PressEnter`, else `Hotkey` |
| Answer, Terminate | `Finished(value)` |

"None" stands for null. A step is an episode of its own: nothing tells which belong together; one with an interaction
history is marked as standing after a gap (`steps_before_are_rows_of_their_own`). The box of the RL part is in
thousandths or in pixels; it is kept as the target's box where one of both has the point at its centre. SFT files
without `_1000` in their names hold pixels of a size that nothing tells: refused (`unknown_schema`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError, Screen
from pipelines.mapping.builders import EpisodeBuilder
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.frames import fitting_screen
from pipelines.mapping.items import ItemError, notices, unknown_fields
from pipelines.mapping.unicode_text import check_texts
from pipelines.native.chat import tells_steps, turns, without_pictures
from pipelines.native.record_readers import json_list, parquet_rows
from schemas.actions import (
    Action,
    Click,
    Finished,
    Hotkey,
    Launch,
    LongPress,
    Point,
    PressBack,
    PressEnter,
    PressHome,
    Scroll,
    Type,
    Wait,
)
from schemas.coordinates import OffScreen, box_to_unit, centre, point_to_unit
from schemas.ids import digest

_RL = frozenset({"data_source", "images", "extra_info", "answer", "system_prompt", "context"})
_ANSWER = frozenset(
    {"gt_action", "gt_bbox", "gt_input_text", "gt_point_2d", "gt_target", "image_height", "image_width"}
)
_SFT = frozenset({"image", "conversations"})
_SAID = frozenset({"action_description", "action_target", "action_type", "value", "point_2d"})
_INSTRUCTION = re.compile(
    r"\bInstruction:[ \t]*(.*?)\s*\n\s*(?:Interaction History|Previous actions?)\s*:", re.DOTALL | re.IGNORECASE
)
_REPLY = re.compile(r"\s*(?:<think(?:ing)?>(.*?)</think(?:ing)?>)?\s*<answer>(.*)</answer>\s*", re.DOTALL)
_PLATFORMS = {
    "mind2web": "web",
    "guiact": "web",
    "coat": "mobile",
    "aitz": "mobile",
    "amex": "mobile",
    "aitw": "mobile",
    "android": "mobile",
    "gui": "mobile",
}
_WORDS = {
    word.lower(): word
    for word in (
        "Click",
        "LongPress",
        "Write",
        "Select",
        "Scroll",
        "Swipe",
        "Wait",
        "NavigateBack",
        "NavigateHome",
        "OpenAPP",
        "KeyboardPress",
        "Answer",
        "Terminate",
    )
}
_NULLS: tuple[Any, ...] = (None, "None", "", [])
_OTHER = "other actions"
MAX_SIDE_PX = 100_000

DESCRIPTOR = Descriptor(
    id="gui_libra",
    title="GUI-Libra 81K",
    origin="https://huggingface.co/datasets/GUI-Libra/GUI-Libra-81K-RL",
    licence="apache-2.0 (tag); the licences of its sources go with it",
    platforms=("mobile", "web"),
    language="multi",
    objectives=("navigation",),
    size="some 81,000 steps",
    citation="Yang et al., GUI-Libra: Training Native GUI Agents to Reason and Act with Action-aware Supervision and "
    "Partially Verifiable RL, arXiv 2602.22190",
    frame="RL: fractions 0..1; SFT files named _1000: thousandths; x first, origin top left",
    record_unit="episode",
    item_unit="action",
    known_problems=(
        "the same steps as in mind2web, guiact, aitw, aitz, amex, android_control and gui_odyssey",
        "'None' as a text stands for null",
        "a part is in Chinese",
        "what the direction of a Swipe means isn't told",
    ),
    loss=(
        Loss("Click", "Click", "kept"),
        Loss("LongPress", "LongPress", "kept"),
        Loss("Write", "Click, Type", "kept", "without a point: Type alone"),
        Loss("Select", "Click", "lossy", "the value stays in native_action"),
        Loss("Scroll", "Scroll(direction)", "kept"),
        Loss("Swipe", "-", "dropped", "ambiguous_direction: finger or view isn't told"),
        Loss("Wait", "Wait", "lossy", "the time stays in native_action"),
        Loss("NavigateBack", "PressBack", "kept"),
        Loss("NavigateHome", "PressHome", "kept"),
        Loss("OpenAPP", "Launch(app)", "kept"),
        Loss("KeyboardPress", "PressEnter, Hotkey", "kept", "more than three keys: no_counterpart"),
        Loss("Answer", "Finished", "kept"),
        Loss("Terminate", "Finished", "kept"),
        Loss(_OTHER, "-", "dropped", "unknown_action:<word>, or no action at all"),
        Loss("gt_target", "-", "lossy", "stays in native_action"),
    ),
    download=Download("GUI-Libra/GUI-Libra-81K-RL", files=("*.parquet",)),
)


@dataclass(frozen=True)
class _Step:
    """One step of either form; `size` is the frame of `point`. `follows`: the prompt tells steps before this one."""

    instruction: str
    follows: bool
    source: str
    screen: Screen
    native: Mapping[str, Any]
    kind: Any
    value: Any
    point: Any
    size: tuple[float, float]
    thought: str | None = None
    said: str | None = None
    box: list[float] | None = None


class GuiLibraAdapter(Adapter):
    """One record per step."""

    descriptor = DESCRIPTOR
    version = 2

    def parts(self, raw: Raw) -> list[tuple[str, ...]]:
        """One part per parquet or JSON file."""
        return [(name,) for name in sorted([*raw.files("**/*.parquet"), *raw.files("**/*.json")])]

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """One row at a time. Rows of a file that can't be read take no part in the search for repeats."""
        for file in files:
            if file.endswith(".parquet"):
                yield from parquet_rows(raw, file, of_id=_name)
                continue
            readable = _sft_source(file) is not None
            for found in json_list(raw, file):
                if readable or isinstance(found, Broken):
                    yield found
                else:
                    why = "expected a name like <source>-reasoning..._1000.json: others hold pixels of no known size"
                    yield Broken(file, found.locator, "unknown_schema", why, 1, found.payload)

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One step → its rows. Raises `RecordError`: unknown_schema, missing_field, bad_frame, bad_value."""
        row = record.payload
        if not isinstance(row, Mapping) or not ("answer" in row or "conversations" in row):
            raise RecordError("unknown_schema", "expected a row with answer, or with conversations")
        found = unknown_fields(row, _RL if "answer" in row else _SFT)
        step = _of_rl(row) if "answer" in row else _of_sft(row, record, raw)
        found += unknown_fields(step.native, _ANSWER if "answer" in row else _SAID)
        name = record.native_id or digest({"file": record.file, **row})
        builder = EpisodeBuilder(
            self.descriptor,
            record,
            episode_id=name,
            instruction=step.instruction,
            platform=_platform(step.source),
            language="zh" if "chinese" in step.source.lower() else "en",
            split=_split(record.file),
        )
        if step.follows:
            builder.gap("steps_before_are_rows_of_their_own")
        try:
            word, made, lossy, rules = _actions(step)
        except ItemError as error:
            builder.reject(error.reason, native=step.native, native_index=0, word=error.word, detail=error.detail)
        else:
            builder.add(
                made,
                native=step.native,
                native_index=0,
                word=word,
                screen=step.screen,
                rules=rules,
                status="lossy" if lossy else "kept",
                thought=step.thought,
                step_instruction=step.said,
                target_box=step.box,
            )
        return notices(builder.finish(), found)


def _name(row: Any) -> str | None:
    extra = row.get("extra_info")
    named = isinstance(extra, Mapping) and extra
    parts = [row.get("data_source"), *(extra.get(name) for name in ("img_name", "step_id"))] if named else []
    return "/".join(map(str, parts)) if parts and all(isinstance(part, str | int) for part in parts) else None


def _sft_source(file: str) -> str | None:
    """The source that the name of an SFT file in thousandths tells; None for another file."""
    source, _, rest = file.rpartition("/")[2].partition("-reasoning")
    return source if "_1000" in rest else None


def _split(file: str) -> str:
    name = file.rpartition("/")[2].lower()
    return "test" if "test" in name else "validation" if "val" in name else "train"


def _platform(source: str) -> str:
    found = _PLATFORMS.get(re.split(r"[^a-z0-9]", source.lower())[0])
    if found is None:
        raise RecordError("bad_value", f"data_source: expected one of the known sources, found {source[:60]!r}")
    return found


def _instruction(text: Any) -> tuple[str, bool]:
    """The goal, and whether the history after it tells steps before this one. Raises `RecordError`."""
    match = _INSTRUCTION.search(text) if isinstance(text, str) else None
    if match is None:
        raise RecordError("missing_field", "expected 'Instruction:' and a history")
    if not match[1].strip():
        raise RecordError("empty_text", "Instruction")
    return match[1].strip(), tells_steps(text[match.end() :])


def _of_rl(row: Mapping[str, Any]) -> _Step:
    answer, images, source = row["answer"], row.get("images"), row.get("data_source")
    if not isinstance(answer, Mapping) or not isinstance(source, str):
        raise RecordError("missing_field", "expected an answer and a data_source")
    size = (answer.get("image_width"), answer.get("image_height"))
    if not all(type(side) is int and 0 < side <= MAX_SIDE_PX for side in size):
        raise RecordError("bad_frame", f"image_width, image_height: expected positive ints, found {size!r:.60}")
    picture = images[0] if isinstance(images, list) and len(images) == 1 else None
    data = picture.get("bytes") if isinstance(picture, Mapping) else None
    frame: tuple[int, int] = size  # type: ignore[assignment]
    return _Step(
        *_instruction(row.get("context")),
        source,
        fitting_screen(data if isinstance(data, bytes) else None, frame),
        answer,
        answer.get("gt_action"),
        answer.get("gt_input_text"),
        answer.get("gt_point_2d"),
        (1.0, 1.0),
        box=_box(answer.get("gt_bbox"), answer.get("gt_point_2d"), frame),
    )


def _box(box: Any, point: Any, frame: tuple[int, int]) -> list[float] | None:
    """The target's box in 0..1000, in the one of its two scales that has the point at its centre; None if none has."""
    if not (_numbers(box, 4) and _numbers(point, 2)):
        return None
    for size in ((1000.0, 1000.0), frame):
        try:
            found = box_to_unit((box[0], box[1], box[2], box[3]), size)
            if all(abs(side - 1000 * at) <= 2 for side, at in zip(centre(found), point, strict=True)):
                return found
        except (ValueError, OverflowError):
            continue
    return None


def _of_sft(row: Mapping[str, Any], record: Record, raw: Raw) -> _Step:
    source = _sft_source(record.file) or ""
    check_texts(dict(row))
    chat = turns(row.get("conversations"))
    match = _REPLY.fullmatch(chat[-1].text) if chat[-1].role == "assistant" else None
    try:
        said = json.loads(match[2]) if match else None
    except (ValueError, RecursionError) as error:
        raise RecordError("bad_value", f"<answer>: {error}") from error
    if match is None or not isinstance(said, dict) or not isinstance(row.get("image"), str):
        raise RecordError("missing_field", "expected an image and an object between <answer> tags")
    check_texts(said)
    pictures = (raw.read_if_there(folder + row["image"]) for folder in ("", "images/"))
    screen = Screen.load(next((data for data in pictures if data is not None), None), normalised=True)
    described = said.get("action_description")
    return _Step(
        *_instruction(without_pictures("\n".join(turn.text for turn in chat if turn.role == "user"))),
        source,
        screen,
        said,
        said.get("action_type"),
        said.get("value"),
        said.get("point_2d"),
        (1000.0, 1000.0),
        thought=(match[1] or "").strip() or None,
        said=described if isinstance(described, str) and described else None,
    )


def _numbers(value: Any, count: int) -> bool:
    return (
        isinstance(value, list)
        and len(value) == count
        and all(isinstance(number, int | float) and not isinstance(number, bool) for number in value)
    )


def _actions(step: _Step) -> tuple[str, list[Action], bool, list[str]]:
    """Word, actions, whether something was lost, rules. Raises `ItemError`."""
    if step.kind in _NULLS:
        raise ItemError("missing_field", "no type of action", _OTHER)
    word = _WORDS.get(str(step.kind).lower())
    if word is None:
        raise ItemError(f"unknown_action:{str(step.kind)[:60]}", f"known are {', '.join(_WORDS.values())}", _OTHER)
    try:
        return word, *_made(step, word)
    except ItemError:
        raise
    except ValueError as error:
        raise ItemError("bad_value", str(error), word) from error


def _made(step: _Step, word: str) -> tuple[list[Action], bool, list[str]]:
    if word == "Swipe":
        raise ItemError("ambiguous_direction", f"{step.value!r:.60}: the finger's or the view's", word)
    if word in ("Click", "LongPress", "Select"):
        at = _point(step, word)
        select = word == "Select"
        return [LongPress(at) if word == "LongPress" else Click(at)], select, ["select_as_click"] if select else []
    if word == "Write":
        place: list[Action] = [] if step.point in _NULLS else [Click(_point(step, word))]
        return [*place, Type(_text(step, word))], False, []
    if word == "Wait":
        return [Wait()], True, []
    if word in ("NavigateBack", "NavigateHome"):
        return [PressBack() if word == "NavigateBack" else PressHome()], False, []
    if word == "OpenAPP":
        return [Launch(app=_text(step, word))], False, []
    if word == "Scroll":
        return [Scroll(direction=_text(step, word).strip().lower())], False, []
    if word == "KeyboardPress":
        keys = tuple(key.strip().lower() for key in _text(step, word).split("+"))
        if len(keys) > 3:
            raise ItemError("no_counterpart", f"{len(keys)} keys at once", word)
        return [PressEnter() if keys in (("enter",), ("return",)) else Hotkey(keys)], False, []
    return [Finished("" if step.value in _NULLS else _text(step, word))], False, []


def _text(step: _Step, word: str) -> str:
    if step.value in _NULLS:
        raise ItemError("empty_text", "the action has no value", word)
    if not isinstance(step.value, str):
        raise ItemError("bad_value", f"expected a text, found {step.value!r:.60}", word)
    return step.value


def _point(step: _Step, word: str) -> Point:
    if step.point in _NULLS:
        raise ItemError("no_coordinates", "the action has no point", word)
    if not _numbers(step.point, 2):
        raise ItemError("bad_value", f"expected [x, y], found {step.point!r:.60}", word)
    try:
        return point_to_unit((step.point[0], step.point[1]), step.size)
    except (OffScreen, OverflowError) as error:
        raise ItemError("off_screen", str(error), word) from error
