"""Proposers: knowledge and a quota → new tasks. The embedded ones need no model.

- `static`: the functional map of the target's kind; needs no knowledge of the target.
- `dynamic`: the same functions about things whose names were on the target's screens.
- `reverse`: what recorded walks achieved, described in reverse (`generators.generation.proposing.reverse_tasks`).
- a model (`openai_proposer`), with verified trajectories in its context.
- `coverage`, only where it is named: functions that nothing has shown before those that something has.
- `documents`, only where it is named: what programs' man pages say, tried on a desktop (`document_proposer`).

Which of them proposes, and which of its ideas, follows the catalogue: arms by their record, ideas by their chance.
Without a catalogue that learned anything (the first round, or the ablation) only `static` can say something, and all
ideas count alike.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from random import Random
from typing import Protocol

from generators.generation.proposing.catalogue import PRIOR, Catalogue
from generators.generation.proposing.reverse_tasks import Writer, synthesise
from generators.generation.task_worlds.task_world import Idea, TaskWorld
from generators.tasks.strata import stratum as strata_of
from generators.tasks.task_spec import TaskSpec
from pipelines.extensions import find_part
from schemas.ids import canonical_json

LOOK = 24
"""Ideas that are drawn to choose one from."""
EXPLORE = 0.1
"""Share of tasks that are drawn without asking the catalogue: what it holds for hopeless is tried now and then."""
MISSES = 30
"""Draws in a row that gave no task of the stratum, after which a target has none."""
JOINED = {"easy": (1, 1, 1, 2), "medium": (2, 2, 3), "hard": (3, 4, 5, 6)}
"""How many ideas a task of a stratum joins."""
WALKS = 40
"""Walks that are described in reverse, a target and round."""


@dataclass(frozen=True)
class Proposal:
    """A contract with where it came from. `chance` = what the catalogue gave it."""

    contract: TaskSpec
    arm: str
    ideas: tuple[Idea, ...] = ()
    chance: float = PRIOR

    def as_row(self) -> dict[str, object]:
        """A row of the table `proposals`."""
        return {
            "task_id": self.contract.task_id,
            "arm": self.arm,
            "chance": round(self.chance, 6),
            "ideas": canonical_json([asdict(idea) for idea in self.ideas]),
        }


class Proposer(Protocol):
    """Endless proposals of one stratum for a target; ends when it has nothing (more) to say."""

    arm: str
    """Its name in what it proposes, and in the figures."""

    def propose(self, target: str, stratum: str, rng: Random) -> Iterator[Proposal]: ...


class StaticProposer:
    """Ideas of the functional map, the likeliest of a few draws."""

    arm = "static"

    def __init__(self, task_world: TaskWorld, catalogue: Catalogue) -> None:
        self.task_world, self.catalogue = task_world, catalogue

    def _ideas(self, target: str, rng: Random) -> Iterator[Idea]:
        return self.task_world.ideas(target, rng)

    def propose(self, target: str, stratum: str, rng: Random) -> Iterator[Proposal]:
        ideas, misses = self._ideas(target, rng), 0
        while misses < MISSES:
            drawn = list(islice(ideas, LOOK))
            if not drawn:
                return
            count = rng.choice(JOINED[stratum]) if self.task_world.joins else 1
            if not self.task_world.joins:
                # Where ideas can't be joined, length is the only way to a stratum; any idea if none has it.
                drawn = [idea for idea in drawn if strata_of(idea.steps) == stratum] or drawn
            # what the catalogue holds for hopeless would otherwise never be tried again
            if not self.catalogue.tallies or rng.random() < EXPLORE:
                chosen = _different(drawn, count)
            else:
                # Ties keep the drawn order, which is random and reproducible.
                order = sorted(range(len(drawn)), key=lambda n: (-self.catalogue.chance([drawn[n]]), n))
                chosen = _different([drawn[n] for n in order], count)
            contract = self.task_world.contract(chosen, rng)
            if contract is None or contract.stratum != stratum:
                # Joined steps fell into another stratum; after `MISSES` of these the target has none of it.
                misses += 1
                continue
            misses = 0
            yield Proposal(contract, self.arm, tuple(chosen), self.catalogue.chance(chosen))


def _different(ideas: Sequence[Idea], count: int) -> list[Idea]:
    """The first `count` ideas that differ in function or thing."""
    found: dict[tuple[str, str], Idea] = {}
    for idea in ideas:
        found.setdefault((idea.function, idea.thing), idea)
    return list(found.values())[:count]


class DynamicProposer(StaticProposer):
    """Ideas about things that were seen on the target's screens, borne by elements as things of verified tasks are."""

    arm = "dynamic"
    learns = True

    def _ideas(self, target: str, rng: Random) -> Iterator[Idea]:
        known, misses = self.catalogue.roles, 0
        # Endless, so misses in a row end it: no thing here is borne the way that worked.
        for idea in self.task_world.about(target, self.catalogue.things(self.task_world, target), rng):
            if idea.role in known.get(idea.function, ()):
                misses = 0
                yield idea
            elif (misses := misses + 1) > LOOK * MISSES:
                return


class CoverageProposer:
    """Functions that no verified task has shown first, of those the ones proposed least in this round (after OmegaUse,
    which picks the leaves of a taxonomy with the fewest executable tasks), then those whose preconditions were shown.
    A task is of one idea: one of several shows none of them when it fails."""

    arm = "coverage"

    def __init__(self, task_world: TaskWorld, catalogue: Catalogue) -> None:
        self.task_world, self.catalogue = task_world, catalogue
        self._proposed: Counter[tuple[str, str]] = Counter()

    def propose(self, target: str, stratum: str, rng: Random) -> Iterator[Proposal]:
        ideas, drawn = self.task_world.ideas(target, rng), list[Idea]()
        while True:
            # enough draws that every function of a large map is among them; on a phone each takes milliseconds to make,
            # so what isn't proposed now stays for the next
            drawn += islice(ideas, LOOK * 8 - len(drawn))
            drawn.sort(key=self._rank)
            made = ((place, self.task_world.contract([idea], rng)) for place, idea in enumerate(drawn))
            fits = ((place, task) for place, task in made if task is not None and task.stratum == stratum)
            if (found := next(fits, None)) is None:
                return
            place, contract = found
            idea = drawn[place]
            del drawn[: place + 1]  # those before it are of another stratum
            self._proposed[target, idea.function] += 1
            yield Proposal(contract, self.arm, (idea,), self.catalogue.chance([idea]))

    def _rank(self, idea: Idea) -> tuple[bool, int, bool, float]:
        shown = idea.function in self.catalogue.verified.get(idea.target, ())
        waits = not self.catalogue.ready(self.task_world, idea.target, idea.function)
        return shown, self._proposed[idea.target, idea.function], waits, -self.catalogue.chance([idea])


class ReverseProposer:
    """What walks over a target's known screens achieved (OS-Genesis, GUI-ReWalk), in the words of `writer` (None: the
    embedded one). Each was walked again, so its path is known; only task worlds whose world needs no device have it.
    """

    arm = "reverse"
    learns = True

    def __init__(self, task_world: TaskWorld, catalogue: Catalogue, writer: Writer | None = None) -> None:
        self.task_world, self.catalogue, self.writer = task_world, catalogue, writer
        self._written: dict[str, list[TaskSpec]] = {}

    def propose(self, target: str, stratum: str, rng: Random) -> Iterator[Proposal]:
        # a target is walked again once a round, for all strata
        if target not in self._written:
            self._written[target] = self._write(target, rng)
        arm = self.catalogue.arms.get(self.arm)
        chance = arm.mean(PRIOR) if arm else PRIOR
        # Its ideas are unknown to the catalogue, so the arm's record is all the chance there is.
        for contract in self._written[target]:
            if contract.stratum == stratum:
                yield Proposal(contract, self.arm, (), chance)

    def _write(self, target: str, rng: Random) -> list[TaskSpec]:
        world, known = self.task_world.offline(), self.catalogue.explorations.get(target)
        if world is None or known is None or not known.screens:
            return []
        report = synthesise(
            world,
            known,
            target=target,
            site=_name(target),
            count=WALKS,
            seed=rng.randrange(1 << 30),
            writer=self.writer,
            # Whether a path counts is the task world's to say: not every screen reached is an achievement.
            passing=lambda path: self.task_world.passing(target, path),
        )
        # From the target's real start: the walk was made in an offline copy.
        return [replace(task.contract(), initial_state=self.task_world.start(target)) for task in report.tasks]


def _name(target: str) -> str:
    return " ".join(part for part in target.split("/")[1:] if not part.isdigit()) or target


ProposerMaker = Callable[[TaskWorld, Catalogue], Proposer]
PROPOSERS: dict[str, ProposerMaker] = {"static": StaticProposer, "dynamic": DynamicProposer, "reverse": ReverseProposer}
"""The embedded proposers. One with a true `learns` has something to say only after a round."""
BY_NAME: dict[str, ProposerMaker | str] = {
    "coverage": CoverageProposer,
    # by its path: it loads what only a desktop needs
    "documents": "generators.generation.proposing.document_proposer:DocumentProposer",
}
"""Embedded ones that propose only where they are named."""


def arms(
    task_world: TaskWorld, catalogue: Catalogue, writer: Writer | None = None, names: Sequence[str] = ()
) -> dict[str, Proposer]:
    """The proposers of these names (those of `PROPOSERS`, if none is named) that have something to say, by arm.
    `writer` is the reverse one's. Raises `ValueError` for an unknown name, and for two of one arm."""
    known: dict[str, ProposerMaker | str] = {**PROPOSERS, **BY_NAME, "reverse": partial(ReverseProposer, writer=writer)}
    found: dict[str, Proposer] = {}
    for name in names or PROPOSERS:
        listed = find_part("proposer", name, known)
        make: ProposerMaker = find_part("proposer", listed, {}) if isinstance(listed, str) else listed
        proposer = make(task_world, catalogue)
        if proposer.arm in found:
            raise ValueError(f"proposer {name}: its arm {proposer.arm!r:.40} is taken; choose another")
        # Before any round there are no names and no walks; such a proposer would only miss.
        if catalogue.names or not getattr(proposer, "learns", False):
            found[proposer.arm] = proposer
    return found
