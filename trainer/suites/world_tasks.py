"""The tasks of the world suites: contracts of held-out seeds, and what runs them.

Each takes its families in turn (MiniWoB++ pages that a script can solve, the phone's families of goals, the kinds of
sites, the families of desktop tasks, of care cases), each episode with a seed of its own out of a range that nothing
trains on; of care cases, whose variants belong together, all of a seed come in a row.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from generators.execution.device_pool import LocalPool
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import World
from generators.worlds.app_tasks import snapshots, works
from generators.worlds.care.care_cases import FAMILIES as CARE_FAMILIES
from generators.worlds.care.care_cases import cases
from generators.worlds.desktop.desktop_tasks import FAMILIES, make_task
from generators.worlds.fsm.fsm_tasks import TaskMaker
from generators.worlds.fsm.sites import TEMPLATES, make_site
from generators.worlds.miniwob.miniwob_world import open_miniwob_world
from generators.worlds.miniwob.scripted_pages import SCRIPTED_PAGES
from generators.worlds.registry import open_world
from schemas.ids import digest
from trainer.suites.registry import CARE, DESKTOP

FIRST_SEED = 20_000_000
"""Training, its validation and the measurement of tasks take their seeds below this
(`trainer.proving.staircase.tasks`)."""
DRAWN = ("miniwob", "phone", "fsm", "care/phone", "care/web")
STYLES: dict[str, dict[str, dict[str, Any]]] = {
    "full": {name: {} for name in DRAWN},
    "nano": {name: {"nano": True} for name in DRAWN},
}
"""Style → world → the options that draw it: as large as it is, or as a nano model can read it."""
MINIWOB_REWARD = 0.99


def pool(style: str = "full", most: int | None = None) -> LocalPool:
    """The worlds of the suites on this machine. Raises `ValueError` for an unknown style."""
    if style not in STYLES:
        raise ValueError(f"worlds: expected a style of {', '.join(STYLES)}, found {style!r:.60}")
    openers: dict[str, Callable[[], AbstractContextManager[World]]] = {
        name: partial(open_world, name, **STYLES[style].get(name, {})) for name in (*DRAWN, DESKTOP)
    }
    return LocalPool(openers, most)


def contracts(world: str, count: int, seed: int = 0, only: Sequence[str] = ()) -> list[TaskSpec]:
    """`count` contracts of a world, families in turn; `only` these families (pages, goals or kinds of sites).

    Raises `ValueError` for an unknown world or family, or where there aren't so many.
    """
    makers: dict[str, Callable[[int, Sequence[str]], Iterator[TaskSpec]]] = {
        "miniwob": _miniwob,
        "phone": _phone,
        "fsm": _fsm,
        DESKTOP: _desktop,
        **{name: partial(_care, name) for name in (CARE, "care/phone", "care/web")},
    }
    if world not in makers:
        raise ValueError(f"worlds: expected one of {', '.join(makers)}, found {world!r:.60}")
    if count < 1:
        raise ValueError(f"suite {world}: expected 1 or more episodes, found {count}")
    found: dict[str, TaskSpec] = {}
    # a range of 10,000 task seeds for each seed of the suite
    for contract in makers[world](FIRST_SEED + 10_000 * seed, only):
        # other seeds may give the same task again
        found.setdefault(contract.task_id, contract)
        if len(found) == count:
            return list(found.values())
    raise ValueError(f"suite {world}: expected {count} different tasks, found {len(found)}")


def _families(known: Sequence[str], only: Sequence[str], what: str) -> list[str]:
    """Those asked for, else all in an order by hash: the first few of them are a mixture."""
    if unknown := [name for name in only if name not in known]:
        raise ValueError(f"{what}: unknown {unknown[0]!r:.60}; known are {', '.join(known)}")
    # sorted by digest, so that the first few are of many kinds
    return list(only) or sorted(known, key=digest)


def _phone(first: int, only: Sequence[str]) -> Iterator[TaskSpec]:
    from generators.worlds.phone.phone_tasks import FAMILIES, make_task

    names = _families(sorted(FAMILIES), only, "phone tasks")
    for number in range(10_000):
        task = make_task(names[number % len(names)], first + number)
        if task is not None:
            yield task.contract()


def _desktop(first: int, only: Sequence[str]) -> Iterator[TaskSpec]:
    """Without those that the generation loop has: of some families another seed gives the same task again."""

    names = _families(sorted(FAMILIES), only, "desktop tasks")
    # every task that the generation loop may have proposed, and so trained on
    seen = {work.contract.task_id for seed in range(snapshots(DESKTOP)) for work in works(DESKTOP, seed)}
    for number in range(10_000):
        made = make_task(names[number % len(names)], first + number).contract()
        if made.task_id not in seen:
            yield made


def _fsm(first: int, only: Sequence[str]) -> Iterator[TaskSpec]:
    kinds = _families(sorted(TEMPLATES), only, "fsm sites")
    for number in range(10_000):
        # all kinds once with a seed before the seed moves on
        kind, seed = kinds[number % len(kinds)], first + number // len(kinds)
        for task in TaskMaker(make_site(kind, seed)).tasks(1, seed):
            yield task.contract()


def _care(world: str, first: int, only: Sequence[str]) -> Iterator[TaskSpec]:
    surface = world.partition("/")[2]
    names = _families([name for name in CARE_FAMILIES if name.startswith(surface)], only, "care families")
    for case in cases(first, 10_000, names):
        yield case.contract()


def _miniwob(first: int, only: Sequence[str]) -> Iterator[TaskSpec]:
    """A page has its instruction only once it is loaded, so one is open meanwhile."""

    pages = _families(sorted(SCRIPTED_PAGES), only, "MiniWoB++ pages")
    with open_miniwob_world() as world:
        for number in range(10_000):
            page = pages[number % len(pages)]
            yield miniwob_contract(world, page, first + number // len(pages), MINIWOB_STEPS)


def miniwob_contract(world: Any, page: str, seed: int, steps: int) -> TaskSpec:
    """The task that a MiniWoB++ page sets with a seed, taking about so many actions. The page is loaded in `world`,
    where it stays: only then it has its instruction. Raises `WorldError`."""
    start = {"world": "miniwob", "task": page, "seed": seed}
    world.reset(start)
    # line breaks of the page are layout
    goal = " ".join(world.utterance()[0].split())
    rule = {"rule": "miniwob_raw_reward", "at_least": MINIWOB_REWARD}
    return TaskSpec(goal, "web", f"miniwob/{page}", start, rule, steps, (page,))


MINIWOB_STEPS = 5
"""Actions that are allowed for by the limit of steps (twice that and five more): most pages take fewer."""
