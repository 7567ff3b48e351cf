"""Reflection on what was done: did this step do that, which action undoes it, and trying again after a mistake.

Verification asks of two screens and a purpose whether the step between them did it. A purpose that it did is its own,
where the screen shows that something came of it. One that it didn't is what would have been right at a wrong step
(replay showed that it leads elsewhere), or that of another step whose effect isn't on the second screen. Reversals are
steps that replay has undone. Trying again shows the screen of a mistake that was taken back, with both in the history.
Source: GUI-Reflection (action verification, action reversal, mistake-informed reattempt), without its models.
"""

from collections.abc import Iterator

from pipelines.derivers.base import unit_hash
from pipelines.derivers.navigation import with_step
from pipelines.derivers.step_data import new_names, purpose
from pipelines.derivers.trajectory import (
    JudgedTrajectory,
    TrajectorySample,
    action_sample,
    histories,
    trajectory_sample,
)
from pipelines.prompts import navigation_text
from schemas.action_types import Click, Scroll
from schemas.actions import Action, parse, render
from schemas.rows import StepRow

VERSION = 1
REVERSAL_QUESTION = "Which action leads from the second screen back to the first?"
Made = Iterator[TrajectorySample | None]


def reflection(run: JudgedTrajectory) -> Iterator[TrajectorySample]:
    """`verification`, `reversal` and `retry` of a run."""
    yield from filter(None, _verifications(run))
    yield from filter(None, _reversals(run))
    yield from filter(None, _retries(run))


def _verifications(run: JudgedTrajectory) -> Made:
    """One question a step: of its own purpose or of another, as a hash decides."""
    effects = [
        (purpose(run, before, action), set(new_names(run, before, after)))
        for before, after, action in run.transitions()
        if isinstance(action, Click)
    ]
    seed = run.facts.config.seed
    for before, after, action in run.transitions():
        step = before["step_index"]
        own, key = purpose(run, before, action), (before["episode_id"], step)
        right = run.verdict.right.get(step)
        if not _shows(run, before, after, action):
            continue  # two equal screens tell nothing: a click into a field leaves them as one beside it does
        if right is not None:
            # the most telling case: what was meant to be done, and wasn't
            wanted, answer = purpose(run, before, parse(right)), "no"
        elif unit_hash(seed, "verification", *key) < 0.5:
            wanted, answer = own, "yes"
        else:
            others = _missing(run, after, own, effects)
            wanted, answer = (others[int(unit_hash(seed, "purpose", *key) * len(others))] if others else ""), "no"
        if wanted and (answer == "yes") == (wanted == own):
            question = f"One action lies between the two screens. Did it do this? {wanted}"
            yield trajectory_sample(run, [before, after], "verification", "judge_training", VERSION, question, answer)


def _shows(run: JudgedTrajectory, before: StepRow, after: StepRow, action: Action) -> bool:
    """Whether the second screen tells that the action did something."""
    if isinstance(action, Scroll):
        return False
    old, new = ([(e.box, e.role, e.name, e.label) for e in run.shown(row)] for row in (before, after))
    return bool(new) and old != new


def _missing(run: JudgedTrajectory, after: StepRow, own: str, effects: list[tuple[str, set[str]]]) -> list[str]:
    """Purposes of other steps of which nothing that they brought up is on a screen."""
    shown = {text for e in run.shown(after) for text in (e.name, e.label)}
    return sorted({words for words, came in effects if words and words != own and came and not came & shown})


def _reversals(run: JudgedTrajectory) -> Made:
    """Two screens → the action that leads back."""
    for before, after, _ in run.transitions():
        back = run.verdict.undo.get(before["step_index"])
        if back is not None:
            answer = render(parse(back), after["platform"])
            rows = [before, after]
            yield trajectory_sample(run, rows, "reversal", "mid_training", VERSION, REVERSAL_QUESTION, answer)


def _retries(run: JudgedTrajectory) -> Made:
    """The screen of a mistake after it was taken back → the right action. The picture is that of before the mistake:
    a way back counts only if it brings back that very picture."""
    for row, history in histories(run):
        step, platform = row["step_index"], row["platform"]
        right, back = run.verdict.right.get(step), run.verdict.undo.get(step)
        if right is None or back is None or row["action_text"] is None or not row["instruction"].strip():
            continue
        shown = run.facts.config.history
        tried = with_step(history, row, parse(row["action_text"]), shown)
        # nobody thought anything of the way back
        tried = [*tried, (step + 2, render(parse(back), platform))]
        text = navigation_text(row["instruction"], tried, steps=shown.steps, version=shown.prompt)
        yield action_sample(run, row, "retry", VERSION, text, parse(right))
