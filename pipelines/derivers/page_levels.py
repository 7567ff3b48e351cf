"""A page as a whole and what leads to it: the page and action levels of EDGE, beside its elements and regions (`page`).

`page_function` lists a page's title and what can be done on it, by kind of element. `opened_by` asks for the element
of one screen that opens the other, by name and place, `changed_by` for the one that was used where nothing new came up.
All are read from the elements that were recorded, of failures too.
Source: EDGE (2410.19461), whose page summaries a model writes; here they are complete lists, or there is none.
"""

from collections.abc import Iterator

from pipelines.derivers.base import IndexedElement
from pipelines.derivers.dynamics import look
from pipelines.derivers.page import FUNCTION_QUESTION, function_of
from pipelines.derivers.step_data import aimed_at, new_names
from pipelines.derivers.trajectory import JudgedTrajectory, TrajectorySample, trajectory_sample
from schemas.action_types import Click, Type
from schemas.actions import Action
from schemas.rows import StepRow

VERSION = 1
OPENED_QUESTION = "What on the first screen opens the second?"
CHANGED_QUESTION = "Which element of the first screen was used to get the second?"
HOW = " Answer with its role, its name and its centre [x,y]."


def page_levels(run: JudgedTrajectory) -> Iterator[TrajectorySample]:
    """`page_function` of each screen of a run, once, and `opened_by` or `changed_by` of each step to another screen."""
    seen = set()
    for row in run.steps:
        words = function_of(run.shown(row))
        if words and look(run, row) not in seen:
            seen.add(look(run, row))
            made = trajectory_sample(run, [row], "page_function", "mid_training", VERSION, FUNCTION_QUESTION, words)
            if made is not None:
                yield made
    for before, after, action in run.transitions():
        aim = _used(run, before, after, action)
        if aim is None or look(run, before) == look(run, after):
            continue
        x, y = aim.centre
        role = f"{aim.role} " if aim.role else ""
        opens = isinstance(action, Click) and bool(new_names(run, before, after))
        kind, question = ("opened_by", OPENED_QUESTION) if opens else ("changed_by", CHANGED_QUESTION)
        answer, step = f'{role}"{aim.name}" [{x},{y}]', before["step_index"]
        found = trajectory_sample(run, [before, after], kind, "mid_training", VERSION, question + HOW, answer, at=step)
        if found is not None:
            yield found


def _used(run: JudgedTrajectory, before: StepRow, after: StepRow, action: Action) -> IndexedElement | None:
    """The element that an action pointed at; of one that typed, the only one that shows something else after it."""
    if not isinstance(action, Type):
        return aimed_at(run, before, action)
    shown = {(e.box, e.role, e.name, e.label) for e in run.shown(after)}
    changed = [e for e in run.shown(before) if (e.box, e.role, e.name, e.label) not in shown]
    same_name = [e for e in run.shown(before) if changed and e.name == changed[0].name]
    return changed[0] if len(changed) == len(same_name) == 1 and changed[0].name else None
