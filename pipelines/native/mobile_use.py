"""Episodes of chats that call `mobile_use`, the tool by which Qwen's models drive a phone, one step a row."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Reader, Record, RecordError, RecordScreen
from pipelines.mapping.builders import DIRECTION_FROM_POINTS, EpisodeBuilder, MappedAction
from pipelines.mapping.card import Loss
from pipelines.mapping.frames import MISFIT, whole_sides
from pipelines.mapping.items import ItemError, bad_values, is_number, notices, text_of, unknown_fields
from pipelines.mapping.unicode_text import check_texts
from pipelines.native.chat import turns, without_pictures
from pipelines.native.spill import Spill
from schemas import action_types
from schemas.action_types import OPPOSITE
from schemas.coordinates import OffScreen, point_to_unit

_ARGUMENTS = frozenset(("action", "button", "coordinate", "coordinate2", "direction", "status", "text", "time"))
_ASKED = re.compile(r"The user query:(.*?)\n[^\S\n]*Task progress(.*)", re.DOTALL)
_BUTTONS: Mapping[str, action_types.Action] = {
    "back": action_types.PressBack(),
    "home": action_types.PressHome(),
    "enter": action_types.PressEnter(),
    "recent": action_types.PressRecent(),
}
_WORDS = ("click", "long_press", "swipe", "type", "system_button", "open", "answer", "wait", "terminate", "key")
_OTHER = "other actions"
_STEP = re.compile(r"\bStep ?(\d{1,4}):")
_SIZE = re.compile(r"resolution is (\d{2,5})\s*[x×]\s*(\d{2,5})")
_FOLDERS = ("", "images/")
_RATIO_SLACK_PX = 28
"""Declared sides are rounded to multiples of 28."""

LOSSES = (
    Loss("click", "Click", "kept"),
    Loss("long_press", "LongPress", "kept"),
    Loss("swipe", "Scroll", "kept", "the finger's path or direction; equal points: no_counterpart"),
    Loss("type", "Type", "kept"),
    Loss("system_button", "PressBack, PressHome, PressEnter, PressRecent", "kept", "Menu: no_counterpart"),
    Loss("open", "Launch(app)", "kept"),
    Loss("answer", "CallUser", "kept"),
    Loss("wait", "Wait", "lossy", "the time stays in native_action"),
    Loss("terminate", "Finished", "kept", "failure is lossy: episode_outcome says it"),
    Loss("key", "-", "dropped", "no_counterpart: keys of the device"),
    Loss(_OTHER, "-", "dropped", "unknown_action:<name>, or no action at all"),
)


@dataclass(frozen=True)
class MobileStep:
    """A row, read: how many steps stand before it, the frame of its points (None: it names none), what was said."""

    row: Mapping[str, Any]
    query: str
    done: int
    size: tuple[int, int] | None
    said: str
    shares: bool = False
    """Points are shares of `size`, whatever the picture's ratio; else they are its pixels."""

    @classmethod
    def of(cls, row: Mapping[str, Any], items: int) -> "MobileStep":
        """By the words of the turns. Raises `RecordError` for a row without a query, with the episode's items."""
        chat = turns(row.get("messages"), items)
        text = {turn.role: turn.text for turn in chat}
        asked = _ASKED.search(without_pictures(text.get("user", "")))
        if asked is None:
            raise RecordError("missing_field", "expected 'The user query:' and 'Task progress'", items)
        if not asked[1].strip():
            raise RecordError("empty_text", "The user query", items)
        done = max((int(number) for number in _STEP.findall(asked[2])), default=0)
        size = _SIZE.search(text.get("system", ""))
        sides = whole_sides([int(side) for side in size.groups()]) if size else None
        return cls(row, asked[1].strip(), done, sides, chat[-1].text if chat[-1].role == "assistant" else "")

    @cached_property
    def arguments(self) -> Mapping[str, Any]:
        """Of the one call that was said; empty if there is none, or several."""
        text, _, after = self.said.partition("<tool_call>")[2].partition("</tool_call>")
        try:
            call = json.loads(text) if "<tool_call>" not in after else None
            check_texts(call)
        except (ValueError, RecursionError):
            return {}
        arguments = call.get("arguments") if isinstance(call, dict) and call.get("name") == "mobile_use" else None
        return arguments if isinstance(arguments, dict) else {}

    @property
    def word(self) -> str:
        """What the call asks for, as the loss table names it."""
        word = self.arguments.get("action")
        return word if word in _WORDS else _OTHER

    def action(self) -> MappedAction:
        """What it is for us. Raises `ItemError`."""
        word, arguments = self.word, self.arguments
        if not arguments:
            raise ItemError("missing_field", "expected one mobile_use call between <tool_call> tags", _OTHER)
        if word == _OTHER:
            raise ItemError(f"unknown_action:{str(arguments.get('action'))[:60]}", "", _OTHER)
        with bad_values(word):
            if word in ("click", "long_press"):
                at = self._point("coordinate")
                return MappedAction([action_types.Click(at) if word == "click" else action_types.LongPress(at)], word)
            if word in _OF_TEXT:
                return MappedAction([_OF_TEXT[word](text_of(arguments, "text", word))], word)
            if word == "swipe":
                return self._swipe()
            if word == "terminate":
                return self._end()
        if word == "wait":
            # How long it waited is lost.
            return MappedAction([action_types.Wait()], word, lossy=True)
        button = str(arguments.get("button")).lower()
        if word == "key" or button == "menu":
            raise ItemError("no_counterpart", f"{word} {str(arguments.get('text', button))[:60]}", word)
        if button not in _BUTTONS:
            raise ItemError("bad_value", f"button: expected one of {tuple(_BUTTONS)}, found {button[:60]!r}", word)
        return MappedAction([_BUTTONS[button]], word)

    def _swipe(self) -> MappedAction:
        if "coordinate" in self.arguments:
            start, end = self._point("coordinate"), self._point("coordinate2")
            if start == end:
                raise ItemError("no_counterpart", "a swipe from a point to itself", self.word)
            path = action_types.Scroll(start, end, action_types.scroll_direction(start, end))
            return MappedAction([path], self.word, rules=[DIRECTION_FROM_POINTS])
        # Fingers move against the view.
        finger = str(self.arguments.get("direction")).lower()
        if finger not in OPPOSITE:
            raise ItemError("bad_value", f"swipe: expected two points or a direction, found {finger[:60]!r}", self.word)
        turned = action_types.Scroll(direction=OPPOSITE[finger])
        return MappedAction([turned], self.word, rules=["direction_is_the_fingers"])

    def _end(self) -> MappedAction:
        status, said = self.arguments.get("status"), self.arguments.get("action_info")
        if status not in ("success", "failure"):
            raise ItemError("bad_value", f"status: expected success or failure, found {status!r:.60}", self.word)
        if said is not None and not isinstance(said, str):
            raise ItemError("bad_value", f"action_info: expected a text, found {said!r:.60}", self.word)
        failed = status == "failure"
        rules = ["terminate_failure"] if failed else []
        return MappedAction([action_types.Finished(said or "")], self.word, failed, rules)

    def _point(self, name: str) -> action_types.Point:
        pair = self.arguments.get(name)
        if not isinstance(pair, list) or len(pair) != 2 or not all(map(is_number, pair)):
            raise ItemError("missing_field", f"{name}: expected [x, y], found {pair!r:.60}", self.word)
        if self.size is None:
            raise ItemError("bad_frame", "the system turn declares no resolution", self.word)
        try:
            return point_to_unit((pair[0], pair[1]), self.size)
        except (OffScreen, OverflowError) as error:
            raise ItemError("off_screen", f"{name}: {error}", self.word) from error


_OF_TEXT: Mapping[str, Callable[[str], action_types.Action]] = {
    "type": action_types.Type,
    "open": lambda text: action_types.Launch(app=text),
    "answer": action_types.CallUser,
}


class MobileUseAdapter(Adapter):
    """One record per episode; its rows are put in the order of the steps that stand before them."""

    items_at = (".",)
    rows: ClassVar[Reader]
    """Reads the rows of a file."""
    known: ClassVar[frozenset[str]]
    """Columns of a row, and arguments of a call beside the tool's own."""

    def episode_of(self, row: object) -> str | None:
        """The episode that a row belongs to; None where it doesn't say."""
        raise NotImplementedError

    def step_of(self, row: Mapping[str, Any], items: int) -> MobileStep:
        """A row of an episode of so many. Raises `RecordError`."""
        return MobileStep.of(row, items)

    def words_of(self, step: MobileStep) -> Mapping[str, str | None]:
        """What the step says beside its action: `step_instruction`, `thought`, `conclusion`, none of
        them empty."""
        raise NotImplementedError

    def box_of(self, step: MobileStep, screen: RecordScreen) -> Sequence[float] | None:
        """The target's box in 0..1000, where the source has one. Raises `OffScreen`."""
        return None

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """Rows without an episode one by one, then episodes; the rows wait on disk."""
        for file in files:
            spill, episodes = Spill(), dict[str, list[str]]()
            for found in type(self).rows(raw, file):
                if isinstance(found, Broken):
                    yield found
                elif (name := self.episode_of(found.payload)) is None:
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
        steps = sorted((self.step_of(row, len(rows)) for row in rows), key=lambda step: step.done)
        if any("som" in step.arguments for step in steps):
            raise RecordError("no_coordinates", "numbers of tags instead of coordinates", len(rows))
        ends = [step.arguments.get("status") for step in reversed(steps) if step.word == "terminate"]
        builder = EpisodeBuilder(
            self.descriptor,
            record,
            instruction=steps[0].query,
            # The last status that ends is how it ended.
            outcome=next((end for end in ends if end in ("success", "failure")), None),
        )
        found: list[tuple[str, str, Any]] = []
        due = 0
        for place, step in enumerate(steps):
            found += unknown_fields(step.row, self.known)
            found += unknown_fields(step.arguments, _ARGUMENTS | self.known)
            if step.done > due:
                builder.gap("steps_missing_in_source")
            try:
                # Two rows claim the same step, and only the first is taken.
                if step.done < due:
                    raise ItemError("bad_value", f"a second row of step {step.done + 1}", step.word)
                words, mapped, screen = self.words_of(step), step.action(), self._screen(raw, step)
            except RecordError as error:
                raise RecordError(error.reason, error.detail, len(rows)) from error
            except ItemError as error:
                builder.reject(error.reason, native=step.said, native_index=place, word=error.word, detail=error.detail)
            else:
                try:
                    mapped = replace(mapped, box=self.box_of(step, screen))
                except OffScreen as error:
                    found.append(("off_screen", f"the target's box: {error}", step.row))
                builder.take(mapped, step.arguments, place, screen, **words)
            due = max(due, step.done + 1)
        return notices(builder.finish(), found)

    def _screen(self, raw: Raw, step: MobileStep) -> RecordScreen:
        """The step's screen in its declared frame. A picture of another shape (beyond rounding) is left out."""
        data = raw.first(folder + step.row["images"][0] for folder in _FOLDERS)
        if step.shares:
            return RecordScreen.load(data, normalised=True)
        screen = RecordScreen.load(data, frame=step.size, normalised=True)
        if screen.info is not None and step.size is not None:
            # Pictures were scaled by whole pixels, so shapes agree up to rounding.
            scale = step.size[0] / screen.info.width_px
            if abs(screen.info.height_px * scale - step.size[1]) > _RATIO_SLACK_PX * (1 + step.size[1] / step.size[0]):
                return RecordScreen(*step.size, None, None, (), MISFIT)
        return screen
