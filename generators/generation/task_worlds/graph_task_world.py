"""The screen graphs as a task world: two targets, icons that say what they open and icons that don't."""

from generators.generation.task_worlds.listed_task_world import ListedTaskWorld
from generators.generation.task_worlds.own_world import SEEDS, OwnTask
from generators.worlds.graph.graph_tasks import tasks


class GraphTaskWorld(ListedTaskWorld):
    """`count` limits the targets."""

    def __init__(self, name: str, count: int, seed: int = 0) -> None:
        super().__init__(
            name,
            "mobile",
            lambda number: [OwnTask(task) for task in tasks(number)],
            count=count,
            seeds=SEEDS,
            first=seed * SEEDS,
        )
