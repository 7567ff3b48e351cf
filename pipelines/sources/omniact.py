"""OmniACT: one screenshot and one instruction → a pyautogui script, desktop and web.

A raw row of `train.json` ({row id: relative paths}), and the files it names (task text; box, shortened):

    "0": {"task": "data/web/asics/task_1.1.txt", "image": "data/web/asics/screen_1.png", "ocr": "...", "color": "...",
          "icon": "...", "box": "data/web/asics/boxes_1.json"}
    Task: Review the products added to the cart
    Output Script:
    pyautogui.click(1288.5,116.0)
    {"shopping_cart_button": {"top_left": [1277, 106], "bottom_right": [1300, 126], "label": "...", "valid": 1}}

| native | unified |
|---|---|
| a script line | the actions of `pipelines/native/pyautogui.py`; absolute pixels over the *picture's* size |
| `moveTo` + `dragTo` (scroll, bare click) | one gesture, one action |
| `scroll(n)` | `Scroll(direction)`; the pointer is taken to be at the centre (rule `pointer_at 500,500`) |
| box entries with `valid` ≠ 0 | screens.elements: name = label, underscores as blanks |
| ocr, color, icon | dropped: points without boxes |

All lines of a script share its one screenshot (rule `shared_screenshot` from the second gesture on). There is no
finish action and none is made. Web rows say `screen_N` where the file is `screenN` (boxes too): both are tried. The
size of the screen is known from the picture only: without it the row is quarantined (`bad_frame`).
"""

import json
import re
from collections.abc import Iterator
from typing import Any

from pipelines.mapping.adapter import Adapter, Broken, Mapped, Raw, Record, RecordError, RecordScreen
from pipelines.mapping.builders import EpisodeBuilder, MappedAction
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.items import ItemError, notices, smallest_box, unknown_fields
from pipelines.native.pyautogui import CALL_LOSSES, PyAutoGuiGesture, gestures, parse_script
from pipelines.native.record_readers import count_of, json_entries
from schemas.coordinates import OffScreen, box_to_unit

SPLITS = {"train.json": "train", "val.json": "validation", "test.json": "test"}
_KNOWN = frozenset({"task", "image", "ocr", "color", "icon", "box"})
_TASK = re.compile(r"\s*Task\s*:(.*?)Output\s+Script\s*:[ \t]*\n?(.*)", re.DOTALL | re.IGNORECASE)
_CENTRE = (500, 500)

DESCRIPTOR = Descriptor(
    id="omniact",
    title="OmniACT",
    licence="Apache-2.0",
    platforms=("desktop", "web"),
    size="9,799 rows: train 6,788, validation 991, test 2,020",
    citation="Kapoor et al., OmniACT: A Dataset and Benchmark for Enabling Multimodal Generalist Agents, 2402.17553",
    frame="pixels of the screenshot, floats, x first, origin top left",
    item_unit="gesture: a call, or a moveTo with the dragTo, scroll or bare click after it",
    known_problems=(
        "web rows name screen_N where the file is screenN; box files too",
        "one screenshot per script although later lines change the screen",
        "scripts with a missing argument; scroll amounts of 3 to 100",
        "three paraphrases per screenshot and action inflate the counts",
    ),
    loss=(
        *CALL_LOSSES,
        Loss("terminate", "Finished", "kept", "not seen in this source"),
        Loss("box", "screens.elements", "kept", "valid = 0 is left out"),
        Loss("ocr, color, icon", "-", "lossy", "points without boxes: no place in screens.elements"),
    ),
    download=Download(
        "Writer/omniact",
        files=("train.json", "val.json", "test.json"),
        unpack=(("data.zip", "."), ("ocr.zip", "."), ("detact_icon.zip", "."), ("detact_color.zip", ".")),
    ),
)


class OmniactAdapter(Adapter):
    """One record per row of a split file."""

    descriptor = DESCRIPTOR

    def parts(self, raw: Raw) -> list[tuple[str, ...]]:
        """One part per split file."""
        return [(name,) for name in SPLITS if raw.path(name).is_file()]

    def records(self, raw: Raw, files: tuple[str, ...]) -> Iterator[Record | Broken]:
        """The rows of a split file, in its order. Row ids repeat across splits, so the split is part of the id."""
        for file in files:
            for row_id, row in json_entries(raw, file, count_of('"task"')):
                plain = isinstance(row, Broken)
                yield row if plain else Record(file, f"row {row_id}", row, f"{file.removesuffix('.json')}_{row_id}")

    def items_held(self, record: Record, raw: Raw) -> int:
        """Gestures of its script; how calls join doesn't depend on the size of the screen."""
        _, script = _task(raw, _path(record.payload, "task"))
        return len(list(gestures(parse_script(script), (1e9, 1e9)))) or 1

    def map(self, record: Record, raw: Raw) -> Mapped:
        """One row → step rows. Raises `RecordError`: missing_field, bad_value, unsafe_path, empty_text, bad_frame."""
        row = record.payload
        if not isinstance(row, dict):
            raise RecordError("bad_value", f"expected an object of paths, found {type(row).__name__}")
        instruction, script = _task(raw, _path(row, "task"))
        try:
            calls = parse_script(script)
        except ItemError as error:
            raise RecordError(error.reason, error.detail) from error
        if not calls:
            raise RecordError("missing_field", "the task file has no script")
        if not instruction:
            raise RecordError("empty_text", "the instruction is empty")
        found = unknown_fields(row, _KNOWN)
        image = _path(row, "image")
        screen = _screen(raw, image, _boxes(raw, row, found), found)
        builder = EpisodeBuilder(
            self.descriptor,
            record,
            instruction=instruction,
            split=SPLITS[record.file],
            # Pictures lie below a folder of their platform.
            platform="web" if "web" in image.split("/") else "desktop",
        )
        assert screen.width_px and screen.height_px  # `RecordScreen.load` raises bad_frame otherwise
        for place, gesture in enumerate(gestures(calls, (screen.width_px, screen.height_px), _CENTRE, self.space)):
            _add(builder, gesture, place, screen)
        return notices(builder.finish(), found)


def _add(builder: EpisodeBuilder, gesture: PyAutoGuiGesture, place: int, screen: RecordScreen) -> None:
    native = {"script": [call.text for call in gesture.calls]}
    error = gesture.error
    # Where the pointer is before the first call nobody knows.
    if error is None and gesture.word not in ("scroll", "hscroll") and not _pointed(gesture):
        error = ItemError("missing_field", f"{gesture.word}: expected x and y", gesture.word)
    if error is not None:
        builder.reject(error.reason, native=native, native_index=place, word=gesture.word, detail=error.detail)
        return
    mapped = MappedAction(
        gesture.actions,
        gesture.word,
        gesture.lossy,
        [*gesture.rules, *(["shared_screenshot"] if place else [])],
        smallest_box(screen.elements, gesture.actions[0]),
    )
    builder.take(mapped, native, place, screen)


def _pointed(gesture: PyAutoGuiGesture) -> bool:
    """A click (or drag) needs a point in the script: the centre is a fair guess for a wheel, not for a click."""
    if gesture.word not in ("click", "rightClick", "doubleClick", "tripleClick", "dragTo"):
        return True
    return len(gesture.calls) == 2 or (
        gesture.word != "dragTo" and bool(gesture.calls[0].args or "x" in gesture.calls[0].kwargs)
    )


def _path(row: dict[str, Any], name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value:
        raise RecordError("missing_field", f"{name}: expected a relative path, found {value!r:.60}")
    return value


def _find(raw: Raw, path: str) -> bytes | None:
    """Bytes of a file by the name the row gives it, or by its real name. Raises `RecordError("unsafe_path")`."""
    head, _, name = path.rpartition("/")
    # Names in the rows differ from those of the files by an underscore.
    names = dict.fromkeys([name, re.sub(r"_(?=\d)", "", name), re.sub(r"(?<=[a-z])(?=\d)", "_", name, count=1)])
    folder = f"{head}/" if head else ""
    return raw.first(f"{prefix}{folder}{other}" for other in names for prefix in ("", "data/"))


def _task(raw: Raw, path: str) -> tuple[str, str]:
    data = _find(raw, path)
    if data is None:
        raise RecordError("missing_field", f"task: no file {path[:120]!r}")
    try:
        match = _TASK.fullmatch(data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise RecordError("bad_value", f"task: not UTF-8: {error.reason}") from error
    if match is None:
        raise RecordError("bad_value", f"task: expected 'Task: ... Output Script: ...', found {data[:80]!r}")
    return match.group(1).strip(), match.group(2)


def _boxes(raw: Raw, row: dict[str, Any], found: list[tuple[str, str, Any]]) -> dict[str, Any]:
    path = row.get("box")
    data = _find(raw, path) if isinstance(path, str) and path else None
    if data is None:
        return {}
    try:
        boxes = json.loads(data)
        if isinstance(boxes, dict):
            return boxes
        found.append(("bad_elements", f"box: expected an object, found {type(boxes).__name__}", path))
    except (ValueError, RecursionError) as error:
        found.append(("bad_elements", f"box: {error}", path))
    return {}


def _screen(raw: Raw, image: str, boxes: dict[str, Any], found: list[tuple[str, str, Any]]) -> RecordScreen:
    plain = RecordScreen.load(_find(raw, image))  # raises bad_frame without a picture
    assert plain.width_px and plain.height_px
    elements = []
    for name, box in boxes.items():
        try:
            # Elements that the source itself marks as wrong.
            if box.get("valid", 1) == 0:
                continue
            left, top, right, bottom = (float(v) for v in (*box["top_left"], *box["bottom_right"]))
            unit = box_to_unit((left, top, right, bottom), (plain.width_px, plain.height_px))
            label = str(box.get("label") or name).replace("_", " ").strip()
            if unit[0] < unit[2] and unit[1] < unit[3]:
                elements.append({"box": unit, "role": "", "text": "", "name": label})
        except OffScreen:
            # An element beside the screen isn't shown.
            continue
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            found.append(("bad_elements", f"box {name[:60]!r}: {type(error).__name__}: {error}", {name: box}))
    return RecordScreen(plain.width_px, plain.height_px, plain.data, plain.info, tuple(elements), plain.problem)
