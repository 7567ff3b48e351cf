"""Task files of a folder as contracts, and what isn't played here, by reason."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from generators.tasks.task_spec import TaskSpec
from generators.worlds.osworld.evaluation import RULE, obstacles
from generators.worlds.osworld.file_cache import file_of
from generators.worlds.osworld.obstacles import TaskObstacle
from generators.worlds.osworld.osworld_world import addresses_of
from generators.worlds.osworld.task_file import BadTaskFile, OsworldTask, tasks_in

EXPECTED_STEPS = 5
"""Task files don't say how many steps they take. Twice that and five is the limit then: OSWorld's 15."""


@dataclass(frozen=True)
class UnplayedTask:
    """A task that isn't played here, and why."""

    id: str
    domain: str
    obstacles: tuple[TaskObstacle, ...]


@dataclass(frozen=True)
class TaskFolder:
    """What a folder of task files holds."""

    playable: tuple[TaskSpec, ...]
    unplayed: tuple[UnplayedTask, ...]
    bad: tuple[BadTaskFile, ...]

    def by_kind(self) -> dict[str, int]:
        """How many tasks are left out for each kind of reason (a task may have several)."""
        kinds = Counter(kind for task in self.unplayed for kind in {one.kind for one in task.obstacles})
        return dict(kinds.most_common())

    def report(self) -> dict[str, object]:
        """Counts: tasks that can be played, those left out, and these by kind of reason and by reason."""
        reasons = Counter(str(one) for task in self.unplayed for one in task.obstacles)
        return {
            "playable": len(self.playable),
            "left_out": len(self.unplayed),
            "bad_files": {one.file: one.why for one in self.bad},
            "by_kind": self.by_kind(),
            "by_reason": dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
        }


def read_folder(folder: Path, only: Sequence[str] = ()) -> TaskFolder:
    """The tasks of a folder; `only` these domains or ids. Raises `ValueError` for a folder without a task file, and
    for a domain or id that it doesn't hold."""
    found = list(tasks_in(folder))
    tasks = [one for one in found if isinstance(one, OsworldTask)]
    if not tasks:
        raise ValueError(f"{folder}: expected task files in OSWorld's form (examples/DOMAIN/ID.json), found none")
    known = {task.domain for task in tasks} | {task.id for task in tasks}
    if unknown := [name for name in only if name not in known]:
        domains = ", ".join(sorted({task.domain for task in tasks}))
        raise ValueError(f"osworld: unknown {unknown[0]!r:.60}; known are ids of tasks and {domains}")
    playable: dict[str, TaskSpec] = {}
    unplayed = []
    for task in tasks:
        if only and task.domain not in only and task.id not in only:
            continue
        against = [*obstacles(task), *_missing_files(folder, task)]
        if against:
            unplayed.append(UnplayedTask(task.id, task.domain, tuple(against)))
        else:
            contract = contract_of(task, folder)
            playable.setdefault(contract.task_id, contract)
    bad = tuple(one for one in found if isinstance(one, BadTaskFile))
    return TaskFolder(tuple(playable.values()), tuple(unplayed), bad)


def _missing_files(folder: Path, task: OsworldTask) -> Iterator[TaskObstacle]:
    for address in addresses_of(task):
        if file_of(folder, address, task.domain, task.id) is None:
            yield TaskObstacle("file", f"{address.rpartition('/')[2][:80]} isn't in file_cache")


def contract_of(task: OsworldTask, folder: Path) -> TaskSpec:
    """A task as a contract. Its id depends on its file and on what the files that it names hold, not on where these
    lie."""
    files = {address: file_of(folder, address, task.domain, task.id) for address in addresses_of(task)}
    start = {
        "world": "osworld",
        "domain": task.domain,
        "task": dict(task.native),
        "files": {address: hashlib.sha256(file.data).hexdigest() for address, file in files.items() if file},
    }
    return TaskSpec(
        task.instruction, "desktop", f"osworld/{task.domain}", start, {"rule": RULE}, EXPECTED_STEPS, (task.domain,)
    )
