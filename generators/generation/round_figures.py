"""What a round came to: yield as verified, and beside it what the world's truth says of tasks, policy and verdicts."""

from collections.abc import Mapping, Sequence
from typing import Any

from generators.generation.proposing.proposers import Proposal
from generators.generation.task_worlds.task_world import TaskWorld
from generators.generation.verify import TrajectoryVerdict
from generators.tasks.task_spec import has_rule
from generators.tasks.trajectory import ExecutedTrajectory


def figures(
    task_world: TaskWorld,
    proposals: Mapping[str, Proposal],
    trajectories: Sequence[ExecutedTrajectory],
    verdicts: Sequence[TrajectoryVerdict],
) -> dict[str, Any]:
    """Counts of a round. `executed` leaves infrastructure failures out; `yield` = verified / executed.

    What is said by the world's truth is said of the executed tasks that a rule decides (`with a rule`), for no world
    knows of any other whether it was done: `feasible` and `true yield` are shares of those, `policy success` = done by
    truth / feasible, `false positives` and `missed` compare verdicts with the truth. A share of nothing is None."""
    counted = [
        # Infrastructure failures leave numerator and denominator alike:
        # they measure the devices, not the loop.
        (done, verdict)
        for done, verdict in zip(trajectories, verdicts, strict=True)
        if verdict.failure_kind != "infrastructure"
    ]
    verified = [verdict.verified for _, verdict in counted]
    ruled = [(done, verdict) for done, verdict in counted if has_rule(done.contract.evaluator)]
    # None = no path leads there: the proposal was impossible, which no policy is to blame for.
    feasible = [task_world.shortest(done.contract) is not None for done, _ in ruled]
    true = [task_world.true(done.contract, done.end_state, done.answer) for done, _ in ruled]
    by_rule = [verdict.verified for _, verdict in ruled]
    by_arm: dict[str, Any] = {}
    for arm in sorted({proposal.arm for proposal in proposals.values()}):
        own = [v for (done, _), v in zip(counted, verified, strict=True) if proposals[done.contract.task_id].arm == arm]
        # Per arm, since arms are what the loop learns to choose between.
        by_arm[f"yield of {arm}"] = _share(sum(own), len(own))
    return {
        "trajectories": len(trajectories),
        "executed": len(counted),
        "verified": sum(verified),
        "different trajectories": len({done.trajectory_id for done in trajectories}),
        "yield": _share(sum(verified), len(verified)),
        "with a rule": len(ruled),
        "verified with a rule": sum(by_rule),
        "feasible": _share(sum(feasible), len(ruled)),
        # Among feasible ones only: success on impossible tasks would be an error of the rule.
        "policy success": _share(sum(t for t, f in zip(true, feasible, strict=True) if f), sum(feasible)),
        "true yield": _share(sum(true), len(ruled)),
        "false positives": sum(v and not t for v, t in zip(by_rule, true, strict=True)),
        "missed": sum(t and not v for v, t in zip(by_rule, true, strict=True)),
        **by_arm,
    }


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 4) if whole else None
