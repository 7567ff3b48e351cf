"""WebLINX (raw demonstrations): dialogues in which a navigator drives a browser for an instructor.

A raw turn (of `data` in `demonstrations/<shortcode>/replay.json`, shortened), beside chat turns {"type": "chat",
"timestamp": 2.7, "speaker": "navigator", "utterance": "Hi"}:

    {"type": "browser", "timestamp": 51.9, "state": {"screenshot": "screenshot-2-0.png", "page": "page-2-0.html",
       "screenshot_status": "good"}, "action": {"intent": "click", "arguments": {"metadata": {"mouseX": 600,
       "mouseY": 636, "viewportHeight": 714, "viewportWidth": 1536, "zoomLevel": 1.25, "url": "...", ...},
       "properties": {...}, "element": {"bbox": {"left": 680.75, "top": 774.4, ...}, ...}}, "event_id": 2}}

| native | unified |
|---|---|
| click, hover | `Click`, `Hover` at mouseX, mouseY over the viewport |
| textInput | `Click` (centre of the element; its box is in px times zoomLevel), `Type(text)` |
| change | `Click`, `Type(value)`, lossy. Under v2 `SelectOption(value)` |
| submit | `PressEnter`, lossy |
| load | `Launch(url)` |
| scroll | `Scroll(direction)` where an amount and an offset say the same of scrollX, scrollY; else rejected |
| copy, paste | `Hotkey(ctrl, c)`, `Type(pasted)` |
| navigator says | `CallUser`; the last turn of all: `Finished` |
| instructor says | the instruction: all of it for the episode, the latest for the step; no action |
| tabcreate, tabremove, tabswitch | rejected (`no_counterpart`) |

A screenshot is used if its status is good (or absent) and it has the viewport's ratio. `splits.json` names the split:
without it, or for a demonstration that isn't in it, nothing is mapped (`unknown_split`). Text stays as it is: it
holds credentials of test accounts and personal data, for cleaning to find. The turn-level release has no coordinates.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import EpisodeBuilder, MappedAction
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.frames import fitting_screen
from pipelines.mapping.items import ItemError, bad_values, notices, split_of, unknown_fields
from pipelines.mapping.points import wheel_direction
from pipelines.native.record_readers import count_of, json_document
from schemas.action_types import ActionSpace, speaks
from schemas.actions import (
    Action,
    CallUser,
    Click,
    Finished,
    Hotkey,
    Hover,
    Launch,
    PressEnter,
    Scroll,
    SelectOption,
    Type,
)
from schemas.coordinates import box_to_unit, centre_in_units, to_unit

SPLITS = "splits.json"
_NAME = re.compile(r"[\w\-][\w\-.]{0,200}", re.ASCII)
_KNOWN = frozenset({"version", "data"})
_KNOWN_TURN = frozenset({"type", "timestamp", "speaker", "utterance", "state", "action"})
_INTENTS = ("click", "hover", "textInput", "change", "submit", "load", "scroll", "copy", "paste")
_TABS = ("tabcreate", "tabremove", "tabswitch")
_TEXTS = {"textInput": "text", "change": "value", "paste": "pasted"}
_SAY, _OTHER = "say", "other turns"
Point = tuple[int, int]

DESCRIPTOR = Descriptor(
    id="weblinx",
    title="WebLINX",
    licence="CC-BY-NC-SA-4.0",
    platforms=("web",),
    size="2,337 demonstrations, about 100,000 turns; train 969",
    citation="Lu et al., WebLINX: Real-World Website Navigation with Multi-Turn Dialogue, arXiv 2402.05930",
    frame="mouse: CSS px of the viewport; boxes: the same times zoomLevel; x and y named",
    record_unit="episode",
    item_unit="browser turn, or utterance of the navigator",
    known_problems=(
        "utterances hold credentials of test accounts",
        "many hovers are a mouse at rest",
        "turns without a screenshot, and reused ones of a resized frame",
        "whether scrollX, scrollY are amounts or offsets is not documented",
    ),
    loss=(
        Loss("click", "Click", "kept"),
        Loss("hover", "Hover", "kept"),
        Loss("textInput", "Click, Type", "kept", "Type only, lossy, without an element"),
        Loss("change", "Click, Type", "lossy", "the option's place is unknown. v2: SelectOption, kept"),
        Loss("submit", "PressEnter", "lossy", "a form may be sent in other ways"),
        Loss("load", "Launch(url)", "kept"),
        Loss("scroll", "Scroll(direction)", "lossy", "direction only; ambiguous ones: no_counterpart"),
        Loss("copy", "Hotkey(ctrl, c)", "kept"),
        Loss("paste", "Type", "lossy", "the text that was pasted"),
        Loss(_SAY, "CallUser, Finished", "kept"),
        *(Loss(word, "-", "dropped", "no_counterpart") for word in _TABS),
        Loss(_OTHER, "-", "dropped", "unknown_action:<intent>, unknown_role:<speaker>, or no action"),
        Loss("pages, bboxes, form.json, metadata.json", "-", "lossy", "stay in the raw files"),
    ),
    download=Download("McGill-NLP/WebLINX-full"),
)


class WeblinxAdapter(Adapter):
    """One record per demonstration."""

    descriptor = DESCRIPTOR
    patterns = ("**/replay.json",)
    side_lists = (SPLITS,)

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """The demonstration, named by its folder."""
        for file in files:
            for found in json_document(raw, file, count=count_of('"intent"')):
                name = file.split("/")[-2] if "/" in file else None
                yield Record(file, found.locator, found.payload, name) if isinstance(found, Record) else found

    def count_items(self, record: Record) -> int:
        """Turns that aren't the instructor's."""
        listed = record.payload.get("data") if isinstance(record.payload, dict) else None
        return sum(not _instructs(turn) for turn in listed) if isinstance(listed, list) else 1

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One demonstration → step rows. Raises `RecordError`: missing_field, empty_text, unknown_split."""
        replay: Any = record.payload
        listed = replay.get("data") if isinstance(replay, dict) else None
        if not isinstance(listed, list) or record.native_id is None:
            raise RecordError("missing_field", "expected a replay with data, a list, in a folder of its own")
        items = sum(not _instructs(turn) for turn in listed)
        split = split_of(raw, SPLITS, record.native_id)
        # Without a split it might be a test demonstration.
        if split is None:
            raise RecordError("unknown_split", f"{SPLITS} doesn't name this demonstration", items)
        asked = [turn["utterance"].strip() for turn in listed if _instructs(turn) and _utterance(turn)]
        if not asked:
            raise RecordError("empty_text", "the instructor says nothing", items)
        builder = EpisodeBuilder(self.descriptor, record, instruction="\n".join(asked), split=split)
        _Demo(builder, raw, record.file.rpartition("/")[0], listed, self.space).read()
        found = unknown_fields(replay, _KNOWN)
        for turn in listed:
            found += unknown_fields(turn, _KNOWN_TURN) if isinstance(turn, dict) else []
        return notices(builder.finish(), found)


class _Demo:
    """The reading of one demonstration."""

    def __init__(self, builder: EpisodeBuilder, raw: Raw, folder: str, listed: list[Any], space: ActionSpace) -> None:
        self.builder, self.raw, self.folder, self.listed, self.space = builder, raw, folder, listed, space
        self.said: str | None = None
        self.offset = (0.0, 0.0)
        amounts = [_amount(turn) for turn in listed]
        # A negative number can't be an offset, so here all are amounts.
        self.amounts_proven = any(amount and min(amount) < 0 for amount in amounts)

    def read(self) -> None:
        """Add or reject every turn that isn't the instructor's."""
        for place, turn in enumerate(self.listed):
            if _instructs(turn):
                # What was last asked for goes with every step until more is said.
                self.said = _utterance(turn) or self.said
                continue
            word = _word(turn)
            try:
                actions, box, lossy, rules = self._turn(turn, word, place)
                screen = self._screen(turn)
            except (ItemError, RecordError) as error:
                self.builder.reject(error.reason, native=turn, native_index=place, word=word, detail=error.detail)
                continue
            mapped = MappedAction(actions, word, lossy, rules, box)
            self.builder.take(mapped, _short(turn), place, screen, step_instruction=self.said)

    def _turn(self, turn: object, word: str, place: int) -> tuple[list[Action], list[float] | None, bool, list[str]]:
        if not isinstance(turn, dict):
            raise ItemError("bad_value", f"expected an object, found {type(turn).__name__}")
        with bad_values("?"):
            if turn.get("type") == "chat":
                return [self._say(turn, place)], None, False, []
            if turn.get("type") != "browser":
                raise ItemError(f"unknown_action:{str(turn.get('type'))[:60]}", "type: expected chat or browser")
            return self._browser(turn, word)

    def _say(self, turn: Mapping[str, object], place: int) -> Action:
        if turn.get("speaker") != "navigator":
            raise ItemError(f"unknown_role:{str(turn.get('speaker'))[:40]}", "expected instructor or navigator")
        text = _utterance(turn)
        if text is None:
            raise ItemError("empty_text", "the navigator says nothing")
        return Finished(text) if place == len(self.listed) - 1 else CallUser(text)

    def _browser(self, turn: dict[str, Any], word: str) -> tuple[list[Action], list[float] | None, bool, list[str]]:
        action = turn.get("action")
        intent = action.get("intent") if isinstance(action, dict) else None
        if not isinstance(intent, str):
            raise ItemError("missing_field", "expected action.intent")
        if intent in _TABS:
            raise ItemError("no_counterpart", intent)
        if intent not in _INTENTS:
            raise ItemError(f"unknown_action:{intent[:60]}", f"expected one of {(*_INTENTS, *_TABS)}")
        arguments = _object(action.get("arguments"), "arguments")  # type: ignore[union-attr]
        if word == "load":
            self.offset = (0.0, 0.0)
            places = (arguments.get("properties"), arguments, arguments.get("metadata"))
            urls = [holder.get("url") for holder in places if isinstance(holder, dict)]
            return [Launch(url=next((url for url in urls if isinstance(url, str) and url), ""))], None, False, []
        if word == "scroll":
            return [self._scroll(turn)], None, True, ["direction_from_amount"]
        if word in ("submit", "copy"):
            return [PressEnter() if word == "submit" else Hotkey(("ctrl", "c"))], None, word == "submit", []
        if word in ("click", "hover"):
            point = _mouse(arguments)
            return [Click(point) if word == "click" else Hover(point)], _target(arguments), False, []
        text = arguments.get(_TEXTS[word])
        if text is None and word == "change":
            text = arguments.get("selected")
        if not isinstance(text, str):
            raise ItemError("missing_field", f"{_TEXTS[word]}: expected a text")
        if not text:
            raise ItemError("empty_text", f"{word} without text")
        box = _target(arguments) if word != "paste" else None
        if box is None:
            return [Type(text)], None, True, ["focus_unknown"]
        if word == "change" and speaks(self.space, SelectOption):
            return [SelectOption(centre_in_units(box), text)], box, False, ["centre_of_box"]
        return [Click(centre_in_units(box)), Type(text)], box, word == "change", ["centre_of_box"]

    def _scroll(self, turn: Mapping[str, object]) -> Action:
        """The direction that follows from scrollX, scrollY as an amount, if as an offset they say the same."""
        amount = _amount(turn)
        if amount is None:
            raise ItemError("missing_field", "expected scrollX and scrollY, numbers")
        moved = (amount[0] - self.offset[0], amount[1] - self.offset[1])
        self.offset = amount
        direction = wheel_direction(*amount)
        # Read as an amount and as an offset; where both tell the same direction, it is sure.
        if not direction or (direction != wheel_direction(*moved) and not self.amounts_proven):
            raise ItemError("no_counterpart", f"scroll of {amount}: direction not known")
        return Scroll(direction=direction)

    def _screen(self, turn: Mapping[str, object]) -> RecordScreen | None:
        state, action = turn.get("state"), turn.get("action")
        arguments = action.get("arguments") if isinstance(action, dict) else None
        try:
            size = _viewport(arguments)[0]
        except ItemError:
            return None
        name = state.get("screenshot") if isinstance(state, dict) else None
        data = None
        if isinstance(name, str) and isinstance(state, dict) and (state.get("screenshot_status") or "good") == "good":
            if not _NAME.fullmatch(name):
                raise RecordError("unsafe_path", f"screenshot: expected a plain file name, found {name!r:.120}")
            data = self.raw.read_if_there(f"{self.folder}/screenshots/{name}")
        return fitting_screen(data, (max(1, round(size[0])), max(1, round(size[1]))))


def _instructs(turn: object) -> bool:
    return isinstance(turn, dict) and turn.get("type") == "chat" and turn.get("speaker") == "instructor"


def _utterance(turn: Mapping[str, object]) -> str | None:
    text = turn.get("utterance")
    return text.strip() if isinstance(text, str) and text.strip() else None


def _word(turn: object) -> str:
    if isinstance(turn, dict) and turn.get("type") == "chat" and turn.get("speaker") == "navigator":
        return _SAY
    action = turn.get("action") if isinstance(turn, dict) and turn.get("type") == "browser" else None
    intent = action.get("intent") if isinstance(action, dict) else None
    return intent if intent in (*_INTENTS, *_TABS) else _OTHER


def _object(value: object, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ItemError("missing_field", f"{name}: expected an object")
    return value


def _number(holder: object, name: str) -> float:
    value = holder.get(name) if isinstance(holder, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ItemError("missing_field", f"{name}: expected a number")
    return float(value)


def _viewport(arguments: object) -> tuple[tuple[float, float], float]:
    """Width and height in CSS px, and the zoom. Raises `ItemError`: missing_field, bad_frame (tab turns say -1)."""
    metadata = _object(_object(arguments, "arguments").get("metadata"), "metadata")
    size = (_number(metadata, "viewportWidth"), _number(metadata, "viewportHeight"))
    zoom = _number(metadata, "zoomLevel") if "zoomLevel" in metadata else 1.0
    if not (size[0] > 0 and size[1] > 0 and zoom > 0):
        raise ItemError("bad_frame", f"viewport {size}, zoom {zoom}")
    return size, zoom


def _mouse(arguments: Mapping[str, object]) -> Point:
    size, _ = _viewport(arguments)
    metadata = arguments["metadata"]
    return to_unit(_number(metadata, "mouseX"), size[0]), to_unit(_number(metadata, "mouseY"), size[1])


def _target(arguments: Mapping[str, object]) -> list[float] | None:
    """The element's box in 0..1000; None without one. A box without area is one of an element that isn't drawn."""
    element = arguments.get("element")
    box = element.get("bbox") if isinstance(element, dict) else None
    if not isinstance(box, dict):
        return None
    (width, height), zoom = _viewport(arguments)
    left, top, right, bottom = (_number(box, side) for side in ("left", "top", "right", "bottom"))
    if not (left < right and top < bottom):
        return None
    return box_to_unit((left, top, right, bottom), (width * zoom, height * zoom))


def _amount(turn: object) -> tuple[float, float] | None:
    """scrollX, scrollY of a scroll turn."""
    action = turn.get("action") if isinstance(turn, dict) else None
    if not isinstance(action, dict) or action.get("intent") != "scroll":
        return None
    try:
        return _number(action.get("arguments"), "scrollX"), _number(action.get("arguments"), "scrollY")
    except ItemError:
        return None


def _short(turn: Mapping[str, object]) -> Any:
    """A turn without its copies of HTML."""
    action = turn.get("action")
    arguments = action.get("arguments") if isinstance(action, dict) else None
    if not isinstance(action, dict) or not isinstance(arguments, dict):
        return turn
    element = arguments.get("element")
    plain = (
        {k: v for k, v in element.items() if k not in ("innerHTML", "outerHTML")}
        if isinstance(element, dict)
        else element
    )
    shorter = {**arguments, "element": plain} if "element" in arguments else arguments
    return {**turn, "action": {**{k: v for k, v in action.items() if k != "element_html"}, "arguments": shorter}}
