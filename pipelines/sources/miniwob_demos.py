"""MiniWoB++ demonstrations: browser events of people at small web tasks, with the DOM at each event.

A raw row (`<batch>/<task>/<task>_<worker>_dN.json.gz`; DOM and most events left out):

    {"utterance": "Enter \\"F\\" into the text field and press Submit.", "reward": 0.7264, "rawReward": 1, "states": [
      {"time": 0, "action": null, "dom": {"tag": "BODY", "left": 0, "top": 0, "width": 862.67, "height": 210, ...}},
      {"time": 704, "action": {"type": "mousedown", "x": 58, "y": 74, "timing": 1}, "dom": {...}},
      {"time": 1768, "action": {"type": "keypress", "keyCode": 70, "charCode": 70, "timing": 1}, "dom": {...}}]}

An item is a *gesture*: what a person did at once. Events are stored before (timing 1) and after (timing 3) they reach
the page; only timing 1 is read, timing 3 is its echo.

| native | unified |
|---|---|
| mousedown, mouseup (, click) at one place | `Click` |
| mousedown, mouseup more than 3 px away | `Drag` |
| dblclick, with the two clicks before it | `DoubleClick` |
| a run of keypresses with characters | one `Type` (charCode holds the case: Shift is no action) |
| key 13 | `PressEnter` |
| Ctrl or Alt held, and a key | `Hotkey` |
| Backspace, Tab, arrows and other keys without a character | `Hotkey` of one key |
| a run of scroll | `Scroll(direction)`, lossy: from what moved in the DOM; nothing moved → rejected |
| rawReward = 1 | episode_outcome = success and a `Finished` at the end (rule `finish_by_reward`); else failure |

The frame is the task's area, 160x210 (flight tasks 375x667); the DOM root is as wide as the worker's window.
Elements are the DOM's leaves, clipped by their ancestors (options of a list lie outside it). There are no pictures.
Symlinked demonstrations are read like files; the second reading of the same content is quarantined as `duplicate`.
"""

import json
import posixpath
import re
import zlib
from collections.abc import Iterator
from typing import Any

from pipelines.decompression import open_plain
from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import EpisodeBuilder, MappedAction
from pipelines.mapping.card import Descriptor, Loss
from pipelines.mapping.items import notices, smallest_box, unknown_fields
from pipelines.native.dom_events import DomGesture, Event, leaves, read_gestures
from schemas.actions import Finished

_SUFFIX = re.compile(r"\.json(\.gz)?$")
MAX_BYTES = 256 << 20
"""Largest demonstration unpacked; the largest real ones have a few megabytes."""
_KNOWN = frozenset({"utterance", "states", "reward", "rawReward", "taskName", "fields"})

DESCRIPTOR = Descriptor(
    id="miniwob_demos",
    title="MiniWoB++ demonstrations",
    origin="https://github.com/stanfordnlp/miniwob-plusplus-demos",
    licence="none stated (main project MIT)",
    platforms=("web",),
    size="18,124 demonstrations of about 95 tasks, 2,326 of them symlinks",
    citation="Liu et al., Reinforcement Learning on Web Interfaces using Workflow-Guided Exploration, arXiv 1802.08802",
    frame="CSS pixels of the page, x and y named; the task's area is 160x210 (flights 375x667) at the top left",
    record_unit="episode",
    item_unit="gesture: a click, drag, double click, key run, key or scroll run, of many events",
    known_problems=(
        "no pictures",
        "batches of crowd workers are noisy; about 5 % have rawReward below 1",
        "some files have no states",
        "popups of single-choice lists are not recorded",
    ),
    loss=(
        Loss("mousedown, mouseup, click", "Click", "kept"),
        Loss("mousedown, displaced mouseup", "Drag", "kept", "start and end only, not the path"),
        Loss("dblclick", "DoubleClick", "kept", "with the two clicks before it"),
        Loss("keypress run", "Type", "kept"),
        Loss("key 13", "PressEnter", "kept"),
        Loss("ctrl, alt + key", "Hotkey", "kept"),
        Loss("other keys", "Hotkey", "kept", "a key without a character: backspace, tab, arrows, ..."),
        Loss(
            "scroll",
            "Scroll(direction)",
            "lossy",
            "direction from the DOM; nothing moved: no_counterpart, scroll_direction_unknown",
        ),
        Loss("other events", "-", "dropped", "unknown_action:<type>, missing_field, bad_value"),
        Loss("pauses", "-", "lossy", "human reaction times are no Wait; the times stay in native_action"),
        Loss("fields, reward", "-", "lossy", "stay in the raw file"),
    ),
)


class MiniwobDemosAdapter(Adapter):
    """One record per demonstration file."""

    descriptor = DESCRIPTOR

    def parts(self, raw: Raw) -> list[tuple[str, ...]]:
        """One part per folder (batch and task)."""
        folders: dict[str, list[str]] = {}
        for name in sorted(raw.files("**/*.json.gz") + raw.files("**/*.json")):
            folders.setdefault(posixpath.dirname(name), []).append(name)
        return [tuple(names) for _, names in sorted(folders.items())]

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """One file at a time. How many gestures a file held that can't be read isn't known: it counts none."""
        for file in files:
            try:
                demo = json.loads(_unpack(raw, file))
            except EOFError as error:
                yield Broken(file, "file", "truncated_record", str(error))
            except (OSError, zlib.error) as error:
                yield Broken(file, "file", "truncated_record", f"gzip: {error}")
            except RecordError as error:
                yield Broken(file, "file", error.reason, error.detail)
            except (ValueError, RecursionError) as error:
                yield Broken(file, "file", "bad_json", str(error))
            else:
                yield Record(file, "file", demo, _SUFFIX.sub("", posixpath.basename(file)))

    def count_items(self, record: Record) -> int:
        """Gestures that the events of the states make."""
        states = record.payload.get("states") if isinstance(record.payload, dict) else None
        return len(_gestures(states)) if isinstance(states, list) else 0

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One demonstration → step rows. Raises `RecordError`: missing_field, empty_text, bad_value."""
        demo = record.payload
        if not isinstance(demo, dict) or not isinstance(demo.get("states"), list):
            raise RecordError("missing_field", "expected an object with a list of states", items=0)
        states = demo["states"]
        if not states:
            raise RecordError("missing_field", "the demonstration has no states", items=0)
        gestures = _gestures(states)
        utterance = demo.get("utterance")
        if not isinstance(utterance, str) or not utterance.strip():
            reason = "empty_text" if isinstance(utterance, str) else "missing_field"
            raise RecordError(reason, "utterance", items=len(gestures))
        reward = demo.get("rawReward")
        if isinstance(reward, bool) or not isinstance(reward, int | float):
            raise RecordError("missing_field", f"rawReward: expected a number, found {reward!r:.60}", len(gestures))
        task = _task(record.file, demo)
        frame = _frame(record.file, task)
        builder = EpisodeBuilder(
            self.descriptor, record, instruction=utterance, app=task, outcome="success" if reward == 1 else "failure"
        )
        for number, gesture in enumerate(gestures):
            _add(builder, gesture, number, states, frame)
        # The reward alone says that the task was done.
        if reward == 1:
            builder.terminal(Finished(""), _screen(states[-1], frame), ["finish_by_reward"])
        return notices(builder.finish(), unknown_fields(demo, _KNOWN))


def _unpack(raw: Raw, file: str) -> bytes:
    if not file.endswith(".gz"):
        return raw.read(file)
    with open_plain(raw.path(file)) as packed:
        # One byte more than allowed, to see that there is more.
        data = packed.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise RecordError("bad_value", f"more than {MAX_BYTES} bytes unpacked: taken for a bomb")
    return data


def _gestures(states: list[object]) -> list[DomGesture]:
    events = [event for place, state in enumerate(states) if (event := _event(place, state)) is not None]
    return read_gestures(events, states)


def _event(place: int, state: object) -> Event | None:
    """The event of a state; None if it has none or is the echo (timing 3)."""
    action = state.get("action") if isinstance(state, dict) else {}
    if action is None or (isinstance(action, dict) and action.get("timing") == 3):
        return None
    return Event(
        place, action if isinstance(action, dict) else {}, state.get("time") if isinstance(state, dict) else None
    )


def _task(file: str, demo: dict[str, Any]) -> str:
    """taskName, else the folder, else the file's name up to the first underscore."""
    name = demo.get("taskName")
    if isinstance(name, str) and name:
        return name
    folder = posixpath.basename(posixpath.dirname(file))
    stem = posixpath.basename(file)
    return folder if folder and stem.startswith(f"{folder}_") else stem.partition("_")[0]


def _frame(file: str, task: str) -> tuple[int, int]:
    # The screens of these tasks are larger than the others'.
    flight = task.startswith("flight") or "alaska" in file.partition("/")[0].lower()
    return (375, 667) if flight else (160, 210)


def _screen(state: object, frame: tuple[int, int]) -> RecordScreen:
    return RecordScreen.load(None, leaves(state.get("dom") if isinstance(state, dict) else None, frame), frame)


def _add(
    builder: EpisodeBuilder, gesture: DomGesture, number: int, states: list[object], frame: tuple[int, int]
) -> None:
    native = [{"state": event.state, "time": event.time, **event.action} for event in gesture.events]
    actions = gesture.actions(frame)
    if isinstance(actions, tuple):
        reason, detail = actions
        builder.reject(reason, native=native, native_index=number, word=gesture.word, detail=detail)
        return
    # The screen before the gesture's first event.
    screen = _screen(states[gesture.events[0].state], frame)
    mapped = MappedAction(
        [actions], gesture.word, gesture.word == "scroll", gesture.rules, smallest_box(screen.elements, actions)
    )
    builder.take(mapped, native, number, screen)
