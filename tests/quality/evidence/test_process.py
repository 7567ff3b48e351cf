"""Evidence in the process of a run: what was required, done, and taken back, on screens by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from quality.evidence.process import RequiredOperation, goal_operations, process_of
from quality.judges.process_judge import RISK, UNDONE, UNPROVEN, ProcessJudge
from quality.judges.registry import JudgeConfig, build_judge
from quality.judges.rules import RulesJudge
from schemas.actions import Action, Click, Finished, Type

FORM = [((20, 100, 340, 150), "Name"), ((20, 200, 160, 250), "Save"), ((200, 200, 340, 250), "Cancel")]
LIST = [((20, 100, 340, 150), "Ann Smith"), ((20, 200, 340, 250), "Bob Jones"), ((20, 300, 340, 350), "Home")]
DONE = [((20, 100, 340, 150), "Saved"), ((20, 200, 340, 250), "Undo"), ((20, 300, 340, 350), "Home")]
NAME, SAVE, ANN, BOB, UNDO, HOME = (
    Click((500, 195)),
    Click((250, 351)),
    Click((500, 195)),
    Click((500, 351)),
    Click((500, 351)),
    Click((500, 508)),
)
PAGES = {"list": LIST, "form": FORM, "done": DONE}
REQUIRED = (RequiredOperation("Ann Smith"), RequiredOperation(text="Berlin"), RequiredOperation("Save", gone=True))
SOUND = ((ANN, "list"), (NAME, "form"), (Type("Berlin"), "form"), (SAVE, "form"), (HOME, "done"))


def run(world: Any, *acts: tuple[Action, str], end: str = "list", goal: str = 'put "Berlin" down for Ann Smith') -> Any:
    """A run over named pages; each screen differs by its number, as those of a form that is filled in do."""
    steps = [(action, world.page(PAGES[page], note=str(n))) for n, (action, page) in enumerate(acts)]
    return world.episode(*steps, (Finished(), world.page(PAGES[end], note="end")), instruction=goal)


def test_a_sound_run_is_complete(world: Any) -> None:
    found = process_of(run(world, *SOUND), REQUIRED)
    assert found.complete and [index for _, index in found.met] == [0, 2, 3] and "3 operations" in found.reason


@pytest.mark.parametrize(
    ("acts", "end", "says"),
    [
        (SOUND[:3], "form", "never done: 'Save'"),  # the form is shown and never sent
        (((BOB, "list"), *SOUND[1:]), "done", "never done: 'Ann Smith'"),  # another one's data
        ((*SOUND[:2], (Type("Paris"), "form"), *SOUND[3:]), "done", "never done: typing 'Berlin'"),
        ((*SOUND[:3], (Type("Paris"), "form"), *SOUND[3:]), "done", "undone: 'Paris' is typed over"),
        ((*SOUND[:4], (UNDO, "done")), "list", "undone: 'Undo' is pressed afterwards"),
        (((HOME, "list"),), "done", "never done"),  # the right last screen by luck
    ],
)
def test_false_successes_say_what_is_wrong(world: Any, acts: Any, end: str, says: str) -> None:
    found = process_of(run(world, *acts, end=end), REQUIRED)
    assert not found.complete and says in found.reason


def test_a_refused_button_stays(world: Any) -> None:
    """Save was pressed and is still offered on the next screen: a required field was empty."""
    refused = run(world, *SOUND[:4], (NAME, "form"), end="done")
    assert not process_of(refused, REQUIRED).complete
    assert process_of(run(world, *SOUND[:4], (NAME, "form"), (SAVE, "form"), end="done"), REQUIRED).complete


@pytest.mark.parametrize(("presses", "complete"), [(1, False), (2, True), (3, False)])
def test_what_is_counted_is_counted(world: Any, presses: int, complete: bool) -> None:
    acts = [(SAVE, "form")] * presses
    assert process_of(run(world, *acts, end="done"), [RequiredOperation("Save", times=2)]).complete is complete


def test_what_was_undone_and_done_again_stands(world: Any) -> None:
    again = (*SOUND[:3], (Type("Paris"), "form"), (Type("Berlin"), "form"), (SAVE, "form"))
    assert process_of(run(world, *again, end="done"), REQUIRED).complete


def test_a_goal_names_what_it_requires(world: Any) -> None:
    found = goal_operations(run(world, *SOUND))
    assert RequiredOperation(text="Berlin") in found and RequiredOperation(label="Ann Smith") in found
    assert goal_operations(run(world, *SOUND, goal="do it")) == ()


def test_the_judge_caps_reachability_alone(world: Any) -> None:
    judge = build_judge(JudgeConfig("process"))
    assert isinstance(judge, ProcessJudge)
    bad = run(world, (BOB, "list"), *SOUND[1:], end="done")
    [own, *_] = RulesJudge().judge([bad])
    [whole, step, *_] = judge.judge([bad])
    assert whole.reachability is not None and whole.reachability <= UNPROVEN and "Ann Smith" in whole.reason
    assert step.reachability == whole.reachability and step.judge == "process"
    [sound, *_] = judge.judge([run(world, *SOUND)])
    [rules, *_] = RulesJudge().judge([run(world, *SOUND)])
    assert sound.reachability == rules.reachability and own.reachability is not None
    assert UNDONE < UNPROVEN


class Waits(RulesJudge):
    """A judge with a risk of its own, for which one item waits for another night."""

    def judge(self, items: Any, round_number: int = 0, habits: Any = None) -> list[Any]:
        first, *others = super().judge(items, round_number, habits)
        waiting = replace(first, alignment=None, reachability=None, pending=True)
        return [waiting, *(replace(one, risk=0.1) for one in others)]


def test_another_judge_keeps_its_name_and_gets_the_cap(world: Any) -> None:
    bad = run(world, (BOB, "list"), *SOUND[1:], end="done")
    judge = build_judge(JudgeConfig("rules", process=True))
    [whole, *_] = judge.judge([bad])
    assert whole.judge == judge.name == "rules" and whole.reachability is not None and whole.reachability <= UNPROVEN
    assert whole.rubric_version == judge.rubric_version != RulesJudge.rubric_version
    waiting, step, *_ = ProcessJudge(Waits()).judge([bad])
    assert waiting.pending and waiting.reachability is None
    assert step.reachability == whole.reachability and step.risk == RISK
    # The judge of that name has the evidence already.
    named = build_judge(JudgeConfig("process", process=True))
    assert named.rubric_version == build_judge(JudgeConfig("process")).rubric_version


@pytest.mark.parametrize(
    "plain", [{}, {"label": ""}, {"lable": "x"}, {"label": "x", "times": 0}, {"text": "x", "within": "y"}]
)
def test_a_list_that_cannot_be_read_is_refused(plain: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="required operation"):
        RequiredOperation.of(plain)


def test_a_list_is_plain_data() -> None:
    found = RequiredOperation.of({"label": "Save", "within": ["Ann"], "gone": True})
    assert found == RequiredOperation("Save", within=("Ann",), gone=True) and "Ann" in str(found)
