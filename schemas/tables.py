"""The tables of Vesper: one class per table, the type and the nullability beside each column name.

`Steps.schema` is the pyarrow schema; `Steps.table(rows)` makes a checked `pyarrow.Table` from dicts
and `Steps.check(table)` raises on a table that isn't one. The version stands in the metadata of every
file written with the schema, so a reader can refuse what it doesn't know.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

BOX = pa.list_(pa.float32())
"""left, top, right, bottom in the 0..1000 frame (x right, y down); `Table.check` holds it to four numbers.

Not a fixed-size list: pyarrow can write a null in one to parquet, but not read it back.
"""

ELEMENT = pa.struct([("box", BOX), ("role", pa.string()), ("text", pa.string()), ("name", pa.string())])
"""One element of a screen: `text` is what is drawn, `name` the accessible name (may equal it)."""

OBJECTIVES = ("perception", "vqa", "grounding", "navigation")
PLATFORMS = ("mobile", "web", "desktop")
SPLITS = ("train", "validation", "test")

TOKEN_FORMULA = "utf8-bytes/4 + ceil(width/32)*ceil(height/32) per image"
"""How `samples.tokens` is counted (`pipelines.prompts.tokens`); the trainer recounts with its own tokenizer."""

PIECE_ROWS = 4096
"""Rows that are dicts at a time while a table is made of them: as dicts they take several times the table's memory."""


class Column:
    """A column: its Arrow type, what stands in it (the UI shows that), and whether a null may."""

    def __init__(self, dtype: pa.DataType, meaning: str, *, null: bool = False) -> None:
        self.dtype = dtype
        self.meaning = meaning
        self.null = null


class Table:
    """Base of the tables. A subclass says its version (`class Steps(Table, version=1)`) and its columns in order, after
    those of the table that it extends."""

    schema: ClassVar[pa.Schema]
    meanings: ClassVar[Mapping[str, str]]
    """What stands in each column; no part of the schema, so that a better word changes no file."""

    def __init_subclass__(cls, *, version: int) -> None:
        # From the base down, so that the columns of an extended table come first.
        held = [vars(kind).items() for kind in reversed(cls.__mro__)]
        columns = {name: value for items in held for name, value in items if isinstance(value, Column)}
        cls.meanings = {name: column.meaning for name, column in columns.items()}
        cls.schema = pa.schema(
            [pa.field(name, column.dtype, nullable=column.null) for name, column in columns.items()],
            # Read by whoever opens the file: the version is refused where it isn't known.
            metadata={
                "vesper.table": cls.__name__.lower(),
                "vesper.version": str(version),
                "vesper.tokens": TOKEN_FORMULA,
            },
        )

    @classmethod
    def table(cls, rows: Iterable[Mapping[str, object]]) -> pa.Table:
        """Rows as dicts (a nullable column may be absent) → checked table.

        Raises `ValueError` naming the column that is missing, unknown or null where it mustn't be.
        """
        left = iter(rows)
        # In pieces: rows as dicts take several times the memory of columns.
        pieces = [cls._piece(listed) for listed in iter(lambda: list(islice(left, PIECE_ROWS)), [])]
        table = pa.concat_tables([cls.schema.empty_table(), *pieces]).combine_chunks()
        cls.check(table)
        return table

    @classmethod
    def _piece(cls, listed: Sequence[Mapping[str, object]]) -> pa.Table:
        """Some rows as a table, unchecked."""
        known = set(cls.schema.names)
        for row in listed:
            if not row.keys() <= known:
                unknown = sorted(row.keys() - known)
                raise ValueError(f"{cls.__name__}: unknown column {unknown}; known are {cls.schema.names}")
        arrays = []
        for field in cls.schema:
            try:
                # Column by column, so that the error names the column.
                arrays.append(pa.array([row.get(field.name) for row in listed], type=field.type))
            except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
                raise ValueError(f"{cls.__name__}.{field.name}: expected {field.type}: {error}") from error
        return pa.Table.from_arrays(arrays, schema=cls.schema)

    @classmethod
    def check(cls, table: pa.Table) -> None:
        """Raise `ValueError` unless the table has this schema, in this order, with no null where none may be."""
        # Order and nullability count: files of one table are concatenated without a look at names.
        if not table.schema.equals(cls.schema):
            raise ValueError(f"{cls.__name__}: expected columns\n{cls.schema}\nfound\n{table.schema}")
        for field in cls.schema:
            if not field.nullable and table.column(field.name).null_count:
                raise ValueError(f"{cls.__name__}.{field.name}: null found in a column that allows none")
            if field.type in (BOX, pa.list_(BOX)):
                boxes = table.column(field.name)
                # Boxes in lists of boxes are looked at one level deeper.
                lengths = pc.list_value_length(pc.list_flatten(boxes) if field.type != BOX else boxes)
                if pc.any(pc.not_equal(lengths, 4)).as_py():
                    raise ValueError(f"{cls.__name__}.{field.name}: expected boxes of 4 numbers")


def check_rows(table: type[Table], rows: Iterable[Mapping[str, Any]]) -> None:
    """Raise `ValueError` for the first value of rows as dicts that a column of text, whole numbers or truths can't hold
    (`UnicodeEncodeError`, which is one, for a lone surrogate): a bad value is found beside the record that it came
    from, not when thousands of rows become a table. Columns of other types are left to `Table.table`."""
    columns = _held_by(table)
    for row in rows:
        for name, (kind, low, high) in columns.items():
            value = row.get(name)
            if value is None:
                continue
            # Numpy's whole numbers count, too; flags don't, though bool is an int in Python.
            whole = hasattr(value, "__index__") and not isinstance(value, bool)
            held = whole if kind is int else isinstance(value, kind)
            if not held or (kind is int and not low <= value <= high):
                wanted = f"a whole number from {low} to {high}" if kind is int else kind.__name__
                raise ValueError(f"{name}: expected {wanted}, found {type(value).__name__} {value!r:.80}")
            if kind is str:
                # A lone surrogate fails here, beside its record, and not when a file is written.
                value.encode()


_HELD: dict[str, dict[str, tuple[type, int, int]]] = {}
"""Table → `_held_by` it."""


def _held_by(table: type[Table]) -> dict[str, tuple[type, int, int]]:
    """Column → (what a cell is in Python, its least and its greatest whole number)."""
    # By the table's name: it is asked for every record.
    if (known := _HELD.get(table.__name__)) is not None:
        return known
    held: dict[str, tuple[type, int, int]] = {}
    for column in table.schema:
        if pa.types.is_string(column.type):
            held[column.name] = (str, 0, 0)
        elif pa.types.is_boolean(column.type):
            held[column.name] = (bool, 0, 0)
        elif pa.types.is_integer(column.type):
            bits, signed = column.type.bit_width, pa.types.is_signed_integer(column.type)
            # One bit of a signed number is its sign.
            held[column.name] = (int, -(2 ** (bits - 1)) if signed else 0, 2 ** (bits - signed) - 1)
    _HELD[table.__name__] = held
    return held


class Steps(Table, version=1):
    """One action of an episode with the screen it was taken on; a last screen has a null action."""

    source = Column(pa.string(), "name of the dataset, as in deployment.yaml")
    episode_id = Column(pa.string(), "the episode, unique over all sources")
    step_index = Column(pa.int32(), "place in the episode, from 0")
    split = Column(pa.string(), "train, validation or test")
    platform = Column(pa.string(), "mobile, web or desktop")
    language = Column(pa.string(), "of the instruction, ISO 639-1", null=True)
    app = Column(pa.string(), "app or site that it happened in", null=True)
    instruction = Column(pa.string(), "the goal of the whole episode")
    step_instruction = Column(pa.string(), "what this step is to do, where the source says it", null=True)
    screenshot_sha256 = Column(pa.string(), "the screen before the action", null=True)
    width_px = Column(pa.int32(), "width of the frame that native coordinates refer to", null=True)
    height_px = Column(pa.int32(), "height of that frame", null=True)
    action_type = Column(pa.string(), "name of the action, e.g. Click; null on a last screen", null=True)
    action_text = Column(pa.string(), "the action as text of the 16-action schema", null=True)
    target_box = Column(BOX, "what the action aims at: left, top, right, bottom in 0..1000", null=True)
    thought = Column(pa.string(), "reasoning before the action", null=True)
    conclusion = Column(pa.string(), "what the step did, said afterwards", null=True)
    episode_outcome = Column(pa.string(), "success, failure or infeasible", null=True)
    native_action = Column(pa.string(), "the source's own action, canonical JSON")
    provenance = Column(pa.string(), "canonical JSON: file, record, rules, lossy, image_missing, gap_at")


class Screens(Table, version=1):
    """One picture, with the elements that its source knows on it."""

    screenshot_sha256 = Column(pa.string(), "digest of the picture's bytes")
    width_px = Column(pa.int32(), "width of the picture")
    height_px = Column(pa.int32(), "height of the picture")
    phash = Column(pa.uint64(), "perceptual hash of 64 bits")
    elements = Column(pa.list_(ELEMENT), "what its source knows to be on it: box in 0..1000, role, text, name")
    source = Column(pa.string(), "name of the dataset")


class Samples(Table, version=1):
    """One supervised example: messages (JSON chat with image places) → answer."""

    sample_id = Column(pa.string(), "item id of the sample")
    source = Column(pa.string(), "name of the dataset")
    split = Column(pa.string(), "train, validation or test")
    platform = Column(pa.string(), "mobile, web or desktop")
    objective = Column(pa.string(), "perception, vqa, grounding or navigation")
    images = Column(pa.list_(pa.string()), "digests of the screenshots, in order of use")
    messages = Column(pa.string(), "the chat with places for images, canonical JSON")
    answer = Column(pa.string(), "what the model should say")
    target_boxes = Column(pa.list_(BOX), "boxes that the answer aims at: left, top, right, bottom in 0..1000")
    tokens = Column(pa.int32(), "length, counted as the table's metadata says")
    licence = Column(pa.string(), "SPDX name of the licence it came under")
    parents = Column(pa.list_(pa.string()), "item ids that it was derived from")
    synthetic = Column(pa.bool_(), "made by a model or a program, not by people")
    provenance = Column(pa.string(), "canonical JSON: deriver, version, k, file, record, rules")


class Verdicts(Table, version=1):
    """A judge's word on an item in one round; score = min(alignment, reachability), null if it abstained."""

    item_id = Column(pa.string(), "the judged step or sample")
    round = Column(pa.int32(), "0 at first, one more after each rewriting")
    score = Column(pa.int8(), "min(alignment, reachability), 0 to 10; null if the judge abstained", null=True)
    alignment = Column(pa.int8(), "whether the action does what the instruction asks, 0 to 10", null=True)
    reachability = Column(pa.int8(), "whether the screen allows it, 0 to 10", null=True)
    disposition = Column(pa.string(), "keep, rewrite, reconstruct, discard or review")
    reason = Column(pa.string(), "the judge's words")
    confidence = Column(pa.float32(), "of the judge, 0 to 1")
    judge = Column(pa.string(), "name of the judge")
    model = Column(pa.string(), "model that it asked")
    rubric_version = Column(pa.string(), "version of its rubric")


class JudgeCosts(Table, version=1):
    """What a verdict cost; beside the verdicts, so that money never enters their hash."""

    item_id = Column(pa.string(), "the judged step or sample")
    round = Column(pa.int32(), "round of the verdict")
    prompt_tokens = Column(pa.int64(), "tokens that were asked")
    completion_tokens = Column(pa.int64(), "tokens that were answered")
    seconds = Column(pa.float64(), "time of the answer")
    cached = Column(pa.bool_(), "answered from the cache, so that it cost nothing")


class Quarantine(Table, version=1):
    """A native unit that could not be mapped, whole, with the reason."""

    source = Column(pa.string(), "name of the dataset")
    unit = Column(pa.string(), "record, or item of one")
    items = Column(pa.int32(), "native items (actions, boxes, questions) that went with it")
    reason = Column(pa.string(), "a short word that is counted, e.g. off_screen")
    detail = Column(pa.string(), "what was expected and found")
    file = Column(pa.string(), "relative to the raw root")
    record = Column(pa.string(), "where in the file")
    native = Column(pa.string(), "the native unit, canonical JSON")


class Tasks(Table, version=1):
    """An executable contract: what to do, where, from which state, and who decides that it was done."""

    task_id = Column(pa.string(), "item id of the task")
    instruction = Column(pa.string(), "what to do")
    platform = Column(pa.string(), "mobile, web or desktop")
    target = Column(pa.string(), "app or site, e.g. miniwob/click-button or pages/shop")
    capabilities = Column(pa.list_(pa.string()), "what the device has to be able to do")
    initial_state = Column(pa.string(), "where it begins, canonical JSON: seed, url, viewport and so on")
    evaluator = Column(pa.string(), "the rule that decides whether it was done, canonical JSON")
    expected_steps = Column(pa.int32(), "actions of somebody who knows the way")
    stratum = Column(pa.string(), "easy, medium or hard")
    origin = Column(pa.string(), "static or dynamic")
    parents = Column(pa.list_(pa.string()), "item ids that it was made from")


class Trajectories(Table, version=1):
    """What came of a task's execution, beside its steps (`Steps.episode_id` = `trajectory_id`)."""

    trajectory_id = Column(pa.string(), "episode_id of its steps")
    task_id = Column(pa.string(), "the task that was tried")
    policy = Column(pa.string(), "who acted")
    seed = Column(pa.int64(), "of the policy")
    ended = Column(pa.string(), "finished, asked, steps, unreadable or failed")
    turns = Column(pa.int32(), "replies, those that did nothing too")
    answer = Column(pa.string(), "what the policy said at the end")
    outcome = Column(pa.string(), "completed, partial, infeasible or failed; null: nobody can tell", null=True)
    verified = Column(pa.bool_(), "whether a rule or enough votes say so")
    reason = Column(pa.string(), "why this outcome")
    failure_kind = Column(pa.string(), "infrastructure or task", null=True)
    votes = Column(pa.string(), "canonical JSON: annotator, outcome or null, confidence and reason of each")
    end_state = Column(pa.string(), "state of the device at the end, canonical JSON; {} where it tells none")


class TrajectoryRuns(Table, version=1):
    """Where and how long an execution ran; beside the trajectories, so that time and chance never enter their hash."""

    trajectory_id = Column(pa.string(), "the trajectory")
    device = Column(pa.string(), "where it ran")
    seconds = Column(pa.float64(), "how long it ran")
    resumed = Column(pa.int32(), "times it went on where it had stopped")
    anew = Column(pa.int32(), "times it began again")
    failures = Column(pa.list_(pa.string()), "of infrastructure, in words")
    observe_s = Column(pa.list_(pa.float64()), "seconds of looking, a turn each")
    decide_s = Column(pa.list_(pa.float64()), "seconds of deciding, a turn each")
    act_s = Column(pa.list_(pa.float64()), "seconds of acting, a turn each")
    prompt_tokens = Column(pa.int64(), "tokens that the policy was asked")
    completion_tokens = Column(pa.int64(), "tokens that it answered")


class Pairs(Table, version=1):
    """Two items whose similarity reaches the threshold; left < right."""

    left = Column(pa.string(), "item id, before the right one in order")
    right = Column(pa.string(), "item id")
    similarity = Column(pa.float32(), "cosine of their embeddings")
