"""Follows a plan of intents on a desktop (`desktop_task.Intent`), by the roles and names of what is on the screen."""

from collections.abc import Mapping, Sequence

from generators.policies.oracles.oracle import Advice
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import ScreenElement, WorldError
from generators.worlds.desktop.desktop_task import Intent
from generators.worlds.desktop.plan import action_of
from schemas.action_types import Wait
from schemas.actions import Action

PATIENCE = 3
"""Turns that an element may take to come: dialogs draw in their own time."""


class DesktopOracle:
    """One plan a time, an intent a turn. An element that doesn't come is waited for, then it gives up."""

    def __init__(self, plan: Sequence[Intent]) -> None:
        self._plan = tuple(plan)
        self._at = self._waited = 0

    def begin(self, contract: TaskSpec) -> None:
        """From the plan's beginning."""
        self._at = self._waited = 0

    def next(self, elements: Sequence[ScreenElement], state: Mapping[str, object], last: Action | None) -> Advice:
        """See `Oracle.next`."""
        if self._at == len(self._plan):
            return Advice(done=True)
        intent = self._plan[self._at]
        try:
            action = action_of(intent, elements)
        except WorldError as error:
            self._waited += 1
            return Advice(Wait()) if self._waited <= PATIENCE else Advice(reason=str(error))
        self._at, self._waited = self._at + 1, 0
        role, name = (str(intent[1]), str(intent[2])) if intent[0] in ("click", "double") else ("", "")
        return Advice(action, role, name)
