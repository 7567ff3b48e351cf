"""AITW's native forms: TFRecord Examples, or a parquet re-pack with the same features → episodes, as columns or alone.

`read_examples` streams a file. An episode all of whose steps are as the source's page says (see `is_regular`) goes into
a `RecordBatch`; any other is a `Record` of its own, with a payload {"steps": [{feature: values}]}.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.mapping.adapter import Broken, Raw, Record, RecordBatch, RecordError
from pipelines.mapping.column_json import plain, undecoded
from pipelines.mapping.columns import record_digests
from pipelines.native import tf_example
from pipelines.native.tf_example import one, readable

MAX_OPEN_EPISODES = 16
"""Episodes held while a file is read. Their steps stand together in the official files, so one would do."""
BATCH_ROWS = 32_768
BATCH_BYTES = 64 << 20
"""Pixels and all: 38 screens of 540 x 1080 px."""
BINARY = frozenset({"image/encoded"})
PIXELS = "image/encoded"
POSITIONS = "image/ui_annotations_positions"
WORDS = ("image/ui_annotations_text", "image/ui_annotations_ui_types")
_FEW = ("goal_info", "current_activity", "device_type", "results/type_action")
POINTS = ("results/yx_touch", "results/yx_lift")

INTEGERS = (
    "step_id",
    "episode_length",
    "android_api_level",
    "image/height",
    "image/width",
    "image/channels",
    "results/action_type",
)
TEXTS = ("goal_info", "current_activity", "device_type", "results/type_action")
_LISTS = pa.list_(pa.float64())
NATIVE = pa.schema(
    [(name, pa.int64()) for name in INTEGERS]
    + [(name, pa.string()) for name in TEXTS]
    + [(name, _LISTS) for name in (*POINTS, POSITIONS)]
    + [(name, pa.list_(pa.string())) for name in WORDS]
    + [(PIXELS, pa.large_binary())]
)
"""Columns of a batch; `POSITIONS` may be narrower, and texts may have a dictionary. A re-pack may lack those of
`MAY_LACK`; pixels may be null."""
MAY_LACK = frozenset({"android_api_level", "current_activity", "device_type", POSITIONS, *WORDS, PIXELS})
KNOWN = frozenset(NATIVE.names) | {"episode_id"}

Step = dict[str, Any]
_Numbered = list[tuple[int, Step]]
"""(number of the record in the file, features of the step)"""


def read_examples(raw: Raw, file: str) -> Iterator[RecordBatch | Record | Broken]:
    """Episodes of a TFRecord file in the order in which they are complete."""
    steps = (
        found if isinstance(found, Broken) else (found[0], readable(found[1], BINARY))
        for found in tf_example.examples(raw, file, lost_items=1)
    )
    yield from gathered(file, group(file, "record", steps))


def group(file: str, unit: str, steps: Iterable[tuple[int, Step] | Broken]) -> Iterator[Record | Broken]:
    """Steps → episodes. A finished episode leaves when a step of another one arrives, so a repeated last step is seen
    with its episode; beyond `MAX_OPEN_EPISODES` the oldest leaves as it is (its rest becomes a record of its own)."""
    open_steps: dict[str, _Numbered] = {}

    def leave(episode_id: str) -> Iterator[Record]:
        for take in _takes(open_steps.pop(episode_id)):
            yield Record(file, f"{unit} {take[0][0]}", {"steps": [step for _, step in take]}, episode_id)

    for found in steps:
        if isinstance(found, Broken):
            yield found
            continue
        index, step = found
        try:
            episode_id = one(step, "episode_id", str)
        except RecordError as error:
            yield Broken(file, f"{unit} {index}", error.reason, error.detail, items=1, native=step)
            continue
        # Only now: a repeat of the last step would otherwise be taken for another episode.
        for other in [name for name, taken in open_steps.items() if name != episode_id and _is_complete(taken)]:
            yield from leave(other)
        open_steps.setdefault(episode_id, []).append((index, step))
        # A file of nothing but broken episodes would hold all of them in memory.
        if len(open_steps) > MAX_OPEN_EPISODES:
            yield from leave(next(iter(open_steps)))
    for episode_id in list(open_steps):
        yield from leave(episode_id)


def _takes(numbered: _Numbered) -> list[_Numbered]:
    """An episode that stands in the file twice is two records; single steps that stand twice stay with theirs."""
    ids = [tuple(step.get("step_id", ())) for _, step in numbered]
    length = len(set(ids))
    # As many repeats of each step as of the others, or they are no takes.
    if len(ids) % length or not _is_complete(numbered[:length]):
        return [numbered]
    takes = [numbered[at : at + length] for at in range(0, len(ids), length)]
    return takes if all(_is_complete(take) for take in takes) else [numbered]


def _is_complete(numbered: _Numbered) -> bool:
    ids = {tuple(step.get("step_id", ())) for _, step in numbered}
    return [len(ids)] == numbered[0][1].get("episode_length")


def gathered(file: str, records: Iterable[Record | Broken]) -> Iterator[RecordBatch | Record | Broken]:
    """Put regular episodes together to batches; the others pass."""
    waiting: list[Record] = []
    rows = size = 0
    for found in records:
        # What columns can't hold is mapped by row.
        if isinstance(found, Broken) or not is_regular(found.payload["steps"]):
            yield found
            continue
        waiting.append(found)
        rows += len(found.payload["steps"])
        # Pixels fill memory long before rows do.
        size += sum(len(step[PIXELS][0]) for step in found.payload["steps"] if step.get(PIXELS))
        if rows >= BATCH_ROWS or size >= BATCH_BYTES:
            yield columnised(file, waiting)
            waiting, rows, size = [], 0, 0
    if waiting:
        yield columnised(file, waiting)


def is_regular(steps: list[Step]) -> bool:
    """Whether columns can hold an episode: every feature of its type and count, no feature more, steps complete and in
    order, one goal. What the values *mean* (an unknown code, a point off the screen) is for the mapping to say."""
    if not all(_is_regular_step(step) for step in steps):
        return False
    goal = steps[0]["goal_info"]
    return bool(goal[0].strip()) and all(
        step["step_id"] == [number] and step["goal_info"] == goal and step["episode_length"] == [len(steps)]
        for number, step in enumerate(steps)
    )


def _is_regular_step(step: Step) -> bool:
    if step.keys() != KNOWN:
        return False
    single = all(_holds(step[name], int, 1) for name in INTEGERS) and all(_holds(step[name], str, 1) for name in TEXTS)
    if not single or not all(_holds(step[name], float, 2) for name in POINTS):
        return False
    positions, pixels = step[POSITIONS], step[PIXELS]
    boxes, odd = divmod(len(positions), 4)
    if odd or not all(isinstance(value, float) for value in positions):
        return False
    if not all(_holds(step[name], str, boxes) for name in WORDS):
        return False
    height, width, channels = (step[f"image/{name}"][0] for name in ("height", "width", "channels"))
    return channels == 3 and height > 0 and width > 0 and (not pixels or _holds(pixels, bytes, 1))


def _holds(values: list[object], kind: type, count: int) -> bool:
    return len(values) == count and all(type(value) is kind for value in values)


def columnised(file: str, records: list[Record]) -> RecordBatch:
    """Regular records → a batch."""
    steps = [step for record in records for step in record.payload["steps"]]
    arrays = []
    for name, kind in zip(NATIVE.names, NATIVE.types, strict=True):
        if pa.types.is_list(kind):
            values: list[Any] = [step[name] for step in steps]
        else:
            values = [step[name][0] if step[name] else None for step in steps]
        arrays.append(narrowed(pa.array(values, kind)) if name == POSITIONS else pa.array(values, kind))
    table = pa.Table.from_arrays(arrays, names=NATIVE.names)
    starts = np.concatenate([[0], np.cumsum([len(record.payload["steps"]) for record in records])])
    ids = pa.array([str(record.native_id) for record in records], pa.string())
    return batch(file, table, starts, ids, pa.array([record.locator for record in records], pa.string()))


def _of_few(column: pa.ChunkedArray) -> pa.Array:
    """A column of few texts (or lists of them) with a dictionary, as it comes from parquet; so it is digested alike
    from any file."""
    found = undecoded(column)
    if not pa.types.is_list(found.type):
        return found if pa.types.is_dictionary(found.type) else pc.dictionary_encode(found)
    if pa.types.is_dictionary(found.type.value_type):
        return found
    return pa.ListArray.from_arrays(found.offsets, pc.dictionary_encode(found.values))


def _of_two(points: pa.Array) -> pa.Array:
    """Lists of two numbers, as lists of fixed size: no lengths to be digested."""
    return pa.FixedSizeListArray.from_arrays(points.flatten(), 2)


def _together(left: pa.Array, right: pa.Array) -> pa.Array:
    """Two columns of lists, of equal lengths, as one of lists of pairs: half as much to digest."""
    pairs = pa.StructArray.from_arrays([left.flatten(), right.flatten()], ["0", "1"])
    offsets = np.asarray(left.offsets)
    return pa.ListArray.from_arrays(pa.array(offsets - offsets[0]), pairs)


def narrowed(lists: pa.Array) -> pa.Array:
    """Lists of float64 as float32 where that loses nothing: so the same numbers are the same column in any file."""
    if lists.type.value_type != pa.float64():
        return lists
    narrow = lists.cast(pa.list_(pa.float32()), safe=False)
    with np.errstate(over="ignore"):
        same = np.asarray(narrow.flatten()).astype(np.float64).view(np.uint64) == np.asarray(lists.flatten()).view(
            np.uint64
        )
    return narrow if same.all() else lists


def batch(file: str, table: pa.Table, starts: np.ndarray, ids: pa.Array, locators: pa.Array) -> RecordBatch:
    """A batch with the digests of its records, by which repeats are found."""
    names = table.column_names
    few = (*_FEW, *WORDS)
    columns = [_of_few(table[name]) if name in few else plain(table[name]) for name in names]
    columns = [_of_two(column) if name in POINTS else column for name, column in zip(names, columns, strict=True)]
    words = [columns.pop(names.index(name)) for name in reversed(WORDS)]
    columns.append(_together(*words))
    contents = record_digests(columns, starts)
    return RecordBatch(file, table, starts, ids, locators, contents)


def payload(found: RecordBatch, index: int) -> dict[str, list[Step]]:
    """A record of a batch as `map` takes it: a step is {feature: list of values}."""
    rows = found.table.slice(found.starts[index], found.starts[index + 1] - found.starts[index]).to_pylist()
    common = {"episode_id": [found.native_ids[index].as_py()], **({PIXELS: []} if rows and PIXELS in rows[0] else {})}
    return {"steps": [{**common, **_listed(row)} for row in rows]}


def _listed(row: Step) -> Step:
    return {name: value if isinstance(value, list) else [value] for name, value in row.items() if value is not None}


def matrix(column: pa.ChunkedArray, width: int) -> np.ndarray:
    """A column of flat lists → [n, width] of all their numbers."""
    flat = plain(column).flatten()
    return np.asarray(flat).reshape(-1, width)


def counts(column: pa.ChunkedArray) -> np.ndarray:
    """Lengths of lists."""
    return np.asarray(pc.list_value_length(plain(column)))
