"""What a policy made of a task: everything that an execution left behind, and nothing that it didn't see.

Whether a trajectory is *verified* is decided later (`generators.generation.verify`), whether it is *true* by the world
(`generators.worlds.evaluators`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from generators.tasks.task_spec import TaskSpec
from schemas.actions import Action

FailureKind = Literal["infrastructure", "task"]
"""`infrastructure`: the device, the gateway, the policy's server or a worker failed; it says nothing about the task and
counts for nothing. `task`: the policy didn't do what was asked."""


@dataclass(frozen=True)
class ExecutedTurn:
    """One step: the screen it was decided on, the reply, and what came of it.

    `elements` are those of the `screens` table (empty where the device lists none). `action` is None for a reply that
    couldn't be read; `error` says why an action did nothing ("" = it was carried out). `said` is what the
    screen answers in words to the turn before (`Observation.said`). Seconds are wall time.
    """

    screenshot_sha256: str
    size_px: tuple[int, int]
    elements: tuple[Mapping[str, Any], ...]
    reply: str
    action: Action | None
    thought: str = ""
    conclusion: str = ""
    error: str = ""
    observe_s: float = 0.0
    decide_s: float = 0.0
    act_s: float = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    said: str = ""


@dataclass(frozen=True)
class ExecutedTrajectory:
    """An execution of a contract. `end` is the screen after the last turn (as a turn without action).

    `answer` = text of the last CallUser. `end_state` = the world's truth after the last turn ({} where the device
    reports none). `ended` = "finished" (the policy said so), "asked" (it ended with CallUser), "steps" (the limit of
    steps), "unreadable" (three unreadable replies in a row), or "failed" (infrastructure: see `failure_kind` and
    `failure`). `resumed` counts how often a crash was survived by replaying what had been done."""

    contract: TaskSpec
    policy: str
    device: str
    seed: int
    turns: tuple[ExecutedTurn, ...]
    end: ExecutedTurn | None
    end_state: Mapping[str, Any]
    answer: str
    ended: Literal["finished", "asked", "steps", "unreadable", "failed"]
    failure_kind: FailureKind | None = None
    failure: str = ""
    resumed: int = 0
    seconds: float = 0.0
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def trajectory_id(self) -> str:
        """Of the task and the seed of its attempt: an attempt that is run again replaces itself."""
        return f"{self.contract.task_id}-{self.seed}"

    @property
    def actions(self) -> tuple[Action, ...]:
        """The actions that were carried out, in order."""
        return tuple(turn.action for turn in self.turns if turn.action is not None and not turn.error)
