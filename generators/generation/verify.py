"""Whether a trajectory is verified: rules first, then the votes of several annotators; every refusal has a reason.

1. Infrastructure failures say nothing: no vote, no outcome.
2. Rules over the turns: ended by a limit, abnormally short, repeated invalid actions, a loop, nothing changed.
3. Annotators vote (`generators.generation.annotators`). Where the world's rule can be read it must hold, and the
   majority of the others mustn't find a failure with confidence; where it can't, the majority must find it done.

   An annotator named "process" (`process_annotator`) is a gate before both: what it finds undone or never done isn't
   verified, whatever the others see on the last screen.

The policy's own claim counts nowhere. Source: UI-Venus-1.5 (filters before people) and 2 (outcomes, votes).
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from generators.generation.annotators import Annotator, Outcome, OutcomeVote
from generators.tasks.trajectory import ExecutedTrajectory, FailureKind
from schemas.action_types import CallUser, Finished, Wait
from schemas.actions import format

ORDER: tuple[Outcome, ...] = ("failed", "partial", "infeasible", "completed")
"""Of two outcomes with equal votes the first counts."""
DONE: tuple[Outcome, ...] = ("completed", "infeasible")
GATE = "process"
"""The annotator whose refusal decides by itself (`process_annotator.ProcessAnnotator`)."""


@dataclass(frozen=True, slots=True)
class VerifyConfig:
    """`world`: whether the world's rule "must" hold where it can be read, is one vote like the others ("counts"), or is
    left out ("hidden": for worlds whose truth only measures). `confident`: from where on a vote against counts.
    `least_share` of the expected steps, `invalid` refused or unreadable turns in all and `repeats` of one action on one
    screen are the rules' limits. `least_votes`: fewer decide nothing where the world's rule doesn't."""

    world: Literal["must", "counts", "hidden"] = "must"
    confident: float = 0.5
    least_share: float = 0.5
    invalid: int = 3
    repeats: int = 3
    least_votes: int = 1

    def __post_init__(self) -> None:
        if self.world not in ("must", "counts", "hidden"):
            raise ValueError(f"verify: expected world to be must, counts or hidden, found {self.world!r:.40}")
        if not 0 <= self.confident <= 1 or not 0 <= self.least_share <= 1:
            raise ValueError("verify: expected confident and least_share in 0..1")
        if self.invalid < 1 or self.repeats < 2 or self.least_votes < 1:
            raise ValueError("verify: expected invalid and least_votes of 1 or more, repeats of 2 or more")


@dataclass(frozen=True, slots=True)
class TrajectoryVerdict:
    """`outcome` None: nobody can say. `reason` begins with the filter that decided: "infrastructure", "rules/...",
    "process", "world", "votes". `failure_kind` None: verified, or undecided (annotators think it done, but not enough
    of them)."""

    trajectory_id: str
    verified: bool
    outcome: Outcome | None
    reason: str
    failure_kind: FailureKind | None = None
    votes: tuple[OutcomeVote, ...] = ()

    @property
    def decided(self) -> bool:
        """Whether the outcome may be stated as a fact: it was verified, or failed."""
        return self.verified or self.failure_kind == "task"


class Verifier:
    """Verdicts by a set of annotators. An annotator named "world" is the world's rule (`annotators.WorldRule`)."""

    def __init__(self, annotators: Sequence[Annotator], config: VerifyConfig | None = None) -> None:
        names = [annotator.name for annotator in annotators]
        if len(set(names)) < len(names):
            raise ValueError(f"verify: expected each annotator once, found {names}")
        self.config = config or VerifyConfig()
        hidden = self.config.world == "hidden"
        # Hidden: the truth is kept for measuring and must not help the verdict that it measures.
        self._annotators = [one for one in annotators if not (hidden and one.name == "world")]

    def verify(self, done: ExecutedTrajectory) -> TrajectoryVerdict:
        """The verdict on a trajectory."""
        # No votes: annotators would judge a screen that a dead device left behind.
        if done.failure_kind == "infrastructure":
            reason = f"infrastructure: {done.failure}"
            return TrajectoryVerdict(done.trajectory_id, False, None, reason, "infrastructure")
        # Rules before votes: they cost nothing, and no majority talks a loop or a limit away.
        if found := broken_rule(done, self.config):
            return TrajectoryVerdict(done.trajectory_id, False, "failed", f"rules/{found[0]}: {found[1]}", "task")
        votes = tuple(annotator.vote(done) for annotator in self._annotators)
        outcome, verified, reason = decide(votes, self.config)
        kind: FailureKind | None = None if outcome is None or outcome in DONE else "task"
        return TrajectoryVerdict(done.trajectory_id, verified, outcome, reason, kind, votes)


def broken_rule(done: ExecutedTrajectory, config: VerifyConfig) -> tuple[str, str] | None:
    """(the rule, why) of the first rule that a trajectory breaks; None if it keeps them all."""
    contract, turns = done.contract, done.turns
    # A limit ended it: whatever is on screen, the policy didn't know that it was done.
    if done.ended not in ("finished", "asked"):
        return done.ended, done.failure or "it didn't end by itself"
    if done.failure:
        return "obeyed", done.failure
    acts = [turn for turn in turns if turn.action is not None and not turn.error]
    worked = [turn for turn in acts if not isinstance(turn.action, Finished | CallUser)]
    # Expected steps are estimates, so only a share of them is demanded, at least one action.
    least = max(1, math.ceil(config.least_share * contract.expected_steps))
    if done.ended == "finished" and len(worked) < least:
        return "short", f"finished after {len(worked)} actions, {contract.expected_steps} were expected"
    # In all and not in a row: an agent that is refused every second turn isn't one to imitate.
    idle = [turn for turn in turns if turn.action is None or turn.error]
    if len(idle) >= config.invalid:
        return "invalid", f"{len(idle)} replies that couldn't be read or carried out: {idle[-1].error}"[:200]
    again = Counter(
        (turn.screenshot_sha256, format(turn.action))
        for turn in worked
        # Waiting twice on one screen is patience and no loop.
        if turn.action is not None and not isinstance(turn.action, Wait)
    )
    (_, text), count = max(again.items(), key=lambda item: item[1], default=(("", ""), 0))
    if count >= config.repeats:
        return "loop", f"{text[:80]} {count} times on one screen"
    # An answer may be read off the first screen: with CallUser or an unfinished end this rule says nothing.
    screens = {turn.screenshot_sha256 for turn in (*turns, *([done.end] if done.end else ()))}
    if done.ended == "finished" and len(screens) == 1:
        return "unchanged", "no screen differs from the first"
    return None


def decide(votes: Sequence[OutcomeVote], config: VerifyConfig) -> tuple[Outcome | None, bool, str]:
    """(outcome, whether it is verified, reason) of votes; see the module."""
    # Abstentions have no weight; they are only counted against `least_votes`.
    cast = [vote for vote in votes if vote.outcome is not None]
    gate = next((vote for vote in cast if vote.annotator == GATE), None)
    if gate is not None and gate.outcome not in DONE and gate.confidence >= config.confident:
        return gate.outcome, False, f"{GATE}: {gate.reason}"
    world = next((vote for vote in cast if vote.annotator == "world"), None)
    if config.world == "must" and world is not None:
        others = [vote for vote in cast if vote is not world]
        if world.outcome not in DONE:
            return world.outcome, False, f"world: {world.reason}"
        # A doubt below `confident` doesn't overrule a rule that was read from the world's state.
        against = [vote for vote in others if vote.outcome == "failed" and vote.confidence >= config.confident]
        # More than half of the others: a tie leaves the world's word standing.
        if 2 * len(against) > len(others):
            return "failed", False, "votes: " + _said(against)
        return world.outcome, True, f"world: {world.reason}"
    if len(cast) < config.least_votes:
        why = "; ".join(f"{vote.annotator}: {vote.reason}" for vote in votes)[:300]
        return (
            None,
            False,
            f"votes: {len(cast)} of {len(votes)} annotators could tell, {config.least_votes} are needed; {why}",
        )
    weights: Counter[Outcome] = Counter()
    for vote in cast:
        if vote.outcome is not None:
            weights[vote.outcome] += 1
    # Most votes first; of equal ones the more pessimistic, so that doubt never becomes training data.
    outcome = min(weights, key=lambda one: (-weights[one], ORDER.index(one)))
    against = [vote for vote in cast if vote.outcome not in DONE and vote.confidence >= config.confident]
    # Verified needs a majority for done and no confident half against it.
    verified = outcome in DONE and 2 * sum(weights[one] for one in DONE) > len(cast) and 2 * len(against) < len(cast)
    return outcome, verified, "votes: " + _said([vote for vote in cast if vote.outcome == outcome])


def _said(votes: Sequence[OutcomeVote]) -> str:
    return "; ".join(f"{vote.annotator} says {vote.outcome}: {vote.reason}" for vote in votes)[:400]
