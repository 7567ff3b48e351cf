"""What passes through the generation loop: a task as an executable contract, and what a policy made of it.

A contract is a row of the `tasks` table with its JSON read. A trajectory is everything an execution left behind, and
nothing that it didn't see: whether it is *verified* is decided later (`generators.generation.verify`), whether it is
*true* by the world (`generators.environments.evaluators`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from generators.task_pool import contract_id, stratum
from schemas.actions import Action
from schemas.ids import canonical_json

FailureKind = Literal["infrastructure", "task"]
"""`infrastructure`: the device, the gateway, the policy's server or a worker failed; it says nothing about the task and
counts for nothing. `task`: the policy didn't do what was asked."""


@dataclass(frozen=True)
class Contract:
    """An executable contract (docs/method.md §4): what to do, from which snapshot, and the rule that decides it.

    `initial_state` is what `World.reset` takes; its entry "world" names the world (`generators.environments.registry`).
    `evaluator` = {"rule": name, ...} (`generators.environments.evaluators`).
    """

    instruction: str
    platform: str
    target: str
    initial_state: Mapping[str, Any]
    evaluator: Mapping[str, Any]
    expected_steps: int
    capabilities: tuple[str, ...] = ()
    origin: str = "static"
    parents: tuple[str, ...] = ()

    @property
    def task_id(self) -> str:
        return contract_id(
            self.target, self.instruction, canonical_json(self.initial_state), canonical_json(self.evaluator)
        )

    @property
    def world(self) -> str:
        """Name of the world that it runs in. Raises `ValueError` for a start that names none."""
        name = self.initial_state.get("world")
        if not isinstance(name, str) or not name:
            raise ValueError(f"task {self.instruction[:60]!r}: expected initial_state.world, found {name!r}")
        return name

    @property
    def stratum(self) -> str:
        return stratum(self.expected_steps)

    def as_row(self) -> dict[str, Any]:
        """A row of the `tasks` table."""
        return {
            "task_id": self.task_id,
            "instruction": self.instruction,
            "platform": self.platform,
            "target": self.target,
            "capabilities": list(self.capabilities),
            "initial_state": canonical_json(self.initial_state),
            "evaluator": canonical_json(self.evaluator),
            "expected_steps": self.expected_steps,
            "stratum": self.stratum,
            "origin": self.origin,
            "parents": list(self.parents),
        }

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Contract:
        """The inverse of `as_row`. Raises `ValueError` for a row whose id isn't that of its contents."""
        found = cls(
            row["instruction"],
            row["platform"],
            row["target"],
            json.loads(row["initial_state"]),
            json.loads(row["evaluator"]),
            row["expected_steps"],
            tuple(row["capabilities"]),
            row["origin"],
            tuple(row["parents"]),
        )
        if found.task_id != row["task_id"]:
            raise ValueError(f"task {row['task_id'][:40]!r}: expected the id {found.task_id} of its contents")
        return found


@dataclass(frozen=True)
class Turn:
    """One step: the screen it was decided on, the reply, and what came of it.

    `elements` are those of the `screens` table (empty where the device tells none). `action` is None for a reply that
    couldn't be read; `error` says why an action did nothing ("" = it was carried out). Seconds are wall time.
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


@dataclass(frozen=True)
class Trajectory:
    """An execution of a contract. `end` is the screen after the last turn (as a turn without action).

    `answer` = text of the last CallUser. `end_state` = the world's truth after the last turn ({} where the device tells
    none). `ended` = "finished" (the policy said so), "asked" (it ended with CallUser), "steps" (the limit of steps),
    "unreadable" (three unreadable replies in a row), or "failed" (infrastructure: see `failure_kind` and `failure`).
    `resumed` counts how often a crash was survived by replaying what had been done.
    """

    contract: Contract
    policy: str
    device: str
    seed: int
    turns: tuple[Turn, ...]
    end: Turn | None
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
