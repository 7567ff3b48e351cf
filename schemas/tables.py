"""The tables of Vesper: one class per table, the type and the nullability beside each column name.

`Steps.schema` is the pyarrow schema; `Steps.table(rows)` makes a checked `pyarrow.Table` from dicts
and `Steps.check(table)` raises on a table that isn't one. The version stands in the metadata of every
file written with the schema, so a reader can refuse what it doesn't know.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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
"""How `samples.tokens` is counted (`pipelines.training_data.tokens`); the trainer recounts with its own tokenizer."""


class Column:
    """A column: its Arrow type, and whether a null may stand in it."""

    def __init__(self, dtype: pa.DataType, *, null: bool = False) -> None:
        self.dtype = dtype
        self.null = null


class Table:
    """Base of the tables. A subclass lists its columns in order and sets `version`."""

    version: ClassVar[int]
    schema: ClassVar[pa.Schema]

    def __init_subclass__(cls) -> None:
        columns = {name: value for name, value in vars(cls).items() if isinstance(value, Column)}
        cls.schema = pa.schema(
            [pa.field(name, column.dtype, nullable=column.null) for name, column in columns.items()],
            metadata={
                "vesper.table": cls.__name__.lower(),
                "vesper.version": str(cls.version),
                "vesper.tokens": TOKEN_FORMULA,
            },
        )

    @classmethod
    def table(cls, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
        """Rows as dicts (a nullable column may be absent) → checked table.

        Raises `ValueError` naming the column that is missing, unknown or null where it mustn't be.
        """
        listed = list(rows)
        known = set(cls.schema.names)
        for row in listed:
            if unknown := set(row) - known:
                raise ValueError(f"{cls.__name__}: unknown column {sorted(unknown)}; known are {cls.schema.names}")
        arrays = []
        for field in cls.schema:
            try:
                arrays.append(pa.array([row.get(field.name) for row in listed], type=field.type))
            except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
                raise ValueError(f"{cls.__name__}.{field.name}: expected {field.type}: {error}") from error
        table = pa.Table.from_arrays(arrays, schema=cls.schema)
        cls.check(table)
        return table

    @classmethod
    def check(cls, table: pa.Table) -> None:
        """Raise `ValueError` unless the table has this schema, in this order, with no null where none may be."""
        if not table.schema.equals(cls.schema):
            raise ValueError(f"{cls.__name__}: expected columns\n{cls.schema}\nfound\n{table.schema}")
        for field in cls.schema:
            if not field.nullable and table.column(field.name).null_count:
                raise ValueError(f"{cls.__name__}.{field.name}: null found in a column that allows none")
            if field.type in (BOX, pa.list_(BOX)):
                boxes = table.column(field.name)
                lengths = pc.list_value_length(pc.list_flatten(boxes) if field.type != BOX else boxes)
                if pc.any(pc.not_equal(lengths, 4)).as_py():
                    raise ValueError(f"{cls.__name__}.{field.name}: expected boxes of 4 numbers")


class Steps(Table):
    """One action of an episode with the screen it was taken on; a last screen has a null action."""

    version = 1
    source = Column(pa.string())
    episode_id = Column(pa.string())
    step_index = Column(pa.int32())
    split = Column(pa.string())  # one of SPLITS
    platform = Column(pa.string())  # one of PLATFORMS
    language = Column(pa.string(), null=True)
    app = Column(pa.string(), null=True)
    instruction = Column(pa.string())
    step_instruction = Column(pa.string(), null=True)
    screenshot_sha256 = Column(pa.string(), null=True)
    width_px = Column(pa.int32(), null=True)  # of the frame that native coordinates refer to
    height_px = Column(pa.int32(), null=True)
    action_type = Column(pa.string(), null=True)  # "Click", "Scroll", ...
    action_text = Column(pa.string(), null=True)  # schemas.actions.format
    target_box = Column(BOX, null=True)
    thought = Column(pa.string(), null=True)
    conclusion = Column(pa.string(), null=True)
    episode_outcome = Column(pa.string(), null=True)  # success | failure | infeasible
    native_action = Column(pa.string())  # canonical JSON
    provenance = Column(pa.string())  # canonical JSON: file, record, rules, lossy, image_missing, gap_at


class Screens(Table):
    """One picture, with the elements that its source knows on it."""

    version = 1
    screenshot_sha256 = Column(pa.string())
    width_px = Column(pa.int32())
    height_px = Column(pa.int32())
    phash = Column(pa.uint64())
    elements = Column(pa.list_(ELEMENT))
    source = Column(pa.string())


class Samples(Table):
    """One supervised example: messages (JSON chat with image places) → answer."""

    version = 1
    sample_id = Column(pa.string())
    source = Column(pa.string())
    split = Column(pa.string())
    platform = Column(pa.string())
    objective = Column(pa.string())  # one of OBJECTIVES
    images = Column(pa.list_(pa.string()))  # screenshot sha256, in order of use
    messages = Column(pa.string())  # canonical JSON, see pipelines.prompts
    answer = Column(pa.string())
    target_boxes = Column(pa.list_(BOX))
    tokens = Column(pa.int32())
    licence = Column(pa.string())
    parents = Column(pa.list_(pa.string()))  # item ids
    synthetic = Column(pa.bool_())
    provenance = Column(pa.string())  # canonical JSON: deriver, version, k, file, record, rules


class Verdicts(Table):
    """A judge's word on an item in one round; score = min(alignment, reachability), null if it abstained."""

    version = 1
    item_id = Column(pa.string())
    round = Column(pa.int32())
    score = Column(pa.int8(), null=True)
    alignment = Column(pa.int8(), null=True)
    reachability = Column(pa.int8(), null=True)
    disposition = Column(pa.string())  # keep | rewrite | reconstruct | discard | review
    reason = Column(pa.string())
    confidence = Column(pa.float32())
    judge = Column(pa.string())
    model = Column(pa.string())
    rubric_version = Column(pa.string())


class JudgeCosts(Table):
    """What a verdict cost; beside the verdicts, so that money never enters their hash."""

    version = 1
    item_id = Column(pa.string())
    round = Column(pa.int32())
    prompt_tokens = Column(pa.int64())
    completion_tokens = Column(pa.int64())
    seconds = Column(pa.float64())
    cached = Column(pa.bool_())


class Quarantine(Table):
    """A native unit that could not be mapped, whole, with the reason."""

    version = 1
    source = Column(pa.string())
    unit = Column(pa.string())  # "record" or "item"
    items = Column(pa.int32())  # native items (actions, boxes, questions) that went with it
    reason = Column(pa.string())  # a short word that is counted, e.g. "off_screen"
    detail = Column(pa.string())
    file = Column(pa.string())  # relative to the raw root
    record = Column(pa.string())  # where in the file
    native = Column(pa.string())  # canonical JSON


class Tasks(Table):
    """An executable contract: what to do, where, from which state, and who decides that it was done."""

    version = 1
    task_id = Column(pa.string())
    instruction = Column(pa.string())
    platform = Column(pa.string())
    target = Column(pa.string())  # app or site, e.g. "miniwob/click-button" or "pages/shop"
    capabilities = Column(pa.list_(pa.string()))
    initial_state = Column(pa.string())  # canonical JSON (seed, url, viewport ...)
    evaluator = Column(pa.string())  # canonical JSON naming a rule
    expected_steps = Column(pa.int32())
    stratum = Column(pa.string())  # easy | medium | hard
    origin = Column(pa.string())  # static | dynamic
    parents = Column(pa.list_(pa.string()))


class Trajectories(Table):
    """What came of a task's execution, beside its steps (`Steps.episode_id` = `trajectory_id`)."""

    version = 1
    trajectory_id = Column(pa.string())
    task_id = Column(pa.string())
    policy = Column(pa.string())
    seed = Column(pa.int64())
    ended = Column(pa.string())  # finished | asked | steps | unreadable | failed
    turns = Column(pa.int32())  # replies, those that did nothing too
    answer = Column(pa.string())
    outcome = Column(pa.string(), null=True)  # completed | partial | infeasible | failed; null: nobody can tell
    verified = Column(pa.bool_())
    reason = Column(pa.string())
    failure_kind = Column(pa.string(), null=True)  # infrastructure | task
    votes = Column(pa.string())  # canonical JSON: [[annotator, outcome or null, confidence, reason], ...]
    end_state = Column(pa.string())  # canonical JSON, {} where the device tells none


class TrajectoryRuns(Table):
    """Where and how long an execution ran; beside the trajectories, so that time and chance never enter their hash."""

    version = 1
    trajectory_id = Column(pa.string())
    device = Column(pa.string())
    seconds = Column(pa.float64())
    resumed = Column(pa.int32())
    anew = Column(pa.int32())
    failures = Column(pa.list_(pa.string()))  # of infrastructure
    observe_s = Column(pa.list_(pa.float64()))  # a turn each
    decide_s = Column(pa.list_(pa.float64()))
    act_s = Column(pa.list_(pa.float64()))
    prompt_tokens = Column(pa.int64())
    completion_tokens = Column(pa.int64())


class Pairs(Table):
    """Two items whose similarity reaches the threshold; left < right."""

    version = 1
    left = Column(pa.string())
    right = Column(pa.string())
    similarity = Column(pa.float32())
