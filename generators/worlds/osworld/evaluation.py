"""Whether a task was solved, as its file says: the setup steps before the evaluation, then each function on what its
getters give, joined by `and` (their mean, 0 if one is 0) or `or` (the best of them)."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from generators.worlds.osworld import getters, metrics, setup_steps
from generators.worlds.osworld.getters import ResultMissing
from generators.worlds.osworld.obstacles import TaskObstacle, app_obstacles
from generators.worlds.osworld.pattern_search import RuleError
from generators.worlds.osworld.task_file import EvaluatorPart, OsworldTask
from generators.worlds.osworld.task_machine import TaskMachine

RULE = "osworld"


@dataclass(frozen=True)
class TaskScore:
    """What came of an evaluation: the score in 0..1, each function's own, and why nothing can be said ("": it can)."""

    score: float
    parts: tuple[float, ...] = ()
    undecided: str = ""

    def plain(self) -> dict[str, object]:
        """As JSON data."""
        return {**asdict(self), "parts": list(self.parts)}


def obstacles(task: OsworldTask) -> list[TaskObstacle]:
    """What keeps a task from being played here, each once; empty: it can be. Files are another matter
    (`osworld_tasks`)."""
    return sorted(set(_obstacles(task)))


def _obstacles(task: OsworldTask) -> Iterator[TaskObstacle]:
    yield from app_obstacles(task.related_apps)
    for step in task.calls:
        yield from setup_steps.obstacles_of(step)
    if not task.infeasible:
        for part in task.parts:
            yield from metrics.obstacles_of(part)
            yield from getters.obstacles_of(part.result)
            yield from getters.obstacles_of(part.expected)


def evaluate(task: OsworldTask, machine: TaskMachine, refused: bool) -> TaskScore:
    """The score of what the machine holds now; `refused`: the agent's last word was that the task can't be done, which
    solves a task that can't be, and no other. Raises `WorldError` where the machine can't be asked."""
    if task.infeasible or refused:
        return TaskScore(float(task.infeasible and refused))
    for step in task.postconfig:
        setup_steps.perform(machine, step)
    scores: list[float] = []
    for part in task.parts:
        try:
            scores.append(_score(part, machine))
        except RuleError as error:
            return TaskScore(0.0, tuple(scores), f"{part.func}: {error}"[:300])
    if task.conj == "or":
        return TaskScore(max(scores), tuple(scores))
    return TaskScore(sum(scores) / len(scores) if all(scores) else 0.0, tuple(scores))


def _score(part: EvaluatorPart, machine: TaskMachine) -> float:
    """A function's score: 0 where the file that its result is to come from isn't there."""
    try:
        result = getters.get(machine, part.result) if part.result else None
        expected = getters.get(machine, part.expected) if part.expected else None
    except ResultMissing:
        return 0.0
    return min(1.0, max(0.0, metrics.score(part, result, expected)))


def score_column(state: Mapping[str, Any]) -> dict[str, float]:
    """Column of an attempt's record: the `score` in 0..1 that its end state holds; none of any other world."""
    return {"score": float(state["score"])} if state.keys() >= {"score", "undecided", "refused"} else {}
