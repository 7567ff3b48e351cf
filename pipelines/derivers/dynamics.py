"""How screens follow from actions, both ways round: which action led there, and which screen comes next.

Inverse: two screens up to `FARTHEST` steps apart → the first action on the way (`transitions` has the pairs one step
apart, of gold). The steps between are all right ones, and no screen comes back, so the action is one that leads there.
Half of them, by a hash, are tasks of offline RL in the form that its rewards read; the rest train mid-training.
Forward: a screen and an action → the picture that comes next, among others of the run; of failures, too, since what an
action does is true whether or not it was wise.
Sources: UIShift (k-step inverse dynamics, trained by RL with a rule's reward); the forward form is ours.
"""

from collections.abc import Iterator

from pipelines.derivers.base import unit_hash
from pipelines.derivers.trajectory import JudgedTrajectory, TrajectorySample, trajectory_sample
from pipelines.prompts import TRANSITION_QUESTION, navigation_text, reply_text
from schemas.action_types import Wait
from schemas.actions import Action, render
from schemas.rows import StepRow

VERSION = 1
FARTHEST = 3
CHOICES = 3
"""Pictures to choose from at most: the one that comes next, and others of the run."""
RL_SHARE = 0.5
Look = tuple[object, ...]
Transition = tuple[StepRow, StepRow, Action]
Made = Iterator[TrajectorySample | None]


def dynamics(run: JudgedTrajectory) -> Iterator[TrajectorySample]:
    """`first_action` and `next_screen` of a run, step by step."""
    yield from filter(None, _first_actions(run))
    yield from filter(None, _next_screens(run))


def look(run: JudgedTrajectory, row: StepRow) -> Look:
    """What tells a screen from another: its elements, or where it has none its picture. A cursor that blinks or a field
    that has the focus makes another picture, but no other screen."""
    shown = tuple((e.box, e.role, e.name, e.label) for e in run.shown(row))
    return shown or (row["screenshot_sha256"],)


def _first_actions(run: JudgedTrajectory) -> Made:
    """One pair of screens for each step that may begin one, so far apart as a hash decides."""
    seed, transitions = run.facts.config.seed, run.transitions()
    for place, (first, _, action) in enumerate(transitions):
        key = first["episode_id"], first["step_index"]
        apart = 1 + int(unit_hash(seed, "apart", *key) * FARTHEST)
        part = transitions[place : place + apart]
        if len(part) < apart or not _leads(run, part):
            continue
        rows, step = [first, part[-1][1]], first["step_index"]
        rl = run.verdict.decision != "rough" and unit_hash(seed, "dynamics of", *key) < RL_SHARE
        if rl:
            goal = f"Come from the first screen to the second, {apart} {'step' if apart == 1 else 'steps'} away."
            text = navigation_text(goal, [], version=run.facts.config.history.prompt)
            answer = reply_text(action, first["platform"])
            yield trajectory_sample(
                run, rows, "first_action", "offline_rl", VERSION, text, answer, objective="navigation", at=step
            )
        else:
            many = f"{apart} actions lead from the first screen to the second. Which one comes first?"
            text, answer = TRANSITION_QUESTION if apart == 1 else many, render(action, first["platform"])
            yield trajectory_sample(run, rows, "first_action", "mid_training", VERSION, text, answer, at=step)


def _leads(run: JudgedTrajectory, part: list[Transition]) -> bool:
    """Whether right steps without a gap or a wait lead over screens none of which comes back."""
    numbers = [before["step_index"] for before, _, _ in part]
    looks = [look(run, part[0][0]), *(look(run, after) for _, after, _ in part)]
    return (
        numbers == list(range(numbers[0], numbers[0] + len(part)))
        and all(run.verdict.allows(number) for number in numbers)
        and not any(isinstance(action, Wait) for _, _, action in part)
        and len(set(looks)) == len(looks)
    )


def _next_screens(run: JudgedTrajectory) -> Made:
    """The screen before and up to `CHOICES` pictures → the number of the one that an action leads to."""
    seed = run.facts.config.seed
    first_shown: dict[Look, StepRow] = {}
    for row in run.steps:
        if (row["screenshot_sha256"] or "") in run.facts.sizes:
            first_shown.setdefault(look(run, row), row)
    for before, after, action in run.transitions():
        key = before["episode_id"], before["step_index"]
        others = [row for seen, row in first_shown.items() if seen != look(run, after)]
        if isinstance(action, Wait) or not others:
            continue
        others.sort(key=lambda row: unit_hash(seed, "other", *key, row["step_index"]))
        choices = [after, *others[: CHOICES - 1]]
        choices.sort(key=lambda row: unit_hash(seed, "order", *key, row["step_index"]))
        question = (
            f"On the first screen this is done: {render(action, before['platform'])}\n"
            f"Which of the {len(choices)} screens after it comes next? Answer with its number."
        )
        answer = str(choices.index(after) + 1)
        yield trajectory_sample(
            run, [before, *choices], "next_screen", "mid_training", VERSION, question, answer, at=before["step_index"]
        )
