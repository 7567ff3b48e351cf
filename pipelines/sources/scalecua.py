"""ScaleCUA: steps, grounding and questions on six operating systems, as chats; actions are calls with fractions.

Licence: apache-2.0 in the first README (the later one names none: UNCONFIRMED).

A raw row, a line of an annotation file (made up, shortened):

    {"image": "a/1.png", "width": 1920, "height": 1080, "conversations": [{"from": "human", "value": "<image>\\nPlease
       generate the next move ...\\n\\nTask: Open x\\n\\nPrevious operations:\\nStep 1: \\"Click ...\\""},
      {"from": "gpt", "value": "<think>...</think><operation>Click ...</operation><action>click(x=0.1, y=0.9)</action>"}
      ]}

| native | unified |
|---|---|
| `<action>` with a task and previous operations | a step of an episode |
| `<action>` alone | an episode of one step, the question is its instruction |
| click, doubleClick, moveTo, moveTo + dragTo, write, wait | as in `pipelines.native.pyautogui` |
| press, hotkey, key, keyDown ... keyUp | `PressEnter`, `Hotkey`; "ctrl+s" is a hotkey |
| scroll(clicks) | `Scroll`, by the operation's words (the sign is disputed), else `ambiguous_direction` |
| swipe(from_coord, to_coord) | `Scroll(points)`: the finger's path |
| swipe(direction) | `Scroll(direction)`, turned round: the word is the finger's; lossy: how far |
| long_press, open_app, open_url, navigate_*, go_backward, response, call_user | as in `pipelines.native.calls` |
| terminate(status, info) | `Finished(info)`, episode_outcome = status; failure is lossy |
| rightClick, select_option | rejected; under v2 `RightClick`, `SelectOption` |
| go_forward, dragTo without a start | rejected |
| `<ref>text</ref>` with `<box>` or `<point>` (0..1000) | "Where is <text>?" → centre or point |
| an answer in plain words | the question and its answer (`vqa`) |
| a box or point without `<ref>`, two pictures | refused (`unknown_schema`) |

`meta.json` names each annotation file and its picture folder; its key (else the file's name) names the platform.
Consecutive rows with one task and a growing history are an episode; a hole in the history is a marked gap.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import EpisodeBuilder, MappedAction, SampleBuilder
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.frames import fitting_screen, whole_sides
from pipelines.mapping.items import ItemError, is_number, notices, read_once, refusing, unknown_fields
from pipelines.mapping.unicode_text import check_texts
from pipelines.native.chat import exchanges, turns, without_pictures
from pipelines.native.record_readers import json_lines
from pipelines.native.scalecua_calls import LOSSES, OTHER, read_step
from schemas.coordinates import UNITS, to_unit
from schemas.ids import digest

_KNOWN = frozenset({"image", "conversations", "width", "height"})
_TASK = re.compile(r"\bTask:(.*?)\n[^\S\n]*Previous operations:(.*)", re.DOTALL)
_STEP = re.compile(r"^\s*Step (\d{1,4}):", re.MULTILINE)
_ACTION = re.compile(r"<action>(.*?)</action>", re.DOTALL)
_THINK = re.compile(r"<think>(.*?)</think>", re.DOTALL)
_OPERATION = re.compile(r"<operation>(.*?)</operation>", re.DOTALL)
_REF = re.compile(r"<ref>(.*?)</ref>", re.DOTALL)
_TAG = re.compile(r"</?(?:action|operation|think|ref|box|point)>")
_PLACE = re.compile(r"<(box|point)>(.*?)</\1>", re.DOTALL)
_PLATFORMS = dict(
    pair.split("=")
    for pair in str.split(
        "windows=desktop, win=desktop, mac=desktop, macos=desktop, ubuntu=desktop, linux=desktop, "
        "desktop=desktop, android=mobile, iphone=mobile, ios=mobile, ipad=mobile, mobile=mobile, web=web, "
        "browser=web",
        ", ",
    )
)

DESCRIPTOR = Descriptor(
    id="scalecua",
    title="ScaleCUA data",
    licence="apache-2.0 (UNCONFIRMED: the later README names none)",
    platforms=("desktop", "mobile", "web"),
    objectives=("navigation", "grounding", "vqa"),
    size="1.07 TB, 201 annotation files",
    citation="Liu et al., ScaleCUA: Scaling Open-Source Computer Use Agents with Cross-Platform Data, arXiv 2509.15221",
    frame="actions: fractions 0..1; boxes and points: 0..1000; x first, origin top left",
    record_unit="episode",
    known_problems=(
        "the sign of scroll(clicks) is disputed: the operation's words decide",
        "single steps: gaps, repeats and rows after the end occur",
        "some boxes lie outside the frame; some pictures are missing",
        "how questions with boxes and points are worded isn't known beyond <ref> (UNCONFIRMED)",
    ),
    loss=(
        *LOSSES,
        Loss("box", "grounding sample", "kept", "without a <ref>: unknown_schema"),
        Loss("point", "grounding sample", "kept", "without a <ref>: unknown_schema"),
        Loss("answer in words", "vqa sample", "kept", "an empty one: empty_text"),
    ),
    download=Download("OpenGVLab/ScaleCUA-Data", files=("*.jsonl", "meta.json")),
)


class ScalecuaAdapter(Adapter):
    """One record per episode, or per row that is no step of one."""

    descriptor = DESCRIPTOR
    items_at = (".",)
    patterns = ("**/*.jsonl",)
    side_lists = ("meta.json",)

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """One episode, or other row, at a time: a list of rows."""
        for file in files:
            held: list[Record] = []
            last: tuple[str, int] | None = None
            for found in json_lines(raw, file):
                place = _place(found.payload) if isinstance(found, Record) else None
                # Another task, or a number that shrinks or starts anew: the next episode begins.
                if held and (place is None or last is None or place[0] != last[0] or not last[1] <= place[1] > 0):
                    yield _episode(held)
                    held = []
                last = place
                if isinstance(found, Record) and place is not None:
                    held.append(found)
                elif isinstance(found, Record):
                    yield Record(file, found.locator, [found.payload])
                else:
                    yield found
            if held:
                yield _episode(held)

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One record → its rows. Raises `RecordError`: missing_field, bad_value, unknown_schema, unsafe_path."""
        rows: list[Any] = record.payload
        check_texts(rows, len(rows))
        steps = [_Row.read(row, len(rows)) for row in rows]
        with refusing(len(rows)):
            root, platform = _source(raw, record.file)
            screens = [_screen(raw, root, step.row) for step in steps]
        found = [notice for step in steps for notice in unknown_fields(step.row, _KNOWN)]
        # One row without an action asks about a screen.
        if len(steps) == 1 and not steps[0].action:
            builder = SampleBuilder(
                self.descriptor,
                record,
                record_id=digest({"file": record.file, **steps[0].row}),
                platform=platform,
                split=_split(record.file),
            )
            try:
                _sample(builder, steps[0], screens[0])
            except ItemError as error:
                builder.reject(error.reason, native=steps[0].said, native_index=0, word=error.word, detail=error.detail)
            return notices(builder.finish(), found)
        return notices(self._episode(record, steps, screens, platform), found)

    def _episode(self, record: Record, steps: "list[_Row]", screens: list[RecordScreen], platform: str) -> Mapped:
        read_steps = [read_step(step.action, step.operation, self.space) for step in steps]
        builder = EpisodeBuilder(
            self.descriptor,
            record,
            episode_id=digest({"file": record.file, "rows": [step.row for step in steps]}),
            instruction=steps[0].task,
            platform=platform,
            split=_split(record.file),
            outcome=next((one.outcome for one in read_steps if isinstance(one, MappedAction) and one.outcome), None),
        )
        due, ended = 0, False
        for place, (step, one, screen) in enumerate(zip(steps, read_steps, screens, strict=True)):
            if step.done > due:
                builder.gap("steps_missing_in_source")
            # Rows after the end, or twice the same step: which is right, nobody knows.
            if ended or (place and step.done < due):
                one = ItemError("bad_value", "a row after the end" if ended else "a second row of one step", OTHER)
            if isinstance(one, ItemError):
                builder.reject(one.reason, native=step.said, native_index=place, word=one.word, detail=one.detail)
            else:
                said = step.operation or None
                builder.take(one, step.said, place, screen, thought=step.thought, step_instruction=said)
                ended = one.outcome is not None
            due = max(due, step.done + 1)
        return builder.finish()


@dataclass(frozen=True)
class _Row:
    """A row, read. `action` is empty for one without; `done` counts the steps before it."""

    row: Mapping[str, Any]
    task: str
    done: int
    said: str
    action: str
    operation: str
    thought: str | None

    @classmethod
    def read(cls, row: object, items: int) -> "_Row":
        if not isinstance(row, Mapping) or not isinstance(row.get("image"), str | list):
            raise RecordError("missing_field", "expected an object with an image", items)
        pairs = exchanges(turns(row.get("conversations"), items))
        if isinstance(row["image"], list) or len(pairs) != 1:
            raise RecordError("unknown_schema", "expected one picture and one exchange", items)
        asked, said = without_pictures(pairs[0][0]), pairs[0][1]
        task = _TASK.search(asked)
        actions, thought, operation = _ACTION.findall(said), _THINK.search(said), _OPERATION.search(said)
        if len(actions) > 1:
            raise RecordError("unknown_schema", "more than one <action>", items)
        instruction = (task[1] if task else asked).strip()
        if not instruction:
            raise RecordError("empty_text", "no task", items)
        return cls(
            row,
            instruction,
            # Steps done are numbered in the prompt.
            max((int(n) for n in _STEP.findall(task[2])), default=0) if task else 0,
            said,
            actions[0].strip() if actions else "",
            operation[1].strip() if operation else "",
            (thought[1].strip() or None) if thought else None,
        )


def _place(row: Any) -> tuple[str, int] | None:
    """(task, steps done) of a row that is a step of an episode; None for another."""
    try:
        read = _Row.read(row, 1)
    except RecordError:
        return None
    return (read.task, read.done) if read.action and "Previous operations:" in str(row["conversations"]) else None


def _episode(held: list[Record]) -> Record:
    return Record(held[0].file, held[0].locator, [row.payload for row in held])


def _split(file: str) -> str:
    words = re.findall(r"[a-z]+", file.rpartition("/")[2].lower())
    return "test" if "test" in words else "validation" if "val" in words or "validation" in words else "train"


def _source(raw: Raw, file: str) -> tuple[str, str]:
    """(folder of the pictures, platform) of an annotation file, by `meta.json` or by its name."""
    # The key of the meta data first, as it is written for this.
    key, root, style = _meta(raw.path("meta.json")).get(file.rpartition("/")[2], ("", "", ""))
    for text in (key, file, style):
        for word in re.findall(r"[a-z]+", text.lower()):
            if word in _PLATFORMS:
                return root, _PLATFORMS[word]
    raise RecordError("missing_field", "neither meta.json nor the file's name tells the platform")


@read_once(4, dict)
def _meta(path: Path) -> dict[str, tuple[str, str, str]]:
    """Name of an annotation file → (key, root, conv_style)."""
    try:
        listed = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise RecordError("bad_json", f"meta.json: {error}") from error
    found = {}
    for key, entry in listed.items() if isinstance(listed, dict) else ():
        if isinstance(entry, dict) and isinstance(entry.get("annotation"), str):
            texts = (entry.get("root"), entry.get("conv_style"))
            root, style = (text if isinstance(text, str) else "" for text in texts)
            found[entry["annotation"].rpartition("/")[2]] = (key, root, style)
    return found


def _screen(raw: Raw, root: str, row: Mapping[str, Any]) -> RecordScreen:
    folders = dict.fromkeys((f"{root.strip('/')}/" if root.strip("/") else "", "", "data/", "images/"))
    data = raw.first(folder + row["image"] for folder in folders)
    width, height = row.get("width"), row.get("height")
    # Without a stated size the picture's own is taken.
    if width is None and height is None:
        return RecordScreen.load(data, normalised=True)
    size = whole_sides((width, height))
    if size is None:
        raise RecordError("bad_frame", f"width, height: expected positive ints, found {width!r:.40}, {height!r:.40}")
    return fitting_screen(data, size)


def _sample(builder: SampleBuilder, row: _Row, screen: RecordScreen) -> None:
    """A row that asks for a place → a grounding sample; another question → a vqa sample. Raises `ItemError`."""
    places = _PLACE.findall(row.said)
    if not places:
        word, said = "answer in words", row.said.strip()
        if not said or _TAG.search(said):
            raise ItemError("unknown_schema" if said else "empty_text", "no action, box, point or plain words", word)
        builder.sample("vqa", row.task, said, screen, 0, word)
        return
    word = places[0][0]
    # The reference stands in the question, in some files in the answer.
    named = _REF.findall(row.task) or _REF.findall(row.said)
    if len(named) != 1:
        raise ItemError("unknown_schema", "expected one <ref> that says what is looked for", word)
    try:
        listed = json.loads(places[0][1])
    except (ValueError, RecursionError) as error:
        raise ItemError("bad_value", f"{word}: {error}", word) from error
    numbers = listed[0] if isinstance(listed, list) and len(listed) == 1 and len(places) == 1 else None
    if not isinstance(numbers, list) or len(numbers) != (4 if word == "box" else 2) or not all(map(is_number, numbers)):
        raise ItemError("bad_value", f"expected one {word}, found {places[0][1][:60]!r}", word)
    if not all(0 <= number <= UNITS for number in numbers):
        raise ItemError("off_screen", f"{numbers} lies outside 0..{UNITS}", word)
    if word == "box":
        builder.grounding(named[0].strip(), numbers, screen, 0, word)
        return
    if not named[0].strip():
        raise ItemError("empty_text", "the expression is empty", word)
    at = (to_unit(numbers[0], UNITS), to_unit(numbers[1], UNITS))
    builder.point(named[0].strip(), at, screen, 0, word)
