"""Planning by verified runs: a goal's subgoals in their order, the next of them, and whether the plan is done.

A plan is what a success did, in words, where the words say each step beyond doubt: clicking a field and typing into it
is one subgoal, looking around (scrolling, waiting) is none. A run with a step that was wrong, or with a screen that
comes back, isn't a plan but a detour, and gives nothing.
Source: MagicAgent (splitting a goal, ordering steps); its tasks are synthetic texts, these are the traces of worlds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pipelines.derivers.base import squash, unit_hash
from pipelines.derivers.dynamics import look
from pipelines.derivers.step_data import purpose
from pipelines.derivers.trajectory import JudgedTrajectory, TrajectorySample, trajectory_sample
from pipelines.prompts import plan_text
from schemas.action_types import CallUser, Click, Finished, PressBack, PressEnter, PressHome, Scroll, Type, Wait
from schemas.actions import Action, parse
from schemas.rows import StepRow

VERSION = 1
LEAST = 2
"""Subgoals of a plan: a goal of one has nothing to be split or put in order."""
WORDS: dict[type[Action], str] = {PressBack: "Go back", PressEnter: "Press Enter", PressHome: "Go to the home screen"}
"""Of actions that mean the same on every screen."""
Made = Iterator[TrajectorySample | None]


@dataclass(frozen=True, slots=True)
class Subgoal:
    """A part of a plan, in words, and the step that begins it."""

    row: StepRow
    words: str


def planning(run: JudgedTrajectory) -> Iterator[TrajectorySample]:
    """`subgoals`, `next_subgoal` and `plan_done` of a success."""
    goal, plan = squash(run.steps[0]["instruction"]), subgoals(run)
    whole = numbered([one.words for one in plan])
    if goal and len(plan) >= LEAST and len(whole) <= run.facts.config.plan_max_chars:
        yield from filter(None, _family(run, goal, plan, whole))


def subgoals(run: JudgedTrajectory) -> list[Subgoal]:
    """The plan that a run carried out; [] where it is no success, strayed, or a step has no words."""
    acted = [(row, parse(row["action_text"])) for row in run.steps if row["action_text"] is not None]
    if run.verdict.decision != "success" or run.verdict.wrong or not acted or not isinstance(acted[-1][1], Finished):
        return []
    looked = [row for row, action in acted[:-1] if not isinstance(action, Scroll | Wait | Type)]
    if len({look(run, row) for row in looked}) < len(looked):
        return []
    found: list[Subgoal] = []
    focused: Subgoal | None = None
    for row, action in acted[:-1]:
        if isinstance(action, Scroll | Wait):
            focused = None
            continue
        words = WORDS.get(type(action)) or purpose(run, row, action)
        if not words or isinstance(action, CallUser):
            return []
        if isinstance(action, Type) and focused is not None:
            # one subgoal of two actions: "Click the text field "Name"", then "Type "Ann""
            found[-1] = Subgoal(focused.row, f"{words} into {focused.words.removeprefix('Click ')}")
            focused = None
            continue
        found.append(Subgoal(row, words))
        focused = found[-1] if isinstance(action, Click) else None
    return found


def numbered(words: Sequence[str]) -> str:
    """Lines of an ordered list; "none" without any."""
    return "\n".join(f"{number}. {one}" for number, one in enumerate(words, 1)) or "none"


def next_subgoal_text(goal: str, done: Sequence[str]) -> str:
    """The goal, the subgoals that were reached, and the question which comes next."""
    return f"Goal: {goal}\nDone:\n{numbered(done)}\nWhich subgoal is next?"


def _family(run: JudgedTrajectory, goal: str, plan: list[Subgoal], whole: str) -> Made:
    """The samples of one plan: the split once, the next subgoal at one place, done once with each answer."""
    seed, episode = run.facts.config.seed, run.steps[0]["episode_id"]
    yield trajectory_sample(run, [run.steps[0]], "subgoals", "mid_training", VERSION, plan_text(goal), whole)
    place = int(unit_hash(seed, "next", episode) * len(plan))
    done, following = [one.words for one in plan[:place]], plan[place]
    text = next_subgoal_text(goal, done)
    yield trajectory_sample(run, [following.row], "next_subgoal", "mid_training", VERSION, text, following.words)
    earlier = plan[int(unit_hash(seed, "not done", episode) * len(plan))].row
    last = next(row for row in reversed(run.steps) if row["action_text"] is not None)
    text = f"Goal: {goal}\nPlan:\n{whole}\nIs the plan done on this screen?"
    for row, answer in ((earlier, "no"), (last, "yes")):
        yield trajectory_sample(run, [row], "plan_done", "judge_training", VERSION, text, answer)
