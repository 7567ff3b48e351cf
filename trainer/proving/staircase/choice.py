"""Which tasks the staircase stands on, chosen by measurement: no one can guess them, and an oracle does them.

Measured of a family: the success of its oracle on `oracle_episodes` seeds, and that of the blind table made from
those very episodes on `blind_episodes` others. Chosen are, in the order of `tasks.candidates`, those with an oracle of
at least `least_oracle` and a blind prior of at most `most_blind`, up to `most` a world; then episodes are drawn for
every split. Each family's measurement is a file, so a run that was killed goes on; `tasks.json` is the whole, under a
digest of what was measured.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from generators.policies.episode import PlayedEpisode, run_episode
from generators.policies.policy import Policy
from generators.policies.scripted_agent import ScriptedAgent
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import World, WorldError
from generators.worlds.evaluators import holds
from pipelines.whole_files import put_json
from schemas.ids import digest
from schemas.settings import Number, Settings, Whole, setting
from trainer.proving.staircase.blind import BlindActions, BlindPolicy
from trainer.proving.staircase.tasks import WORLDS, Family, candidates, episodes, open_nano, oracle_of, staircase_world
from trainer.runtime.tracking import OnEvent

TASKS = "tasks.json"
CODE_VERSION = "1"
"""Of what decides the measurement; raise it when the same config must be measured anew."""
MOST_STEPS = 24
Count = Annotated[Whole, Field(ge=1)]


class ChoiceConfig(Settings):
    """What is measured, and what is chosen by it; see the module."""

    worlds: tuple[str, ...] = setting(("miniwob", "fsm"), "Worlds whose families are candidates.")
    families: tuple[str, ...] = setting((), "Families to look at; none: all.")
    oracle_episodes: Whole = setting(40, "Episodes of a family that its scripted policy plays.", ge=1)
    blind_episodes: Whole = setting(30, "Episodes of a family that the blind table plays.", ge=1)
    least_oracle: Number = setting(0.95, "Success of the scripted policy from which on a family can be chosen.")
    most_blind: Number = setting(0.3, "Success of the blind table up to which it can be.")
    most: dict[str, Whole] = setting({"miniwob": 16, "phone": 8, "fsm": 6}, "Families chosen at most, by world.")
    episodes: dict[str, Count] = setting(
        {"train": 40, "validation": 8, "test": 8}, "Task specs that are drawn of a chosen family, by split."
    )

    @model_validator(mode="after")
    def _known_worlds(self) -> Self:
        if unknown := sorted({*self.worlds, *self.most} - set(WORLDS)):
            raise ValueError(f"unknown worlds {unknown}; known are {', '.join(WORLDS)}")
        return self


@dataclass(frozen=True)
class ChosenTasks:
    """What was chosen: `contracts` by split, `measured` a row a family (chosen or not), `digest` of it all."""

    measured: tuple[Mapping[str, Any], ...]
    contracts: Mapping[str, tuple[tuple[str, TaskSpec], ...]]
    digest: str

    def families(self, *worlds: str) -> list[str]:
        """Names of the chosen families, those of some worlds alone where any are named."""
        return [row["family"] for row in self.measured if row["chosen"] and (not worlds or row["world"] in worlds)]

    def of(self, split: str, *worlds: str, each: int | None = None) -> list[tuple[str, TaskSpec]]:
        """(family, contract) of a split, the first `each` of every family."""
        taken: dict[str, int] = {}
        found = []
        for family, contract in self.contracts[split]:
            if worlds and contract.world not in worlds:
                continue
            taken[family] = taken.get(family, 0) + 1
            if each is None or taken[family] <= each:
                found.append((family, contract))
        return found

    def held_out(self, *worlds: str) -> list[Family]:
        """Families whose pages no training row shows."""
        named = [Family(row["family"], True) for row in self.measured if row["held_out"]]
        return [family for family in named if not worlds or family.world in worlds]


class OpenWorlds:
    """Worlds in nano's style, opened when first asked for and closed together at the end of a `with`."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._open: dict[str, World] = {}

    def __enter__(self) -> "OpenWorlds":
        return self

    def __exit__(self, *error: object) -> None:
        self._open.clear()
        self._stack.close()

    def __call__(self, name: str) -> World:
        if name not in self._open:
            self._open[name] = self._stack.enter_context(open_nano(name))
        return self._open[name]


def attempt(world: World, policy: Policy, contract: TaskSpec) -> tuple[bool, PlayedEpisode | None]:
    """(whether the task is done at the end, the episode); an episode that the world can't go through isn't done."""
    try:
        found = run_episode(world, policy, contract.instruction, contract.initial_state, 0, MOST_STEPS)
    except WorldError:
        return False, None
    # The rule says what was reached; an unreadable reply ends an episode that may stand there by accident.
    return holds(contract.evaluator, found.end_state, found.answer) and found.ended != "unreadable", found


def oracle_agent(contract: TaskSpec, world: World) -> ScriptedAgent:
    """A policy that takes the oracle's advice, without errors and without looking around."""
    return ScriptedAgent(oracle_of(contract, world), contract, world.state, explore_turns=0)


def measure_family(family: Family, world: World, config: ChoiceConfig) -> dict[str, object]:
    """A row of the measurement: success of the oracle and of the blind table, and how long the episodes are.

    Of a family that is held out nothing is measured: it can't be chosen."""
    untried = _untried(family)
    if family.held_out:
        return untried
    table, done, lengths = BlindActions(), 0, []
    for _, contract in islice(episodes(family, "oracle", world), config.oracle_episodes):
        good, found = attempt(world, oracle_agent(contract, world), contract)
        done += good
        if good and found is not None:
            table.add(family.name, contract.instruction, found.actions)
            lengths.append(len(found.actions))
    guessed = 0
    for _, contract in islice(episodes(family, "blind", world), config.blind_episodes):
        guessed += attempt(world, BlindPolicy(table, family.name), contract)[0]
    return {
        **untried,
        "oracle": done / config.oracle_episodes,
        "oracle_episodes": config.oracle_episodes,
        "blind": guessed / config.blind_episodes,
        "blind_episodes": config.blind_episodes,
        "actions": sum(lengths) / len(lengths) if lengths else None,
    }


def _untried(family: Family) -> dict[str, Any]:
    """The row of a family of which nothing was measured."""
    return {
        "family": family.name,
        "world": family.world,
        "platform": staircase_world(family.world).platform,
        "held_out": family.held_out,
        "oracle": None,
        "oracle_episodes": 0,
        "blind": None,
        "blind_episodes": 0,
        "actions": None,
    }


def _enough(rows: Sequence[Mapping[str, object]], world: str, config: ChoiceConfig) -> bool:
    """Whether as many families of a world are chosen as may be, so that no more need be measured."""
    chosen = sum(row["chosen"] for row in choose(rows, config) if row["world"] == world)
    return chosen >= config.most.get(world, 0)


def choose(rows: Sequence[Mapping[str, Any]], config: ChoiceConfig) -> list[dict[str, Any]]:
    """Rows with `chosen` and, where it isn't, `why`."""
    taken: dict[str, int] = {}
    found = []
    for row in rows:
        why = ""
        if row["held_out"]:
            why = "its pages are held out"
        elif row["oracle"] is None:
            why = "enough of its world"
        elif row["oracle"] < config.least_oracle:
            why = f"oracle below {config.least_oracle}"
        elif row["blind"] > config.most_blind:
            why = f"blind prior above {config.most_blind}"
        elif taken.get(row["world"], 0) >= config.most.get(row["world"], 0):
            why = "enough of its world"
        else:
            taken[row["world"]] = taken.get(row["world"], 0) + 1
        found.append({**row, "chosen": not why, "why": why})
    return found


def choose_tasks(folder: str | Path, config: ChoiceConfig, on_event: OnEvent | None = None) -> ChosenTasks:
    """Measure, choose and draw, or go on with what lies in `folder`; a `tasks.json` of this config is read as it is.

    Raises `ValueError` for an unknown family, and where nothing can be chosen.
    """
    folder, emit = Path(folder), on_event or (lambda event: None)
    identity = digest([CODE_VERSION, config.plain()])
    if (folder / TASKS).is_file():
        found = read_tasks(folder)
        if _identity(folder) == identity:
            return found
    known = candidates(config.worlds)
    if unknown := sorted(set(config.families) - {family.name for family in known}):
        raise ValueError(f"staircase: no families {unknown}; known are {', '.join(family.name for family in known)}")
    wanted = [family for family in known if not config.families or family.name in config.families]
    with OpenWorlds() as worlds:
        measured: list[dict[str, Any]] = []
        for family in wanted:
            if not family.held_out and _enough(measured, family.world, config):
                measured.append(_untried(family))
                continue
            measure = partial(_measured, family, worlds, config)
            row = _part(folder / "measured", identity, family.name, measure)
            measured.append(row)
            emit({"kind": "measured", **row})
        rows = choose(measured, config)
        if not any(row["chosen"] for row in rows):
            raise ValueError(
                f"staircase: none of {len(rows)} families has an oracle >= {config.least_oracle} and a "
                f"blind prior <= {config.most_blind}"
            )
        drawn: dict[str, list[list[Any]]] = {split: [] for split in config.episodes}
        for row in rows:
            if row["chosen"]:
                family = Family(row["family"])
                draw = partial(_drawn, family, worlds, config)
                part = _part(folder / "drawn", identity, family.name, draw)
                for split, contracts in part.items():
                    drawn[split] += [[family.name, contract] for contract in contracts]
                emit({"kind": "drawn", "family": family.name})
    body = {"measured": rows, "contracts": drawn, "identity": identity, "config": config.plain()}
    put_json(folder / TASKS, {**body, "digest": digest(body)})
    return read_tasks(folder)


def _measured(family: Family, worlds: OpenWorlds, config: ChoiceConfig) -> dict[str, Any]:
    return measure_family(family, worlds(family.world), config)


def _drawn(family: Family, worlds: OpenWorlds, config: ChoiceConfig) -> dict[str, Any]:
    world = worlds(family.world)
    return {
        split: [contract.as_row() for _, contract in islice(episodes(family, split, world), count)]
        for split, count in config.episodes.items()
    }


def read_tasks(folder: str | Path) -> ChosenTasks:
    """The choice that lies in a folder. Raises `ValueError` for none, or one that isn't under its digest."""
    path = Path(folder) / TASKS
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        recorded = body.pop("digest")
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"staircase: expected a choice of tasks in {TASKS}, found {error}; run `choose`") from error
    if digest(body) != recorded:
        raise ValueError(f"staircase: {TASKS} isn't what its digest {recorded[:12]} says; measure anew")
    contracts = {
        split: tuple((family, TaskSpec.from_row(row)) for family, row in found)
        for split, found in body["contracts"].items()
    }
    return ChosenTasks(tuple(body["measured"]), contracts, recorded)


def _identity(folder: Path) -> str:
    found: str = json.loads((folder / TASKS).read_text(encoding="utf-8"))["identity"]
    return found


def _part(folder: Path, identity: str, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What a file of this name and identity holds; made and written where there is none."""
    path = folder / f"{name.replace('/', '.')}-{digest([identity, name])[:12]}.json"
    if path.is_file():
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found
    made = make()
    put_json(path, made)
    return made
