"""LearnGUI (offline part): AMEX's episodes again, with a text for every step, answers, and splits by app.

`offline/low_level_instructions.json` is one object, an entry an episode (made up, shortened):

    {"0a1b…": {"instruction": "Find a tea pot", "app": "Shop", "split": "train", "steps": [
        {"step_id": 1, "image_path": "2024_0a1b…-1.png", "action": "CLICK[720,1500]",
         "action_description": "Open the search"}]}}

| native | unified |
|---|---|
| CLICK[x,y], LONG_PRESS[x,y] | Click, LongPress |
| SWIPE[WORD] | Scroll with AMEX's points (`touch_coord`, `lift_coord` of the same step), direction from them |
| SWIPE[WORD] without them | Scroll(direction): the word is the finger's, so UP becomes down (lossy: read off prompts) |
| TYPE[text] | Type; the text ends at the last bracket; an empty one is quarantined |
| PRESS_BACK, PRESS_HOME, PRESS_ENTER | PressBack, PressHome, PressEnter |
| TASK_COMPLETE, TASK_COMPLETE[answer] | Finished(answer) |
| TASK_IMPOSSIBLE | Finished (lossy: why isn't said); the episode's outcome is infeasible |

Pixels of AMEX's screenshot, divided by AMEX's `device_dim`, else by the picture's size; a step with a point and neither
is quarantined (`bad_frame`). AMEX's files, extracted beside it (`instruction_anno/`, `element_anno/`, `screenshot/`),
are read where they are there. An episode that `task_split.json` asks a test query of, or whose own `split` says test,
is a test episode. The form of the online part isn't known: it is refused (`unknown_schema`).
"""

import json
import posixpath
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipelines.mapping import items
from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import EpisodeBuilder, MappedAction
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.frames import sides_of, stated_size
from pipelines.mapping.points import pixel_point, swipe
from pipelines.native.record_readers import count_of, json_entries
from pipelines.sources.amex import id_of, screen_of
from schemas.actions import Action, Click, Finished, LongPress, PressBack, PressEnter, PressHome, Scroll, Type

TEXTS = "low_level_instructions.json"
SPLIT_LISTS = ("task_split.json", "task_spilit.json")
BARE: dict[str, Action] = {
    "PRESS_BACK": PressBack(),
    "PRESS_HOME": PressHome(),
    "PRESS_ENTER": PressEnter(),
    "TASK_IMPOSSIBLE": Finished(""),
}
VIEW = {"UP": "down", "DOWN": "up", "LEFT": "right", "RIGHT": "left"}
"""Where the finger goes → what the view does."""
WORDS = ("CLICK", "LONG_PRESS", "SWIPE", "TYPE", "TASK_COMPLETE", *BARE)
_CALL = re.compile(r"\s*([A-Za-z_]+)\s*(?:\[(.*)\])?\s*", re.DOTALL)
_NUMBERS = re.compile(r"\s*(-?\d+(?:\.\d+)?)\s*,\s*(-?\d+(?:\.\d+)?)\s*")
_EPISODE = frozenset({"instruction", "app", "domain", "split", "steps"})
_STEP = frozenset({"step_id", "image_path", "action", "action_description"})
_SPLITS = {"train": "train", "test": "test"}

DESCRIPTOR = Descriptor(
    id="learngui",
    title="LearnGUI (offline)",
    licence="Apache-2.0",
    platforms=("mobile",),
    size="2,252 tasks: 2,001 train (26,184 steps, 44 apps), 251 test (3,469 steps, 9 apps)",
    citation="Liu et al., LearnAct: Few-Shot Mobile GUI Agent with a Unified Demonstration Benchmark, arXiv 2504.13805",
    frame="pixels of the original screenshot, x first, origin top left",
    record_unit="episode",
    known_problems=(
        "the same episodes as AMEX",
        "picture numbers are not step numbers",
        "swipes have lost their points; the words of steps are written by a model",
        "a test query stands in the split list up to three times",
    ),
    loss=(
        Loss("CLICK", "Click", "kept"),
        Loss("LONG_PRESS", "LongPress", "kept"),
        Loss("SWIPE", "Scroll", "kept", "lossy without AMEX's points: direction only, from the word"),
        Loss("TYPE", "Type", "kept", "an empty text is quarantined"),
        Loss("PRESS_BACK", "PressBack", "kept"),
        Loss("PRESS_HOME", "PressHome", "kept"),
        Loss("PRESS_ENTER", "PressEnter", "kept"),
        Loss("TASK_COMPLETE", "Finished", "kept"),
        Loss("TASK_IMPOSSIBLE", "Finished", "lossy", "why it is impossible isn't said"),
        Loss("?", "-", "dropped", "unknown_action:<word>, or a text of another form"),
        Loss("support (task_split.json)", "-", "lossy", "which demonstrations go with a query has no column"),
    ),
    download=Download(
        "lgy0404/LearnGUI",
        files=("*.json",),
        unpack=(
            ("offline/screenshot.z*", "offline"),
            ("offline/element_anno.zip", "offline/element_anno"),
            ("offline/instruction_anno.zip", "offline/instruction_anno"),
        ),
    ),
)


class LearnguiAdapter(Adapter):
    """One record per entry of the object."""

    descriptor = DESCRIPTOR
    version = 2
    items_at = ("row/steps",)

    def parts(self, raw: Raw) -> list[tuple[str, ...]]:
        """The file of texts; each file of the online part, to be refused."""
        return [(name,) for name in raw.files("**/*.json") if posixpath.basename(name) == TEXTS or _is_online(name)]

    def side_files(self, raw: Raw) -> list[str]:
        """The split lists."""
        return [name for name in raw.files("**/*.json") if posixpath.basename(name) in SPLIT_LISTS]

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """One episode an entry, with AMEX's annotation of it where there is one."""
        for file in files:
            if _is_online(file):
                count = raw.read(file).count(b'"action"')
                yield Broken(file, "document", "unknown_schema", "the form of the online part isn't known", count)
                continue
            base = posixpath.dirname(file)
            # Boxes and points of the same episodes, which this source leaves out.
            annotated = {
                identifier: name
                for name in raw.files("**/*.json")
                if "instruction_anno/" in name and (identifier := id_of(name))
            }
            for name, row in json_entries(raw, file, count_of('"action"')):
                if isinstance(row, Broken):
                    yield row
                    continue
                payload = {"row": row, "base": f"{base}/" if base else "", "amex": annotated.get(name.lower())}
                yield Record(file, f"entry {name[:60]}", payload, name, row)

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One episode → step rows. Raises `RecordError`: missing_field, empty_text."""
        row, name = record.payload["row"], str(record.native_id)
        steps, app = items.list_of(row, "steps"), row.get("app")
        with items.refusing(len(steps)):
            goal = items.text_of(row, "instruction", "?")
        # Test if either the row or a list says so, so that no test episode trains.
        known = [
            _SPLITS.get(str(row.get("split"))),
            *("test" for file in self.side_files(raw) if name in _tests(raw.path(file))),
        ]
        final = items.by_number(steps, "step_id")[-1].step if steps else None
        impossible = isinstance(final, dict) and final.get("action") == "TASK_IMPOSSIBLE"
        builder = EpisodeBuilder(
            self.descriptor,
            record,
            episode_id=name,
            instruction=goal,
            split="test" if "test" in known else "train",
            app=app if isinstance(app, str) and app.strip() else None,
            outcome="infeasible" if impossible else None,
        )
        found = items.unknown_fields(row, _EPISODE)
        if row.get("split") not in (None, *_SPLITS):
            found.append(("bad_value", "split: expected train or test", {"split": row["split"]}))
        amex = _amex_steps(raw, record.payload["amex"])
        for place, numbered in builder.numbered(steps, "step_id"):
            step = numbered.step
            number = step.get("step_id") if isinstance(step, dict) else None
            _step(builder, raw, record.payload["base"], step, place, amex.get(items.id_text(number), {}))
            found += items.unknown_fields(step, _STEP) if isinstance(step, dict) else []
        return items.notices(builder.finish(), found)


def _is_online(name: str) -> bool:
    return "online" in name.split("/")[:-1]


@items.read_once(8)
def _tests(path: Path) -> frozenset[str]:
    """Episodes of test queries, by the split list. Raises `SplitListError`."""
    try:
        rows = json.loads(path.read_bytes())
        return frozenset(items.id_text(row["query"]["episode_id"]) for row in rows if row["split"] == "test")
    except (ValueError, KeyError, TypeError) as error:
        raise items.SplitListError(f"{path.name}: expected a list of split and query: {error}") from error


def _amex_steps(raw: Raw, file: str | None) -> dict[Any, Mapping[str, Any]]:
    """AMEX's steps of the episode by their ids; none where there is no annotation that can be read."""
    try:
        steps = json.loads(raw.read(file))["steps"] if file else []
        return {items.id_text(step["step_id"]): step for step in steps}
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}


def _step(builder: EpisodeBuilder, raw: Raw, base: str, step: object, place: int, amex: Mapping[str, object]) -> None:
    word = "?"
    try:
        if not isinstance(step, dict):
            raise items.ItemError("bad_value", f"expected an object, found {type(step).__name__}", word)
        call = _CALL.fullmatch(step["action"]) if isinstance(step.get("action"), str) else None
        if call is None:
            raise items.ItemError("bad_value", f"expected NAME[argument], found {step.get('action')!r:.60}", word)
        if call[1] not in WORDS:
            raise items.ItemError(f"unknown_action:{call[1][:60]}", f"expected one of {WORDS}", word)
        word = call[1]
        # Only where both speak of the same picture.
        same = amex if amex.get("image_path") in (None, step.get("image_path")) else {}
        screen = screen_of(raw, base, step.get("image_path"), stated_size(same.get("device_dim"), "device_dim", word))
        action, rules = _action(word, call[2], screen, same)
    except (items.ItemError, RecordError) as error:
        builder.reject(error.reason, native=step, native_index=place, word=word, detail=error.detail)
        return
    mapped = MappedAction(
        [action],
        word,
        word == "TASK_IMPOSSIBLE" or "finger_word" in rules,
        rules,
        items.smallest_box(screen.elements, action),
    )
    builder.take(mapped, step, place, screen, step_instruction=items.optional_text(step.get("action_description")))


def _action(
    word: str, argument: str | None, screen: RecordScreen, amex: Mapping[str, object]
) -> tuple[Action, list[str]]:
    if word in BARE:
        if argument is not None:
            raise items.ItemError("bad_value", f"{word} has no argument, found {argument!r:.60}", word)
        return BARE[word], []
    text = argument or ""
    if not items.is_text(text):
        raise items.ItemError("bad_value", "the text is not Unicode text", word)
    if word == "TASK_COMPLETE":
        return Finished(text), []
    if word == "TYPE":
        if not text:
            raise items.ItemError("empty_text", "the text is empty", word)
        return Type(text), []
    if word == "SWIPE":
        return _swipe(text, screen, amex)
    numbers = _NUMBERS.fullmatch(text)
    if numbers is None:
        raise items.ItemError("bad_value", f"{word}: expected [x,y], found {text!r:.60}", word)
    point = pixel_point([float(numbers[1]), float(numbers[2])], _frame(screen, word), word)
    return (Click(point) if word == "CLICK" else LongPress(point)), []


def _swipe(text: str, screen: RecordScreen, amex: Mapping[str, object]) -> tuple[Action, list[str]]:
    if text not in VIEW:
        raise items.ItemError("bad_value", f"SWIPE: expected one of {tuple(VIEW)}, found {text!r:.60}", "SWIPE")
    # Words of a finger tell less than the points of AMEX, if those are there.
    if amex.get("action") != "SWIPE":
        return Scroll(direction=VIEW[text]), ["finger_word"]
    size = _frame(screen, "SWIPE")
    start, end = (pixel_point(amex.get(name), size, "SWIPE") for name in ("touch_coord", "lift_coord"))
    scroll, rules = swipe(start, end, "SWIPE", size), ["points_of_amex", "direction_from_points"]
    # Where they contradict each other, the points were recorded and the word was written.
    return scroll, rules if scroll.direction == VIEW[text] else [*rules, "word_contradicts_points"]


def _frame(screen: RecordScreen, word: str) -> tuple[int, int]:
    return sides_of(screen, "neither device_dim nor a picture says how large the screen is", word)
