"""Android in the Wild: human traces on Android, one `tf.Example` per *step* in GZIP TFRecords, or a parquet re-pack.

Licence: code Apache-2.0; data CC BY 4.0 (unconfirmed).

A raw row (features of one Example, lists shortened):

    episode_id ["12172380859428428757"]  step_id [0]  episode_length [9]  goal_info ["Open a new Chrome private window"]
    android_api_level [31]  current_activity ["com.android.chrome/..."]  device_type ["PIXEL_3"]
    image/encoded [540·1080·3 raw bytes]  image/height [1080]  image/width [540]  image/channels [3]
    image/ui_annotations_positions [y, x, h, w, y, x, ...]  image/ui_annotations_text ["Fri,", ""]
    image/ui_annotations_ui_types ["TEXT", "ICON_PLAY"]
    results/action_type [4]  results/type_action [""]  results/yx_touch [0.776, 0.709]  results/yx_lift [0.776, 0.709]

| native | unified |
|---|---|
| 4, touch and lift ≤ 0.04 apart | `Click` at the touch point |
| 4, farther apart | `Scroll(touch, lift)`, direction from the points (finger up = down) |
| 3 | `Type` (empty text: quarantined) |
| 5 / 6 / 7 | `PressBack` / `PressHome` / `PressEnter` |
| 10 | `Finished`, episode_outcome success |
| 11 | `Finished`, episode_outcome infeasible (lossy) |
| any other code | quarantined as `unknown_action:<code>` |

A parquet file with columns of these names (single values bare or in lists of one) is read as well.
Steps are grouped by `episode_id`, sorted by `step_id` and checked against `episode_length`: a hole is marked `gap_at`,
and the outcome of an episode that has fewer is unknown.
Split: `splits/standard.json` in the raw folder if it is there, else train.
"""

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.mapping import adapter, column_json
from pipelines.mapping.builders import EpisodeBuilder, MappedAction
from pipelines.mapping.card import Descriptor, Download, Loss
from pipelines.mapping.column_json import plain, undecoded
from pipelines.mapping.columns import codes_of, constant, taken
from pipelines.mapping.items import ItemError, notices, refusing, smallest_box, split_lists, split_of, unknown_fields
from pipelines.native import aitw_native, aitw_parquet, gesture_columns
from pipelines.native.aitw_codes import GESTURE_LOSSES, gesture, ocr_elements, word_of
from pipelines.native.aitw_native import PIXELS, POSITIONS
from pipelines.native.tf_example import one, texts

SPLIT_LIST = "splits/standard.json"

_IN_NATIVE = (
    "step_id",
    "results/action_type",
    "results/type_action",
    "results/yx_touch",
    "results/yx_lift",
    "current_activity",
    "device_type",
    "android_api_level",
)
_FILE = re.compile(r"(-\d+-of-\d+|\.tfrecords?(\.gz)?|\.parquet)$")

DESCRIPTOR = Descriptor(
    id="aitw",
    title="Android in the Wild",
    origin="https://github.com/google-research/google-research/tree/master/android_in_the_wild",
    licence="CC-BY-4.0",
    platforms=("mobile",),
    size="715,142 episodes, 5,689,993 steps, 30,378 prompts",
    citation="Rawles et al., Android in the Wild, arXiv 2307.10088",
    frame="0..1, y first, origin top left, of the stored picture",
    record_unit="episode",
    known_problems=(
        "repeated gestures and detours of human annotators",
        "TYPE steps with empty text",
        "GoogleApps is 86 % of the steps for 306 prompts",
        "a long press can't be told from a tap: there is no duration",
        "episodes are reused by AITZ, GUIAct-smartphone, Aguvis and LlamaTouch",
    ),
    loss=(
        *GESTURE_LOSSES,
        Loss("step", "-", "dropped", "missing_field, bad_value or duplicate: no usable place or code"),
        Loss("image/encoded", "PNG screen", "kept", "raw pixels, losslessly; a wrong byte count: row without picture"),
        Loss("image/ui_annotations_*", "screens.elements", "kept", "OCR text and icon kinds; y, x, h, w → box"),
        Loss("device_type, android_api_level", "-", "lossy", "stays in native_action"),
        Loss("current_activity", "app", "lossy", "package name if all steps off the launcher have it"),
    ),
    download=Download(url="gs://gresearch/android-in-the-wild"),
)


class AitwAdapter(adapter.BatchAdapter):
    """Groups steps to episodes and maps the gesture codes."""

    descriptor = DESCRIPTOR
    version = 3
    items_at = ("steps",)
    side_lists = (SPLIT_LIST,)

    def parts(self, raw: adapter.Raw) -> list[tuple[str, ...]]:
        """One part per file: TFRecord (`<subset>-00000-of-00321`, `*.tfrecord`) or parquet."""
        return [(name,) for name in raw.files("**/*") if _FILE.search(name)]

    def batches(
        self, raw: adapter.Raw, files: tuple[str, ...]
    ) -> Iterator[adapter.RecordBatch | adapter.Record | adapter.Broken]:
        """Episodes in the order in which they are complete (or given up: the file ends, or too many stand open)."""
        for file in files:
            read = aitw_parquet.read_parquet if file.endswith(".parquet") else aitw_native.read_examples
            yield from read(raw, file)

    def record(self, batch: adapter.RecordBatch, index: int) -> adapter.Record:
        """An episode of a batch as plain features."""
        payload = aitw_native.payload(batch, index)
        return adapter.Record(*batch.where(index), payload, batch.native_ids[index].as_py())

    def map_batch(self, batch: adapter.RecordBatch, raw: adapter.Raw) -> adapter.MappedBatch:
        """Regular episodes → rows, by column."""
        table = batch.table
        found = _gestures(table)
        lists = split_lists(raw, SPLIT_LIST)
        # Asked once for the whole batch, as the list is one file.
        splits = [lists.get(name, "train") for name in batch.native_ids.to_pylist()] if lists else None
        episodes = gesture_columns.Episodes(
            instruction=plain(undecoded(table["goal_info"]).take(pa.array(batch.starts[:-1]))),
            split=pa.array(splits) if splits else constant("train", len(batch)),
            outcome=gesture_columns.outcomes(found.code, batch.starts),
            app=_apps(table, batch.starts),
        )
        count = aitw_native.counts(table[POSITIONS]) // 4
        elements = gesture_columns.Elements(count, aitw_native.matrix(table[POSITIONS], 4), np.ones((len(count), 2)))

        def natives_of(rows: list[int]) -> list[dict[str, object]]:
            names = [name for name in _IN_NATIVE if name in table.column_names]
            return table.select(names).take(pa.array(rows, pa.int64())).to_pylist()

        return gesture_columns.map_gestures(
            self.descriptor, batch, found, episodes, _pictures(table), elements, natives_of
        )

    def map(self, record: adapter.Record, raw: adapter.Raw) -> adapter.Mapped:
        """Steps of one episode → rows. Raises `RecordError` if it has no goal."""
        steps: list[dict[str, Any]] = record.payload["steps"]
        with refusing(len(steps)):
            goal = one(steps[0], "goal_info", str)
            length = one(steps[0], "episode_length", int)
            if not goal.strip():
                raise adapter.RecordError("empty_text", "the goal is empty")
        episode_id = str(record.native_id)
        builder = EpisodeBuilder(
            self.descriptor,
            record,
            episode_id=episode_id,
            instruction=goal,
            app=_app(steps),
            # Of a cut episode nobody knows how it went on.
            outcome=_outcome(steps) if len({_step_id(step) for step in steps}) >= length else None,
            split=split_of(raw, SPLIT_LIST, episode_id) or "train",
        )
        found: list[tuple[str, str, Any]] = []
        _map_steps(builder, steps, goal, length, found)
        for name in sorted({name for step in steps for name in step} - aitw_native.KNOWN):
            found += unknown_fields({name: [step.get(name) for step in steps]}, aitw_native.KNOWN)
        return notices(builder.finish(), found)


def _gestures(table: pa.Table) -> gesture_columns.Gestures:
    touch, lift = (aitw_native.matrix(table[name], 2) for name in aitw_native.POINTS)
    fields: dict[str, pa.Array | str] = {**dict(zip(aitw_native.POINTS, column_json.pairs(touch, lift), strict=True))}
    for name in _IN_NATIVE:
        if name in fields or name not in table.column_names:
            continue
        column = undecoded(table[name])
        fields[name] = column_json.integers(column) if name in aitw_native.INTEGERS else column_json.strings(column)
    return gesture_columns.Gestures(
        code=np.asarray(table["results/action_type"]),
        touch=touch,
        lift=lift,
        text=undecoded(table["results/type_action"]),
        number=np.asarray(table["step_id"]),
        native=column_json.object_of(fields),
    )


def _apps(table: pa.Table, starts: np.ndarray) -> pa.Array:
    """As `_app`, of each episode."""
    if "current_activity" not in table.column_names:
        return pa.nulls(len(starts) - 1, pa.string())
    codes, values = codes_of(undecoded(table["current_activity"]))
    packages = [_package(str(value)) for value in values.to_pylist()]
    # The last name is none: it stands for launchers in the largest numbers, and for nobody in the smallest.
    names = [*sorted({name for name in packages if name}), None]
    # A null has the code -1.
    number = np.array([*(names.index(package or None) for package in packages), len(names) - 1])[codes]
    least = np.minimum.reduceat(number, starts[:-1])
    most = np.maximum.reduceat(np.where(number == len(names) - 1, -1, number), starts[:-1])
    return taken(names, np.where(most == least, least, len(names) - 1))


def _pictures(table: pa.Table) -> gesture_columns.BatchPictures:
    """The stored pixels as PNG; a row without pixels keeps its size, one with a wrong number of them loses it."""
    height, width = (plain(table[f"image/{name}"]).cast(pa.int32()) for name in ("height", "width"))
    if PIXELS not in table.column_names or table[PIXELS].null_count == table.num_rows:
        return gesture_columns.BatchPictures.none(width, height)
    screens = [_row_screen(table, row) for row in range(table.num_rows)]
    return gesture_columns.BatchPictures(
        sha256=pa.array([screen.sha256 for screen in screens], pa.string()),
        width_px=pa.array([screen.width_px for screen in screens], pa.int32()),
        height_px=pa.array([screen.height_px for screen in screens], pa.int32()),
        problem=pa.array([screen.problem for screen in screens], pa.string()),
        screens=screens,
    )


def _row_screen(table: pa.Table, row: int) -> adapter.RecordScreen:
    """The screen of a row of a batch. Its elements are made one by one: beside the pixels they cost nothing."""
    positions, *words = (table[name][row].as_py() for name in (POSITIONS, *aitw_native.WORDS))
    pixels = table[PIXELS][row]
    sizes = [table[f"image/{name}"][row].as_py() for name in ("height", "width", "channels")]
    return _screen_of(_boxed(positions, *words), memoryview(pixels.as_buffer()) if pixels.is_valid else None, *sizes)


def _map_steps(
    builder: EpisodeBuilder, steps: list[dict[str, Any]], goal: str, length: int, found: list[tuple[str, str, Any]]
) -> None:
    """Add the steps in the order of their ids; mark holes; reject repeats and steps with no id of the episode."""
    expected = 0
    seen: dict[int, dict[str, Any]] = {}
    placeless: list[tuple[str, str, int, Any]] = []
    for number, step in sorted(((_step_id(step), step) for step in steps), key=lambda pair: pair[0]):
        native = {name: _bare(step[name]) for name in _IN_NATIVE if name in step}
        if not 0 <= number < length:
            detail = f"step_id {step.get('step_id')} in an episode of {length} steps"
            placeless.append(("bad_value", detail, number, native))
            continue
        # An exact repeat loses nothing, so it leaves no gap; other content under the same number does.
        if number in seen and seen[number] == step:
            placeless.append(("duplicate", f"an exact repeat of step_id {number}", number, native))
            continue
        if number in seen:
            detail = f"step_id {number} stands twice, with other content"
            builder.reject("duplicate", native=native, native_index=number, word="step", detail=detail)
            continue
        seen[number] = step
        # Numbers that are missing were lost on the way, and histories must not reach over them.
        if number > expected:
            builder.gap(f"missing_steps {expected}..{number - 1}")
        expected = number + 1
        _map_step(builder, step, native, number, goal, found)
    for reason, detail, number, native in placeless:  # last: there is no place where they would leave a gap
        builder.reject(reason, native=native, native_index=number, word="step", detail=detail)
    if len(seen) < length:
        lost = [number for number in range(min(length, 1000)) if number not in seen]
        found.append(("missing_steps", f"{len(seen)} of {length} steps are in the file", {"missing": lost}))


def _bare(values: list[object]) -> Any:
    """A list of one as its value: how the source's own page writes it."""
    return values[0] if len(values) == 1 else values


def _step_id(step: dict[str, Any]) -> int:
    """-1 stands for an absent or unusable one."""
    try:
        return int(one(step, "step_id", int))
    except adapter.RecordError:
        return -1


def _map_step(
    builder: EpisodeBuilder,
    step: dict[str, Any],
    native: dict[str, Any],
    number: int,
    goal: str,
    found: list[tuple[str, str, Any]],
) -> None:
    word = "step"
    try:
        code = one(step, "results/action_type", int)
        word = word_of(code)
        # Rows of two episodes under one id.
        if one(step, "goal_info", str) != goal:
            raise ItemError("bad_value", "the goal differs from that of the episode's first step", word)
        typed = "".join(texts(step, "results/type_action"))
        action, word, rules = gesture(code, step.get("results/yx_touch", ()), step.get("results/yx_lift", ()), typed)
    except (ItemError, adapter.RecordError) as error:
        word = error.word if isinstance(error, ItemError) else word
        builder.reject(error.reason, native=native, native_index=number, word=word, detail=error.detail)
        return
    screen = _screen(step, number, found)
    mapped = MappedAction(
        [action], word, word == "STATUS_TASK_IMPOSSIBLE", rules, smallest_box(screen.elements, action)
    )
    builder.take(mapped, native, number, screen)


def _screen(step: dict[str, Any], number: int, found: list[tuple[str, str, Any]]) -> adapter.RecordScreen:
    """The screen of a step on its own. Coordinates are 0..1, so a row lives on without its picture (`bad_frame`)."""
    try:
        elements = _elements(step)
    except (ValueError, adapter.RecordError) as error:
        elements = []
        found.append(("bad_elements", f"step {number}: {error}", {"step_id": number}))
    pixels = step.get(PIXELS, [])
    try:
        height, width, channels = (one(step, f"image/{name}", int) for name in ("height", "width", "channels"))
    except adapter.RecordError:
        return _bad_frame(elements)
    usable = len(pixels) == 1 and isinstance(pixels[0], bytes)
    return _screen_of(elements, memoryview(pixels[0]) if usable else None, height, width, channels)


def _screen_of(
    elements: list[dict[str, object]], pixels: memoryview | None, height: int, width: int, channels: int
) -> adapter.RecordScreen:
    if channels != 3 or height < 1 or width < 1:
        return _bad_frame(elements)
    if not pixels:
        return adapter.RecordScreen.load(None, elements, (width, height))
    if len(pixels) != height * width * channels:
        return _bad_frame(elements)
    return adapter.RecordScreen.of_pixels(np.frombuffer(pixels, np.uint8).reshape(height, width, channels), elements)


def _bad_frame(elements: list[dict[str, object]]) -> adapter.RecordScreen:
    """The size itself is in doubt, so none is written."""
    return adapter.RecordScreen(None, None, None, None, tuple(elements), "bad_frame")


def _elements(step: dict[str, Any]) -> list[dict[str, Any]]:
    flat = step.get(POSITIONS, [])
    if len(flat) % 4:
        raise ValueError(f"{len(flat)} numbers in ui_annotations_positions: expected a multiple of 4")
    return _boxed(flat, *(texts(step, name) for name in aitw_native.WORDS))


def _boxed(flat: list[float], words: list[str], types: list[str]) -> list[dict[str, Any]]:
    return ocr_elements([flat[at : at + 4] for at in range(0, len(flat), 4)], words, types, (1.0, 1.0))


def _app(steps: list[dict[str, Any]]) -> str | None:
    """Package name, if all steps in apps name the same one."""
    packages = {_package(str((step.get("current_activity") or [""])[0])) for step in steps} - {""}
    return packages.pop() if len(packages) == 1 else None


def _package(activity: str) -> str:
    """That of an app; "" for a launcher, where many recordings begin."""
    package = activity.partition("/")[0]
    return "" if "launcher" in package else package


def _outcome(steps: list[dict[str, Any]]) -> str | None:
    """What the annotator said at the end: code 10 success, 11 infeasible, else unknown."""
    codes = {tuple(step.get("results/action_type", ())) for step in steps}
    if (11,) in codes:
        return "infeasible"
    return "success" if (10,) in codes else None
