"""Trajectories as lines of JSON, without what time and chance added: the same executions give the same bytes."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from generators.execution.journal import turn_from_plain, turn_to_plain
from generators.tasks.task_spec import TaskSpec
from generators.tasks.trajectory import ExecutedTrajectory
from schemas.ids import canonical_json, split_json_lines

_TIMES = ("observe_s", "decide_s", "act_s")


def to_plain(done: ExecutedTrajectory) -> dict[str, object]:
    """A trajectory as plain JSON data; device, seconds and what it survived are left out."""
    return {
        "contract": done.contract.as_row(),
        "policy": done.policy,
        "seed": done.seed,
        "answer": done.answer,
        "ended": done.ended,
        "failure_kind": done.failure_kind,
        "failure": done.failure,
        "end_state": dict(done.end_state),
        "turns": [_timeless(turn_to_plain(turn)) for turn in done.turns],
        "end": None if done.end is None else _timeless(turn_to_plain(done.end)),
    }


def _timeless(plain: Mapping[str, object]) -> dict[str, Any]:
    # Seconds differ from run to run and would give every execution another digest.
    return {name: value for name, value in plain.items() if name not in _TIMES}


def from_plain(plain: Mapping[str, Any]) -> ExecutedTrajectory:
    """The inverse of `to_plain`. Raises `ValueError`, `KeyError` or `TypeError` for what is none."""
    return ExecutedTrajectory(
        TaskSpec.from_row(plain["contract"]),
        plain["policy"],
        # The device is not restored: `to_plain` left it out, since the
        # same work on another device is the same data.
        "",
        plain["seed"],
        tuple(turn_from_plain(turn) for turn in plain["turns"]),
        None if plain["end"] is None else turn_from_plain(plain["end"]),
        plain["end_state"],
        plain["answer"],
        plain["ended"],
        plain["failure_kind"],
        plain["failure"],
    )


def write_lines(path: Path, trajectories: Iterable[ExecutedTrajectory]) -> None:
    """One line a trajectory, ordered by id."""
    # By id, so that the number of workers and who was quicker don't show in the bytes.
    ordered = sorted(trajectories, key=lambda done: done.trajectory_id)
    path.write_text("".join(canonical_json(to_plain(done)) + "\n" for done in ordered), encoding="utf-8")


def read_lines(path: Path) -> list[ExecutedTrajectory]:
    """Raises `ValueError` naming the file for a line that is no trajectory."""
    found = []
    for number, line in enumerate(split_json_lines(path.read_text(encoding="utf-8")), 1):
        try:
            found.append(from_plain(json.loads(line)))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path.name}: line {number}: expected a trajectory: {error}") from error
    return found
