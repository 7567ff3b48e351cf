"""GUI-Odyssey: cross-app tasks on six Android emulators, with a thought, a screen text and an instruction a step.

A raw episode `annotations/<episode_id>.json` (made up, shortened); pictures lie in `screenshots/`:

    {"episode_id": "42", "device_info": {"w": 1080, "h": 2400, "device_name": "Medium Phone"},
     "task_info": {"category": "Web_Shopping", "app": ["Chrome"], "instruction": "Find a tea pot"}, "step_length": 1,
     "steps": [{"step": 0, "screenshot": "42_0.png", "action": "CLICK", "info": [[374, 621], [374, 621]], "ps": "",
                "intention": "I open it.", "low_level_instruction": "Open it.", "sam2_bbox": [360, 600, 390, 640]}]}

| native | unified |
|---|---|
| CLICK, LONG_PRESS at a point | Click, LongPress (the first of the two equal points) |
| CLICK, LONG_PRESS `KEY_HOME`, `KEY_BACK`, `KEY_APPSELECT` | PressHome, PressBack, PressRecent |
| SCROLL | Scroll(start, end), direction from the points, which are the finger's |
| SCROLLs in a run right after LONG_PRESS at a point (selecting text) | Drag(start, end) each |
| TEXT (TYPE) | Type; an empty one is quarantined |
| COMPLETE | Finished |
| INCOMPLETE | CallUser(`ps`): why it can't be done; outcome failure |

Coordinates are 0..1000 already, whatever the device. An episode that any of the lists `splits/*_split.json` tests on is
a test episode.
"""

from functools import partial
from pathlib import Path
from typing import Any

from pipelines.mapping import items
from pipelines.mapping.adapter import Adapter, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import EpisodeBuilder, MappedAction
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.points import pixel_point, swipe
from pipelines.native.named_boxes import unit_box
from pipelines.native.record_readers import count_of, field_id, json_document
from schemas.actions import Action, CallUser, Click, Drag, Finished, LongPress, PressBack, PressHome, PressRecent, Type

UNITS = (1000.0, 1000.0)
SPLITS = ("random", "app", "device", "task")
KEYS: dict[str, Action] = {"KEY_HOME": PressHome(), "KEY_BACK": PressBack(), "KEY_APPSELECT": PressRecent()}
_EPISODE = frozenset({"episode_id", "device_info", "task_info", "step_length", "steps"})
_STEP = frozenset(
    {
        "step",
        "screenshot",
        "action",
        "info",
        "ps",
        "description",
        "intention",
        "context",
        "low_level_instruction",
        "sam2_bbox",
    }
)

DESCRIPTOR = Descriptor(
    id="gui_odyssey",
    title="GUI-Odyssey",
    origin="https://github.com/OpenGVLab/GUI-Odyssey",
    licence="CC-BY-4.0",
    platforms=("mobile",),
    size="8,334 episodes, 127,893 screenshots (v2); about 15 steps an episode, 212 apps",
    citation="Lu et al., GUI Odyssey: A Comprehensive Dataset for Cross-App GUI Navigation, arXiv 2406.08451",
    frame="0..1000 on both axes, x first, origin top left",
    record_unit="episode",
    known_problems=(
        "a fifth of v1's loose screenshots is missing: use the archives",
        "thoughts, screen texts and step instructions are written by a model; a few belong to another episode",
        "four episodes type an empty text",
    ),
    loss=(
        Loss("CLICK", "Click", "kept"),
        Loss("LONG_PRESS", "LongPress", "kept"),
        Loss("KEY_HOME", "PressHome", "kept"),
        Loss("KEY_BACK", "PressBack", "kept"),
        Loss("KEY_APPSELECT", "PressRecent", "kept"),
        Loss("SCROLL", "Scroll, Drag", "kept", "a Drag in a run after a long press at a point: text is selected"),
        Loss("TEXT", "Type", "kept", "an empty text is quarantined"),
        Loss("COMPLETE", "Finished", "kept"),
        Loss("INCOMPLETE", "CallUser", "kept", "says the annotator's reason; the episode's outcome is failure"),
        Loss("?", "-", "dropped", "unknown_action:<word>, or a step without one"),
        Loss("description, context", "-", "lossy", "no column for them; they stay in native_action"),
    ),
    download=Download(
        "hflqf88888/GUIOdyssey",
        files=("annotations/*.json", "splits/*.json"),
        unpack=(("screenshots/screenshots.z*", "."),),
    ),
)


class GuiOdysseyAdapter(Adapter):
    """One record per episode file."""

    descriptor = DESCRIPTOR
    version = 4
    items_at = ("steps",)
    reader = partial(json_document, of_id=field_id("episode_id"), count=count_of('"action"'))

    def parts(self, raw: Raw) -> list[tuple[str, ...]]:
        """Episode files by the beginning of their names, a hundred parts at most."""
        names = [name for name in raw.files("**/*.json") if not _is_split(name)]
        groups: dict[str, list[str]] = {}
        for name in names:
            # Few files are a part each; of many that would be too many parts.
            groups.setdefault(Path(name).stem[:2] if len(names) > 200 else name, []).append(name)
        return [tuple(group) for _, group in sorted(groups.items())]

    def side_files(self, raw: Raw) -> list[str]:
        """The split lists."""
        return [name for name in raw.files("**/*.json") if _is_split(name)]

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One episode → step rows. Raises `RecordError`: missing_field, empty_text."""
        row = record.payload
        steps, task = items.list_of(row, "steps"), row.get("task_info")
        with items.refusing(len(steps)):
            goal = items.text_of(task, "instruction", "?")
        # How it ended is said by the last step alone.
        words = [step.get("action") if isinstance(step, dict) else None for step in steps]
        outcome = {"COMPLETE": "success", "INCOMPLETE": "failure"}.get(str(words[-1])) if words else None
        said = items.whole_number(row.get("step_length"))
        if said is not None and said > len(steps):  # cut: how it went on, nobody knows
            outcome = None
        apps = task.get("app") if isinstance(task, dict) else None
        builder = EpisodeBuilder(
            self.descriptor,
            record,
            instruction=goal,
            split=_split(raw, record),
            app=", ".join(app for app in apps if isinstance(app, str)) or None if isinstance(apps, list) else None,
            outcome=outcome,
        )
        found = items.unknown_fields(row, _EPISODE)
        ordered = items.by_number(steps, "step")
        for place, numbered in builder.numbered(steps, "step"):
            step = numbered.step
            _step(builder, raw, step, place, selects=_selects([one.step for one in ordered[:place]]))
            found += items.unknown_fields(step, _STEP) if isinstance(step, dict) else []
        return items.notices(builder.finish(), found)


def _is_split(name: str) -> bool:
    return name.rpartition("/")[2] in {f"{split}_split.json" for split in SPLITS}


def _split(raw: Raw, record: Record) -> str:
    """test if any of the lists says so: one list's training episode is another's test episode."""
    # Split lists lie beside the annotations.
    base = record.file.rpartition("annotations/")[0]
    for split in SPLITS:
        for folder in ("splits/", ""):
            path = raw.path(f"{base}{folder}{split}_split.json")
            # Lists name episodes with or without the ending of their files.
            if path.is_file() and items.tests_of(path) & {Path(record.file).name, Path(record.file).stem}:
                return "test"
    return "train"


def _selects(before: list[object]) -> bool:
    """Whether a SCROLL after these steps goes on selecting text: a run of them follows a long press at a point. One of
    a key, or without its points, pressed nothing."""
    earlier = (step for step in reversed(before) if not (isinstance(step, dict) and step.get("action") == "SCROLL"))
    last = next(earlier, None)
    return isinstance(last, dict) and last.get("action") == "LONG_PRESS" and isinstance(last.get("info"), list)


def _step(builder: EpisodeBuilder, raw: Raw, step: object, place: int, *, selects: bool) -> None:
    word = "?"
    try:
        if not isinstance(step, dict):
            raise items.ItemError("bad_value", f"expected an object, found {type(step).__name__}", word)
        action, word, rules = _action(step, selects=selects)
        name = step.get("screenshot")
        data = raw.read_if_there(f"screenshots/{name}") if isinstance(name, str) else None
        box = unit_box(step["sam2_bbox"], UNITS, word) if step.get("sam2_bbox") else None
    except (items.ItemError, RecordError) as error:
        counted = error.word if isinstance(error, items.ItemError) else word
        builder.reject(error.reason, native=step, native_index=place, word=counted, detail=error.detail)
        return
    # A box that misses the point was found by a model around something else.
    pointed = getattr(action, "box", None)
    if (
        box is not None
        and pointed is not None
        and not (box[0] <= pointed[0] <= box[2] and box[1] <= pointed[1] <= box[3])
    ):
        box, rules = None, [*rules, "sam2_bbox_misses_the_point"]
    mapped = MappedAction([action], word, rules=rules, box=box)
    builder.take(
        mapped,
        step,
        place,
        RecordScreen.load(data, normalised=True),
        thought=items.optional_text(step.get("intention")),
        step_instruction=items.optional_text(step.get("low_level_instruction")),
    )


def _action(step: dict[str, Any], *, selects: bool) -> tuple[Action, str, list[str]]:
    """(action, the word it is counted under, rules). Raises `ItemError`."""
    word, info = str(step.get("action")), step.get("info")
    # A key is written as a click on its name.
    if word in ("CLICK", "LONG_PRESS"):
        if isinstance(info, str):
            if info not in KEYS:
                raise items.ItemError(f"unknown_action:{info[:60]}", f"{word}: expected a point or a known key", "?")
            return KEYS[info], info, []
        point = _points(info, 1, word)[0]
        return (Click(point) if word == "CLICK" else LongPress(point)), word, []
    if word == "SCROLL":
        start, end = _points(info, 2, word)[:2]
        if selects:
            return Drag(start, end), word, ["scroll_after_long_press_selects"]
        return swipe(start, end, word), word, ["direction_from_points"]
    if word in ("TEXT", "TYPE"):
        if not isinstance(info, str) or not items.is_text(info):
            raise items.ItemError("bad_value", f"expected a text, found {info!r:.60}", "TEXT")
        if not info:
            raise items.ItemError("empty_text", "the text is empty", "TEXT")
        return Type(info), "TEXT", []
    if word == "COMPLETE":
        return Finished(""), word, []
    if word == "INCOMPLETE":
        why = step.get("ps")
        return CallUser(why if isinstance(why, str) and items.is_text(why) else ""), word, ["infeasible_by_annotator"]
    raise items.ItemError(f"unknown_action:{word[:60]}", "action: a word never seen", "?")


def _points(info: object, least: int, word: str) -> list[tuple[int, int]]:
    if not isinstance(info, list) or len(info) < least:
        raise items.ItemError("bad_value", f"expected {least} points, found {info!r:.60}", word)
    return [pixel_point(point, UNITS, word) for point in info]
