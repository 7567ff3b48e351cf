"""The one verdict on a run that derivers of whole trajectories are given, from what verification found of it."""

import json
from collections.abc import Mapping
from typing import Any

from pipelines.derivers.trajectory import RunVerdict

WORTH = {"completed": 1.0, "infeasible": 1.0, "partial": 0.5, "failed": 0.0}
"""What a vote counts, of 1."""


def run_verdict(row: Mapping[str, Any], rough_from: float | None = None) -> RunVerdict | None:
    """A row of `Trajectories` → its verdict; None where infrastructure failed or nobody can tell.

    The score is 10 times the mean vote, 10 of what was verified. A run that isn't verified is rough from `rough_from`
    on, else a failure.
    """
    # Nothing is known of the policy from a device that died.
    if row["failure_kind"] == "infrastructure":
        return None
    votes = [WORTH[outcome] for _, outcome, *_ in json.loads(row["votes"]) if outcome is not None]
    # `reason` begins with the filter that decided; only the world's own rule is trusted beyond votes.
    trusted = row["reason"].startswith("world")
    if row["verified"]:
        return RunVerdict(10, "success", trusted)
    score = 10 * sum(votes) / len(votes) if votes else 0.0
    if rough_from is not None and votes and score >= rough_from:
        return RunVerdict(score, "rough", trusted)
    # Neither done nor failed: undecided, so no verdict.
    return RunVerdict(score, "failure", trusted) if row["failure_kind"] == "task" else None
