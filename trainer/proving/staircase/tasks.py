"""The tasks that the staircase may stand on: families by world, an episode a seed, and the oracle of each.

A family ("miniwob/click-link", "phone/notes.pin", "fsm/issues/close") is what the bootstrap draws whole; its episodes
are contracts, one a seed, and splits take their seeds from ranges that never meet. Worlds are opened in the style that
nano can read: MiniWoB++ at two pixels a CSS pixel, the phone and the sites on a screen of 320 x 448.

Add a world: an entry in `WORLDS`.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from random import Random
from typing import Any, cast

from generators.execution.device_pool import LocalPool
from generators.policies.oracles.fsm_oracle import FsmOracle
from generators.policies.oracles.miniwob_oracle import RULES, MiniwobOracle
from generators.policies.oracles.oracle import Oracle
from generators.policies.oracles.plan_oracles import PhoneOracle
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import World, WorldError
from generators.worlds.fsm.fsm_tasks import TaskMaker
from generators.worlds.fsm.sites import make_site
from generators.worlds.fsm.transfer import function_of
from generators.worlds.phone.phone_tasks import make_task
from generators.worlds.registry import open_world
from trainer.suites.world_tasks import STYLES, miniwob_contract

SPLIT_SEEDS = {
    "train": 1_000_000,
    "validation": 2_000_000,
    "test": 3_000_000,
    "oracle": 4_000_000,
    "blind": 5_000_000,
    "seen": 6_000_000,
    "unseen": 7_000_000,
}
"""First episode seed of each split; `oracle` and `blind` are those of the measurement, `seen` those of the pages that
nano-base learned to see, `unseen` those of its gate."""
MOST_EPISODES = 900_000
STEPS = (4, 8)
"""Least and most actions of a phone or FSM task: long enough for a trace to fail late."""
NANO = STYLES["nano"]
MOST_MISSED = 120
"""Seeds in a row without an episode, after which a family has none: not every phone or page carries its task."""
FAMILY = "family:"
"""How the capability begins that names a contract's family."""


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of task. `held_out`: its pages are shown in no training row, only in the grounding test."""

    name: str
    held_out: bool = False

    @property
    def world(self) -> str:
        return self.name.partition("/")[0]

    @property
    def kind(self) -> str:
        return self.name.partition("/")[2]


@dataclass(frozen=True)
class StaircaseWorld:
    """A world of the staircase. `families` in the order in which they are preferred; `episode` is None where a seed has
    none; `oracle` does the task of a contract in the open world. `undoes`: an oracle that follows a plan can't find
    back by itself, so a slip is undone and its advice taken again (`performing`)."""

    platform: str
    open: Callable[[], AbstractContextManager[World]]
    families: Callable[[], list[Family]]
    episode: Callable[[Family, int, World], TaskSpec | None]
    oracle: Callable[[TaskSpec, World], Oracle]
    undoes: bool = False


_FAMILIES: dict[str, list[str]] = json.loads(Path(__file__).with_name("families.json").read_text("utf-8"))
"""In the order in which they are preferred."""
MINIWOB_HELD_OUT = frozenset(_FAMILIES["miniwob_held_out"])
"""Pages kept for the grounding test: a table solves these tasks blind, or they are too like one that it does."""
PHONE_HELD_OUT = ("clock.", "shop.")
"""Families of these apps are left out: their pages are the phone's held-out ones."""
FSM_HELD_OUT = ("tickets", "survey", "forum")


# --- MiniWoB++ --------------------------------------------------------------------------------------------------------
def _miniwob_families() -> list[Family]:
    return [Family(f"miniwob/{name}", name in MINIWOB_HELD_OUT) for name in RULES]


def _miniwob_oracle(contract: TaskSpec, world: World) -> Oracle:
    return MiniwobOracle(cast(Any, world))


def _miniwob_episode(family: Family, seed: int, world: World) -> TaskSpec | None:
    """None where the page's rule finds nothing to begin with."""
    contract = miniwob_contract(world, family.kind, seed, MINIWOB_STEPS.get(family.kind, 2))
    oracle = _miniwob_oracle(contract, world)
    oracle.begin(contract)
    return contract if oracle.next(world.observe().elements, world.state(), None).action is not None else None


_BY_STEPS = {
    2: "click-option",
    3: "enter-text click-tab-2 click-tab-2-hard social-media read-table enter-text-2 enter-text-dynamic",
    4: "click-checkboxes choose-list form-sequence-2 click-collapsible-2-nodelay phone-book click-checkboxes-transfer",
    5: "enter-password login-user search-engine email-inbox-forward email-inbox-reply",
}
MINIWOB_STEPS = {kind: steps for steps, kinds in _BY_STEPS.items() for kind in kinds.split()}
"""Actions that a page usually takes (Finished aside), where they are more than two at most."""


# --- the phone --------------------------------------------------------------------------------------------------------
def _phone_families() -> list[Family]:
    return [Family(f"phone/{name}", name.startswith(PHONE_HELD_OUT)) for name in _FAMILIES["phone"]]


def _phone_oracle(contract: TaskSpec, world: World) -> Oracle:
    return PhoneOracle()


def _phone_episode(family: Family, seed: int, world: World) -> TaskSpec | None:
    task = make_task(family.kind, seed)
    if task is None or not task.feasible or not STEPS[0] <= task.expected_steps <= STEPS[1]:
        return None
    return task.contract()


# --- sites ------------------------------------------------------------------------------------------------------------
def _fsm_families() -> list[Family]:
    return [Family(f"fsm/{name}", name.partition("/")[0] in FSM_HELD_OUT) for name in _FAMILIES["fsm"]]


def _fsm_oracle(contract: TaskSpec, world: World) -> Oracle:
    return FsmOracle()


@lru_cache(maxsize=64)
def _maker(kind: str, seed: int) -> Any:
    return TaskMaker(make_site(kind, seed))


def _fsm_episode(family: Family, seed: int, world: World) -> TaskSpec | None:
    """One goal of the family on the site of a seed."""

    site, _, function = family.kind.partition("/")
    maker = _maker(site, seed)
    # The function of a goal names its family within the site.
    goals = [goal for goal in maker.site.goals if function_of(goal) == function]
    rng = Random(f"staircase/{family.name}/{seed}")
    task = maker.single(rng.choice(goals), rng) if goals else None
    return task.contract() if task and STEPS[0] <= task.expected_steps <= STEPS[1] else None


# --- all of them ------------------------------------------------------------------------------------------------------
WORLDS: dict[str, StaircaseWorld] = {
    "miniwob": StaircaseWorld(
        "web", partial(open_world, "miniwob", **NANO["miniwob"]), _miniwob_families, _miniwob_episode, _miniwob_oracle
    ),
    "fsm": StaircaseWorld("web", partial(open_world, "fsm", **NANO["fsm"]), _fsm_families, _fsm_episode, _fsm_oracle),
    "phone": StaircaseWorld(
        "mobile",
        partial(open_world, "phone", **NANO["phone"]),
        _phone_families,
        _phone_episode,
        _phone_oracle,
        undoes=True,
    ),
}


def staircase_world(world: str) -> StaircaseWorld:
    """A world of the staircase. Raises `ValueError` for one that has none."""
    if world not in WORLDS:
        raise ValueError(f"staircase: expected a world of {', '.join(WORLDS)}, found {world!r:.60}")
    return WORLDS[world]


def worlds_of(platform: str) -> tuple[str, ...]:
    """The worlds of a platform. Raises `ValueError` for a platform without any."""
    found = tuple(name for name, one in WORLDS.items() if one.platform == platform)
    if not found:
        known = ", ".join(sorted({one.platform for one in WORLDS.values()}))
        raise ValueError(f"staircase: expected a platform of {known}, found {platform!r:.40}")
    return found


def open_nano(world: str) -> AbstractContextManager[World]:
    """A world in nano's style. Raises `ValueError` for one that has none."""
    return staircase_world(world).open()


def nano_pool(most: int | None = None) -> LocalPool:
    """All worlds of the staircase on this machine, in nano's style: pages, so that idle ones cost nothing."""
    return LocalPool({name: one.open for name, one in WORLDS.items()}, most, keeps_idle=True)


def candidates(worlds: tuple[str, ...]) -> list[Family]:
    """Every family that may be chosen or whose pages are held out, in the order in which they are preferred."""
    return [family for world in worlds for family in staircase_world(world).families()]


def family_of(contract: TaskSpec) -> str:
    """Name of the family that a contract is an episode of. Raises `ValueError` for one of no family."""
    found = next((name for name in contract.capabilities if name.startswith(FAMILY)), "")
    if not found:
        raise ValueError(f"staircase: {contract.task_id} is an episode of no family: {list(contract.capabilities)}")
    return found.removeprefix(FAMILY)


def oracle_of(contract: TaskSpec, world: World) -> Oracle:
    """The oracle of a contract in a world that is open."""
    return staircase_world(contract.world).oracle(contract, world)


def episode(family: Family, seed: int, world: World) -> TaskSpec | None:
    """The episode of a seed, under its family's name; None where that page, phone or site has none that its oracle can
    begin."""
    made = staircase_world(family.world).episode(family, seed, world)
    return made and replace(made, capabilities=(*made.capabilities, f"{FAMILY}{family.name}"))


def episodes(family: Family, split: str, world: World, first: int = 0) -> Iterator[tuple[int, TaskSpec]]:
    """(number, contract) of a split, without end; numbers without an episode are passed over.

    Raises `ValueError` for a family that has none in `MOST_MISSED` seeds in a row.
    """
    missed = 0
    for number in range(first, MOST_EPISODES):
        try:
            # The split's range and the number: no two splits share a seed.
            found = episode(family, SPLIT_SEEDS[split] + number, world)
        except WorldError:
            found = None
        if found is None:
            missed += 1
            if missed >= MOST_MISSED:
                raise ValueError(f"staircase: {family.name} has no episode in {missed} seeds up to {number}")
            continue
        missed = 0
        yield number, found
