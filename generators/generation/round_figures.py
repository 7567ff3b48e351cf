"""What a round came to: yield as verified, and beside it what the world's truth says of tasks, policy and verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from generators.generation.grounds.ground import Ground
from generators.generation.tasks.contract import Trajectory
from generators.generation.tasks.proposers import Proposal
from generators.generation.verify import Verdict


def figures(
    ground: Ground, proposals: Mapping[str, Proposal], trajectories: Sequence[Trajectory], verdicts: Sequence[Verdict]
) -> dict[str, Any]:
    """Counts of a round. `executed` leaves infrastructure failures out; `yield` = verified / executed; `feasible` and
    `false positives` are by the world's truth, `policy success` = done by truth / feasible."""
    counted = [(done, verdict) for done, verdict in zip(trajectories, verdicts, strict=True)
               if verdict.failure_kind != "infrastructure"]  # fmt: skip
    feasible = [ground.shortest(done.contract) is not None for done, _ in counted]
    true = [ground.true(done.contract, done.end_state, done.answer) for done, _ in counted]
    verified = [verdict.verified for _, verdict in counted]
    executed = max(len(counted), 1)
    by_arm: dict[str, Any] = {}
    for arm in sorted({proposal.arm for proposal in proposals.values()}):
        own = [v for (done, _), v in zip(counted, verified, strict=True) if proposals[done.contract.task_id].arm == arm]
        by_arm[f"yield of {arm}"] = round(sum(own) / len(own), 4) if own else None
    return {
        "trajectories": len(trajectories), "executed": len(counted), "verified": sum(verified),
        "different trajectories": len({done.trajectory_id for done in trajectories}),
        "yield": round(sum(verified) / executed, 4), "feasible": round(sum(feasible) / executed, 4),
        "policy success": round(sum(t for t, f in zip(true, feasible, strict=True) if f) / max(sum(feasible), 1), 4),
        "true yield": round(sum(true) / executed, 4),
        "false positives": sum(v and not t for v, t in zip(verified, true, strict=True)),
        "missed": sum(t and not v for v, t in zip(verified, true, strict=True)),
        **by_arm,
    }  # fmt: skip
