"""How many dynamic tasks of a store open in real worlds: `python bench/dynamic_tasks.py [HOME]`.

HOME is a store with `task_pool/dynamic` ($VESPER_HOME by default; `vesper demo` makes one). Each task's world is opened
as online RL opens it, reset to the task's start, and has to show a screen.
"""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from generators.devices.browser import keep_browser
from generators.generation.dynamic_task_pool import NO_APP, NO_WORLD
from generators.tasks.task_pool import DYNAMIC
from generators.tasks.task_spec import TaskSpec
from generators.worlds.registry import open_world
from pipelines.home import default_home
from pipelines.store import Store
from schemas.tables import Tasks
from trainer.settings.domains import DOMAINS
from trainer.stages.assets import BROWSER_WORLDS
from trainer.stages.online import runnable_tasks

PLATFORMS = tuple(dict.fromkeys(name for one in DOMAINS.values() for name in one.platforms))


def opened(tasks: Sequence[TaskSpec]) -> Counter[str]:
    """Tasks by what comes of opening them: "opened", or why not."""
    found = Counter[str]()
    with keep_browser():
        for name in sorted({task.world for task in tasks}):
            with open_world(name) as world:
                for task in (task for task in tasks if task.world == name):
                    try:
                        world.reset(task.initial_state)
                        found["opened" if world.observe().png else "no screen"] += 1
                    except Exception as error:  # whatever a world raises is a task that doesn't open
                        found[f"{name}: {type(error).__name__}: {error}"[:120]] += 1
    return found


def figures(rows: Sequence[Mapping[str, object]], unopened: Mapping[str, int]) -> dict[str, object]:
    """`rows` of `task_pool/dynamic` and its count `unopened` → the figures that are printed."""
    usable, left_out = runnable_tasks(rows, PLATFORMS, BROWSER_WORLDS, judged=True)
    found = opened(usable)
    exist = len(rows) - sum(unopened.get(reason, 0) for reason in (NO_APP, NO_WORLD))
    return {
        "tasks": len(rows),
        "whose app exists": exist,
        "opened": found["opened"],
        "share of those whose app exists": round(found["opened"] / max(1, exist), 3),
        "left out": dict(left_out),
        "failed": {why: count for why, count in found.items() if why != "opened"},
        "unopened": dict(unopened),
    }


def main() -> None:
    home = Path(sys.argv[1]) if len(sys.argv) > 1 else default_home()
    pool = Store(home).require(DYNAMIC)
    rows = pool.read("tasks", Tasks.schema).to_pylist()
    for name, value in figures(rows, pool.counts["unopened"]).items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
