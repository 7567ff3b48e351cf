"""The blind table as a policy: it knows the goal, the task's family and the number of the turn, and sees no picture.

Made from scripted episodes of other seeds. Texts that are typed are kept as slots ("what the goal quotes second"), and
of the points that a turn was clicked at it takes the one most others lie near: the best that can be done blind, so that
a task that it solves says nothing about seeing.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from generators.policies.policy import Decision, PolicyView
from pipelines.prompts import reply_text
from schemas.action_types import Click, DoubleClick, Finished, LongPress, Type
from schemas.actions import Action

NEAR = 60
"""Points that lie within this of one another count as the same place (0..1000)."""
_QUOTED = re.compile(r"\"([^\"]*)\"|“([^”]*)”")
Key = tuple[Any, ...]


def quoted(goal: str) -> list[str]:
    """What a goal quotes, in order."""
    return [one or other for one, other in _QUOTED.findall(goal)]


def _slotted(text: str, goal: str) -> str:
    """A typed text as the goal's own: `{n}` for its nth quotation, else itself."""
    said = quoted(goal)
    return f"{{{said.index(text)}}}" if text in said else text


def _filled(text: str, goal: str) -> str:
    said, slot = quoted(goal), re.fullmatch(r"\{(\d+)\}", text)
    return said[int(slot[1])] if slot and int(slot[1]) < len(said) else text


@dataclass
class _Turn:
    shapes: Counter[tuple[str, str]] = field(default_factory=Counter)
    points: dict[tuple[str, str], list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    actions: dict[tuple[str, str], Action] = field(default_factory=dict)


class BlindActions:
    """(goal, turn), else (goal without what it quotes, turn), else (family, turn) → the usual action."""

    def __init__(self) -> None:
        self._turns: dict[Key, _Turn] = defaultdict(_Turn)

    @staticmethod
    def _keys(family: str, goal: str, turn: int) -> list[Key]:
        # From the most particular to the most general: `action` takes the first that it knows.
        return [(family, goal, turn), (family, _QUOTED.sub('""', goal), turn), (family, turn)]

    def add(self, family: str, goal: str, actions: Sequence[Action]) -> None:
        """Learn an episode."""
        for turn, action in enumerate(actions):
            text = _slotted(action.content, goal) if isinstance(action, Type) else ""
            # With a point the shape is only the kind of action: places are averaged apart from it.
            shape = (type(action).__name__, text or ("" if _point(action) else repr(action)))
            for key in self._keys(family, goal, turn):
                known = self._turns[key]
                known.shapes[shape] += 1
                known.actions.setdefault(shape, action)
                if (point := _point(action)) is not None:
                    known.points[shape].append(point)

    def action(self, family: str, goal: str, turn: int) -> Action:
        """What was usually done; Finished where nothing is known."""
        for key in self._keys(family, goal, turn):
            if key in self._turns:
                known = self._turns[key]
                # By name where two are as frequent, so the table doesn't depend on the order of episodes.
                shape = min(known.shapes, key=lambda one: (-known.shapes[one], one))
                action = known.actions[shape]
                if isinstance(action, Click | DoubleClick | LongPress):
                    return type(action)(_densest(known.points[shape]))
                return Type(_filled(shape[1], goal)) if isinstance(action, Type) else action
        return Finished()


def _point(action: Action) -> tuple[int, int] | None:
    return action.box if isinstance(action, Click | DoubleClick | LongPress) else None


def _densest(points: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The point that most others lie near, moved to the mean of those."""

    def near(point: tuple[int, int]) -> list[tuple[int, int]]:
        return [p for p in points if abs(p[0] - point[0]) <= NEAR and abs(p[1] - point[1]) <= NEAR]

    # Ties by position, for the same reason.
    best = near(max(points, key=lambda point: (len(near(point)), -point[0], -point[1])))
    return round(sum(x for x, _ in best) / len(best)), round(sum(y for _, y in best) / len(best))


class BlindPolicy:
    """See `Policy`."""

    needs_tree = False
    name = "blind-table"

    def __init__(self, table: BlindActions, family: str) -> None:
        self._table, self._family = table, family

    def begin(self, goal: str, platform: str, seed: int) -> None:
        """See `Policy.begin`."""

    def decide(self, view: PolicyView) -> Decision:
        """See `Policy.decide`."""
        action = self._table.action(self._family, view.goal, len(view.past))
        return Decision(reply_text(action, view.platform), action)
