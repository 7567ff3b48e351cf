"""OS-Genesis mobile: synthetic steps on AndroidWorld apps, thought and action by GPT-4o, one step a row.

A raw row, a line of `os_genesis_ac_training_data.jsonl` or `os_genesis_aw_training_data.jsonl` (made up, shortened):

    {"id": "3", "image": "13f5_4.png", "conversations": [{"from": "human", "value": "<image>\\nYou are a GUI task
       expert, ...\\n\\nHigh-level instruction: Open the clock\\n\\nAction history: ...\\n\\nAccessibility tree:
       {\\"Clock\\": \\"(540.0, 1200.0)\\"}\\n\\nPlease generate ..."},
      {"from": "gpt", "value": "Low-level thought: Tap ...\\nactions:\\n{\\"action_type\\": \\"click\\", \\"x\\": 540,
       \\"y\\": 1200}"}]}

| native | unified |
|---|---|
| click, long_press | `Click`, `LongPress(x, y)` |
| type | `Click(x, y)` if it has a point, and `Type(text)` |
| scroll | `Scroll(direction)`: what the view does |
| navigate_home, navigate_back, keyboard_enter | `PressHome`, `PressBack`, `PressEnter` |
| open_app | `Launch(app)` |
| wait | `Wait` |
| answer | `CallUser(text)` |
| status successful, infeasible | `Finished`, episode_outcome; infeasible is lossy |

The action is the last JSON object of the reply; what stands before it, less the marks `Low-level thought:` and
`actions:`, is the thought.
Points are pixels of the picture (1080 x 2400, UNCONFIRMED: without the picture a point is refused, `bad_frame`).
A step is an episode of its own: nothing tells which belong together; one whose prompt tells earlier steps is marked as
standing after a gap (`steps_before_are_rows_of_their_own`). The tree holds points without boxes.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from pipelines.mapping.adapter import Adapter, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import EpisodeBuilder, MappedAction
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.frames import sides_of
from pipelines.mapping.items import ItemError, bad_values, is_number, notices, text_of, unknown_fields
from pipelines.mapping.points import in_frame
from pipelines.mapping.unicode_text import check_texts
from pipelines.native.chat import exchanges, has_steps, turns, without_pictures
from pipelines.native.record_readers import json_lines
from schemas import action_types
from schemas.ids import digest

FOLDERS = ("", "images/", "os_genesis_mobile_screenshots/", "screenshots/")
_KNOWN = frozenset({"id", "image", "conversations"})
_ARGUMENTS = frozenset({"action_type", "x", "y", "text", "direction", "app_name", "goal_status"})
_ASKED = re.compile(
    r"High-level instruction:(.*?)\n[^\S\n]*(?:Low-level instruction:(.*?)\n[^\S\n]*)?"
    r"(?:Action history|Previous actions|Accessibility tree)\s*:",
    re.DOTALL | re.IGNORECASE,
)
_HISTORY = re.compile(
    r"\n[^\S\n]*(?:Action history|Previous actions)\s*:(.*?)"
    r"(?=\n[^\S\n]*(?:Accessibility tree\s*:|Please generate\b)|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_LEAD = re.compile(r"^\s*(?:Low-level )?thought:", re.IGNORECASE)
_MARK = re.compile(r"(?:^|\n)[ \t]*actions?:\s*$", re.IGNORECASE)
_MAX_BRACES = 50
_BARE: dict[str, action_types.Action] = {
    "navigate_home": action_types.PressHome(),
    "navigate_back": action_types.PressBack(),
    "keyboard_enter": action_types.PressEnter(),
    "wait": action_types.Wait(),
}
_WORDS = ("click", "long_press", "type", "scroll", "open_app", "answer", "status", *_BARE)
_ENDS = {"successful": "success", "complete": "success", "infeasible": "failure"}
_OTHER = "other actions"

DESCRIPTOR = Descriptor(
    id="os_genesis_mobile",
    title="OS-Genesis mobile",
    licence="MIT",
    platforms=("mobile",),
    size="10,000 to 100,000 steps in two prompt forms",
    citation="Sun et al., OS-Genesis: Automating GUI Agent Trajectory Construction via Reverse Task Synthesis, "
    "arXiv 2412.19723",
    frame="pixels of the picture (UNCONFIRMED: 1080 x 2400), x first, origin top left",
    record_unit="episode",
    known_problems=(
        "tasks, thoughts and actions are written by a model",
        "both files probably hold the same steps in two prompt forms (UNCONFIRMED)",
        "the tasks run on the apps that AndroidWorld evaluates on",
    ),
    loss=(
        Loss("click", "Click", "kept"),
        Loss("long_press", "LongPress", "kept"),
        Loss("type", "Click, Type", "kept", "without a point: Type alone"),
        Loss("scroll", "Scroll(direction)", "kept"),
        Loss("navigate_home", "PressHome", "kept"),
        Loss("navigate_back", "PressBack", "kept"),
        Loss("keyboard_enter", "PressEnter", "kept"),
        Loss("open_app", "Launch(app)", "kept"),
        Loss("wait", "Wait", "kept"),
        Loss("answer", "CallUser", "kept"),
        Loss("status", "Finished", "kept", "infeasible is lossy: episode_outcome says it"),
        Loss(_OTHER, "-", "dropped", "unknown_action:<word>, or no action at all"),
        Loss("the accessibility tree", "-", "lossy", "points without boxes; stays in the raw file"),
    ),
    download=Download(
        "OS-Copilot/OS-Genesis-mobile-data", files=("*.jsonl",), unpack=(("os_genesis_mobile_screenshots.zip", "."),)
    ),
)


class OsGenesisMobileAdapter(Adapter):
    """One record per step."""

    descriptor = DESCRIPTOR
    version = 2
    patterns = ("**/*.jsonl",)
    reader = json_lines
    rows_alone = (".jsonl",)

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One step → its rows. Raises `RecordError`: missing_field, empty_text, unsafe_path."""
        row = record.payload
        if not isinstance(row, Mapping) or not isinstance(row.get("image"), str):
            raise RecordError("missing_field", "expected an object with an image")
        check_texts(row)
        pairs = exchanges(turns(row.get("conversations")))
        prompt = without_pictures(pairs[0][0]) if len(pairs) == 1 else ""
        asked = _ASKED.search(prompt)
        if asked is None:
            raise RecordError("missing_field", "expected one exchange, with a 'High-level instruction:'")
        if not asked[1].strip():
            raise RecordError("empty_text", "High-level instruction")
        screen = RecordScreen.load(raw.first(folder + row["image"] for folder in FOLDERS), normalised=True)
        said = pairs[0][1]
        thought, native = _split(said)
        status = native.get("goal_status") if native.get("action_type") == "status" else None
        outcome = _ENDS.get(status) if isinstance(status, str) else None
        builder = EpisodeBuilder(
            self.descriptor,
            record,
            # By its content with the file: rows have no id.
            episode_id=digest({"file": record.file, **row}),
            instruction=asked[1].strip(),
            split="test" if "test" in record.file.rpartition("/")[2].lower() else "train",
            outcome=outcome,
        )
        found = [*unknown_fields(row, _KNOWN), *unknown_fields(native, _ARGUMENTS)]
        history = _HISTORY.search(prompt, asked.end(1))
        if history is not None and has_steps(history[1]):
            builder.gap("steps_before_are_rows_of_their_own")
        try:
            word, actions = _actions(native, screen)
        except ItemError as error:
            builder.reject(error.reason, native=said, native_index=0, word=error.word, detail=error.detail)
        else:
            mapped = MappedAction(actions, word, outcome == "failure")
            builder.take(
                mapped, native, 0, screen, thought=thought or None, step_instruction=(asked[2] or "").strip() or None
            )
        return notices(builder.finish(), found)


def _split(said: str) -> tuple[str, Mapping[str, Any]]:
    """Thought and the action: the last JSON object of the reply, which ends it (empty: there is none)."""
    place = len(said)
    # From the end, as thoughts may hold braces as well.
    for _ in range(_MAX_BRACES):
        place = said.rfind("{", 0, place)
        if place < 0:
            break
        try:
            found = json.loads(said[place:])
        except (ValueError, RecursionError):
            continue
        if isinstance(found, dict) and "action_type" in found:
            return _LEAD.sub("", _MARK.sub("", said[:place]), count=1).strip(), found
    return said, {}


def _actions(native: Mapping[str, object], screen: RecordScreen) -> tuple[str, list[action_types.Action]]:
    """Word, actions. Raises `ItemError`."""
    if not native:
        raise ItemError("missing_field", "the reply doesn't end with an action", _OTHER)
    word = native["action_type"]
    if word not in _WORDS:
        raise ItemError(f"unknown_action:{str(word)[:60]}", f"known are {', '.join(_WORDS)}", _OTHER)
    with bad_values(word):
        return word, _made(word, native, screen)


def _made(word: str, native: Mapping[str, object], screen: RecordScreen) -> list[action_types.Action]:
    if word in _BARE:
        return [_BARE[word]]
    if word in ("click", "long_press"):
        at = _point(native, screen, word)
        return [action_types.Click(at) if word == "click" else action_types.LongPress(at)]
    if word == "type":
        # With a click, if a place is said: typing there needs the focus.
        place = [action_types.Click(_point(native, screen, word))] if {"x", "y"} & set(native) else []
        return [*place, action_types.Type(text_of(native, "text", word))]
    if word == "scroll":
        return [action_types.Scroll(direction=text_of(native, "direction", word).lower())]
    if word == "open_app":
        return [action_types.Launch(app=text_of(native, "app_name", word))]
    if word == "answer":
        return [action_types.CallUser(text_of(native, "text", word))]
    if str(native.get("goal_status")) not in _ENDS:
        raise ItemError("bad_value", f"goal_status: expected one of {tuple(_ENDS)}", word)
    return [action_types.Finished("")]


def _point(native: Mapping[str, object], screen: RecordScreen, word: str) -> action_types.Point:
    x: Any = native.get("x")
    y: Any = native.get("y")
    if not (is_number(x) and is_number(y)):
        raise ItemError("missing_field", f"x, y: expected two numbers, found {x!r:.40}, {y!r:.40}", word)
    return in_frame(x, y, sides_of(screen, "pixels of a picture that isn't there", word), word)
