"""GUI-360: runs of agents in Excel, Word and PowerPoint, by mouse, keys and calls of the programs.

Link: https://huggingface.co/datasets/vyokky/GUI-360 (the form: github.com/2020-qqtcg/GUI-360, data_card_readme.md)

A raw line of `data/<program>/<category>/<success or fail>/<run>.jsonl` (made up, shortened), a step of the run that the
file holds; pictures lie in `image/<program>/<category>/`:

    {"execution_id": "excel_4s_1", "request": "Sum the column", "step_id": 1, "total_steps": 4, "evaluation":
     {"complete": "yes"}, "step": {"screenshot_clean": "excel_4s_1/step1.png", "subtask": "…", "thought": "…",
      "action": {"function": "click", "args": {"button": "left", "double": false}, "coordinate_x": 630,
       "coordinate_y": 241, "rectangle": {"left": 600, "top": 230, "right": 660, "bottom": 250}}, "status": "CONTINUE"}}

| native | unified |
|---|---|
| click; double; button right | Click; DoubleClick; `no_counterpart` (v2: RightClick) |
| type | Click at its place, Ctrl+A where the text is replaced, Type; `{ENTER}`, `{VK_CONTROL}c`, `{TAB 2}` are keys |
| drag | Drag |
| wheel_mouse_input | Scroll(direction), positive is up (lossy: how far) |
| no function, status OVERALL_FINISH | Finished |
| calls of the program (set_cell_value, …), clicks and drags with a key held | quarantined, `no_counterpart` |

Coordinates are pixels of the clean screenshot, which must be there (`bad_frame`).
"""

import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.mapping import items
from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import EpisodeBuilder
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.points import pixel_point
from pipelines.native.named_boxes import unit_box
from pipelines.native.record_readers import count_of, field_id, json_lines, runs
from schemas.action_types import ActionSpace, speaks
from schemas.actions import Action, Click, DoubleClick, Drag, Finished, Hotkey, RightClick, Scroll, Type, pressed

CALL, OTHER = "calls of the program", "other actions"
_KNOWN = frozenset(
    {"execution_id", "app_domain", "request", "template", "step_id", "total_steps", "evaluation", "step"}
)
_KEYS = re.compile(r"\{VK_(CONTROL|SHIFT|MENU)\}(\{\w+\}|.)|\{([A-Z]\w*)(?: (\d{1,2}))?\}", re.DOTALL)
_HELD = {"CONTROL": "ctrl", "SHIFT": "shift", "MENU": "alt"}

DESCRIPTOR = Descriptor(
    id="gui_360",
    title="GUI-360°",
    licence="MIT",
    platforms=("desktop",),
    size="1.2 million steps in Excel, Word and PowerPoint",
    citation="GUI-360°: A Comprehensive Dataset and Benchmark for Computer-Using Agents, arXiv 2511.04307",
    frame="pixels of the clean screenshot, x first",
    record_unit="episode",
    known_problems=(
        "run and judged by models; failed runs are published beside the others",
        "steps that call the program instead of its window leave gaps",
        "boxes of controls have two frames and aren't read",
    ),
    loss=(
        Loss(
            "click", "Click, DoubleClick", "kept", "right button: no_counterpart (v2: RightClick); a key held: dropped"
        ),
        Loss("type", "Click, Hotkey, Type, PressEnter", "kept", "dropped with a key code that isn't known"),
        Loss("drag", "Drag", "kept", "right button or a key held: dropped"),
        Loss("wheel_mouse_input", "Scroll(direction)", "lossy", "how far"),
        Loss("finish", "Finished", "kept"),
        Loss(CALL, "-", "dropped", "no_counterpart"),
        Loss(OTHER, "-", "dropped", "a step without an action"),
    ),
    download=Download("vyokky/GUI-360", files=("data/*", "image/*")),
)


class Gui360Adapter(Adapter):
    """One record per run."""

    descriptor = DESCRIPTOR
    items_at = (".",)
    patterns = ("**/*.jsonl",)

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """The lines of a run together."""
        for file in files:
            yield from runs(json_lines(raw, file, count=count_of('"step_id"')), field_id("execution_id"), named=True)

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One run → step rows. Raises `RecordError`: missing_field, empty_text, bad_value, unsafe_path."""
        rows: list[Any] = record.payload
        if record.native_id is None:
            raise RecordError("missing_field", "expected execution_id", len(rows))
        with items.refusing(len(rows)):
            request = items.text_of(rows[0], "request", OTHER)
        evaluation = rows[-1].get("evaluation")
        complete = evaluation.get("complete") if isinstance(evaluation, Mapping) else None
        outcome = {"yes": "success", "no": "failure"}.get(str(complete).lower())
        found_steps = max(len(rows), *(items.whole_number(row.get("step_id")) or 0 for row in rows))
        if (items.whole_number(rows[0].get("total_steps")) or 0) > found_steps:
            outcome = None  # cut: how it went on, nobody knows
        app = rows[0].get("app_domain")
        app = app if isinstance(app, str) and items.is_text(app) else None
        builder = EpisodeBuilder(self.descriptor, record, instruction=request, app=app, outcome=outcome)
        found: list[tuple[str, str, object]] = []
        for place, one in builder.numbered(rows, "step_id"):
            found += items.unknown_fields(one.step, _KNOWN)
            _add(builder, one.step.get("step"), place, record, raw, self.space)
        return items.notices(builder.finish(), found)


def _add(builder: EpisodeBuilder, native: object, place: int, record: Record, raw: Raw, space: ActionSpace) -> None:
    step: Mapping[str, Any] = native if isinstance(native, Mapping) else {}
    name, thought = step.get("screenshot_clean"), step.get("thought")
    root, _, below = record.file.rpartition("data/")
    folder = f"{root}image/{'/'.join(below.split('/')[:2])}"
    folders = (folder, f"{folder}/{'/'.join(below.split('/')[2:-1])}", root)
    tries = (posixpath.join(one, name) for one in folders) if isinstance(name, str) and name else ()
    screen = RecordScreen.load(raw.first(tries, len(record.payload)), normalised=True)
    try:
        word, actions, box = _read(step, screen, space)
    except items.ItemError as error:
        builder.reject(error.reason, native=native, native_index=place, word=error.word, detail=error.detail)
        return
    lossy = word == "wheel_mouse_input"
    builder.add(actions, native, place, word, screen, lossy=lossy, thought=items.optional_text(thought), target_box=box)


def _read(step: Mapping[str, Any], screen: RecordScreen, space: ActionSpace) -> tuple[str, list[Action], Any]:
    """Native word, actions and target box of a step. Raises `ItemError`."""
    native = step.get("action")
    try:
        native = json.loads(native) if isinstance(native, str) else native
    except (ValueError, RecursionError) as error:
        raise items.ItemError("bad_json", f"action: {error}"[:120], OTHER) from error
    if not isinstance(native, Mapping) or not native.get("function"):
        if step.get("status") == "OVERALL_FINISH":
            return "finish", [Finished("")], None
        raise items.ItemError("missing_field", "a step without a function", OTHER)
    word, args = str(native["function"]), native.get("args")
    args = args if isinstance(args, Mapping) else {}
    if word not in ("click", "type", "drag", "wheel_mouse_input"):
        raise items.ItemError("no_counterpart", word[:60], CALL)
    if word == "wheel_mouse_input":
        turned = args.get("wheel_dist")
        if not items.is_number(turned) or not turned:
            raise items.ItemError("bad_value", f"wheel_dist: expected an amount, found {turned!r:.40}", word)
        return word, [Scroll(direction="up" if turned > 0 else "down")], None
    if screen.info is None:
        raise items.ItemError("bad_frame", "pixels of a screenshot that isn't there", word)
    size = (screen.info.width_px, screen.info.height_px)
    button = args.get("button") or "left"
    if args.get("pressed") or args.get("key_hold") or button not in ("left", "right"):
        raise items.ItemError("no_counterpart", f"{word} with a key held, or button {button!r:.20}", word)
    if button == "right" and (word != "click" or not speaks(space, RightClick)):
        raise items.ItemError("no_counterpart", f"a {word} of the right button", word)
    if word == "drag":
        ends = [pixel_point([args.get(f"{end}_x"), args.get(f"{end}_y")], size, word) for end in ("start", "end")]
        return word, [Drag(ends[0], ends[1])], None
    at = pixel_point([native.get("coordinate_x"), native.get("coordinate_y")], size, word)
    sides = native.get("rectangle")
    box = (
        [sides.get(side) for side in ("left", "top", "right", "bottom")]
        if isinstance(sides, Mapping) and sides
        else None
    )
    target = unit_box(box, size, word) if box else None
    if word == "click":
        made = RightClick(at) if button == "right" else DoubleClick(at) if args.get("double") else Click(at)
        return word, [made], target
    replaced: list[Action] = [Hotkey(("ctrl", "a"))] if args.get("clear_current_text") else []
    return (
        word,
        [Click(at), *replaced, *_typed(items.text_of(args, "keys" if "keys" in args else "text", word))],
        target,
    )


def _typed(keys: str) -> list[Action]:
    """Text and key codes, as pywinauto writes them. Raises `ItemError("bad_value")` for a brace that is no code."""
    found: list[Action] = []
    end = 0
    for match in [*_KEYS.finditer(keys), None]:
        plain = keys[end : match.start() if match else None]
        if "{" in plain or "}" in plain:
            raise items.ItemError("bad_value", f"keys: {plain[:60]!r} holds a code that isn't known", "type")
        found += [Type(plain)] if plain else []
        if match is not None:
            end = match.end()
            held, key = match[1], (match[2] or match[3]).strip("{}").lower()
            names = (_HELD[held], key) if held else (key,)
            try:
                found += [pressed(names)] * int(match[4] or 1)
            except ValueError as error:
                raise items.ItemError("bad_value", str(error)[:100], "type") from error
    return found
