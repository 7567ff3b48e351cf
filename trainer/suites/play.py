"""Tasks of a world played one after the other, with their screens retained: what people look at, and no measurement.

`trainer.suites.worlds` measures: many episodes, in parallel and resumed. Here a few are played until there is enough to
show, in one world on this machine.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random

from generators.execution.episode_film import FilmedEpisode, Verdict
from generators.execution.execute import InfrastructureFailure, ScreenKeeper, execute
from generators.execution.journal import Journal
from generators.execution.limits import AttemptLimits
from generators.generation.task_worlds.registry import TASK_WORLDS, open_task_world
from generators.policies.policy_maker import PolicyMaker
from generators.tasks.task_spec import TaskSpec
from generators.tasks.trajectory import ExecutedTrajectory, ExecutedTurn
from generators.tasks.world_interface import Observation, World
from generators.worlds.registry import open_world
from pipelines.extensions import is_outside
from schemas.settings import nearest
from trainer.suites.world_tasks import STYLES, contracts
from trainer.suites.worlds import outcome

WORLDS = tuple(dict.fromkeys((*STYLES["full"], *TASK_WORLDS)))
"""Worlds whose tasks can be played by name; one of your own is named by its path."""
MOST_TARGETS = 1_000
MOST_LOST = 2
"""So many times a browser may fail; then the failure is raised."""
OpenWorld = Callable[[], AbstractContextManager[World]]
OnTurn = Callable[[int, ExecutedTurn], None]
"""Gets each turn with its number, from 1, once it is over."""


def tasks_of(world: str, count: int = 1, seed: int = 0, families: Sequence[str] = ()) -> list[TaskSpec]:
    """`count` different tasks of a world (one of `WORLDS`, or your own by its path), of `families` alone where
    some are named: pages of MiniWoB++, goals of the phone, kinds of sites, families of an app. Raises `ValueError` for
    an unknown world or family, or where there aren't so many tasks."""
    if world in STYLES["full"]:
        return contracts(world, count, seed, families)
    if world not in TASK_WORLDS and not is_outside(world):
        raise ValueError(
            f"world: unknown {world!r:.60}; {nearest(world, WORLDS)}; one of your own is named as "
            "module:world or path/to/file.py:world"
        )
    listed = open_task_world(world, MOST_TARGETS, seed)
    by_target = {target: listed.functions(target) for target in listed.targets}
    known = {name for names in by_target.values() for name in names}
    if unknown := sorted(set(families) - known):
        raise ValueError(f"task: {world} has no family {unknown[0]!r:.60}; {nearest(unknown[0], known)}")
    wanted = set(families) or known
    rng, found = Random(f"play/{world}/{seed}"), dict[str, TaskSpec]()
    targets = [target for target, names in by_target.items() if wanted & set(names)]
    # targets have few functions: as many draws as find the rarest ones
    for draw in range(100 * count * len(known)):
        idea = next(iter(listed.ideas(targets[draw % len(targets)], rng)))
        task = listed.contract([idea], rng) if idea.function in wanted else None
        if task is not None:
            found.setdefault(task.task_id, task)
        if len(found) == count:
            return list(found.values())
    raise ValueError(f"world {world}: expected {count} different tasks, found {len(found)}; ask for fewer attempts")


def opener(task: TaskSpec, style: str = "full") -> OpenWorld:
    """What opens the world of a task, drawn in a style (`world_tasks.STYLES`) where the world knows it."""
    return lambda: open_world(task.world, **STYLES[style].get(task.world, {}))


def play(
    tasks: Sequence[TaskSpec],
    opened: OpenWorld,
    policies: PolicyMaker,
    enough: Callable[[Sequence[FilmedEpisode]], bool],
    *,
    seed: int = 0,
    limits: AttemptLimits | None = None,
    on_task: Callable[[TaskSpec], None] = lambda task: None,
    on_turn: OnTurn = lambda number, turn: None,
    on_episode: Callable[[FilmedEpisode], None] = lambda episode: None,
) -> list[FilmedEpisode]:
    """Play tasks of one world in turn until the episodes are `enough`, or no task is left → all episodes played.

    `seed`: of the policy. After a failure of the browser the world is opened again, and the episode goes on from where
    it stood. Raises `InfrastructureFailure` after more than `MOST_LOST` of these, or where the policy's server fails.
    """
    found: list[FilmedEpisode] = []
    waiting, lost = list(tasks), 0
    with tempfile.TemporaryDirectory(prefix="vesper-play-") as folder, Journal(Path(folder), "play") as journal:
        while waiting and not enough(found):
            try:
                # opened again after a failure, with the task that failed still first
                with opened() as world:
                    while waiting and not enough(found):
                        on_task(waiting[0])
                        found.append(_played(waiting[0], world, policies, seed, journal, limits, on_turn))
                        del waiting[0]
                        on_episode(found[-1])
            except InfrastructureFailure as failure:
                lost += 1
                # A policy's server that fails won't be back with a new browser.
                if lost > MOST_LOST or failure.by == "policy":
                    raise
    return found


class _HeldScreens(ScreenKeeper):
    """Holds the screens of an episode in memory."""

    def __init__(self) -> None:
        super().__init__(None)
        self.held: dict[str, bytes] = {}

    def keep(self, shot: Observation) -> str:
        self.held[shot.sha256] = shot.png
        return shot.sha256


def _played(
    task: TaskSpec,
    world: World,
    policies: PolicyMaker,
    seed: int,
    journal: Journal,
    limits: AttemptLimits | None,
    on_turn: OnTurn,
) -> FilmedEpisode:
    screens, policy = _HeldScreens(), policies.make(task, world)
    claim = journal.claim(task, seed, policy.name, world.name)
    shown = 0

    # called before each call of the world or policy: turns that are over by then are shown once
    def show(call: str) -> None:
        nonlocal shown
        for turn in claim.attempt.turns[shown:]:
            shown += 1
            on_turn(shown, turn)

    done = execute(task, world, policy, seed, journal, screens, limits, claim=claim, on_call=show)
    solved, why = outcome(done)
    verdict: Verdict = "not counted" if solved is None else "solved" if solved else "failed"
    return FilmedEpisode(done, screens.held, verdict, why or _reason(done, bool(solved)))


def _reason(done: ExecutedTrajectory, solved: bool) -> str:
    """Why an episode that was decided counts as it does."""
    ended = {
        "finished": "the policy said that it was done",
        "asked": "the policy ended with an answer",
        "unreadable": "the policy's replies could not be read",
    }.get(done.ended, f"the policy did not end by itself ({done.failure or 'limit of steps'})")
    rule = done.contract.evaluator.get("rule")
    return f"{ended}; the task's rule ({rule}) {'holds' if solved else 'does not hold'} of the world's last state"


def most_telling(episodes: Sequence[FilmedEpisode]) -> Mapping[Verdict, FilmedEpisode]:
    """For each verdict the episode to show: one that the policy ended by itself, and of those the one in which it
    carried out most actions, the first of several."""
    shown: dict[Verdict, FilmedEpisode] = {}
    # what ended itself tells more than what ran out of steps
    for one in sorted(episodes, key=lambda one: (one.done.ended != "finished", -len(one.done.actions))):
        shown.setdefault(one.verdict, one)
    return shown
