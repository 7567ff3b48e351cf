"""Recordings of a screen: frames, and the raw events of mouse, fingers and keys (`pipelines.native.input_events`).

A recording is a folder (made up):

    recording.json   {"task": "Open the menu", "platform": "desktop", "size": [1280, 720], "outcome": "success"}
    events.jsonl     {"t": 1.02, "event": "down", "x": 40, "y": 50}
                     {"t": 1.09, "event": "up", "x": 40, "y": 50}
    frames/980.png   the screen at 980 ms, without the pointer; or .jpg, .webp

`id`, `app`, `language` and `outcome` may be left out. `t` and the frames' names count from the same moment. Frames of a
video are taken out beforehand, all or as many a second as wanted: a state that none of them shows can't be found.

| native | unified |
|---|---|
| press; two presses within half a second | Click; DoubleClick |
| press that moves; on a phone, at once | Drag; Scroll(points) |
| held press on a phone | LongPress |
| right press | quarantined, `no_counterpart`; v2: RightClick |
| wheel run of one direction | Scroll(direction) (lossy: how far) |
| keys that write, less what backspace took; text of an input method | Type |
| modifiers and key; other key | Hotkey; Hotkey, PressEnter, and on a phone PressBack, PressHome, PressRecent |

The screen of a step is the last frame of a new state before it (a frame like the one before is no state); the last
state after all steps is the terminal row.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError
from pipelines.mapping.builders import EpisodeBuilder
from pipelines.mapping.card import Descriptor, Loss
from pipelines.mapping.frames import fitting_screen, whole_sides
from pipelines.mapping.items import ItemError, is_text, notices, refusing, text_of, unknown_fields
from pipelines.native import input_events
from pipelines.native.input_events import RecordedGesture
from pipelines.native.record_readers import json_document, json_lines
from pipelines.store.images import ImageError
from schemas.ids import digest

HEAD, EVENTS, FRAMES = "recording.json", "events.jsonl", "frames"
_FRAME = re.compile(r"(\d{1,10})\.(?:png|jpe?g|webp)")
_KNOWN = frozenset({"id", "task", "platform", "size", "app", "language", "outcome"})

DESCRIPTOR = Descriptor(
    id="recordings",
    title="Recordings",
    origin="recorded by whoever uses Vesper",
    licence="that of what was recorded (UNCONFIRMED)",
    platforms=("desktop", "web", "mobile"),
    objectives=("navigation",),
    size="as much as is recorded",
    citation="the form is ours; recordings as ShowUI-Aloha and GUI-World learn from",
    frame="pixels of `size`, x first",
    record_unit="recording",
    known_problems=(
        "what a scroll by wheel was meant to reach isn't known",
        "typing into two fields without a press, Tab or Enter between them would be one text",
        "whatever the person typed is in the rows: passwords, too",
    ),
    loss=(
        *(
            Loss(word, made, "kept")
            for word, made in (
                (input_events.CLICK, "Click"),
                (input_events.DOUBLE, "DoubleClick"),
                (input_events.HOLD, "LongPress"),
                (input_events.DRAG, "Drag, Scroll"),
                (input_events.TYPING, "Type"),
                (input_events.KEY, "Hotkey, PressEnter, PressBack, PressHome, PressRecent"),
                (input_events.COMBO, "Hotkey"),
            )
        ),
        Loss(input_events.WHEEL, "Scroll(direction)", "lossy", "how far"),
        Loss(input_events.RIGHT, "-", "dropped", "no_counterpart; v2: RightClick; other buttons and moves: dropped"),
        Loss(input_events.OTHER, "-", "dropped", "unknown_action:<event>, an event without its fields, a cut one"),
    ),
)


class RecordingsAdapter(Adapter):
    """One record per folder."""

    descriptor = DESCRIPTOR
    patterns = (f"**/{HEAD}",)

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """The head with its events; a line of events that can't be read is an event that can't."""
        for file in files:
            events = posixpath.join(posixpath.dirname(file), EVENTS)
            lines = list(json_lines(raw, events)) if raw.is_there(events) else []
            listed = [one.payload if isinstance(one, Record) else {"event": one.reason} for one in lines]
            for head in json_document(raw, file):
                if isinstance(head, Broken):
                    yield Broken(file, head.locator, head.reason, head.detail, len(listed), head.native)
                    continue
                named = head.payload.get("id") if isinstance(head.payload, Mapping) else None
                payload = {"recording": head.payload, "events": listed}
                yield Record(file, "recording", payload, str(named or digest(payload)[:32]))

    def count_items(self, record: Record) -> int:
        """Gestures that the events make."""
        size = self._size(record.payload["recording"])
        return len(self._gestures(record, size or (1, 1)))

    def _size(self, head: object) -> tuple[int, int] | None:
        return whole_sides(head.get("size")) if isinstance(head, Mapping) else None

    def _gestures(self, record: Record, size: tuple[int, int]) -> list[RecordedGesture]:
        head = record.payload["recording"]
        platform = str(head.get("platform")) if isinstance(head, Mapping) else ""
        return input_events.read_input(record.payload["events"], size, platform, self.space)

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One recording → step rows. Raises `RecordError`: missing_field, empty_text, bad_value, bad_frame,
        unknown_platform."""
        head: Any = record.payload["recording"]
        size = self._size(head)
        gestures = self._gestures(record, size or (1, 1))
        with refusing(len(gestures)):
            task = text_of(head, "task", input_events.OTHER)
        if size is None:
            raise RecordError("bad_frame", f"size: expected two sides, found {head.get('size')!r:.60}", len(gestures))
        platform, app = head.get("platform"), head.get("app")
        if platform not in DESCRIPTOR.platforms:
            raise RecordError(f"unknown_platform:{str(platform)[:40]}", f"{DESCRIPTOR.platforms}", len(gestures))
        outcome, language = head.get("outcome"), head.get("language") or "en"
        builder = EpisodeBuilder(
            self.descriptor,
            record,
            instruction=task,
            platform=platform,
            app=app if isinstance(app, str) and is_text(app) else None,
            language=language if isinstance(language, str) and is_text(language) else None,
            outcome=outcome if outcome in ("success", "failure", "infeasible") else None,
        )
        states = _states(raw, posixpath.join(posixpath.dirname(record.file), FRAMES), gestures)
        for place, gesture in enumerate(gestures):
            native, word = [dict(event) for event in gesture.events], gesture.word
            if gesture.action is None or gesture.error is not None:
                why = gesture.error or ItemError("bad_value", "no action", word)
                builder.reject(why.reason, native=native, native_index=place, word=word, detail=why.detail)
                continue
            before = [data for at, data in states if at <= gesture.begins]
            screen = fitting_screen(before[-1] if before else None, size)
            lossy = word == input_events.WHEEL
            builder.add(gesture.action, native, place, word, screen, lossy=lossy, rules=gesture.rules)
        if gestures and states and states[-1][0] > gestures[-1].ends:
            builder.terminal(None, fitting_screen(states[-1][1], size))
        return notices(builder.finish(), unknown_fields(head, _KNOWN))


def _states(raw: Raw, folder: str, gestures: list[RecordedGesture]) -> list[tuple[float, bytes]]:
    """(seconds, picture) of the frames that show a new state; a frame that can't be read is none."""
    named = sorted((int(match[1]), name) for name in raw.listing(folder) if (match := _FRAME.fullmatch(name)))
    times, looks, names = [], [], []
    for milliseconds, name in named:
        try:
            looks.append(input_events.look(raw.read(posixpath.join(folder, name))))
        except ImageError:
            continue
        times.append(milliseconds / 1000)
        names.append(name)
    acted = [gesture.begins for gesture in gestures if gesture.error is None]
    found = input_events.key_frames(times, looks, acted)
    return [(times[place], raw.read(posixpath.join(folder, names[place]))) for place in found]
