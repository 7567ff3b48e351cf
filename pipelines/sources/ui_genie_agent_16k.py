"""UI-Genie-Agent: synthetic Android episodes accepted by a reward model, one step a row; also rows on AMEX pictures.

A raw row, a line of `ui_genie_agent_16k.jsonl` or `AMEX_Agent_34K.jsonl` (made up, shortened):

    {"messages": [{"role": "system", "content": "... The screen's resolution is 504x1120. ..."},
      {"role": "user", "content": "The user query: Open the clock\\nTask progress (...): Step1: ...; Step2: ...; "},
      {"role": "assistant", "content": "<tool_call>\\n{\\"name\\": \\"mobile_use\\", \\"arguments\\": {\\"action\\":
        \\"click\\", \\"coordinate\\": [52, 300], \\"action_desc\\": \\"Tap ...\\"}}\\n</tool_call>"}],
     "images": ["data/screenshots/ab12/screenshot-3.png"]}

| native | unified |
|---|---|
| click, long_press | `Click`, `LongPress(coordinate)` |
| swipe with two points | `Scroll(points)`: the finger's path |
| swipe with a direction | `Scroll(direction)`, turned round: the word is the finger's |
| type | `Type(text)` |
| system_button Back, Home, Enter, Recent | `PressBack`, `PressHome`, `PressEnter`, `PressRecent` |
| system_button Menu, key | rejected (`no_counterpart`) |
| open | `Launch(app)` |
| wait | `Wait`; lossy: the time is lost |
| terminate | `Finished(action_info)`, episode_outcome = status; failure is lossy |
| an action with `som` | the whole episode is quarantined (`no_coordinates`): its pictures have tags painted in |

Coordinates are pixels of the resolution that the system turn declares, which isn't that of the picture. Rows of one
episode (the picture's folder, or its name before the last `-`) are put in order by the steps already done; the numbers
in picture names jump. `action_desc` is the step's instruction.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import EpisodeBuilder, MappedAction
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.frames import MISFIT
from pipelines.mapping.items import ItemError, bad_values, is_number, notices, text_of, unknown_fields
from pipelines.mapping.unicode_text import check_texts
from pipelines.native.chat import ChatTurn, turns, without_pictures
from pipelines.native.record_readers import json_lines
from pipelines.native.spill import Spill
from schemas import action_types
from schemas.action_types import OPPOSITE
from schemas.coordinates import OffScreen, point_to_unit

_KNOWN = frozenset({"messages", "images"})
_ARGUMENTS = frozenset(
    {
        "action",
        "action_desc",
        "action_info",
        "button",
        "coordinate",
        "coordinate2",
        "direction",
        "som",
        "status",
        "text",
        "time",
    }
)
_PICTURE = re.compile(r"(?:.*/)?(?:data/screenshots/([^/]+)/[^/]+|AMEX/screenshot/([^/]+)-\d+\.\w+)")
_SIZE = re.compile(r"resolution is (\d{2,5})\s*[x×]\s*(\d{2,5})")
_ASKED = re.compile(r"The user query:(.*?)\n[^\S\n]*Task progress(.*)", re.DOTALL)
_STEP = re.compile(r"\bStep ?(\d{1,4}):")
_CALL = re.compile(r"\s*<tool_call>\s*(\{.*\})\s*</tool_call>\s*", re.DOTALL)
_BUTTONS: Mapping[str, action_types.Action] = {
    "back": action_types.PressBack(),
    "home": action_types.PressHome(),
    "enter": action_types.PressEnter(),
    "recent": action_types.PressRecent(),
}
_WORDS = ("click", "long_press", "swipe", "type", "system_button", "open", "wait", "terminate", "key")
_OTHER = "other actions"
_RATIO_SLACK_PX = 28
"""The declared sides are rounded to multiples of 28."""

DESCRIPTOR = Descriptor(
    id="ui_genie_agent_16k",
    title="UI-Genie-Agent-16k",
    licence="UNCONFIRMED",
    platforms=("mobile",),
    size="2,208 episodes, 16,698 steps; on AMEX pictures 2,981 episodes, 35,088 steps",
    citation="Xiao et al., UI-Genie: A Self-Improving Approach for Iteratively Boosting MLLM-based Mobile GUI Agents, "
    "arXiv 2505.21496",
    frame="pixels of the resolution that the system turn declares, x first, origin top left",
    record_unit="episode",
    known_problems=(
        "417 episodes have tags painted into their pictures and no coordinates",
        "34 episodes have a coordinate outside the declared frame; 21 have gaps",
        "some episodes lack the last action; 32 have no other",
        "pictures of the second file come with AMEX",
    ),
    loss=(
        Loss("click", "Click", "kept"),
        Loss("long_press", "LongPress", "kept"),
        Loss("swipe", "Scroll", "kept", "the finger's path or direction; equal points: no_counterpart"),
        Loss("type", "Type", "kept"),
        Loss("system_button", "PressBack, PressHome, PressEnter, PressRecent", "kept", "Menu: no_counterpart"),
        Loss("open", "Launch(app)", "kept"),
        Loss("wait", "Wait", "lossy", "the time stays in native_action"),
        Loss("terminate", "Finished", "kept", "failure is lossy: episode_outcome says it"),
        Loss("key", "-", "dropped", "no_counterpart: keys of the device"),
        Loss(_OTHER, "-", "dropped", "unknown_action:<name>, or no action at all"),
    ),
    download=Download("HanXiao1999/UI-Genie-Agent-16k"),
)


class UiGenieAgent16kAdapter(Adapter):
    """One record per episode."""

    descriptor = DESCRIPTOR
    items_at = (".",)
    patterns = ("**/*.jsonl",)

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """Rows without a known picture's name one by one, then episodes; the rows wait on disk."""
        for file in files:
            spill, episodes = Spill(), {}  # type: ignore[var-annotated]
            for found in json_lines(raw, file):
                if isinstance(found, Broken):
                    yield found
                elif (name := _episode(found.payload)) is None:
                    yield Record(file, found.locator, [found.payload])
                else:
                    # Rows of an episode need not stand together, so all wait until the file ends.
                    spill.put(found.locator, found.payload, b"")
                    episodes.setdefault(name, []).append(found.locator)
            for name, places in episodes.items():
                yield Record(file, places[0], [spill.get(place)[0] for place in places], name)

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One episode → step rows. Raises `RecordError`: missing_field, empty_text, unsafe_path, no_coordinates."""
        rows: list[Any] = record.payload
        if record.native_id is None:
            raise RecordError("missing_field", "images: expected one path of a known folder", len(rows))
        check_texts(rows, len(rows))
        steps = sorted((_GenieStep(row, len(rows)) for row in rows), key=lambda step: step.done)
        if any("som" in step.arguments for step in steps):
            raise RecordError("no_coordinates", "numbers of tags instead of coordinates", len(rows))
        builder = EpisodeBuilder(
            self.descriptor,
            record,
            instruction=steps[0].query,
            # The last status that ends is how it ended.
            outcome=next((end for step in reversed(steps) if (end := _outcome(step.arguments))), None),
        )
        found: list[tuple[str, str, Any]] = []
        due = 0
        for place, step in enumerate(steps):
            found += [*unknown_fields(step.row, _KNOWN), *unknown_fields(step.arguments, _ARGUMENTS)]
            if step.done > due:
                builder.gap("steps_missing_in_source")
            try:
                # Two rows claim the same step, and only the first is taken.
                if step.done < due:
                    raise ItemError("bad_value", f"a second row of step {step.done + 1}", step.word)
                actions, lossy, rules = _action(step)
                screen = _screen(raw, step)
            except RecordError as error:
                raise RecordError(error.reason, error.detail, len(rows)) from error
            except ItemError as error:
                builder.reject(error.reason, native=step.said, native_index=place, word=error.word, detail=error.detail)
            else:
                said = step.arguments.get("action_desc")
                mapped = MappedAction([actions], step.word, lossy, rules)
                builder.take(
                    mapped,
                    step.arguments,
                    place,
                    screen,
                    step_instruction=said if isinstance(said, str) and said.strip() else None,
                )
            due = max(due, step.done + 1)
        return notices(builder.finish(), found)


def _episode(row: object) -> str | None:
    pictures = row.get("images") if isinstance(row, Mapping) else None
    if not isinstance(pictures, list) or len(pictures) != 1 or not isinstance(pictures[0], str):
        return None
    match = _PICTURE.fullmatch(pictures[0])
    return (match[1] or match[2]) if match else None


class _GenieStep:
    """One row, read: query, number of steps done before it, declared frame, the call's arguments (empty: no call).
    Raises `RecordError` for a row without a query."""

    def __init__(self, row: Mapping[str, Any], items: int) -> None:
        chat: list[ChatTurn] = turns(row.get("messages"), items)
        text = {turn.role: turn.text for turn in chat}
        asked = _ASKED.search(without_pictures(text.get("user", "")))
        if asked is None:
            raise RecordError("missing_field", "expected 'The user query:' and 'Task progress'", items)
        if not asked[1].strip():
            raise RecordError("empty_text", "The user query", items)
        size = _SIZE.search(text.get("system", ""))
        self.row = row
        self.query = asked[1].strip()
        self.done = max((int(number) for number in _STEP.findall(asked[2])), default=0)
        self.size = (int(size[1]), int(size[2])) if size and int(size[1]) and int(size[2]) else None
        self.said = chat[-1].text if chat[-1].role == "assistant" else ""
        self.arguments = _arguments(self.said)
        word = self.arguments.get("action")
        self.word = word if word in _WORDS else _OTHER


def _arguments(said: str) -> Mapping[str, Any]:
    match = _CALL.fullmatch(said)
    try:
        call = json.loads(match[1]) if match else None
        check_texts(call)
    except (ValueError, RecursionError):
        return {}
    arguments = call.get("arguments") if isinstance(call, dict) and call.get("name") == "mobile_use" else None
    return arguments if isinstance(arguments, dict) else {}


def _outcome(arguments: Mapping[str, object]) -> str | None:
    status = arguments.get("status")
    return status if arguments.get("action") == "terminate" and status in ("success", "failure") else None


def _screen(raw: Raw, step: _GenieStep) -> RecordScreen:
    """The step's screen in its declared frame. A picture of another shape (beyond rounding) is left out."""
    screen = RecordScreen.load(raw.read_if_there(step.row["images"][0]), frame=step.size, normalised=True)
    if screen.info is not None and step.size is not None:
        # Pictures were scaled by whole pixels, so shapes agree up to rounding.
        scale = step.size[0] / screen.info.width_px
        if abs(screen.info.height_px * scale - step.size[1]) > _RATIO_SLACK_PX * (1 + step.size[1] / step.size[0]):
            return RecordScreen(*step.size, None, None, (), MISFIT)
    return screen


def _action(step: _GenieStep) -> tuple[action_types.Action, bool, list[str]]:
    """Action, whether something was lost, rules. Raises `ItemError`."""
    word, arguments = step.word, step.arguments
    if not arguments:
        raise ItemError("missing_field", "expected one mobile_use call between <tool_call> tags", _OTHER)
    if word == _OTHER:
        raise ItemError(f"unknown_action:{str(arguments.get('action'))[:60]}", "", _OTHER)
    with bad_values(word):
        if word in ("click", "long_press"):
            at = _point(step, "coordinate")
            return action_types.Click(at) if word == "click" else action_types.LongPress(at), False, []
        if word == "swipe":
            return _swipe(step)
        if word == "type":
            return action_types.Type(text_of(step.arguments, "text", step.word)), False, []
        if word == "open":
            return action_types.Launch(app=text_of(step.arguments, "text", step.word)), False, []
        if word == "terminate":
            return _end(arguments)
    if word == "wait":
        # How long it waited is lost.
        return action_types.Wait(), True, []
    button = str(arguments.get("button")).lower()
    if word == "key" or button == "menu":
        raise ItemError("no_counterpart", f"{word} {str(arguments.get('text', button))[:60]}", word)
    if button not in _BUTTONS:
        raise ItemError("bad_value", f"button: expected one of {tuple(_BUTTONS)}, found {button[:60]!r}", word)
    return _BUTTONS[button], False, []


def _swipe(step: _GenieStep) -> tuple[action_types.Action, bool, list[str]]:
    if "coordinate" in step.arguments:
        start, end = _point(step, "coordinate"), _point(step, "coordinate2")
        if start == end:
            raise ItemError("no_counterpart", "a swipe from a point to itself", step.word)
        return (
            action_types.Scroll(start, end, action_types.scroll_direction(start, end)),
            False,
            ["direction_from_points"],
        )
    # Fingers move against the view.
    finger = str(step.arguments.get("direction")).lower()
    if finger not in OPPOSITE:
        raise ItemError("bad_value", f"swipe: expected two points or a direction, found {finger[:60]!r}", step.word)
    return action_types.Scroll(direction=OPPOSITE[finger]), False, ["direction_is_the_fingers"]


def _end(arguments: Mapping[str, object]) -> tuple[action_types.Action, bool, list[str]]:
    status, said = _outcome(arguments), arguments.get("action_info")
    if status is None:
        raise ItemError(
            "bad_value", f"status: expected success or failure, found {arguments.get('status')!r:.60}", "terminate"
        )
    if said is not None and not isinstance(said, str):
        raise ItemError("bad_value", f"action_info: expected a text, found {said!r:.60}", "terminate")
    return action_types.Finished(said or ""), status == "failure", ["terminate_failure"] if status == "failure" else []


def _point(step: _GenieStep, name: str) -> action_types.Point:
    pair = step.arguments.get(name)
    if not isinstance(pair, list) or len(pair) != 2 or not all(map(is_number, pair)):
        raise ItemError("missing_field", f"{name}: expected [x, y], found {pair!r:.60}", step.word)
    if step.size is None:
        raise ItemError("bad_frame", "the system turn declares no resolution", step.word)
    try:
        return point_to_unit((pair[0], pair[1]), step.size)
    except (OffScreen, OverflowError) as error:
        raise ItemError("off_screen", f"{name}: {error}", step.word) from error
