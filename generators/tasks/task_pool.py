"""The task pool of online training: static tasks of known worlds, dynamic ones from recorded data, in three strata.

- `task_pool/static`: tasks from the functional maps of MiniWoB++ and our own pages, each proven by a recorded path
  (`generators.generation.static_task_pool`).
- `task_pool/dynamic`: tasks inferred from gold episodes. A new task q' is kept iff max similarity of q' to the pool is
  below epsilon (UI-Venus-1.5, section 2.3): greedy in a total order, so a pure function of the set.
- `task_pool/generated`: tasks that the generation loop has verified (`generators.generation.generated_pool`).
- `task_pool/shards`: all of them, one shard a stratum, with an index. `generators.tasks.task_sampling` draws from them.

Strata: see `strata`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from generators.tasks.strata import METHOD_EDGES, STRATA, stratum
from generators.tasks.task_spec import FINAL_KEYFRAME, task_id_of
from pipelines.store import CheckSpec, Manifest, PartSpec, PartWriter, Store
from pipelines.training_data.removed import Removed, removed_items
from quality.duplicates.same_text import VERSION as MEANING_VERSION
from quality.duplicates.same_text import DistinctTexts
from quality.evidence.embedding import EMBEDDED, Embedder
from schemas.ids import canonical_json, digest, item_episode
from schemas.tables import Steps, Tasks

STATIC, DYNAMIC, SHARDS = "task_pool/static", "task_pool/dynamic", "task_pool/shards"
GENERATED = "task_pool/generated"
CODE_VERSION = f"3.{MEANING_VERSION}"
EPSILON = 0.9
INDEX = pa.schema([("task_id", pa.string()), ("stratum", pa.string()), ("shard", pa.string()), ("row", pa.int32())])

Proposer = Callable[[Mapping[str, Any]], Iterable[str]]
"""An episode (instruction, platform, screenshot_sha256, expected_steps) → instructions of tasks it suggests."""
HAS_TASKS = CheckSpec("there are tasks", "The pool or the round's bank is empty")
ALL_NEW = CheckSpec("every kept task is new", "A kept task is as similar to another as a duplicate")
EACH_TASK_ONCE = CheckSpec("each task once", "A task id occurs twice")
ALL_IN_STRATA = CheckSpec("every task is in a stratum", "A task's expected steps fit no stratum")
DYNAMIC_CHECKS = (ALL_NEW,)
SHARD_CHECKS = (EACH_TASK_ONCE, ALL_IN_STRATA, HAS_TASKS)


def own_instruction(episode: Mapping[str, Any]) -> list[str]:
    """The proposer that needs no model: an episode proves that its own instruction can be done where it was recorded.

    It can't read the picture, so it never suggests what else a screen affords; a model's proposer can.
    """
    return [episode["instruction"]]


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


def build_dynamic(
    store: Store, sources: Sequence[str], *, config: PoolConfig | None = None, proposer: Proposer = own_instruction
) -> Manifest:
    """Gold episodes of the training split → `task_pool/dynamic` (tables `tasks` and `similarity`).

    The pool is `task_pool/static` (if it is there) plus what was kept so far, in the order of (place of the source,
    episode id). Expected steps are the actions of the recorded path without the closing Finished; episodes that
    failed, lack a picture or hold a gap prove nothing and are passed over, and so is what `hygiene/contamination`
    removed. Raises `StoreError` without gold.
    """
    config = config or PoolConfig()
    manifests = {source: store.require(f"gold/{source}") for source in sources}
    static = store.current(STATIC)
    known = [m for m in (*manifests.values(), static) if m is not None]
    removed = removed_items(store)
    embedder = Embedder(config.model, cache=store.home / "cache" / "embeddings")
    plain = {
        **asdict(config),
        "model": embedder.identity,
        "sources": list(sources),
        "proposer": _proposer_name(proposer),
    }
    data = {m.asset: m.data_version for m in known}
    spec = PartSpec("all", digest([CODE_VERSION, plain, data, sorted(removed.episodes)]))

    def make(out: PartWriter) -> dict[str, Any]:
        pool = static.read("tasks", Tasks.schema)["instruction"].to_pylist() if static is not None else []
        episodes = [e for source, manifest in manifests.items() for e in _episodes(source, manifest, removed)]
        proposed = [(e, text.strip()) for e in episodes for text in proposer(e) if text.strip()]
        nearest = novelty([text for _, text in proposed], pool, embedder, config.epsilon)
        kept = [place for place, value in enumerate(nearest) if value < config.epsilon]
        tasks = [pool_row(_dynamic(*proposed[place]), "dynamic", config) for place in kept]
        out.table("tasks", tasks_table(tasks))
        names = pa.array([task["task_id"] for task in tasks], pa.string())
        values = pa.array([nearest[place] for place in kept], pa.float64())
        out.table("similarity", pa.table({"task_id": names, "nearest": values}))
        counts = Counter(task["stratum"] for task in tasks)
        return {
            **counts,
            "tasks": len(tasks),
            "proposed": len(proposed),
            "episodes": len(episodes),
            "nearest_kept": max((nearest[place] for place in kept), default=0.0),
        }

    inputs = {m.asset: m.version for m in known} | removed.inputs
    with store.build(DYNAMIC, code_version=CODE_VERSION, config=plain, inputs=inputs, parts=[spec]) as build:
        counts = build.run_part(spec, make).counts
        found = f"{counts['nearest_kept']:.4f}"
        new = counts["nearest_kept"] < config.epsilon
        return build.commit(
            counts=counts,
            checks=[ALL_NEW.check(new, found, f"< {config.epsilon}", counts["nearest_kept"], config.epsilon)],
        )


def _proposer_name(proposer: Proposer) -> str:
    """What the configuration of `task_pool/dynamic` calls a proposer; the name is in its hash, so it outlives moves."""
    if proposer is own_instruction:
        return "generators.task_pool.own_instruction"
    return f"{proposer.__module__}.{getattr(proposer, '__name__', type(proposer).__name__)}"


def novelty(texts: Sequence[str], pool: Sequence[str], embedder: Embedder, epsilon: float) -> list[float]:
    """Per text, its largest similarity to the pool and to the texts before it that were kept (< epsilon)."""
    return [round(value, 9) for _, value, _ in DistinctTexts(embedder, epsilon, pool).admit_all(texts)]


def _episodes(source: str, manifest: Manifest, removed: Removed) -> Iterator[dict[str, Any]]:
    columns = [
        "episode_id",
        "step_index",
        "split",
        "platform",
        "app",
        "instruction",
        "screenshot_sha256",
        "action_type",
        "episode_outcome",
        "provenance",
    ]
    steps = manifest.read("steps", Steps.schema, columns).filter(pa.compute.field("split") == "train")
    grouped: dict[str, list[dict[str, Any]]] = {}
    for row in steps.sort_by([("episode_id", "ascending"), ("step_index", "ascending")]).to_pylist():
        grouped.setdefault(row["episode_id"], []).append(row)
    for name, rows in grouped.items():
        first, actions = rows[0], [row["action_type"] for row in rows if row["action_type"] not in (None, "Finished")]
        whole = [row["step_index"] for row in rows] == list(range(len(rows)))
        sound = whole and not any('"gap_at":' in row["provenance"] for row in rows)
        sound = sound and item_episode(source, name) not in removed.episodes
        if not (actions and sound and first["screenshot_sha256"]) or first["episode_outcome"] not in (None, "success"):
            continue
        common = {key: first[key] for key in ("platform", "app", "instruction", "screenshot_sha256")}
        yield {
            "source": source,
            "episode_id": name,
            "expected_steps": len(actions),
            "actions": actions,
            "last": rows[-1]["screenshot_sha256"],
            **common,
        }


def _dynamic(episode: Mapping[str, Any], instruction: str) -> dict[str, Any]:
    return {
        "instruction": instruction,
        "platform": episode["platform"],
        "target": episode["app"] or episode["source"],
        "capabilities": sorted(set(episode["actions"])),
        "initial_state": {
            "screenshot_sha256": episode["screenshot_sha256"],
            "episode": episode["episode_id"],
            "source": episode["source"],
        },
        "evaluator": {"rule": FINAL_KEYFRAME, "reference_sha256": episode["last"]},
        "expected_steps": episode["expected_steps"],
        "parents": [item_episode(episode["source"], episode["episode_id"])],
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
    specs = [PartSpec(name, digest([CODE_VERSION, name, [m.data_version for m in found]])) for name in STRATA]
    whole = pa.concat_tables([manifest.read("tasks", Tasks.schema) for manifest in found])

    def make(out: PartWriter, name: str) -> dict[str, int]:
        mine = whole.filter(pa.compute.field("stratum") == name).sort_by("task_id")
        out.table("tasks", mine)
        rows = pa.array(range(mine.num_rows), pa.int32())
        labels = [pa.array([text] * mine.num_rows, pa.string()) for text in (name, f"part-{name}.tasks.parquet")]
        out.table("index", pa.Table.from_arrays([mine["task_id"].combine_chunks(), *labels, rows], schema=INDEX))
        return {"tasks": mine.num_rows}

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
