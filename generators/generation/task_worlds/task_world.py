"""Where tasks are proposed: a family of targets (sites, phones) that are alike but hold different things.

A task world says what people usually want of its kind of target (the functional map), turns ideas into executable task
specs, and knows, apart from all that, the truth: whether a contract can be done and whether it was. Proposers never ask
for the truth; figures do. A new one is one file and an entry in `registry.TASK_WORLDS`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import World


@dataclass(frozen=True)
class Idea:
    """One thing to do on one target, that nobody has checked.

    `function` names the capability ("shop/add"), `thing` what it is about ("" = nothing of its own), `steps` how many
    steps it takes (0: only the task spec says). `arm` = the proposer, `basis` = what it rests on: "elsewhere" (other
    targets have such a thing), "seen" (its name was on this target's screens), "none" (it needs no thing).
    """

    target: str
    function: str
    text: str
    steps: int
    thing: str = ""
    arm: str = "static"
    basis: str = "elsewhere"
    role: str = ""
    """Role of the element that bore the thing's name, where it was seen."""
    key: str = ""
    """Of the task world alone: enough to make the task spec."""


@dataclass(frozen=True)
class Name:
    """A name that can be clicked, seen on a target."""

    text: str
    role: str


class TaskWorld(Protocol):
    """See the module. Everything is deterministic by the arguments. What has a body here may be left out by a class
    that names this one as its base."""

    name: str
    platform: str
    """Of its targets, one of `schemas.tables.PLATFORMS`."""
    targets: tuple[str, ...]
    joins: bool
    """Whether a contract may join several ideas."""

    def functions(self, target: str) -> tuple[str, ...]:
        """The functional map of a target: what its kind usually offers, known before anybody looked."""
        ...

    def needs(self, target: str, function: str) -> tuple[str, ...]:
        """Preconditions of a function: those that every known way to it does first, elsewhere. None where each task
        begins with all that it needs."""
        return ()

    def ideas(self, target: str, rng: Random) -> Iterator[Idea]:
        """Endless ideas from the functional map alone."""
        ...

    def about(self, target: str, names: Sequence[Name], rng: Random) -> Iterator[Idea]:
        """Endless ideas about things whose names were seen on the target; none where names say nothing."""
        return iter(())

    def contract(self, ideas: Sequence[Idea], rng: Random) -> TaskSpec | None:
        """One task of several ideas for one target; None if they can't be said in one (they contradict)."""
        ...

    def shortest(self, contract: TaskSpec) -> int | None:
        """Truth: length of the shortest known path that does the task; None where it can't be done. Nothing is known of
        a contract without a rule (`task_spec.has_rule`): don't ask."""
        ...

    def true(self, contract: TaskSpec, end_state: Mapping[str, object], answer: str) -> bool:
        """Truth: whether the task was done, and nothing besides that nobody asked for. Of contracts with a rule, as
        `shortest`."""
        ...

    def start(self, target: str) -> dict[str, object]:
        """`initial_state` of a target's tasks."""
        ...

    def offline(self) -> World | None:
        """Its world without a device, to walk again what was walked; None if it has none."""
        return None

    def passing(self, target: str, path: str) -> bool:
        """Whether a path of the state passes by itself (`generators.generation.proposing.reverse_tasks.Passing`)."""
        return False
