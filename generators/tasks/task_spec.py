"""A task as an executable contract: a row of the `tasks` table with its JSON read."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from generators.tasks.strata import stratum
from schemas.ids import canonical_json, digest

VOTES, FINAL_KEYFRAME = "votes", "judge_final_keyframe"
"""What stands for the rule of a task without one: no state decides it, annotators do, or a judge of its last screen."""


def task_id_of(target: str, instruction: str, state: str, evaluator: str) -> str:
    """`task_id` of a contract; state and evaluator as canonical JSON."""
    return digest([target, instruction, state, evaluator])[:32]


def has_rule(evaluator: Mapping[str, object]) -> bool:
    """Whether a rule decides the task, known or not."""
    return evaluator.get("rule") not in (VOTES, FINAL_KEYFRAME)


@dataclass(frozen=True)
class TaskSpec:
    """An executable contract (docs/method.md §4): what to do, from which snapshot, and the rule that decides it.

    `initial_state` is what `World.reset` takes; its entry "world" names the world (`generators.worlds.registry`).
    `evaluator` = {"rule": name, ...} (`generators.worlds.evaluators`).
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
        return task_id_of(
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

    def as_row(self) -> dict[str, object]:
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
    def from_row(cls, row: Mapping[str, Any]) -> "TaskSpec":
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
        # the id is what everything else goes by: a row whose content was changed is another task
        if found.task_id != row["task_id"]:
            raise ValueError(f"task {row['task_id'][:40]!r}: expected the id {found.task_id} of its contents")
        return found
