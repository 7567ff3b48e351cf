"""`task_pool/static`: tasks from the functional maps of MiniWoB++, our own pages and, where wanted, desktop programs,
each proven by a recorded path."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from generators.generation.functional_maps import Attempts, MapConfig, functional_map, proven_tasks
from generators.tasks.task_pool import CODE_VERSION, HAS_TASKS, STATIC, PoolConfig, pool_row, tasks_table
from pipelines.store import CheckSpec, Manifest, PartSpec, PartWriter, Store
from schemas.ids import digest

ORACLES_WORK = CheckSpec("most oracles complete their task", "More than a quarter of the worlds' own plans fail")
CHECKS = (HAS_TASKS, ORACLES_WORK)


def build_static(
    store: Store,
    *,
    config: PoolConfig | None = None,
    maps: MapConfig | None = None,
    tasks: Iterable[Mapping[str, object]] | None = None,
) -> Manifest:
    """Functional maps → `task_pool/static` (table `tasks`). Opens a browser, unless it was built before.

    `maps` says how many tasks are tried. `tasks` replaces the maps by rows of one's own (`Tasks` without id, stratum
    and origin; state and evaluator as plain JSON values). Raises `BrowserMissing` without a Chromium.
    """
    config, maps = config or PoolConfig(), maps or MapConfig()
    listed = None if tasks is None else [dict(task) for task in tasks]
    # The functional map is part of the hash: another map proves other tasks.
    chart = functional_map() if listed is None else {}
    plain = {**asdict(config), "maps": maps.plain() if listed is None else digest(listed), "chart": chart}
    spec = PartSpec("all", digest([CODE_VERSION, plain]))

    def make(out: PartWriter) -> dict[str, Any]:
        attempts = Attempts()
        rows = list(proven_tasks(maps, attempts)) if listed is None else listed
        # By id after rows were made whole: two paths to one task are one task, the later one kept.
        unique = {task["task_id"]: task for task in (pool_row(row, "static", config) for row in rows)}
        out.table("tasks", tasks_table(unique.values()))
        counts = Counter(task["stratum"] for task in unique.values())
        return {**counts, "tasks": len(unique), "tried": attempts.tried, "failed": len(attempts.failed)}

    with store.build(STATIC, code_version=CODE_VERSION, config=plain, parts=[spec]) as build:
        counts = build.run_part(spec, make).counts
        checks = [
            HAS_TASKS.check(counts["tasks"] > 0, counts["tasks"], "at least 1", limit=1),
            ORACLES_WORK.check(
                # Plans fail when a page or browser changes; a few may, many
                # mean the map no longer fits the worlds.
                4 * counts["failed"] <= max(counts["tried"], 1),
                f"{counts['failed']} of {counts['tried']} failed",
                "at most a quarter",
                counts["failed"],
                counts["tried"] / 4,
            ),
        ]
        return build.commit(counts=counts, checks=checks)
