"""What a stage of the graph rests on."""

from __future__ import annotations

from collections.abc import Mapping

from dagster_project.stages.stage import GraphStage


def all_above(stages: Mapping[str, GraphStage], key: str) -> set[str]:
    """All keys that a stage depends on, however far away."""
    found: set[str] = set()
    waiting = list(stages[key].deps)
    while waiting:
        one = waiting.pop()
        if one not in found:
            found.add(one)
            waiting += stages[one].deps
    return found
