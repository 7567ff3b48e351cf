"""MoTIF: tasks that people did in 125 Android apps, with the verdict whether a task can be done at all.

The processed form is read, a file a trace (made up, shortened); n actions, n + 1 pictures:

    {"trace_id": "t1", "goal": "open the recipes", "app": "com.example", "instr": ["click menu"], "actions": ["click"],
     "screen_w": 810, "screen_h": 1555, "screen_bboxes": [[0, 30, 80, 110]], "raw_gestures": [[[0.05, 0.04]], []],
     "images": ["111", "112"], "input_str": [""], "verb_str": ["click"], "obj_desc_str": ["menu"], "ui_types": [1],
     "view_bboxes": [[0, 95, 80, 175]], "ui_target_idxs": [3]}

Pictures and `trace_info.json` (feasibility) lie in the raw form, `<app>/<trace_id>/`, if it is there too.

| native | unified |
|---|---|
| click | Click at the gesture's first point; at the centre of the box where the gesture is empty |
| swipe | Scroll(first, last point), direction from the points, which are the finger's |
| type | Type(input_str), after a Click on the field unless the action before was one in it (lossy: see below) |
| (end of the trace) | Finished on the last picture, made by the rule `finish_synthesised`; not an item |
| (end, feasibility `no`) | CallUser(reason), rule `infeasible_by_annotator`; outcome infeasible |

Gestures are fractions of the screenshot. Boxes are pixels of it: the 65 px of the status bar are taken off in them
already. Nobody logged keys: a `type` is what a field was found to hold, so its picture may show the text already. Where
the last picture repeats the one before, the end has no picture. A raw trace without its processed file has no typing
and is refused (`unknown_schema`). A trace that any `eccv_motif_*.json` tests on is a test trace.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipelines.mapping import items
from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import EpisodeBuilder, MappedAction
from pipelines.mapping.card import Descriptor, Loss
from pipelines.mapping.frames import fitting_screen, whole_sides
from pipelines.mapping.items import ItemError, is_number, is_text, notices, optional_text, tests_of, unknown_fields
from pipelines.mapping.points import in_frame, swipe
from pipelines.native.named_boxes import unit_box
from pipelines.native.record_readers import field_id, json_document
from schemas.actions import Action, CallUser, Click, Finished, Type
from schemas.coordinates import centre_in_units, contains

SIDE = ("metadata.json", "trace_info.json")
ROOTS = ("", "raw_data/")
WORDS = ("click", "swipe", "type")
_KNOWN = frozenset(
    {
        "trace_id",
        "goal",
        "instr",
        "app",
        "screen_w",
        "screen_h",
        "vh_w",
        "vh_h",
        "scale_x",
        "scale_y",
        "actions",
        "verb_str",
        "obj_desc_str",
        "input_str",
        "ui_types",
        "screen_bboxes",
        "view_bboxes",
        "images",
        "raw_gestures",
        "ui_target_idxs",
    }
)
Box = tuple[float, float, float, float]

DESCRIPTOR = Descriptor(
    id="motif",
    title="MoTIF (Mobile app Tasks with Iterative Feedback)",
    origin="https://github.com/aburns4/MoTIF",
    licence="unknown",
    platforms=("mobile",),
    size="276 tasks, 125 apps, about 4.5 steps a trace; a split lists 2,488 train and 317 test traces",
    citation="Burns et al., A Dataset for Interactive Vision-Language Navigation with Unknown Command Feasibility, "
    "ECCV 2022",
    frame="gestures: 0..1 of the screenshot; boxes: its pixels (screen_w, screen_h); x first, origin top left",
    record_unit="episode",
    known_problems=(
        "typing was inferred from text fields: its picture may show the text already",
        "logins, cycles and empty gestures were removed, so consecutive pictures may be more than one action apart",
        "the last picture may repeat the one before",
        "feasibility is the vote of single annotators",
    ),
    loss=(
        Loss("click", "Click", "kept"),
        Loss("swipe", "Scroll", "kept"),
        Loss("type", "Type, or Click and Type", "lossy", "inferred by the source; an empty text is quarantined"),
        Loss("?", "-", "dropped", "unknown_action:<word>"),
        Loss("(end of the trace)", "Finished, CallUser", "kept", "synthesised, not an item"),
        Loss("verb_str, obj_desc_str, ui_types", "-", "lossy", "said by instr; they stay in native_action"),
    ),
)


class MotifAdapter(Adapter):
    """One record per processed trace."""

    descriptor = DESCRIPTOR
    version = 2
    items_at = ("actions",)

    def parts(self, raw: Raw) -> list[tuple[str, ...]]:
        """Traces by the first two characters of their names; raw ones without a processed file beside them."""
        names = raw.files("**/*.json")
        processed = [name for name in names if Path(name).name not in SIDE and not _is_split(name)]
        stems = {Path(name).stem for name in processed}
        # What the processed file adds is in no raw trace.
        bare = [name for name in names if Path(name).name == SIDE[0] and Path(name).parent.name not in stems]
        groups: dict[str, list[str]] = {}
        for name in [*processed, *bare]:
            key = Path(name).stem if Path(name).name not in SIDE else Path(name).parent.name
            groups.setdefault(key[:2], []).append(name)
        return [tuple(group) for _, group in sorted(groups.items())]

    def side_files(self, raw: Raw) -> list[str]:
        """The split lists."""
        return [name for name in raw.files("**/*.json") if _is_split(name)]

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """One trace a file."""
        for file in files:
            if Path(file).name == SIDE[0]:
                detail = "a raw trace without its processed file: its typing is in no log"
                yield Broken(file, "document", "unknown_schema", detail, _gestures(raw.read(file)))
            else:
                yield from json_document(raw, file, of_id=field_id("trace_id"))

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One trace → step rows and its end. Raises `RecordError`: missing_field, bad_value, empty_text, bad_frame,
        trace_type_not_action."""
        row = record.payload
        count = len(items.list_of(row, "actions"))
        with items.refusing(count):
            trace_id, goal, app = (items.text_of(row, name, "?") for name in ("trace_id", "goal", "app"))
        # Boxes are in pixels of this screen.
        sides = (row.get("screen_w"), row.get("screen_h"))
        size = whole_sides(sides)
        if size is None:
            raise RecordError(
                "bad_frame", f"screen_w, screen_h: expected two positive ints, found {sides!r:.80}", count
            )
        for name, wanted in (
            ("images", (count + 1,)),
            # A gesture for each screen, or for each action.
            ("raw_gestures", (count, count + 1)),
            ("screen_bboxes", (count,)),
            ("input_str", (count,)),
            ("instr", (count,)),
        ):
            listed = row.get(name)
            if not isinstance(listed, list) or len(listed) not in wanted:
                raise RecordError("bad_value", f"{name}: expected a list of {wanted[-1]} for {count} actions", count)
        said, found = _told(raw, app, trace_id, count)
        builder = EpisodeBuilder(
            self.descriptor,
            record,
            instruction=goal,
            app=app,
            split=_split(self.side_files(raw), raw, trace_id),
            outcome="infeasible" if said is not None else None,
        )
        trace = _MotifTrace(builder, raw, row, app, trace_id, size)
        for place in range(count):
            trace.step(place)
        trace.end(said)
        return notices(builder.finish(), [*found, *unknown_fields(row, _KNOWN)])


class _MotifTrace:
    """A trace that is being mapped."""

    def __init__(
        self, builder: EpisodeBuilder, raw: Raw, row: dict[str, Any], app: str, name: str, size: tuple[int, int]
    ) -> None:
        self._builder, self._raw, self._row, self._size = builder, raw, row, size
        self._folder = f"{app}/{name}/screens"
        self._before: Action | None = None

    def step(self, place: int) -> None:
        """Map action `place`, or reject it."""
        row, word = self._row, "?"
        native = {name: row[name][place] for name in ("actions", "raw_gestures", "screen_bboxes", "input_str", "instr")}
        native["image"] = row["images"][place]
        try:
            if row["actions"][place] not in WORDS:
                raise ItemError(f"unknown_action:{str(row['actions'][place])[:60]}", f"expected one of {WORDS}")
            word = row["actions"][place]
            actions, box, rules = self._actions(place, word)
            screen = self._screen(row["images"][place])
        except (ItemError, RecordError) as error:
            # After a step that was lost nobody knows what has the focus.
            self._before = None
            self._builder.reject(error.reason, native=native, native_index=place, word=word, detail=error.detail)
            return
        # Typing leaves the focus where it was.
        self._before = actions[-1] if word != "type" else self._before
        mapped = MappedAction(actions, word, word == "type", rules, box)
        self._builder.take(mapped, native, place, screen, step_instruction=optional_text(row["instr"][place]))

    def end(self, why: str | None) -> None:
        """The last screen; it is unknown where its picture repeats the one before."""
        images = self._row["images"]
        rules = ["finish_synthesised"] if why is None else ["infeasible_by_annotator"]
        # Then the last screen wasn't recorded.
        repeated = len(images) > 1 and images[-1] == images[-2]
        screen = None if repeated else self._screen(images[-1])
        rules += ["last_picture_repeated"] if repeated else []
        self._builder.terminal(Finished("") if why is None else CallUser(why), screen, rules)

    def _screen(self, name: object) -> RecordScreen:
        if not isinstance(name, str):
            raise ItemError("bad_value", f"images: expected a name, found {name!r:.60}")
        return fitting_screen(self._raw.first(f"{root}{self._folder}/{name}.jpg" for root in ROOTS), self._size)

    def _actions(self, place: int, word: str) -> tuple[list[Action], Box | None, list[str]]:
        box, rules = self._box(self._row["screen_bboxes"][place], word)
        if word == "type":
            text = self._row["input_str"][place]
            if not isinstance(text, str) or not is_text(text):
                raise ItemError("bad_value", f"input_str: expected a text, found {text!r:.60}", word)
            if not text:
                raise ItemError("empty_text", "input_str is empty", word)
            rules = ["typing_inferred_by_source", *rules]
            # The field has the focus already, if the click before hit it.
            if box is None or (isinstance(self._before, Click) and contains(box, self._before.box)):
                return [Type(text)], box, rules
            return [Click(centre_in_units(box)), Type(text)], box, [*rules, "type_focuses_field"]
        points = _points(self._row["raw_gestures"][place], word)
        if word == "click":
            if not points and box is None:
                raise ItemError("missing_field", "neither a gesture nor a box says where", word)
            if not points and box is not None:
                return [Click(centre_in_units(box))], box, ["centre_of_box", *rules]
            # A box beside the gesture belongs to something else.
            if box is not None and not contains(box, points[0]):
                box, rules = None, [*rules, "box_misses_the_point"]
            return [Click(points[0])], box, rules
        if len(points) < 2:
            raise ItemError("missing_field", f"a swipe needs two points, found {len(points)}", word)
        return [swipe(points[0], points[-1], word)], None, ["direction_from_points"]

    def _box(self, value: object, word: str) -> tuple[Box | None, list[str]]:
        """(box in 0..1000, rules). A box that can't be costs a click nothing: its gesture says the point."""
        if value is None:
            return None, []
        try:
            return unit_box(value, self._size, word), []
        except ItemError:
            return None, ["box_unusable"]


def _points(value: object, word: str) -> list[tuple[int, int]]:
    found = []
    for point in value if isinstance(value, list) else [value]:
        numbers = point if isinstance(point, list) else []
        if len(numbers) != 2 or not all(map(is_number, numbers)):
            raise ItemError("bad_value", f"raw_gestures: expected x and y, found {point!r:.60}", word)
        found.append(in_frame(numbers[0], numbers[1], (1.0, 1.0), word))
    return found


def _told(raw: Raw, app: str, name: str, items: int) -> tuple[str | None, list[tuple[str, str, Any]]]:
    """(why the task can't be done; None if it can or nobody says, notices) from `trace_info.json`."""
    data = raw.first(f"{root}{app}/{name}/{SIDE[1]}" for root in ROOTS)
    if data is None:
        return None, []
    try:
        info = json.loads(data)
        kind, feasibility = info.get("trace_type"), info.get("feasibility") or {}
        binary, reason = feasibility.get("binary"), feasibility.get("reason")
    except (ValueError, AttributeError, RecursionError) as error:
        return None, [("bad_value", f"{SIDE[1]}: {error}", None)]
    if kind not in (None, "action"):
        raise RecordError("trace_type_not_action", f"trace_type {kind!r:.60}", items)
    if str(binary).lower() not in ("yes", "no", "none"):
        return None, [("bad_value", f"feasibility.binary: expected yes or no, found {binary!r:.60}", None)]
    if str(binary).lower() != "no":
        return None, []
    return (reason if isinstance(reason, str) and is_text(reason) else ""), []


def _gestures(data: bytes) -> int:
    """How many screens of a raw trace were touched."""
    try:
        return sum(1 for points in json.loads(data)["gestures"].values() if points)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return 0


def _is_split(name: str) -> bool:
    return Path(name).name.startswith("eccv_motif_")


def _split(lists: list[str], raw: Raw, name: str) -> str:
    """test if any of the lists says so."""
    return "test" if any(name in tests_of(raw.path(file)) for file in lists) else "train"
