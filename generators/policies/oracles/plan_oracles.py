"""Oracles that follow a plan made beforehand: a phone task's intents over element keys, or a recorded path.

A plan knows nothing of the state it has left: whatever its steps did is believed done. So a lost step shows only when
the next one's element isn't there.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from generators.policies.oracles.oracle import Advice, Search, click_on, named
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import ScreenElement
from generators.worlds.phone.phone_task import Intent
from generators.worlds.phone.phone_tasks import FAMILIES, make_task
from schemas import action_types
from schemas.actions import Action

MOST_BACKS = 3
"""Steps back in search of an element after a new beginning: an app opens where it was left."""
TRACK = (0.058, 0.927)
"""Where a slider's track begins and ends, as shares of the slider's width."""
SHORTEST = 40
"""A path shorter than this (0..1000) is no slide."""


_KEYS: dict[str, Action] = {
    "home": action_types.PressHome(),
    "back": action_types.PressBack(),
    "enter": action_types.PressEnter(),
}


# --- the phone
def phone_plan(contract: TaskSpec) -> tuple[Intent, ...]:
    """The plan of a task of the phone's families, made again from its start and found by its id. Raises `ValueError`
    for a contract that no family makes."""
    seed = contract.initial_state.get("seed")
    if isinstance(seed, int):
        for family in contract.capabilities:
            # Found by id: families change, and a plan for other words would do another task.
            task = make_task(family, seed) if family in FAMILIES else None
            if task is not None and task.contract().task_id == contract.task_id:
                return task.plan
    raise ValueError(f"phone oracle: no family of {list(contract.capabilities)} makes {contract.instruction[:60]!r}")


class PhoneOracle:
    """Follows a phone task's plan. Where an element isn't there it goes home and begins again, once; after that it
    steps back a few times in search of it, then gives up. `plans` gives a task's plan."""

    def __init__(self, plans: Callable[[TaskSpec], Sequence[Intent]] = phone_plan) -> None:
        self._plans = plans

    def begin(self, contract: TaskSpec) -> None:
        """See `Oracle.begin`."""
        self._plan = tuple(self._plans(contract))
        self._at = self._backs = 0
        self._again = False
        self._search = Search()
        self._offered = Advice()

    def next(self, elements: Sequence[ScreenElement], state: Mapping[str, object], last: Action | None) -> Advice:
        """See `Oracle.next`."""
        # The agent skipped a step (an error drawn on purpose): the plan is one ahead.
        if self._offered.then is not None and last == self._offered.then != self._offered.action:
            self._at += 1  # the step before was left out, and this one done in its place
        self._offered = self._advise(elements)
        return self._offered

    def _advise(self, elements: Sequence[ScreenElement]) -> Advice:
        if self._at >= len(self._plan):
            return Advice(done=True)
        intent = self._plan[self._at]
        done = self._carry_out(intent, elements)
        if done is None:
            # Every verb that can miss names its element first.
            return self._missing(str(intent[1]), elements)
        self._at += 1
        self._backs = 0
        self._search.forget()
        action, element = done
        if isinstance(action, action_types.CallUser) and self._at == len(self._plan):
            return Advice(action, done=True)
        # Offered only where the next step aims at an element, which this screen may show already.
        after = self._plan[self._at] if self._at < len(self._plan) else None
        then = self._carry_out(after, elements) if after is not None and after[0] in ("tap", "hold", "slide") else None
        return Advice(
            action,
            element.role if element else "",
            element.name or element.text if element else "",
            then=then[0] if then is not None else None,
        )

    def _carry_out(
        self, intent: Intent, elements: Sequence[ScreenElement]
    ) -> tuple[Action, ScreenElement | None] | None:
        """An intent as an action on this screen, and its element; None where the element isn't there."""
        verb, *args = intent
        if verb in _KEYS:
            return _KEYS[verb], None
        if verb == "type":
            return action_types.Type(args[0]), None
        if verb == "answer":
            return action_types.CallUser(args[0]), None
        if verb not in ("tap", "hold", "slide"):
            raise ValueError(f"phone oracle: a plan has no verb {verb!r:.40}")
        element = next((element for element in elements if element.key == args[0]), None)
        if element is None:
            return None
        if verb == "slide":
            return _slide(element, args[1]), element
        point = click_on(element).box
        return (action_types.Click(point) if verb == "tap" else action_types.LongPress(point)), element

    def _missing(self, key: str, elements: Sequence[ScreenElement]) -> Advice:
        """Look for an element above and below; then begin again from home, once; then look behind."""
        # The aim holds all that makes this search another one: step, steps back, second beginning, element.
        scroll = self._search.step((self._at, self._backs, self._again, key), elements)
        if scroll is not None:
            return Advice(scroll)
        if not self._again:
            # From home everything can be reached; done steps done twice are harmless or seen by the rule.
            self._again, self._at = True, 0
            return Advice(action_types.PressHome())
        if self._backs < MOST_BACKS:
            self._backs += 1
            return Advice(action_types.PressBack())
        return Advice(reason=f"there is no element {key!r} on the screen")


def _slide(element: ScreenElement, percent: float) -> action_types.Drag:
    """A path along a slider's track that ends at a share of it."""
    left, _, right, bottom = element.box
    begin, end = (left + (right - left) * share for share in TRACK)
    y = int((element.centre[1] + bottom) / 2)  # the track lies below the caption
    # Rounded to whole units of 0..1000, in which actions are written.
    to = int(begin + (end - begin) * percent / 100 + 0.5)
    middle = int((begin + end) / 2 + 0.5)
    if abs(middle - to) < SHORTEST:
        # Too near to count as a drag: begin further left.
        middle = max(0, to - 200)
    return action_types.Drag((middle, y), (min(to, 1000), y))


# --- any world
@dataclass(frozen=True)
class RecordedStep:
    """An action with the element (role, name) that it was meant for; no role = none, it is done as it stands."""

    action: Action
    role: str = ""
    name: str = ""


class RecordedOracle:
    """Follows a recorded path: finds the element of a role and name on the present screen, scrolling for it, and acts
    at its centre. `paths` gives a task's path; a path's own Finished and CallUser end it."""

    def __init__(self, paths: Callable[[TaskSpec], Sequence[RecordedStep]]) -> None:
        self._paths = paths

    def begin(self, contract: TaskSpec) -> None:
        """See `Oracle.begin`."""
        self._path = tuple(self._paths(contract))
        self._at = 0
        self._search = Search()
        self._offered = Advice()

    def next(self, elements: Sequence[ScreenElement], state: Mapping[str, object], last: Action | None) -> Advice:
        """See `Oracle.next`."""
        if self._offered.then is not None and last == self._offered.then != self._offered.action:
            self._at += 1
        self._offered = self._advise(elements)
        return self._offered

    def _advise(self, elements: Sequence[ScreenElement]) -> Advice:
        if self._at >= len(self._path) or isinstance(self._path[self._at].action, action_types.Finished):
            return Advice(done=True)
        step = self._path[self._at]
        if isinstance(step.action, action_types.CallUser):
            return Advice(step.action, done=True)
        # A recorded scroll was for the window of its time; here the element may show already.
        if isinstance(step.action, action_types.Scroll) and self._needless(elements):
            self._at += 1
            return self._advise(elements)
        found = _on_screen(step, elements)
        if found is None:
            scroll = self._search.step(self._at, elements)
            reason = f"there is no {step.role} {step.name!r} on the screen"
            return Advice(scroll) if scroll is not None else Advice(reason=reason)
        self._at += 1
        self._search.forget()
        after = self._path[self._at] if self._at < len(self._path) else None
        # Without a role there is no telling whether the step fits this screen.
        then = _on_screen(after, elements) if after is not None and after.role else None
        return Advice(found, step.role, step.name, then=then)

    def _needless(self, elements: Sequence[ScreenElement]) -> bool:
        """Whether what comes after the scrolling shows already."""
        after = next(
            (step for step in self._path[self._at :] if not isinstance(step.action, action_types.Scroll)), None
        )
        return after is not None and bool(after.role) and _on_screen(after, elements) is not None


def _on_screen(step: RecordedStep, elements: Sequence[ScreenElement]) -> Action | None:
    """A step as an action on this screen; None where its element isn't there."""
    if not step.role:
        return step.action
    near = step.action.box if isinstance(step.action, action_types.POINTED) else None
    element = named(elements, step.role, step.name, near)
    if element is None:
        return None
    # At the element's present centre, whatever point was recorded.
    return type(step.action)(click_on(element).box) if isinstance(step.action, action_types.POINTED) else step.action
