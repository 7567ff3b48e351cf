"""Trajectories as lines of JSON come back as they were."""

from __future__ import annotations

from pathlib import Path

import pytest
from executing import fsm_contracts

from generators.generation.records import read_lines, write_lines
from generators.tasks.trajectory import ExecutedTrajectory, ExecutedTurn
from schemas.action_types import Click


def test_signs_that_end_a_line_elsewhere_end_no_record(tmp_path: Path) -> None:
    turns = (ExecutedTurn("0" * 64, (1024, 640), (), "one\u2028two\u2029three\u0085four", Click((1, 2))),)
    done = [
        ExecutedTrajectory(fsm_contracts()[0], "path", "", seed, turns, None, {"note": "a\u2028b"}, "no\u0085", "asked")
        for seed in range(2)
    ]
    write_lines(tmp_path / "trajectories.jsonl", done)
    assert read_lines(tmp_path / "trajectories.jsonl") == done


def test_a_line_that_is_no_trajectory_is_named(tmp_path: Path) -> None:
    (tmp_path / "trajectories.jsonl").write_text("{}\n")
    with pytest.raises(ValueError, match=r"trajectories\.jsonl: line 1: expected a trajectory"):
        read_lines(tmp_path / "trajectories.jsonl")
