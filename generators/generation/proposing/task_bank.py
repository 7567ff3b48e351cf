"""The task bank: every task that was ever admitted, no two alike; the gate that a proposal has to pass first; and how
a round fills it.

A task q' is kept iff its largest cosine similarity to the bank and to the task pool is below epsilon (UI-Venus-1.5,
section 2.3): greedy in the order of proposal.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

from generators.generation.proposing.catalogue import PRIOR, Catalogue
from generators.generation.proposing.proposers import Proposal, Proposer
from generators.generation.task_worlds.task_world import TaskWorld
from generators.tasks.strata import STRATA
from generators.tasks.task_spec import TaskSpec, has_rule
from generators.tasks.world_interface import World, WorldError
from generators.worlds.evaluators import holds
from quality.duplicates.same_text import DistinctTexts
from quality.evidence.embedding import Embedder

LONGEST = 600
SHORTEST = 8
LEAST_SHARE = 0.1
"""Share of the tasks of an arm that has something to say."""
TRIES = 60
"""Draws for each task wanted, after which a stratum is given up for this round."""


class TaskBank(DistinctTexts):
    """Instructions with their vectors; grows by `admit_all`."""

    def __init__(self, embedder: Embedder, epsilon: float, texts: Sequence[str] = ()) -> None:
        if not 0 < epsilon <= 1:
            raise ValueError(f"task bank: expected 0 < epsilon <= 1, found {epsilon!r}")
        super().__init__(embedder, epsilon, texts)


def gate(contract: TaskSpec, targets: Sequence[str], world: World | None) -> str:
    """Why a proposal is no executable contract; "" if it is one.

    With a `world` (one without a device, such as the interpreter) its start is tried and its evaluator read there: a
    goal that holds before anything was done asks for nothing.
    """
    # Only the executable is admitted; the same gate holds for rules, recorded walks and models.
    text = " ".join(contract.instruction.split())
    if text != contract.instruction or not SHORTEST <= len(text) <= LONGEST:
        return "instruction: not one line of fitting length"
    if contract.target not in targets:
        return "target: unknown"
    try:
        # Parsing happens on access and raises for a state that no world reads.
        contract.world  # noqa: B018 - raises
        if world is not None:
            world.reset(contract.initial_state)
            # A goal that holds already would be verified without a policy.
            if has_rule(contract.evaluator) and holds(contract.evaluator, world.state()):
                return "evaluator: holds at the start"
    except (WorldError, ValueError, KeyError) as error:
        return f"contract: {str(error)[:100]}"
    return ""


# --- filling it
@dataclass(frozen=True)
class Rejected:
    """A proposal that was not admitted, and why."""

    instruction: str
    target: str
    arm: str
    reason: str


@dataclass
class Proposed:
    """What a round's proposing came to. `short`: stratum → tasks that were wanted and not found."""

    proposals: list[Proposal] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    short: Counter[str] = field(default_factory=Counter)


def shares(catalogue: Catalogue, names: list[str]) -> dict[str, float]:
    """Share of the tasks each arm gets: as the square of its estimated yield, none below `LEAST_SHARE`."""
    # Squared, so that a clearly better arm gets clearly more without silencing the others.
    value = {name: (catalogue.arms[name].mean(PRIOR) if name in catalogue.arms else PRIOR) ** 2 for name in names}
    whole = sum(value.values())
    # The floor keeps every arm's record fresh; then all are scaled to sum to 1.
    raised = {name: max(LEAST_SHARE, value[name] / whole) for name in names}
    return {name: share / sum(raised.values()) for name, share in raised.items()}


def propose(
    task_world: TaskWorld,
    catalogue: Catalogue,
    bank: TaskBank,
    quotas: Mapping[str, int],
    seed: int,
    proposers: Mapping[str, Proposer],
) -> Proposed:
    """New tasks, `quotas[stratum]` of each stratum: targets in turn, arms by their share; each passed the gate and is
    like no task of the bank, which takes it in. Deterministic by all arguments (a model's proposer aside)."""
    found, rng = Proposed(), Random(f"propose/{task_world.name}/{seed}")
    # one draw for all strata: each goes on where the targets' turn stood
    draw = _Draw(task_world, proposers, shares(catalogue, list(proposers)), seed, rng)
    for stratum in STRATA:
        wanted = quotas.get(stratum, 0)
        # A bound on draws: a stratum that no target offers mustn't keep the round going for ever.
        made, left = 0, TRIES * wanted
        while made < wanted and left > 0:
            block: list[Proposal] = []
            # In blocks as large as what is still missing, so that similarity is computed for many at once.
            while len(block) < wanted - made and left > 0:
                left -= 1
                proposal = draw.next(stratum)
                why = "" if proposal is None else gate(proposal.contract, task_world.targets, draw.world)
                if proposal is not None and why:
                    found.rejected.append(_rejected(proposal, why))
                elif proposal is not None:
                    block.append(proposal)
            # In order of proposal: of two alike in one block the earlier one is kept.
            answers = bank.admit_all([proposal.contract.instruction for proposal in block])
            for proposal, (new, value, other) in zip(block, answers, strict=True):
                if new:
                    found.proposals.append(proposal)
                    made += 1
                else:
                    found.rejected.append(_rejected(proposal, f"duplicate: {value:.3f} to {other[:80]!r}"))
        if made < wanted:
            found.short[stratum] = wanted - made
    return found


def _rejected(proposal: Proposal, why: str) -> Rejected:
    return Rejected(proposal.contract.instruction, proposal.contract.target, proposal.arm, why)


class _Draw:
    """Proposals one by one: targets in turn, an arm by its share."""

    def __init__(
        self,
        task_world: TaskWorld,
        proposers: Mapping[str, Proposer],
        weights: Mapping[str, float],
        seed: int,
        rng: Random,
    ) -> None:
        self.world = task_world.offline()
        self._proposers, self._weights, self._seed, self._rng = proposers, weights, seed, rng
        self._targets = list(task_world.targets)
        # Shuffled once: the targets' turn differs from round to round, and no stratum begins at the same one.
        rng.shuffle(self._targets)
        self._turn = 0
        self._running: dict[tuple[str, str, str], Iterator[Proposal]] = {}

    def next(self, stratum: str) -> Proposal | None:
        """None where the arm has nothing (more) to say of the target."""
        target = self._targets[self._turn % len(self._targets)]
        self._turn += 1
        # Drawn before asking whether the arm has more: the shares hold for
        # attempts, and the stream doesn't depend on answers.
        arm = self._rng.choices(list(self._weights), list(self._weights.values()))[0]
        key = (arm, target, stratum)
        if key not in self._running:
            # Its own generator, so that adding a proposer doesn't change what others draw.
            own = Random(f"{self._seed}/{'/'.join(key)}")
            self._running[key] = self._proposers[arm].propose(target, stratum, own)
        return next(self._running[key], None)
