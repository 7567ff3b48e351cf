"""Two reviewers of each step, and what flows back from them: candidates for gold, and data for judges.

MagicGUI-RMS: a specialist that knows the rules of interfaces rules on a step and, where it refuses, may name the right
action; a generalist that reads the whole task sees that ruling and arbitrates.

| specialist | generalist | what becomes of the step |
|---|---|---|
| accepts | accepts | `accepted`: a candidate for gold as it is |
| refuses, names an action | refuses, and accepts that action | `corrected`: a candidate for gold with that action |
| refuses | refuses | `refused` |
| one accepts, the other doesn't | | `disputed`: never gold, but what judges can learn from |

The embedded specialist is the rules with their proofs, and the thought where there is one; the generalist is any judge,
which scores the corrected step as it scores others. Neither sees the truth: two that err alike accept alike.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from quality.evidence.consistency import check_thought
from quality.evidence.episode import Habits
from quality.items.item import Episode, Row, Step, make_episode
from quality.judges.judge import KEEP_FROM, Judge
from quality.judges.orders import without_orders
from quality.judges.rules import axis_score, look_at_episode, objections
from quality.refinement.reconstruct import reconstruct_step
from quality.refinement.repairs import marked, with_action
from schemas.actions import Action, parse

Outcome = Literal["accepted", "corrected", "refused", "disputed"]
OUTCOMES: tuple[Outcome, ...] = ("accepted", "corrected", "refused", "disputed")
REPAIR = "dual_review"
"""Name of the repair in a corrected step's provenance."""


@dataclass(frozen=True, slots=True)
class StepRuling:
    """What a reviewer says of a step; `corrected`: the action that it holds for right, where it refuses and knows."""

    accepted: bool
    reason: str
    corrected: Action | None = None


class StepReviewer(Protocol):
    """Rules on single steps. `earlier` is the ruling of the reviewer before, None for the first."""

    name: str

    def review(self, episode: Episode, step: Step, earlier: StepRuling | None = None) -> StepRuling:
        """The ruling on a step. A generalist that accepts the earlier correction returns it as its own."""
        ...


@dataclass(frozen=True, slots=True)
class DualRuling:
    """A step with both rulings and what becomes of it."""

    step: Step
    specialist: StepRuling
    generalist: StepRuling

    @property
    def outcome(self) -> Outcome:
        """See the module's table."""
        one, two = self.specialist, self.generalist
        if one.accepted != two.accepted:
            return "disputed"
        if one.accepted:
            return "accepted"
        agreed = one.corrected is not None and two.corrected == one.corrected
        return "corrected" if agreed else "refused"

    @property
    def candidate(self) -> Row | None:
        """The row for gold: as it is, or with the action both hold for right and where that came from; None for what
        is refused or disputed."""
        if self.outcome == "accepted":
            return self.step.row
        if self.outcome != "corrected" or self.specialist.corrected is None:
            return None
        return marked(with_action(self.step.row, self.specialist.corrected), self.step.item_id, REPAIR, 1)

    def as_dispute(self) -> dict[str, object]:
        """What a judge can learn from, as plain data: both rulings on the step."""
        return {
            "item_id": self.step.item_id,
            "specialist": {"accepted": self.specialist.accepted, "reason": self.specialist.reason},
            "generalist": {"accepted": self.generalist.accepted, "reason": self.generalist.reason},
        }


def dual_review(
    episodes: Iterable[Episode], specialist: StepReviewer, generalist: StepReviewer
) -> Iterator[DualRuling]:
    """Both rulings on every step that acts, in order."""
    for episode in episodes:
        for step in episode.actions:
            first = specialist.review(episode, step)
            yield DualRuling(step, first, generalist.review(episode, step, first))


def outcomes_of(rulings: Sequence[DualRuling]) -> dict[str, int]:
    """How many steps came to each outcome."""
    counts = Counter(one.outcome for one in rulings)
    return {name: counts[name] for name in OUTCOMES}


class RulesReviewer:
    """The embedded specialist: evidence of the rules judge and of the thought, with the action that they prove."""

    name = "rules"

    def __init__(self, habits: Habits | None = None) -> None:
        self._habits = habits or Habits()

    def review(self, episode: Episode, step: Step, earlier: StepRuling | None = None) -> StepRuling:
        """See `StepReviewer.review`; what went before doesn't move it."""
        findings = look_at_episode(episode, self._habits).steps[step.item_id]
        score = axis_score(findings)
        if score < KEEP_FROM:
            against = objections(findings)
            built = reconstruct_step(step, findings)
            row = built[1] if built is not None else None
            # a repair may concern the screen instead; only another action is a correction
            changed = row is not None and row["action_text"] != step.row["action_text"]
            corrected = parse(row["action_text"]) if changed and row is not None else None
            return StepRuling(False, f"{against[0].kind}: {against[0].reason}", corrected)
        if step.row["thought"] and step.action is not None:
            elements = step.screen.elements if step.screen is not None else ()
            found = check_thought(without_orders(step.row["thought"]), step.action, elements)
            if found.agrees is False:
                return StepRuling(False, f"thought_contradicts: {found.reason}", found.implied)
        return StepRuling(True, f"score {score}")


class JudgeReviewer:
    """Any judge as the generalist: it scores the step in its episode, and a correction in the step's place."""

    def __init__(self, judge: Judge, habits: Habits | None = None) -> None:
        self.name, self._judge, self._habits = judge.name, judge, habits or Habits()
        self._scored: tuple[Episode | None, dict[str, tuple[int | None, str]]] = (None, {})

    def review(self, episode: Episode, step: Step, earlier: StepRuling | None = None) -> StepRuling:
        """See `StepReviewer.review`. Raises `ModelError` as the judge does. What it abstains on isn't
        accepted."""
        if self._scored[0] is not episode:
            self._scored = (episode, self._scores(episode))
        score, reason = self._scored[1][step.item_id]
        if score is not None and score >= KEEP_FROM:
            return StepRuling(True, reason)
        proposed = earlier.corrected if earlier is not None else None
        if proposed is None:
            return StepRuling(False, reason)
        rows = [with_action(one.row, proposed) if one is step else one.row for one in episode.steps]
        again, why = self._scores(make_episode(rows, episode.bank)).get(step.item_id, (None, reason))
        passes = again is not None and again >= KEEP_FROM
        return StepRuling(False, f"{reason}; corrected: {why}", proposed if passes else None)

    def _scores(self, episode: Episode) -> dict[str, tuple[int | None, str]]:
        """item id → (alignment, reason) of the episode's steps."""
        judged = self._judge.judge([episode], habits=self._habits)
        return {one.item_id: (one.alignment, one.reason) for one in judged}
