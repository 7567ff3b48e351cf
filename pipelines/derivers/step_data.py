"""One verdict on a run → samples of its steps (Step-GUI, "calibrated step reward"): progress, state, effect, check,
intent, and of what was right the action. No model is asked: each answer follows from recorded screens and the verdict.

Failures give all kinds but the action, which `pipelines.derivers.trajectory.refusal` holds whatever stands here.
"""

from collections.abc import Iterator

from pipelines.derivers import trajectory
from pipelines.derivers.base import IndexedElement, squash, unit_hash
from pipelines.prompts import navigation_text
from schemas.action_types import POINTED, Finished, Scroll, SelectOption, Type
from schemas.actions import Action, parse, render
from schemas.rows import StepRow

VERSION = 1
NEW_NAMES = 3
"""Names at most that an effect lists."""
LONGEST = 60
"""Characters of a name or text that an answer says."""
Made = Iterator[trajectory.TrajectorySample | None]


def step_data(run: trajectory.JudgedTrajectory) -> Iterator[trajectory.TrajectorySample]:
    """All kinds of a run, step by step."""
    yield from filter(None, _progress(run))
    for before, after, action in run.transitions():
        for kind in (_effect, _check, _state):
            yield from filter(None, kind(run, before, after, action))
    yield from filter(None, _intents(run))


def _progress(run: trajectory.JudgedTrajectory) -> Made:
    """Whether the goal is reached: on the screens of a success, and where a trusted verdict refutes `Finished`."""
    last = run.steps[-1]
    goal = squash(last["instruction"])
    # Only an end that the run itself claims can be right or wrong.
    ended = last["action_text"] is not None and isinstance(parse(last["action_text"]), Finished)
    success = run.verdict.decision == "success"
    # A failure says "no" only where somebody trustworthy looked.
    if not goal or not ended or not (success or run.verdict.trusted):
        return
    question = f"Goal: {goal}\nIs the goal reached on this screen?"
    for row in run.steps if success else run.steps[-1:]:
        answer = "yes" if success and row is last else "no"
        yield trajectory.trajectory_sample(run, [row], "progress", "judge_training", VERSION, question, answer)


def _effect(run: trajectory.JudgedTrajectory, before: StepRow, after: StepRow, action: Action) -> Made:
    """The screen and an action → which names come up by it; nothing where the screen only moved."""
    # What comes into view by scrolling was there before.
    if isinstance(action, Scroll):
        return
    names = new_names(run, before, after)
    if names:
        question = f"What comes up after this action? {render(action, before['platform'])}"
        answer = ", ".join(f'"{name}"' for name in names[:NEW_NAMES])
        yield trajectory.trajectory_sample(run, [before], "effect", "mid_training", VERSION, question, answer)


def _check(run: trajectory.JudgedTrajectory, before: StepRow, after: StepRow, action: Action) -> Made:
    """Two screens and an action → whether something came up by it; what didn't was met elsewhere in the run."""
    came = new_names(run, before, after)
    shown = {text for e in run.shown(after) for text in (e.name, e.label)}
    # Names from elsewhere in the run: plausible ones that aren't on this screen.
    elsewhere = sorted({e.name for row in run.steps for e in run.shown(row) if _said(e.name)} - shown)
    seed, key = run.facts.config.seed, (before["episode_id"], before["step_index"])
    # Half the questions each way, by a hash of the step.
    true = unit_hash(seed, "check", *key) < 0.5
    names = came if true else elsewhere
    if not names or isinstance(action, Scroll):
        return
    name = names[int(unit_hash(seed, "name", *key) * len(names))]
    done = render(action, before["platform"])
    question = f'Between the two screens this was done: {done}\nIs "{name}" on the second screen?'
    answer = "yes" if true else "no"
    yield trajectory.trajectory_sample(run, [before, after], "check", "judge_training", VERSION, question, answer)


def _state(run: trajectory.JudgedTrajectory, before: StepRow, after: StepRow, action: Action) -> Made:
    """What a thing on the screen shows after an action has changed it."""
    held = {(e.role, e.name): e.label for e in _named(run.shown(before))}
    for element in _named(run.shown(after)):
        old = held.get((element.role, element.name))
        # The same thing by role and name, with other words on it.
        if old is not None and old != element.label and element.texted and _said(element.label):
            role = f"{element.role} " if element.role else ""
            question = f'What does the {role}"{element.name}" show?'
            yield trajectory.trajectory_sample(run, [after], "state", "mid_training", VERSION, question, element.label)
            # One a step: further changes mostly follow from the first.
            return


def _intents(run: trajectory.JudgedTrajectory) -> Made:
    """What an action aims at, in words; and where it was right, from these words and the screen the action."""
    for row, history in trajectory.histories(run):
        if row["action_text"] is None:
            continue
        action, platform = parse(row["action_text"]), row["platform"]
        words = purpose(run, row, action)
        if words:
            question = f"What is this action for? {render(action, platform)}"
            yield trajectory.trajectory_sample(run, [row], "intent", "mid_training", VERSION, question, words)
            # The purpose is true of any step; the action is taught only where it was right.
            if run.verdict.allows(row["step_index"]):
                shown = run.facts.config.history
                text = navigation_text(words, history, steps=shown.steps, version=shown.prompt)
                yield trajectory.action_sample(run, row, "action", VERSION, text, action)


def purpose(run: trajectory.JudgedTrajectory, row: StepRow, action: Action) -> str:
    """An action's aim in words; "" where the screen doesn't say it beyond doubt."""
    if isinstance(action, Type):
        return f'Type "{action.content}"' if _said(action.content) else ""
    if isinstance(action, SelectOption):
        return f'Choose "{action.option}"' if _said(action.option) else ""
    aim = aimed_at(run, row, action)
    if aim is None:
        return ""
    role = f"{aim.role} " if aim.role else ""
    return f'{type(action).__name__} the {role}"{aim.name}"'


def aimed_at(run: trajectory.JudgedTrajectory, row: StepRow, action: Action) -> IndexedElement | None:
    """The element that an action points at, where its name means it alone; None where it doesn't, or nothing is
    pointed at."""
    if not isinstance(action, POINTED):
        return None
    # The smallest, as a click in a list item's text means the text.
    inside = [e for e in run.shown(row) if e.contains(*action.box)]
    aim = min(inside, key=lambda e: e.area, default=None)
    return aim if aim in _named(run.shown(row)) else None


def new_names(run: trajectory.JudgedTrajectory, before: StepRow, after: StepRow) -> list[str]:
    """Names on a screen that no name or text on the one before is, in the order of the source's list."""
    old = {text for e in run.shown(before) for text in (e.name, e.label)}
    return [e.name for e in _named(run.shown(after)) if e.name not in old]


def _named(elements: tuple[IndexedElement, ...]) -> list[IndexedElement]:
    """Elements whose name no other has."""
    names = [e.name for e in elements]
    return [e for e in elements if _said(e.name) and names.count(e.name) == 1]


def _said(text: str) -> bool:
    return 0 < len(text) <= LONGEST
