"""A reader of demonstrations, by which their worth is measured: it reads what policies are shown, and does it."""

from __future__ import annotations

from generators.policies.demonstrations import Demonstration, as_text
from generators.policies.policy import PolicyView
from generators.tasks.world_interface import ScreenElement
from schemas.action_types import Click, Finished, Type
from tests.support.demonstrated import _BEHIND, Reader, exchanged, read

THEIRS = Demonstration(
    "d", 'Add the "Blue mug" to the basket', "web", "shop", ((Click((1, 1)), 'Click link "Blue mug".'), (Type("2"), ""))
)
OURS = 'Add the "Green lamp" to the basket'


def view(*names: str, goal: str = OURS) -> PolicyView:
    boxes = [(0.0, 100.0 * n, 10.0, 100.0 * n + 10) for n in range(len(names))]
    elements = [ScreenElement(box, "link", name, name, "", True) for box, name in zip(boxes, names, strict=True)]
    return PolicyView(goal, b"", (10, 10), "web", (), tuple(elements))


def test_a_demonstration_is_read_as_policies_are_shown_it() -> None:
    own, shown = read(f"{OURS}{_BEHIND}{as_text(THEIRS, 1)}")
    assert own == OURS and shown is not None and shown.goal == THEIRS.goal
    assert shown.steps == ((Click((1, 1)), "Blue mug"), (Type("2"), ""))
    assert read(OURS) == (OURS, None)


def test_the_reader_does_it_with_its_own_names_and_goes_by_the_goal_without_one() -> None:
    assert exchanged(THEIRS.goal, OURS) == {"Blue mug": "Green lamp"}
    shown, reader = f"{OURS}{_BEHIND}{as_text(THEIRS, 1)}", Reader()
    reader.begin(shown, "web", 0)
    done = [reader.decide(view("Blue mug", "Green lamp", goal=shown)).action for _ in range(3)]
    assert done == [Click((5, 105)), Type("2"), Finished()]
    reader.begin(OURS, "web", 0)
    assert [reader.decide(view("Blue mug", "Green lamp")).action for _ in range(2)] == [Click((5, 105)), Finished()]
