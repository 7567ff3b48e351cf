"""The task pool of online training: static tasks of known worlds, dynamic ones from recorded data, in three strata.

- `task_pool/static`: tasks from the functional maps of MiniWoB++ and our own pages, each proven by a recorded path
  (`generators.generation.static_task_pool`).
- `task_pool/dynamic`: tasks inferred from gold episodes (`generators.generation.dynamic_task_pool`).
- `task_pool/generated`: tasks that the generation loop has verified (`generators.generation.generated_pool`).
- `task_pool/shards`: all of them, one shard a stratum, with an index. `generators.tasks.task_sampling` draws from them.

Strata: see `strata`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from generators.tasks.strata import METHOD_EDGES, STRATA, stratum
from generators.tasks.task_spec import task_id_of
from pipelines.store import CheckSpec, Manifest, PartSpec, PartWriter, Store
from quality.duplicates.same_text import VERSION as MEANING_VERSION
from quality.evidence.embedding import EMBEDDED
from schemas.ids import canonical_json, digest
from schemas.tables import Tasks

STATIC, DYNAMIC, SHARDS = "task_pool/static", "task_pool/dynamic", "task_pool/shards"
GENERATED = "task_pool/generated"
CODE_VERSION = f"3.{MEANING_VERSION}"
# largest cosine similarity to a task of the pool at which another one still counts as new (docs/method.md §7)
EPSILON = 0.9
INDEX = pa.schema([("task_id", pa.string()), ("stratum", pa.string()), ("shard", pa.string()), ("row", pa.int32())])

HAS_TASKS = CheckSpec("there are tasks", "The pool or the round's bank is empty")
EACH_TASK_ONCE = CheckSpec("each task once", "A task id occurs twice")
ALL_IN_STRATA = CheckSpec("every task is in a stratum", "A task's expected steps fit no stratum")
SHARD_CHECKS = (EACH_TASK_ONCE, ALL_IN_STRATA, HAS_TASKS)


@dataclass(frozen=True, slots=True)
class PoolConfig:
    """Strata edges and epsilon; enters the config hash of all three assets."""

    edges: tuple[int, int] = METHOD_EDGES
    epsilon: float = EPSILON
    model: str = EMBEDDED

    def __post_init__(self) -> None:
        if len(self.edges) != 2 or not 0 < self.edges[0] < self.edges[1]:
            raise ValueError(f"task pool: expected strata edges 0 < e1 < e2, found {self.edges}")
        if not 0 < self.epsilon <= 1:
            raise ValueError(f"task pool: expected 0 < epsilon <= 1, found {self.epsilon}")


def pool_row(row: Mapping[str, Any], origin: str, config: PoolConfig) -> dict[str, Any]:
    """A row of `Tasks` from one without id, stratum and origin; state and evaluator as plain JSON values."""
    state, evaluator = canonical_json(row["initial_state"]), canonical_json(row["evaluator"])
    return {
        **row,
        "task_id": task_id_of(row["target"], row["instruction"], state, evaluator),
        "initial_state": state,
        "evaluator": evaluator,
        "stratum": stratum(row["expected_steps"], config.edges),
        "origin": origin,
    }


def tasks_table(tasks: Iterable[Mapping[str, object]]) -> pa.Table:
    """Rows of `Tasks`, in the order of their ids."""
    return Tasks.table(sorted(tasks, key=lambda task: str(task["task_id"])))


def build_shards(store: Store) -> Manifest:
    """Static, dynamic and generated tasks → `task_pool/shards`: a `tasks` part a stratum, and an `index` of where each
    lies.

    Raises `StoreError` if none has been built.
    """
    known = (store.current(asset) for asset in (STATIC, DYNAMIC, GENERATED))
    found = [m for m in known if m is not None] or [store.require(STATIC)]
    # by what the pools hold, not by their versions: equal tasks are packed once
    specs = [PartSpec(name, digest([CODE_VERSION, name, [m.data_version for m in found]])) for name in STRATA]
    whole = pa.concat_tables([manifest.read("tasks", Tasks.schema) for manifest in found])

    def make(out: PartWriter, name: str) -> dict[str, int]:
        own = whole.filter(pa.compute.field("stratum") == name).sort_by("task_id")
        out.table("tasks", own)
        rows = pa.array(range(own.num_rows), pa.int32())
        labels = [pa.array([text] * own.num_rows, pa.string()) for text in (name, f"part-{name}.tasks.parquet")]
        out.table("index", pa.Table.from_arrays([own["task_id"].combine_chunks(), *labels, rows], schema=INDEX))
        return {"tasks": own.num_rows}

    inputs = {m.asset: m.version for m in found}
    with store.build(SHARDS, code_version=CODE_VERSION, inputs=inputs, parts=specs) as build:
        counts = {s.key: build.run_part(s, lambda out, key=s.key: make(out, key)).counts["tasks"] for s in specs}  # type: ignore[misc]
        ids = whole["task_id"].to_pylist()
        placed = sum(counts.values())
        checks = [
            EACH_TASK_ONCE.check(
                len(set(ids)) == len(ids), f"{len(set(ids))} ids of {len(ids)}", "as many ids", len(set(ids)), len(ids)
            ),
            ALL_IN_STRATA.check(placed == len(ids), placed, len(ids)),
            HAS_TASKS.check(len(ids) > 0, len(ids), "at least 1", limit=1),
        ]
        return build.commit(counts={**counts, "tasks": len(ids)}, checks=checks)
