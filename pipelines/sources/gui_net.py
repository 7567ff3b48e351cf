"""GUI-Net (TongUI): steps read off web tutorials by a model, on desktop, phone and web.

A raw element of the annotation arrays (made up); pictures lie in `training_data/`:

    {"messages": [{"role": "user", "content": "<image>\\nTask: Open the settings"}, {"role": "assistant",
        "content": "Thought: …\\nAction: {'action': 'CLICK', 'value': None, 'position': [0.41, 0.18]}"}],
     "images": ["training_data/7/0.png"], "custom_id": "7_0", "raw_link": "…"}

| native | unified |
|---|---|
| CLICK, TAP; HOVER; LEFT_CLICK_DOUBLE; LONG_PRESS | Click; Hover; DoubleClick; LongPress |
| DRAG, SELECT_TEXT | Drag |
| SWIPE | Scroll(start, end), direction from the points, which are the finger's |
| SCROLL | Scroll(direction) |
| INPUT | Type (no click into the field where the position is null) |
| HOT_KEY; COPY | Hotkey; Hotkey ctrl, c |
| ENTER, PRESS_HOME, PRESS_BACK | PressEnter, PressHome, PressBack |
| WAIT; FINISH, ANSWER; CALL_USER | Wait; Finished; CallUser |
| RIGHT_CLICK_SINGLE, SELECT | quarantined: `no_counterpart`. Under v2 `RightClick`, `SelectOption` |
| plain `[x, y]` as the answer | quarantined: `no_counterpart` (grounding without a box or a stated frame) |

Positions are fractions 0..1 rounded to two decimals (5 units either way): rule `two_decimals`. The variant in pixels is
quarantined (`off_screen`). Several actions of a list are one native step. A row is an episode of one step, since rows
have no episode, and its platform follows from its words (rule `platform_by_words`), since rows don't say it.
"""

import ast
import json
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from pipelines.mapping.adapter import Adapter, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import EpisodeBuilder
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.items import ItemError, is_text, notices, unknown_fields
from pipelines.mapping.points import fraction_point, swipe
from pipelines.native.chat import turns, without_pictures
from pipelines.native.record_readers import field_id, json_list
from schemas import action_types
from schemas.action_types import ActionSpace, speaks
from schemas.ids import digest

POINTED: dict[str, Callable[[action_types.Point], action_types.Action]] = {
    "CLICK": action_types.Click,
    "TAP": action_types.Click,
    "HOVER": action_types.Hover,
    "LEFT_CLICK_DOUBLE": action_types.DoubleClick,
    "LONG_PRESS": action_types.LongPress,
}
BARE: dict[str, action_types.Action] = {
    "ENTER": action_types.PressEnter(),
    "PRESS_HOME": action_types.PressHome(),
    "PRESS_BACK": action_types.PressBack(),
    "WAIT": action_types.Wait(),
    "COPY": action_types.Hotkey(("ctrl", "c")),
}
SPANNED = ("DRAG", "SELECT_TEXT", "SWIPE")
IN_V2: dict[str, type] = {"RIGHT_CLICK_SINGLE": action_types.RightClick, "SELECT": action_types.SelectOption}
TEXTED = ("INPUT", "FINISH", "ANSWER", "CALL_USER")
WORDS = (*POINTED, *BARE, *SPANNED, *IN_V2, *TEXTED, "SCROLL", "HOT_KEY")
OTHER, SEVERAL = "other actions", "several actions"
_KNOWN = frozenset({"messages", "images", "custom_id", "raw_link"})
_ACTION = re.compile(r"(?:Thought:(?P<thought>.*?))?Action:\s*(?P<action>[\[{].*)\Z", re.DOTALL)
_PLAIN = re.compile(r"\s*\[\s*-?[\d.]+\s*,\s*-?[\d.]+\s*\]\s*")

DESCRIPTOR = Descriptor(
    id="gui_net",
    title="GUI-Net (TongUI)",
    licence="Apache-2.0 (hub tag)",
    platforms=("desktop", "mobile", "web"),
    language="multi",
    size="a million rows (some 588,000 in the annotation variant)",
    citation="Zhang et al., TongUI: Building Generalized GUI Agents from Multimodal Web Tutorials, arXiv 2504.12679",
    frame="fractions 0..1 of the picture with two decimals, x first",
    known_problems=(
        "positions are rounded to 1/100 of the screen",
        "labels are a model's reading of tutorials, without boxes",
        "holds GUIAct, Mind2Web and AITW parts",
        "rows don't say their platform",
    ),
    loss=(
        Loss("CLICK", "Click", "kept"),
        Loss("TAP", "Click", "kept"),
        Loss("HOVER", "Hover", "kept"),
        Loss("LEFT_CLICK_DOUBLE", "DoubleClick", "kept"),
        Loss("LONG_PRESS", "LongPress", "kept", "no duration"),
        Loss("DRAG", "Drag", "kept"),
        Loss("SELECT_TEXT", "Drag", "kept"),
        Loss("SWIPE", "Scroll", "kept"),
        Loss("SCROLL", "Scroll", "kept", "direction only"),
        Loss("INPUT", "Type", "kept", "an empty text is quarantined"),
        Loss("HOT_KEY", "Hotkey", "kept", "over three keys have no counterpart"),
        *(Loss(word, type(action).__name__, "kept") for word, action in BARE.items()),
        Loss("FINISH", "Finished", "kept"),
        Loss("ANSWER", "Finished", "kept"),
        Loss("CALL_USER", "CallUser", "kept"),
        *(Loss(word, "-", "dropped", f"no_counterpart. v2: {kind.__name__}, kept") for word, kind in IN_V2.items()),
        Loss(SEVERAL, "several actions", "kept", "one native step"),
        Loss(OTHER, "-", "dropped", "unknown_action:<word>, or no action that can be read"),
    ),
    download=Download("Bofeee5675/GUI-Net-1M", files=("*.json",), unpack=(("images.zip.part_*", "."),)),
)


class GuiNetAdapter(Adapter):
    """One record per row."""

    descriptor = DESCRIPTOR
    reader = partial(json_list, of_id=field_id("custom_id"))

    def parts(self, raw: Raw) -> list[tuple[str, ...]]:
        """One part per annotation file."""
        return [(name,) for name in raw.files("**/*.json") if not name.endswith("dataset_info.json")]

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One row → an episode of one step. Raises `RecordError`: missing_field, empty_text, unsafe_path."""
        row = record.payload
        if not isinstance(row, dict):
            raise RecordError("bad_value", f"expected an object, found {type(row).__name__}")
        said = turns(row.get("messages"))
        asked = next((turn.text for turn in said if turn.role == "user"), "")
        goal = without_pictures(asked)
        if not goal or not is_text(goal) or said[-1].role != "assistant":
            raise RecordError("missing_field", "expected a user's task and an assistant's action")
        # Several pictures: the last is the current screen.
        names = row.get("images")
        name = names[-1] if isinstance(names, list) and names and isinstance(names[-1], str) else None
        screen = RecordScreen.load(raw.read_if_there(name) if name else None, normalised=True)
        try:
            thought, listed = _parse(said[-1].text)
            words = [_word(one) for one in listed]
            word = words[0] if len(words) == 1 else SEVERAL
            # Before the actions, as it is told by their words.
            platform = _platform(set(words))
            actions = [_action(one, kind, self.space) for one, kind in zip(listed, words, strict=True)]
        except ItemError as error:
            builder = EpisodeBuilder(
                self.descriptor,
                record,
                episode_id=record.native_id or digest(row),
                instruction=goal,
                platform="desktop",
            )
            builder.reject(error.reason, native=row, native_index=0, word=error.word, detail=error.detail)
            return notices(builder.finish(), unknown_fields(row, _KNOWN))
        builder = EpisodeBuilder(
            self.descriptor,
            record,
            episode_id=record.native_id or digest(row),
            instruction=goal,
            platform=platform,
            language=None,
        )
        builder.add(
            actions, row, 0, word, screen, thought=thought, rules=["two_decimals", f"platform_by_words={platform}"]
        )
        return notices(builder.finish(), unknown_fields(row, _KNOWN))


def _platform(words: set[str]) -> str:
    """By the words that only one vocabulary has; desktop, the largest part, for those that all have."""
    if words & {"TAP", "SWIPE", "LONG_PRESS", "PRESS_HOME", "PRESS_BACK"}:
        return "mobile"
    # Words of the web that the desktop doesn't have.
    return "web" if words & {"HOVER", "ANSWER", "ENTER", "SELECT", "SELECT_TEXT", "COPY"} else "desktop"


def _parse(text: str) -> tuple[str | None, list[Any]]:
    """(thought, native actions). JSON, or Python's notation with None. Raises `ItemError`."""
    if _PLAIN.fullmatch(text):
        raise ItemError("no_counterpart", "a bare point: its frame and target aren't told", OTHER)
    match = _ACTION.search(text.strip())
    if match is None:
        raise ItemError("missing_field", f"expected Action: and an object, found {text[:80]!r}", OTHER)
    try:
        # JSON mostly; some replies are Python's notation.
        value = json.loads(match["action"])
    except ValueError:
        try:
            value = ast.literal_eval(match["action"])
        except (ValueError, SyntaxError, MemoryError, RecursionError) as error:
            raise ItemError("bad_json", f"the action can't be read: {match['action'][:80]!r}", OTHER) from error
    listed = value if isinstance(value, list) else [value]
    if not listed:
        raise ItemError("missing_field", "an empty list of actions", OTHER)
    thought = (match["thought"] or "").strip()
    return thought if thought and is_text(thought) else None, listed


def _word(native: object) -> str:
    said = native.get("action") if isinstance(native, dict) else None
    if said not in WORDS:
        raise ItemError(f"unknown_action:{str(said)[:60]}", f"expected one of {', '.join(WORDS)}", OTHER)
    return str(said)


def _action(native: dict[str, Any], word: str, space: ActionSpace) -> action_types.Action:
    value, position = native.get("value"), native.get("position")
    if word in BARE:
        return BARE[word]
    if word in IN_V2 and not speaks(space, IN_V2[word]):
        raise ItemError("no_counterpart", f"the action space has no {word}", word)
    if word == "RIGHT_CLICK_SINGLE":
        return action_types.RightClick(fraction_point(position, word))
    if word in POINTED:
        return POINTED[word](fraction_point(position, word))
    if word in SPANNED:
        ends = position if isinstance(position, list) and len(position) == 2 else []
        points = [fraction_point(end, word) for end in ends]
        if len(points) != 2:
            raise ItemError("missing_field", f"{word}: expected two points, found {position!r:.60}", word)
        # Phones scroll by swiping, so a span is a scroll there and a drag elsewhere.
        if word != "SWIPE":
            return action_types.Drag(points[0], points[1])
        return swipe(points[0], points[1], word)
    if word == "SCROLL":
        direction = str(value).strip().lower()
        if direction not in ("up", "down", "left", "right"):
            raise ItemError("bad_value", f"SCROLL: expected a direction, found {value!r:.40}", word)
        return action_types.Scroll(direction=direction)
    # A list of keys, or one text with plus signs.
    if word == "HOT_KEY":
        keys = value if isinstance(value, list) else re.split(r"\s*\+\s*", value) if isinstance(value, str) else []
        if not keys or not all(isinstance(key, str) and key.strip() for key in keys):
            raise ItemError("missing_field", f"HOT_KEY: expected keys, found {value!r:.40}", word)
        if len(keys) > 3:
            raise ItemError("no_counterpart", f"a hotkey of {len(keys)} keys; the space has at most 3", word)
        return action_types.pressed(tuple(keys))
    text = value if isinstance(value, str) and is_text(value) else ""
    if word == "INPUT":
        if not text:
            raise ItemError("empty_text", f"INPUT: expected a text, found {value!r:.40}", word)
        return action_types.Type(text)
    if word == "SELECT":
        if not text:
            raise ItemError("empty_text", f"SELECT: expected an option, found {value!r:.40}", word)
        return action_types.SelectOption(fraction_point(position, word), text)
    return action_types.CallUser(text) if word == "CALL_USER" else action_types.Finished(text)
