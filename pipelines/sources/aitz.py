"""Android in the Zoo: a part of AITW, cleaned and with model-written thoughts; one JSON file per episode.

Licence: Apache-2.0 (the pictures come from AITW).

A raw row (one step of `train/google_apps/GOOGLE_APPS-523638528775825151/GOOGLE_APPS-523638528775825151.json`):

    {"episode_id": "523638528775825151", "episode_length": 4, "step_id": 2,
     "instruction": "open app \\"Clock\\" (install if not already installed)",
     "ui_positions": "[[34, 236, 16, 5], ...]", "ui_text": "[\\"\\", ...]", "ui_types": "[\\"ICON_...\\", ...]",
     "result_action_type": 4, "result_action_text": "",
     "result_touch_yx": "[0.498, 0.607]", "result_lift_yx": "[0.497, 0.607]",
     "image_path": "google_apps/GOOGLE_APPS-.../GOOGLE_APPS-..._2.png", "image_full_path": "...",
     "coat_screen_desc": "...", "coat_action_think": "...", "coat_action_desc": "...", "coat_action_result": "..."}

| native | unified |
|---|---|
| codes 3, 4, 5, 6, 7, 10, 11 | as in `aitw.py`: the click point is the *touch* point too (CoAT takes the lift point) |
| `coat_action_think` / `coat_action_result` / `coat_action_desc` | thought / conclusion / step_instruction |
| `ui_positions` (y, x, h, w in *pixels* of the shipped picture), `ui_text`, `ui_types` (JSON in strings) | elements |

The words of `coat_action_desc` name the finger's direction ("scroll up" = finger up): the direction of a Scroll is
computed from its points, never from words. Split: the folder, else the path that the row states; test wins.
"""

import json
import posixpath
from collections.abc import Collection, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.mapping import adapter, items
from pipelines.mapping.builders import EpisodeBuilder, MappedAction
from pipelines.mapping.card import Descriptor, Loss
from pipelines.mapping.column_json import plain
from pipelines.mapping.items import ItemError, is_text, notices, smallest_box, unknown_fields, whole_number
from pipelines.native import aitz_native, gesture_columns
from pipelines.native.aitw_codes import GESTURE_LOSSES, gesture, ocr_elements, word_of

_TEXTS = {"thought": "coat_action_think", "conclusion": "coat_action_result", "step_instruction": "coat_action_desc"}

DESCRIPTOR = Descriptor(
    id="aitz",
    title="Android in the Zoo (CoAT)",
    origin="https://github.com/IMNearth/CoAT",
    licence="Apache-2.0",
    platforms=("mobile",),
    size="2,504 episodes, 18,643 steps (train 1,998 / 13,919, test 506 / 4,724)",
    citation="Zhang et al., Android in the Zoo: Chain-of-Action-Thought for GUI Agents, arXiv 2403.02713",
    frame="gestures 0..1, y first; element boxes (y, x, h, w) in pixels of the shipped picture; origin top left",
    record_unit="episode",
    known_problems=(
        "thoughts are written by a model, a few contradict the action",
        "poor OCR text",
        "all episodes come from AITW; Aguvis and GUIAct-smartphone hold copies",
        "the words scroll up/down name the finger's direction, the opposite of SeeClick's AITW",
    ),
    loss=(
        *GESTURE_LOSSES,
        Loss("step", "-", "dropped", "missing_field, bad_value or duplicate: no usable place or code"),
        Loss("coat_action_think", "thought", "kept"),
        Loss("coat_action_result", "conclusion", "kept"),
        Loss("coat_action_desc", "step_instruction", "kept", "verbatim: its scroll words name the finger's direction"),
        Loss("coat_screen_desc", "-", "lossy", "no column for it; stays in native_action"),
        Loss("ui_positions, ui_text, ui_types", "screens.elements", "kept", "pixels of the shipped picture → 0..1000"),
    ),
)

_ELEMENTS = ["ui_positions", "ui_text", "ui_types"]
_NO_SCREEN = adapter.RecordScreen(None, None, None, None, (), "image_missing")


class AitzAdapter(adapter.BatchAdapter):
    """One record per episode file."""

    descriptor = DESCRIPTOR
    version = 2
    items_at = (".",)

    def parts(self, raw: adapter.Raw) -> list[tuple[str, ...]]:
        """One part per folder of episodes (`train/google_apps`, ...): what changes in one folder costs the others
        nothing."""
        folders: dict[str, list[str]] = {}
        for name in raw.files("**/*.json"):
            folders.setdefault(posixpath.dirname(posixpath.dirname(name)), []).append(name)
        return [tuple(names) for _, names in sorted(folders.items())]

    def batches(
        self, raw: adapter.Raw, files: tuple[str, ...]
    ) -> Iterator[adapter.RecordBatch | adapter.Record | adapter.Broken]:
        """Regular episodes in batches, the others one by one."""
        return aitz_native.read(raw, files)

    def record(self, batch: adapter.RecordBatch, index: int) -> adapter.Record:
        """An episode of a batch as its list of steps."""
        first, size = batch.starts[index], batch.starts[index + 1] - batch.starts[index]
        steps = batch.table.select(aitz_native.COLUMNS.names).slice(first, size).to_pylist()
        return adapter.Record(
            *batch.where(index), steps, batch.native_ids[index].as_py(), aitz_native.content_of(steps)
        )

    def map_batch(self, batch: adapter.RecordBatch, raw: adapter.Raw) -> adapter.MappedBatch:
        """Regular episodes → rows, by column."""
        table = batch.table
        found = aitz_native.gestures(table)
        episodes = gesture_columns.Episodes(
            instruction=plain(table["instruction"]).take(pa.array(batch.starts[:-1])),
            split=_splits(batch),
            outcome=gesture_columns.outcomes(found.code, batch.starts),
            app=pa.nulls(len(batch), pa.string()),
        )
        notes: list[tuple[int, adapter.RejectedUnit]] = []
        pictures, elements = _pictures(raw, batch, gesture_columns.actions(found).kind >= 0, notes)

        def natives_of(rows: list[int]) -> list[dict[str, object]]:
            return table.select(aitz_native.IN_NATIVE).take(pa.array(rows, pa.int64())).to_pylist()

        words = {name: _or_null(plain(table[native])) for name, native in _TEXTS.items()}
        mapped = gesture_columns.map_gestures(
            self.descriptor, batch, found, episodes, pictures, elements, natives_of, words
        )
        mapped.rejects += notes
        return mapped

    def map(self, record: adapter.Record, raw: adapter.Raw) -> adapter.Mapped:
        """Steps of one file → rows. Raises `RecordError` if the steps don't name one episode and one instruction."""
        steps: list[dict[str, Any]] = record.payload
        goal = _same(steps, "instruction")
        episode_id, length = _same(steps, "episode_id"), whole_number(steps[0].get("episode_length"))
        builder = EpisodeBuilder(
            self.descriptor,
            record,
            episode_id=episode_id,
            instruction=goal,
            split=_split(record.file, steps),
            # Of a cut episode nobody knows how it went on.
            outcome=_outcome(steps) if len(set(map(_step_id, steps))) >= (length or 0) else None,
        )
        found: list[tuple[str, str, Any]] = []
        expected, seen = 0, set[int]()
        # By their numbers, as a file may hold them in any order.
        for step in sorted(steps, key=_step_id):
            number = _step_id(step)
            native = {name: step[name] for name in aitz_native.IN_NATIVE if name in step}
            if number < 0 or number in seen:
                reason = "duplicate" if number in seen else "missing_field"
                builder.reject(reason, native=native, native_index=number, word="step", detail="step_id")
                continue
            seen.add(number)
            if number > expected:
                builder.gap(f"missing_steps {expected}..{number - 1}")
            expected = number + 1
            _map_step(builder, step, native, number, _Files(raw, record.file), found)
        if length != len(seen):
            detail = f"{len(seen)} of {steps[0].get('episode_length')!r:.20} steps are in the file"
            found.append(("missing_steps", detail, {"found": sorted(seen)}))
        for name in sorted({name for step in steps for name in step} - aitz_native.KNOWN):
            found += unknown_fields({name: [step.get(name) for step in steps]}, aitz_native.KNOWN)
        return notices(builder.finish(), found)


def _or_null(column: pa.Array) -> pa.Array:
    return pc.if_else(pc.equal(column, ""), None, column)


def _splits(batch: adapter.RecordBatch) -> pa.Array:
    """As `_split`, for each record."""
    stated = pc.match_substring_regex(plain(batch.table["image_full_path"]), "aitw_with_gpt/test(/|$)|^test(/|$)")
    says = np.logical_or.reduceat(np.asarray(stated), batch.starts[:-1])
    splits = []
    for index, (file, maybe) in enumerate(zip(_files(batch), says.tolist(), strict=True)):
        # The paths are looked at only where one of them might say test.
        test = file.partition("/")[0] == "test" or (maybe and _split(file, _paths(batch, index)) == "test")
        splits.append("test" if test else "train")
    return pa.array(splits, pa.string())


def _files(batch: adapter.RecordBatch) -> list[str]:
    """The file of each record."""
    return batch.file.to_pylist() if isinstance(batch.file, pa.Array) else [batch.file] * len(batch)


def _paths(batch: adapter.RecordBatch, index: int) -> list[dict[str, Any]]:
    first, size = batch.starts[index], batch.starts[index + 1] - batch.starts[index]
    return batch.table.select(["image_full_path"]).slice(first, size).to_pylist()


def _pictures(
    raw: adapter.Raw, batch: adapter.RecordBatch, mapped: np.ndarray, notes: list[tuple[int, adapter.RejectedUnit]]
) -> tuple[gesture_columns.BatchPictures, gesture_columns.Elements]:
    """Screens of the steps that have an action; their elements, which are in pixels of the picture, row by row."""
    rows = batch.table.num_rows
    shown: list[adapter.RecordScreen] = [_NO_SCREEN] * rows
    boxes: list[list[float]] = []
    count = np.zeros(rows, np.int64)
    frame = np.ones((rows, 2))
    names = batch.table["image_path"].to_pylist()
    starts = batch.starts.tolist()
    for index, path in enumerate(_files(batch)):
        files = _Files(raw, path)
        listed = raw.listing(path.rpartition("/")[0] or ".")
        for row in range(starts[index], starts[index + 1]):
            folder, _, last = names[row].rpartition("/")
            if last not in listed and folder == files.inner:  # the official layout: there is no other place
                continue
            if not mapped[row] or (data := files.read(names[row], listed)) is None:
                continue
            found: list[tuple[str, str, Any]] = []
            step = batch.table.select(_ELEMENTS).slice(row, 1).to_pylist()[0]
            shown[row] = screen = _screen(data, step, int(row - batch.starts[index]), found)
            # Notices keep the place of their record in the batch.
            notes += [(index, adapter.RejectedUnit("record", 0, *notice)) for notice in found]
            if screen.elements:
                boxes += json.loads(step["ui_positions"])
                count[row] = len(json.loads(step["ui_positions"]))
                frame[row] = screen.width_px, screen.height_px
    elements = gesture_columns.Elements(count, np.array(boxes, np.float64).reshape(-1, 4), frame)
    # Columns of nothing but nulls cost nothing.
    if all(screen is _NO_SCREEN for screen in shown):
        sizes = pa.nulls(rows, pa.int32())
        return gesture_columns.BatchPictures.none(sizes, sizes), elements
    pictures = gesture_columns.BatchPictures(
        sha256=pa.array([screen.sha256 for screen in shown], pa.string()),
        width_px=pa.array([screen.width_px for screen in shown], pa.int32()),
        height_px=pa.array([screen.height_px for screen in shown], pa.int32()),
        problem=pa.array([screen.problem for screen in shown], pa.string()),
        screens=shown,
    )
    return pictures, elements


def _same(steps: list[dict[str, object]], name: str) -> str:
    """The text that all steps share under `name`."""
    with items.refusing(len(steps)):
        texts = {items.text_of(step, name, "?") for step in steps}
    if len(texts) != 1:
        raise adapter.RecordError("bad_value", f"{name}: expected one text for all steps", items=len(steps))
    return texts.pop()


def _split(file: str, steps: list[dict[str, object]]) -> str:
    """train or test, from the folder or from the path that the rows state; test wins, so no test step trains."""
    stated = {file.partition("/")[0]}
    for step in steps:
        path = step.get("image_full_path")
        stated.add(str(path).rpartition("aitw_with_gpt/")[2].partition("/")[0])
    return "test" if "test" in stated else "train"


def _outcome(steps: list[dict[str, object]]) -> str | None:
    codes = [step.get("result_action_type") for step in steps]
    return "infeasible" if 11 in codes else "success" if 10 in codes else None


def _step_id(step: dict[str, Any]) -> int:
    """-1 stands for an absent or unusable one."""
    value = whole_number(step.get("step_id"))
    return -1 if value is None or value < 0 else value


class _Files:
    """Where the pictures of an episode lie."""

    def __init__(self, raw: adapter.Raw, file: str) -> None:
        self._raw = raw
        self._file = file
        self._top = file.partition("/")[0] if "/" in file else ""
        beside, top = f"{file.rpartition('/')[0] or '.'}/", f"{self._top or '.'}/"
        self.inner = beside[len(top) : -1] if beside.startswith(top) and beside != top else None
        """The folder that `image_path` names in the official layout, where both places are one."""

    def picture(self, step: dict[str, Any]) -> bytes | None:
        """Beside the JSON file, else at `image_path` below train or test. Raises `RecordError("unsafe_path")`."""
        name = step.get("image_path")
        if not isinstance(name, str) or not name:
            return None
        self._raw.path(posixpath.join(self._top, name))  # refused if it leads out, though its last part might be found
        return self.read(name, self._raw.listing(posixpath.dirname(self._file) or "."))

    def read(self, name: str, listed: Collection[str]) -> bytes | None:
        """The same for a name that was seen to be safe; `listed` are the names beside the JSON file. In the official
        layout both places are one."""
        last = name.rpartition("/")[2]
        beside, whole = f"{self._file.rpartition('/')[0] or '.'}/{last}", f"{self._top or '.'}/{name}"
        if last in listed and (data := self._raw.read_if_there(beside)):
            return data
        return self._raw.read_if_there(whole) if whole != beside else None


def _map_step(
    builder: EpisodeBuilder,
    step: dict[str, Any],
    native: dict[str, Any],
    number: int,
    files: _Files,
    found: list[tuple[str, str, Any]],
) -> None:
    word = "step"
    try:
        code = _field(step, "result_action_type", int)
        word = word_of(code)
        touch, lift = (_pair(step, name) for name in ("result_touch_yx", "result_lift_yx"))
        action, word, rules = gesture(code, touch, lift, _field(step, "result_action_text", str))
        data = files.picture(step)
        words = {place: _optional(step, name) for place, name in _TEXTS.items()}
    except (ItemError, adapter.RecordError) as error:
        word = error.word if isinstance(error, ItemError) and error.word != "?" else word
        builder.reject(error.reason, native=native, native_index=number, word=word, detail=error.detail)
        return
    screen = _screen(data, step, number, found)
    mapped = MappedAction(
        [action], word, word == "STATUS_TASK_IMPOSSIBLE", rules, smallest_box(screen.elements, action)
    )
    builder.take(mapped, native, number, screen, **words)


def _screen(
    data: bytes | None, step: dict[str, Any], number: int, found: list[tuple[str, str, Any]]
) -> adapter.RecordScreen:
    """A picture with its elements: they are in its pixels, so without it there are none."""
    screen = adapter.RecordScreen.load(data, normalised=True)
    if screen.info is None:
        return screen
    try:
        elements = _elements(step, (screen.info.width_px, screen.info.height_px))
    except (ValueError, TypeError, RecursionError) as error:
        found.append(("bad_elements", f"step {number}: {error}", {name: step.get(name) for name in _ELEMENTS}))
        return screen
    return adapter.RecordScreen(screen.width_px, screen.height_px, screen.data, screen.info, tuple(elements), None)


def _field(step: dict[str, Any], name: str, kind: type) -> Any:
    if name not in step:
        raise ItemError("missing_field", f"expected {name!r}")
    value = whole_number(step[name]) if kind is int else step[name]
    if type(value) is not kind:
        raise ItemError("bad_value", f"{name}: expected {kind.__name__}, found {step[name]!r:.60}")
    return value


def _optional(step: dict[str, Any], name: str) -> str | None:
    value = step.get(name)
    if value is not None and (not isinstance(value, str) or not is_text(value)):
        raise ItemError("bad_value", f"{name}: expected text, found {value!r:.60}")
    return value or None


def _pair(step: dict[str, Any], name: str) -> tuple[float, float]:
    """A JSON string `[y, x]` (parsed a second time)."""
    try:
        y, x = json.loads(_field(step, name, str))
        return float(y), float(x)
    except ItemError:
        raise
    except (ValueError, TypeError, RecursionError) as error:
        raise ItemError("bad_value", f"{name}: expected a JSON pair, found {step[name]!r:.60}") from error


def _elements(step: dict[str, Any], size_px: tuple[int, int]) -> list[dict[str, Any]]:
    """The nested JSON strings, parsed a second time. Raises `ValueError` or `TypeError` if they are something else."""
    boxes, texts, types = (json.loads(step.get(name, "[]")) for name in ("ui_positions", "ui_text", "ui_types"))
    if not all(isinstance(value, str) and is_text(value) for value in (*texts, *types)):
        raise ValueError("ui_text and ui_types: expected lists of text")
    return ocr_elements(boxes, texts, types, size_px)
