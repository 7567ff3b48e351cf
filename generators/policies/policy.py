"""The contract of a policy: a view of the screen in, a reply with one action out.

A policy never says whether a task was done: `Finished` is its claim, the world or a judge decides. A policy that needs
the UI tree (`needs_tree`) gets it in `PolicyView.elements`; any other gets none.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from generators.tasks.world_interface import ScreenElement
from schemas.actions import Action, GetUrl


@dataclass(frozen=True, slots=True)
class PastTurn:
    """A past turn, for the history of the prompt: what was thought, done and concluded. `action` is None for a reply
    that couldn't be read (it did nothing). `answer` is what the world said to it: the address that a
    GetUrl asked for."""

    action: Action | None
    thought: str = ""
    conclusion: str = ""
    answer: str = ""


def answered(past: Sequence[PastTurn], said: str) -> tuple[PastTurn, ...]:
    """Past turns when the screen after them says something (`Observation.said`): the answer to the last of them, if it
    asked. A screen that came late may still say what was asked before."""
    asked = bool(past) and isinstance(past[-1].action, GetUrl)
    # Only GetUrl asks; for any other action what a screen says is just there.
    return (*past[:-1], replace(past[-1], answer=said)) if said and asked else tuple(past)


@dataclass(frozen=True, slots=True)
class PolicyView:
    """What a policy sees before a turn: the goal, the screen as encoded bytes, and its own past turns.

    `elements` is the UI tree where the policy needs one and the world has it, else empty. `size_px` is the picture's.
    """

    goal: str
    png: bytes
    size_px: tuple[int, int]
    platform: str
    past: tuple[PastTurn, ...] = ()
    elements: tuple[ScreenElement, ...] = ()

    def shown_to(self, needs_tree: bool) -> "PolicyView":
        """The view for a part of a policy: without the UI tree for one that doesn't need it."""
        # Same object where nothing changes, so that the identity is exact.
        return self if needs_tree or not self.elements else replace(self, elements=())


@dataclass(frozen=True, slots=True)
class Decision:
    """A policy's turn. `reply` is its text, whole; `action` None means that the reply holds no legal action.
    `prompt_tokens` and `completion_tokens` are 0 for policies that call no model."""

    reply: str
    action: Action | None
    thought: str = ""
    conclusion: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0


class PolicyError(RuntimeError):
    """The policy's server failed for good: infrastructure, never a failure of the task."""


class CannotDo(ValueError):
    """This policy can't take on this task, now or ever: a failure of the task, never one of infrastructure."""


@runtime_checkable
class Policy(Protocol):
    """Deterministic by `seed` unless a live model stands behind it. One episode at a time an object."""

    name: str
    needs_tree: bool

    def begin(self, goal: str, platform: str, seed: int) -> None:
        """Forget the last episode."""
        ...

    def decide(self, view: PolicyView) -> Decision:
        """The next turn. Raises `PolicyError` where no reply can be had."""
        ...
