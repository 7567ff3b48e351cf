"""`task_pool/generated`: tasks that a verified trajectory has done, with the steps that the shortest one took.

A task that was only proposed proves nothing and isn't here. Strata are those of the pool's config.
"""

import json
from collections import Counter
from typing import Any

import pyarrow.compute as pc

from generators.generation.feedback import require_verified
from generators.generation.round_names import BANK
from generators.tasks.task_pool import GENERATED, HAS_TASKS, PoolConfig, pool_row
from generators.tasks.task_spec import TaskSpec
from pipelines.store import PartSpec, PartWriter, Store
from pipelines.store.manifest import Manifest
from schemas.ids import GENERATED_SOURCE, digest, item_episode
from schemas.tables import Steps, Tasks, Trajectories

ASSET = GENERATED
CODE_VERSION = "1"


def build_pool(store: Store, config: PoolConfig | None = None) -> Manifest:
    """Verified tasks of all rounds, each once. Raises `StoreError` if no round has been verified."""
    config = config or PoolConfig()
    # Raises before anything is built: a pool of tasks that nobody was seen to do is worse than none.
    rounds = require_verified(store, ASSET)
    data = [manifest.data_version for manifest in rounds.values()]
    # The digest covers the rounds' data and the edges of the strata,
    # nothing else: expected steps follow from those.
    spec = PartSpec("all", digest([CODE_VERSION, list(config.edges), data]))
    inputs = {manifest.asset: manifest.version for manifest in rounds.values()}

    def make(out: PartWriter) -> dict[str, Any]:
        tasks: dict[str, dict[str, Any]] = {}
        for name, manifest in rounds.items():
            # The very bank that the round executed, not today's: its task
            # ids are those that the trajectories name.
            bank = store.version(f"{BANK}/{name}", manifest.inputs[f"{BANK}/{name}"])
            steps = shortest_runs(manifest)
            for row in bank.read("tasks", Tasks.schema).to_pylist():
                if row["task_id"] in steps:
                    length, parents = steps[row["task_id"]]
                    tasks[row["task_id"]] = _task(row, length, parents, config)
        # By task id, so that the order in which rounds were verified doesn't show in the pool.
        out.table("tasks", Tasks.table(tasks[name] for name in sorted(tasks)))
        return {**Counter(task["stratum"] for task in tasks.values()), "tasks": len(tasks)}

    plain = {"edges": list(config.edges)}
    with store.build(ASSET, code_version=CODE_VERSION, config=plain, inputs=inputs, parts=[spec]) as build:
        counts = build.run_part(spec, make).counts
        check = HAS_TASKS.check(counts["tasks"] > 0, counts["tasks"], "at least 1", limit=1)
        return build.commit(counts=counts, checks=[check])


def shortest_runs(verified: Manifest) -> dict[str, tuple[int, list[str]]]:
    """task_id → (actions of its shortest verified trajectory, closing Finished aside; item ids of all of them)."""
    rows = verified.read("trajectories", Trajectories.schema, ["trajectory_id", "task_id", "verified"]).to_pylist()
    steps = verified.read("steps", Steps.schema, ["episode_id", "action_type"])
    # Finished isn't a step of the task: a policy that closes its runs and one that doesn't need equally many.
    acts = steps.filter(pc.and_(pc.is_valid(steps["action_type"]), pc.not_equal(steps["action_type"], "Finished")))
    counted = Counter(acts["episode_id"].to_pylist())
    found: dict[str, tuple[int, list[str]]] = {}
    # By id: parents are listed in the same order whichever round came first.
    for row in sorted(rows, key=lambda row: row["trajectory_id"]):
        if row["verified"]:
            length, items = found.get(row["task_id"], (1 << 30, []))
            # At least 1: a task that was over before anything was done still has a stratum.
            now = max(counted[row["trajectory_id"]], 1)
            found[row["task_id"]] = min(length, now), [*items, item_episode(GENERATED_SOURCE, row["trajectory_id"])]
    return found


def _task(row: dict[str, Any], length: int, parents: list[str], config: PoolConfig) -> dict[str, Any]:
    contract = TaskSpec.from_row(row)
    return pool_row(
        {
            "instruction": contract.instruction,
            "platform": contract.platform,
            "target": contract.target,
            "capabilities": list(contract.capabilities),
            "initial_state": json.loads(row["initial_state"]),
            "evaluator": json.loads(row["evaluator"]),
            "expected_steps": length,
            "parents": parents,
        },
        "dynamic",
        config,
    )
