"""Tasks of a screen graph: open a screen that is so many icons away, where icons say what they open and where they
don't, so that one has to look around or to know the app from before."""

from collections.abc import Mapping
from random import Random
from typing import Any

from generators.tasks.task_spec import TaskSpec
from generators.worlds.graph.screen_graph import make_graph

SCREENS, ICONS = 12, 3
STEPS = (1, 2, 3, 4)
RULE = "graph_screen"


def tasks(seed: int) -> list[TaskSpec]:
    """Those of a seed's graph: for either form one of each length that the graph has."""
    graph, rng, found = make_graph(seed, SCREENS, ICONS), Random(f"graph tasks/{seed}"), []
    pairs = [(start, goal) for start in range(SCREENS) for goal in range(SCREENS)]
    for kind in ("labelled", "hidden"):
        rng.shuffle(pairs)
        for steps in STEPS:
            # The first pair of this length in a shuffled order: a random one.
            pair = next((one for one in pairs if len(graph.path(*one)) == steps), None)
            if pair is None:
                continue
            start = {
                "world": "graph",
                "seed": seed,
                "screens": SCREENS,
                "icons": ICONS,
                "at": pair[0],
                "labels": kind == "labelled",
            }
            words = f"Open the screen “{graph.names[pair[1]]}”."
            rule = {"rule": RULE, "screen": graph.names[pair[1]]}
            found.append(TaskSpec(words, "mobile", f"graph/{kind}", start, rule, steps, (f"{kind}/{steps}",)))
    return found


def is_open(evaluator: Mapping[str, Any], state: Mapping[str, Any], answer: str) -> bool:
    """Whether the screen that the task names is shown."""
    return bool(state["screen"] == evaluator["screen"])


def plan(task: TaskSpec) -> list[tuple[str, ...]]:
    """A shortest way, as `generators.worlds.webapps.web_app_task` words plans. Raises `ValueError` for a task of no
    graph."""
    start = task.initial_state
    graph = make_graph(int(start["seed"]), int(start["screens"]), int(start["icons"]))
    goal = str(task.evaluator.get("screen"))
    if goal not in graph.names:
        raise ValueError(f"graph: expected one of its screens, found {goal!r:.60}")
    return [("click", "icon", icon.name) for icon in graph.path(int(start["at"]), graph.names.index(goal))]
