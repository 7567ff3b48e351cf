"""The oracle of tasks whose plan names elements by role and name: real web apps and desktop programs.

An element that isn't there may be on its way, or further down: the oracle waits a little, then scrolls for it, then
gives up. At the end it waits for the rule to hold: programs save in their own time.
"""

from collections.abc import Callable, Mapping, Sequence

from generators.policies.oracles.oracle import Advice, Search
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import ScreenElement, WorldError
from generators.worlds.evaluators import holds
from schemas.action_types import CallUser, Wait
from schemas.actions import Action

Intent = tuple[str, ...]
ActionOf = Callable[[Intent, Sequence[ScreenElement]], Action]
"""(intent, elements on the screen) → action; raises `WorldError` where its element isn't there, or isn't alone."""
AIMED = ("click", "double")
PATIENCE = 2
"""Turns of waiting for an element, or for the rule to hold."""


class IntentOracle:
    """See the module. `plans` gives a task's plan, `action_of` reads its intents."""

    def __init__(self, plans: Callable[[TaskSpec], Sequence[Intent]], action_of: ActionOf) -> None:
        self._plans, self._action_of = plans, action_of

    def begin(self, contract: TaskSpec) -> None:
        """See `Oracle.begin`."""
        self._plan, self._rule = tuple(self._plans(contract)), contract.evaluator
        self._at = self._waited = 0
        self._search = Search()

    def next(self, elements: Sequence[ScreenElement], state: Mapping[str, object], last: Action | None) -> Advice:
        """See `Oracle.next`."""
        if self._at >= len(self._plan):
            return self._end(state)
        intent = self._plan[self._at]
        try:
            action = self._action_of(intent, elements)
        # Not there yet, or not there alone: a plan's names must be unique on the screen.
        except WorldError as error:
            return self._missing(elements, str(error))
        self._at += 1
        self._waited = 0
        self._search.forget()
        role, name = (intent[1], intent[2]) if intent[0] in AIMED else ("", "")
        # An answer as the last intent ends the episode itself; a Finished would come too late.
        return Advice(action, role, name, done=isinstance(action, CallUser) and self._at == len(self._plan))

    def _end(self, state: Mapping[str, object]) -> Advice:
        # The plan was carried out but its effect isn't saved yet.
        if self._waited < PATIENCE and not holds(self._rule, state):
            self._waited += 1
            return Advice(Wait())
        return Advice(done=True)

    def _missing(self, elements: Sequence[ScreenElement], reason: str) -> Advice:
        # First patience: pages load. Only then a search, which moves the screen.
        if self._waited < PATIENCE:
            self._waited += 1
            return Advice(Wait())
        scroll = self._search.step(self._at, elements)
        return Advice(scroll) if scroll is not None else Advice(reason=reason)
