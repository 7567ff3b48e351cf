"""Who votes on a trajectory's outcome: the world's rule, the project's judges, and evidence from the UI tree.

An annotator sees what was shown and done, never the policy's claim that it has finished. One that can't judge abstains
(`outcome` None) and says why. Add one: a class with `name` and `vote`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from generators.generation.tables import episode_of
from generators.tasks.trajectory import ExecutedTrajectory, ExecutedTurn
from generators.worlds.evaluators import holds as rule_holds
from quality.evidence.episode import Habits
from quality.evidence.goal import left_unconfirmed
from quality.evidence.words import entities, held_by_any
from quality.items.item import Episode
from quality.items.screens import ScreenSource
from quality.judges.judge import KEEP_FROM, REWRITE_FROM, Judge
from quality.model_client.errors import ModelError
from schemas.action_types import CallUser, Launch, Type
from schemas.actions import Action
from schemas.coordinates import contains

Outcome = Literal["completed", "partial", "infeasible", "failed"]
LAST_SCREENS = 2
"""Screens at the end on which a goal's words may show what was reached."""
# a share of the frame of 1000 x 1000
CONTAINER = 0.3
"""Larger elements, as a share of the screen, are containers: a click in one isn't a click on it."""


@dataclass(frozen=True, slots=True)
class OutcomeVote:
    """`outcome` None: no vote, for that reason. `confidence` in 0..1."""

    annotator: str
    outcome: Outcome | None
    reason: str
    confidence: float = 0.0


class Annotator(Protocol):
    """Deterministic by the trajectory unless a live model stands behind it."""

    name: str

    def vote(self, done: ExecutedTrajectory) -> OutcomeVote:
        """A vote on a trajectory that no infrastructure failure has cut."""
        ...


class WorldRule:
    """The contract's own rule on the world's truth, where the device reported it."""

    name = "world"

    def vote(self, done: ExecutedTrajectory) -> OutcomeVote:
        if not done.end_state:
            return OutcomeVote(self.name, None, "the device tells no state")
        try:
            held = rule_holds(done.contract.evaluator, done.end_state, done.answer)
        except ValueError as error:
            return OutcomeVote(self.name, None, str(error)[:200])
        if not held:
            return OutcomeVote(self.name, "failed", "the end state doesn't meet the task's rule", 1.0)
        if done.contract.evaluator.get("feasible") is False:
            return OutcomeVote(self.name, "infeasible", "it can't be done, and that was said", 1.0)
        return OutcomeVote(self.name, "completed", "the end state meets the task's rule", 1.0)


class JudgeAnnotator:
    """One of the project's judges (`quality.judges.registry.build_judge`) over the trajectory as an episode.

    Its scores lead where they do everywhere: 7 and more completed, 4 to 6 partial, less failed. A judge whose server
    fails gives no vote.
    """

    def __init__(self, judge: Judge, screens: ScreenSource) -> None:
        self.name = f"judge/{judge.name}"
        self._judge, self._screens = judge, screens

    def vote(self, done: ExecutedTrajectory) -> OutcomeVote:
        episode = episode_of(done, self._screens)
        if episode is None or not episode.actions:
            return OutcomeVote(self.name, "failed", "nothing was done", 1.0)
        try:
            verdict = self._judge.judge([episode], habits=Habits(ends_with_finish=True))[0]
        except ModelError as error:
            return OutcomeVote(self.name, None, f"no verdict: {error}"[:300])
        if verdict.score is None:
            return OutcomeVote(self.name, None, verdict.reason[:300] or "the judge abstained")
        # where scores lead everywhere (docs/method.md §3)
        outcome: Outcome = (
            "completed" if verdict.score >= KEEP_FROM else "partial" if verdict.score >= REWRITE_FROM else "failed"
        )
        return OutcomeVote(self.name, outcome, f"score {verdict.score}: {verdict.reason}"[:300], verdict.confidence)


def watched(name: str, done: ExecutedTrajectory, screens: ScreenSource) -> Episode | OutcomeVote:
    """A trajectory as the episode in which evidence is looked for; the vote that ends the search where there is none:
    the device tells no elements, or nothing was done."""
    if not any(turn.elements for turn in done.turns):
        return OutcomeVote(name, None, "the device tells no elements")
    episode = episode_of(done, screens)
    if episode is None or not episode.actions:
        return OutcomeVote(name, "failed", "nothing was done", 1.0)
    return episode


class TreeEvidence:
    """Whether what the goal names (quoted texts, addresses, numbers, names) shows on what was clicked or typed, in the
    answer, or on the last screens. What shows on every screen, such as a site's own name, proves nothing and is left
    out; a form that was filled in and not sent is `partial`.

    Can't see: goals in words that no screen shows, whether what is shown was reached by the right means, and anything
    on devices that list no elements.
    """

    name = "tree"
    # how much it tells to meet such a thing: a quoted text hardly stands anywhere by chance
    _WEIGHTS: Mapping[str, float] = {"quoted": 0.9, "address": 0.8, "number": 0.6, "name": 0.5}

    def __init__(self, screens: ScreenSource) -> None:
        self._screens = screens

    def vote(self, done: ExecutedTrajectory) -> OutcomeVote:
        episode = watched(self.name, done, self._screens)
        if isinstance(episode, OutcomeVote):
            return episode
        goal = done.contract.instruction
        # a site's own name is met by doing nothing at all
        named = [entity for entity in entities(goal) if entity.kind in self._WEIGHTS and not _always(done, entity.text)]
        if not named:
            return OutcomeVote(self.name, None, "the goal names nothing that could be looked for")
        texts = seen_texts(done)
        missing = [entity for entity in named if not held_by_any(texts, entity.text)]
        # of what wasn't met, if anything wasn't: one surely missing thing decides
        weight = max(self._WEIGHTS[entity.kind] for entity in (missing or named))
        if missing:
            listed = ", ".join(repr(entity.text[:40]) for entity in missing[:3])
            outcome: Outcome = "failed" if len(missing) == len(named) else "partial"
            return OutcomeVote(self.name, outcome, f"never met: {listed}", weight)
        unsent = left_unconfirmed(episode)
        if unsent is not None and unsent.cap < KEEP_FROM:
            return OutcomeVote(self.name, "partial", f"{unsent.kind}: {unsent.reason}"[:300], 0.5)
        return OutcomeVote(self.name, "completed", f"all {len(named)} things the goal names were met", weight)


def _always(done: ExecutedTrajectory, text: str) -> bool:
    """Whether a text shows on every screen of a trajectory that has several."""
    screens = {turn.screenshot_sha256: turn.elements for turn in done.turns}
    return len(screens) > 1 and all(
        held_by_any((part for element in elements for part in (element["text"], element["name"])), text)
        for elements in screens.values()
    )


def seen_texts(done: ExecutedTrajectory) -> list[str]:
    """Texts of all that was clicked, typed, launched or answered, and of the last screens."""
    texts = []
    for turn in done.turns:
        if turn.action is None or turn.error:
            continue
        texts += _told_by(turn.action)
        point = getattr(turn.action, "box", None)
        if point is not None:
            # what was clicked is read off the elements below the point, the small ones alone
            texts += [text for element in _under(turn, point) for text in (element["text"], element["name"])]
    shown: Sequence[ExecutedTurn] = (*done.turns, *([done.end] if done.end is not None else ()))
    for turn in shown[-LAST_SCREENS:]:
        texts += [text for element in turn.elements for text in (element["text"], element["name"])]
    return [text for text in texts if text]


def _told_by(action: Action) -> list[str]:
    if isinstance(action, Type | CallUser):
        return [action.content]
    return [action.app or action.url] if isinstance(action, Launch) else []


def _under(turn: ExecutedTurn, point: tuple[int, int]) -> list[Mapping[str, Any]]:
    found = []
    for element in turn.elements:
        left, top, right, bottom = element["box"]
        small = (right - left) * (bottom - top) <= CONTAINER * 1e6
        if small and contains(element["box"], point):
            found.append(element)
    return found
