"""Two samples of each located error: on its screen the right step, and on the screen after it the way back.

The verdict has to say which steps were wrong (`RunVerdict.wrong`), so nothing comes of runs that weren't replayed. Both
answers were confirmed in the world; where no way back is known there is no such sample. Going back is at most one step
longer than any other way on: a step is wrong only if the goal is no nearer after it.
Sources: UI-TARS (error → correction, after the error → recovery), InfiGUI-R1 (escaping from an error).
"""

from collections.abc import Iterator

from pipelines.derivers.trajectory import JudgedTrajectory, TrajectorySample, action_sample, histories
from pipelines.prompts import navigation_text
from schemas.actions import parse

VERSION = 1


def error_recovery(run: JudgedTrajectory) -> Iterator[TrajectorySample]:
    """`correction` and `way_back` of each wrong step, in the order of the steps."""
    verdict = run.verdict
    for row, history in histories(run):
        step, goal = row["step_index"], row["instruction"]
        right = verdict.right.get(step)
        back = verdict.undo.get(step - 1) if step - 1 in (verdict.wrong or ()) else None
        for kind, text in (("way_back", back), ("correction", right)):
            if text is not None and goal.strip():
                shown = run.facts.config.history
                prompt = navigation_text(goal, history, steps=shown.steps, version=shown.prompt)
                made = action_sample(run, row, kind, VERSION, prompt, parse(text))
                if made is not None:
                    yield made
