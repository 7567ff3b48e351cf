"""Which tokens of a student's reply are pushed towards its teacher, and how hard.

UI-Venus-2.0 weighs the action's span by what is wrong with it: the type's tokens where the type is wrong, with its
parameters masked; the parameters' tokens where the type is right and they are not; no token of an action that is right.
What it does with the tokens outside of the action isn't published; `SpanPushes.rest` says it here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from schemas.actions import parse_reply
from trainer.modeling.processor import Processor
from trainer.rl.rewards import ReplyTarget, succeeds, type_match, unreadable
from trainer.settings.distill import SpanPushes
from trainer.settings.rewards import RewardConfig

Fault = Literal["type", "parameters", "unreadable", "none"]


@dataclass(frozen=True, slots=True)
class Pushes:
    """What is wrong with a reply, and the weight of each of its tokens."""

    fault: Fault
    weights: tuple[float, ...]

    @property
    def any(self) -> bool:
        """Whether any token is pushed."""
        return any(weight > 0 for weight in self.weights)


def fault_of(text: str, truth: ReplyTarget, rewards: RewardConfig) -> Fault:
    """What is wrong with a reply's action, or with its point, which has no type."""
    if unreadable(text, truth, rewards):
        return "unreadable"
    if succeeds(text, truth, rewards):
        return "none"
    if truth.action is not None and not type_match(parse_reply(text, truth.space).action, truth.action):
        return "type"
    return "parameters"


def span_pushes(
    text: str, ids: Sequence[int], truth: ReplyTarget, processor: Processor, settings: SpanPushes, rewards: RewardConfig
) -> Pushes:
    """Weights of a reply's tokens by the spans of its action."""
    fault = fault_of(text, truth, rewards)
    parts = processor.action_parts(ids)
    if fault == "unreadable" or all(part == "rest" for part in parts):  # a point of another form has no span
        return Pushes(fault, (settings.right if fault == "none" else settings.unreadable,) * len(parts))
    # a part gets weight only for a fault of its own, or where all is right
    by_part: dict[str, dict[Fault, float]] = {
        "type": {"type": settings.wrong_type, "none": settings.right},
        "parameters": {"parameters": settings.wrong_parameters, "none": settings.right},
        "rest": {fault: settings.rest},
    }
    return Pushes(fault, tuple(by_part[part].get(fault, 0.0) for part in parts))


def all_pushed(text: str, ids: Sequence[int], truth: ReplyTarget, rewards: RewardConfig) -> Pushes:
    """Every token alike, as [OpenClaw-RL] weighs them: what followed was good or bad of the whole reply."""
    return Pushes(fault_of(text, truth, rewards), (1.0,) * len(ids))
