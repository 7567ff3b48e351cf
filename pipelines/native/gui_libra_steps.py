"""A step of GUI-Libra in either form, a row of the RL part or a chat of the SFT part, and its actions."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pipelines.mapping.adapter import Raw, Record, RecordError, RecordScreen
from pipelines.mapping.frames import fitting_screen, whole_sides
from pipelines.mapping.items import ItemError, bad_values, picture_bytes
from pipelines.mapping.points import in_frame
from pipelines.mapping.unicode_text import check_texts
from pipelines.native.chat import has_steps, turns, without_pictures
from schemas import action_types
from schemas.action_types import ActionSpace, speaks
from schemas.coordinates import ScreenBox, centre, screen_box

_INSTRUCTION = re.compile(
    r"\bInstruction:(.*?)\n[^\S\n]*(?:Interaction History|Previous actions?)\s*:", re.DOTALL | re.IGNORECASE
)
_REPLY = re.compile(r"\s*(?:<think(?:ing)?>(.*?)</think(?:ing)?>)?\s*<answer>(.*)</answer>\s*", re.DOTALL)
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
OTHER = "other actions"


@dataclass(frozen=True)
class Step:
    """One step of either form; `size` is the frame of `point`. `follows`: the prompt lists steps before this one."""

    instruction: str
    follows: bool
    source: str
    screen: RecordScreen
    native: Mapping[str, Any]
    kind: Any
    value: Any
    point: Any
    size: tuple[float, float]
    thought: str | None = None
    said: str | None = None
    box: ScreenBox | None = None


def sft_source(file: str) -> str | None:
    """The source in the name of an SFT file in thousandths; None for another file."""
    source, _, rest = file.rpartition("/")[2].partition("-reasoning")
    return source if "_1000" in rest else None


def _instruction(text: Any) -> tuple[str, bool]:
    """The goal, and whether the history after it lists steps before this one. Raises `RecordError`."""
    match = _INSTRUCTION.search(text) if isinstance(text, str) else None
    if match is None:
        raise RecordError("missing_field", "expected 'Instruction:' and a history")
    if not match[1].strip():
        raise RecordError("empty_text", "Instruction")
    return match[1].strip(), has_steps(text[match.end() :])


def rl_step(row: Mapping[str, object]) -> Step:
    """A row of the RL part. Raises `RecordError`: missing_field, bad_frame, empty_text."""
    answer, images, source = row["answer"], row.get("images"), row.get("data_source")
    if not isinstance(answer, Mapping) or not isinstance(source, str):
        raise RecordError("missing_field", "expected an answer and a data_source")
    size = (answer.get("image_width"), answer.get("image_height"))
    frame = whole_sides(size)
    if frame is None:
        raise RecordError("bad_frame", f"image_width, image_height: expected positive ints, found {size!r:.60}")
    picture = images[0] if isinstance(images, list) and len(images) == 1 else None
    # Bytes, or an object that holds them.
    data = picture_bytes(picture)
    return Step(
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


def _box(box: Any, point: Any, frame: tuple[int, int]) -> ScreenBox | None:
    """The target's box in 0..1000, in the one of its two scales that has the point at its centre; None if none has."""
    if not (_numbers(box, 4) and _numbers(point, 2)):
        return None
    # Rows mix thousandths and pixels; the point tells which it is.
    for size in ((1000.0, 1000.0), frame):
        try:
            found = screen_box((box[0], box[1], box[2], box[3]), size)
            if all(abs(side - 1000 * at) <= 2 for side, at in zip(centre(found), point, strict=True)):
                return found
        except (ValueError, OverflowError):
            continue
    return None


def sft_step(row: Mapping[str, Any], record: Record, raw: Raw) -> Step:
    """A chat of the SFT part. Raises `RecordError`: missing_field, bad_value, empty_text, unsafe_path."""
    source = sft_source(record.file) or ""
    # Before the texts are used anywhere.
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
    # Thousandths, so the picture's size isn't needed.
    screen = RecordScreen.load(raw.first(folder + row["image"] for folder in ("", "images/")), normalised=True)
    described = said.get("action_description")
    return Step(
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


def _numbers(value: object, count: int) -> bool:
    return (
        isinstance(value, list)
        and len(value) == count
        and all(isinstance(number, int | float) and not isinstance(number, bool) for number in value)
    )


def actions_of(step: Step, space: ActionSpace) -> tuple[str, list[action_types.Action], bool, list[str]]:
    """Word, actions, whether something was lost, rules. Raises `ItemError`."""
    if step.kind in _NULLS:
        raise ItemError("missing_field", "no type of action", OTHER)
    word = _WORDS.get(str(step.kind).lower())
    if word is None:
        raise ItemError(f"unknown_action:{str(step.kind)[:60]}", f"known are {', '.join(_WORDS.values())}", OTHER)
    with bad_values(word):
        return word, *_made(step, word, space)


def _made(step: Step, word: str, space: ActionSpace) -> tuple[list[action_types.Action], bool, list[str]]:
    if word == "Swipe":
        raise ItemError("ambiguous_direction", f"{step.value!r:.60}: the finger's or the view's", word)
    if word == "Select" and step.value not in _NULLS and speaks(space, action_types.SelectOption):
        return [action_types.SelectOption(_point(step, word), _text(step, word))], False, []
    if word in ("Click", "LongPress", "Select"):
        # Without SelectOption the click that opens the list is kept.
        at = _point(step, word)
        made = action_types.LongPress(at) if word == "LongPress" else action_types.Click(at)
        return [made], word == "Select", ["select_as_click"] if word == "Select" else []
    if word == "Write":
        # Typing without a point goes to what has the focus.
        place: list[action_types.Action] = [] if step.point in _NULLS else [action_types.Click(_point(step, word))]
        return [*place, action_types.Type(_text(step, word))], False, []
    if word == "Wait":
        return [action_types.Wait()], True, []
    if word in ("NavigateBack", "NavigateHome"):
        return [action_types.PressBack() if word == "NavigateBack" else action_types.PressHome()], False, []
    if word == "OpenAPP":
        return [action_types.Launch(app=_text(step, word))], False, []
    if word == "Scroll":
        return [action_types.Scroll(direction=_text(step, word).strip().lower())], False, []
    if word == "KeyboardPress":
        keys = tuple(key.strip().lower() for key in _text(step, word).split("+"))
        if len(keys) > 3:
            raise ItemError("no_counterpart", f"{len(keys)} keys at once", word)
        return [action_types.pressed(keys)], False, []
    return [action_types.Finished("" if step.value in _NULLS else _text(step, word))], False, []


def _text(step: Step, word: str) -> str:
    if step.value in _NULLS:
        raise ItemError("empty_text", "the action has no value", word)
    if not isinstance(step.value, str):
        raise ItemError("bad_value", f"expected a text, found {step.value!r:.60}", word)
    return step.value


def _point(step: Step, word: str) -> action_types.Point:
    if step.point in _NULLS:
        raise ItemError("no_coordinates", "the action has no point", word)
    if not _numbers(step.point, 2):
        raise ItemError("bad_value", f"expected [x, y], found {step.point!r:.60}", word)
    return in_frame(step.point[0], step.point[1], step.size, word)
