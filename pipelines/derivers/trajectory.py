"""Samples of whole trajectories, failures included: what a deriver is given, what it returns, what is accepted of it.

A deriver gets the steps with their screens and one verdict on the run: score, decision, located wrong steps. The law is
enforced where samples are accepted (`refusal`), whatever a deriver does: an action is taught only where it was right.
Sources: Step-GUI (one verdict a run, all kinds of samples but actions from failures), UI-TARS-2 (rough runs train
mid-training only).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Literal

from pipelines.derivers.base import DerivedSample, Episode, IndexedElement, ScreenFacts, step_candidate
from pipelines.derivers.navigation import answered, with_step
from pipelines.prompts import reply_text
from schemas.action_types import CallUser, Finished
from schemas.actions import WIDEST, Action, parse, parse_reply, render
from schemas.ids import item_episode, item_step
from schemas.rows import StepRow

Decision = Literal["success", "rough", "failure"]
Stage = Literal["mid_training", "offline_rl", "judge_training"]
STAGES: tuple[Stage, ...] = ("mid_training", "offline_rl", "judge_training")
RL_OBJECTIVES = ("grounding", "navigation")
"""Objectives whose rows offline RL draws from the corpus; those of mid-training alone have others."""


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The verdict on a run. `score` 0 to 10; the keys of all mappings, and `wrong`, are step indexes.

    `wrong`: steps located as wrong, None where nobody looked. `right`: step → the action that would have been right
    there; `undo`: step → one action that brings back the state before it. Both as action text, both confirmed by replay
    in the world. `trusted`: whether a rule of the world decided, rather than annotators or limits of steps.
    """

    score: float
    decision: Decision
    trusted: bool = False
    wrong: frozenset[int] | None = None
    right: Mapping[int, str] = field(default_factory=dict)
    undo: Mapping[int, str] = field(default_factory=dict)

    @property
    def first_error(self) -> int | None:
        """The first wrong step; None if there is none, or nobody looked."""
        return min(self.wrong, default=None) if self.wrong is not None else None

    def allows(self, step: int) -> bool:
        """Whether the action that was done at a step may be taught as right."""
        if self.decision == "failure":
            # Of a failure only what came before its first error is known to be right.
            return self.first_error is not None and step < self.first_error
        return step not in (self.wrong or ())


@dataclass(frozen=True)
class JudgedTrajectory:
    """A run: rows of its steps in order, its verdict, and what is known of its screens. `elements`: sha256 → those of
    the picture, without such that have no box."""

    steps: Episode
    verdict: RunVerdict
    facts: ScreenFacts
    elements: Mapping[str, tuple[IndexedElement, ...]]

    @property
    def item_id(self) -> str:
        """`episode:<source>/<episode_id>`."""
        return item_episode(self.steps[0]["source"], self.steps[0]["episode_id"])

    def shown(self, row: StepRow) -> tuple[IndexedElement, ...]:
        """The elements on a step's screen; none where it has no picture."""
        return self.elements.get(row["screenshot_sha256"] or "", ())

    def transitions(self) -> list[tuple[StepRow, StepRow, Action]]:
        """(step, the step after it, its action) wherever both have a picture and nothing is missing between."""
        found: list[tuple[StepRow, StepRow, Action]] = []
        for before, after in pairwise(self.steps):
            # A step that is missing would make two screens look like cause and effect.
            whole = after["step_index"] == before["step_index"] + 1 and before["action_text"] is not None
            if whole and all((row["screenshot_sha256"] or "") in self.facts.sizes for row in (before, after)):
                action = parse(before["action_text"] or "")
                # What ends a run or asks leaves the screen as it is.
                if not isinstance(action, Finished | CallUser):
                    found.append((before, after, action))
        return found


@dataclass(frozen=True, slots=True)
class TrajectorySample:
    """A sample with its kind (`progress`, `effect`, `action`, …) and the stage of training that it is for. An answer
    that is an action is one of the step that `sample.step_index` names."""

    sample: DerivedSample
    kind: str
    stage: Stage


@dataclass(frozen=True, slots=True)
class TrajectoryDeriver:
    """A deriver of a whole trajectory. As a decorator it makes one of a function."""

    derive: Callable[[JudgedTrajectory], Iterable[TrajectorySample]]


def trajectory_sample(
    run: JudgedTrajectory,
    rows: Episode,
    kind: str,
    stage: Stage,
    version: int,
    text: str,
    answer: str,
    k: int = 0,
    objective: str = "vqa",
    at: int | None = None,
) -> TrajectorySample | None:
    """A sample that shows the screens of `rows` (at least one), keyed by the step `at` or else by the last of them;
    None if one has no picture.

    The kind is the deriver's name in the sample's id, so two samples of one kind and step need different `k`."""
    sizes = [run.facts.sizes.get(row["screenshot_sha256"] or "") for row in rows]
    known = [size for size in sizes if size is not None]
    # With one picture missing the others would show something else.
    if len(known) < len(sizes):
        return None
    one = step_candidate(rows[-1], known[-1], objective, kind, version, text, answer)
    parents = tuple(item_step(row["source"], row["episode_id"], row["step_index"]) for row in rows)
    shas = tuple(row["screenshot_sha256"] or "" for row in rows)
    step = rows[-1]["step_index"] if at is None else at
    # The trajectory first, so that whatever is withdrawn is found by it.
    whole = replace(one, k=k, step_index=step, images=shas, sizes_px=tuple(known), parents=(run.item_id, *parents))
    return TrajectorySample(whole, kind, stage)


def action_sample(
    run: JudgedTrajectory, row: StepRow, kind: str, version: int, text: str, action: Action
) -> TrajectorySample | None:
    """A step with the action that is right there, for offline RL; of a rough run as a question of mid-training, which
    RL draws no task from."""
    reply = reply_text(action, row["platform"])
    if run.verdict.decision == "rough":
        return trajectory_sample(run, [row], kind, "mid_training", version, text, reply)
    return trajectory_sample(run, [row], kind, "offline_rl", version, text, reply, objective="navigation")


def histories(run: JudgedTrajectory) -> Iterator[tuple[StepRow, list[tuple[int, str]]]]:
    """Each step with the history that a prompt shows there (see `navigation.with_step`), as the run made it."""
    history: list[tuple[int, str]] = []
    for row in run.steps:
        history = answered(history, row) or []
        yield row, history
        if row["action_text"] is not None:
            history = with_step(history, row, parse(row["action_text"]), run.facts.config.history)


def refusal(run: JudgedTrajectory, made: TrajectorySample) -> str:
    """Why a sample isn't accepted; "" if it is.

    No action of a failure is taught as right, but for steps before its located first error and for what replay has
    confirmed; no located wrong step of any run is. Rough runs train neither policies by RL nor anything but
    mid-training and judges. A sample is for one stage.
    """
    sample, verdict = made.sample, run.verdict
    first = run.steps[0]
    # A deriver that mixes runs would hide what a row was made from.
    if (sample.source, sample.episode_id) != (first["source"], first["episode_id"]):
        return "of another trajectory"
    if not made.kind or made.stage not in STAGES or not sample.answer.strip():
        return "without kind, stage or answer"
    # RL draws its tasks from these objectives, so a sample of another stage mustn't have one.
    if made.stage != "judge_training" and (made.stage == "offline_rl") != (sample.objective in RL_OBJECTIVES):
        return "for two stages"
    if verdict.decision == "rough" and made.stage == "offline_rl":
        return "a rough run's, for RL"
    action = parse_reply(sample.answer, WIDEST).action
    if action is None:
        return "an answer that can't be read" if sample.objective == "navigation" else ""
    return "" if _right(run, sample.step_index, action) else f"an action of a {verdict.decision} that may be wrong"


def _right(run: JudgedTrajectory, step: int, action: Action) -> bool:
    """Whether an action is known to be right at a step: as recorded, as corrected, or as undoing the step before."""
    verdict = run.verdict
    known = {verdict.right.get(step), verdict.undo.get(step - 1)}
    if verdict.allows(step):
        known |= {row["action_text"] for row in run.steps if row["step_index"] == step}
    platform = run.steps[0]["platform"]
    # as training text says it: a phone's Scroll gets points there that the step may not have
    return any(
        text is not None and parse_reply(render(parse(text), platform), WIDEST).action == action for text in known
    )
