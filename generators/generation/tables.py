"""Trajectories as rows: `steps` and `screens` like those of any source, and what is known of each execution.

Steps are the actions that were carried out. Replies that couldn't be read and actions that the world refused changed
nothing, so the screens around them are one; `provenance.turn` says where they were left out. A trajectory that ended
without Finished or CallUser has its last screen as a row without an action.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from generators.tasks.trajectory import ExecutedTrajectory, ExecutedTurn
from pipelines.prompts.answers import with_answers
from pipelines.store.images import image_size, read_image
from quality.items.item import Episode, make_episode
from quality.items.screens import ScreenBank, ScreenSource
from schemas.action_types import CallUser, Finished
from schemas.actions import format
from schemas.ids import GENERATED_SOURCE, canonical_json
from schemas.tables import Screens, Steps, Trajectories, TrajectoryRuns

if TYPE_CHECKING:
    from generators.generation.verify import TrajectoryVerdict

OUTCOMES = {"completed": "success", "infeasible": "infeasible", "partial": "failure", "failed": "failure"}
"""`episode_outcome` of the `steps` table by a verdict's outcome."""


def step_rows(done: ExecutedTrajectory, outcome: str | None = None) -> list[dict[str, object]]:
    """Rows of `steps`. `outcome` is `episode_outcome`: never what the policy claims."""
    # Refused and unreadable turns changed nothing on screen: as steps they would teach doing nothing.
    kept = [(at, turn) for at, turn in enumerate(done.turns) if turn.action is not None and not turn.error]
    ended = kept and isinstance(kept[-1][1].action, Finished | CallUser)
    if done.end is not None and not ended:
        # The last screen without an action: the state that the run was left in, for judges to see.
        kept.append((len(done.turns), done.end))
    return [_step_row(done, index, at, turn, outcome) for index, (at, turn) in enumerate(kept)]


def goal_at(done: ExecutedTrajectory, at: int) -> str:
    """What was asked at a turn: the goal, and what the world's user had answered by then."""
    care = done.end_state.get("care")
    # Only worlds with a simulated user have it.
    exchanges = care["exchanges"] if isinstance(care, Mapping) else ()
    # Questions that were carried out before this turn, so that no step is told an answer that came later.
    asked = sum(isinstance(turn.action, CallUser) and not turn.error for turn in done.turns[:at])
    return with_answers(done.contract.instruction, [(question, said) for question, said in exchanges[:asked]])


def _step_row(done: ExecutedTrajectory, index: int, at: int, turn: ExecutedTurn, outcome: str | None) -> dict[str, Any]:
    contract, action = done.contract, turn.action
    return {
        "source": GENERATED_SOURCE,
        "episode_id": done.trajectory_id,
        "step_index": index,
        # Our own worlds have no held-out split: what is held out are worlds and sites, in suites.
        "split": "train",
        "platform": contract.platform,
        "app": contract.target,
        # The goal as it stood at this turn.
        "instruction": goal_at(done, at),
        "screenshot_sha256": turn.screenshot_sha256,
        "width_px": turn.size_px[0],
        "height_px": turn.size_px[1],
        "action_type": type(action).__name__ if action is not None else None,
        "action_text": format(action) if action is not None else None,
        "thought": turn.thought or None,
        "conclusion": turn.conclusion or None,
        # The verifier's outcome, None where nobody can tell.
        "episode_outcome": outcome,
        "native_action": canonical_json({"reply": turn.reply}),
        "provenance": canonical_json(
            {
                "file": "trajectories",
                "record": done.trajectory_id,
                "turn": at,
                "task_id": contract.task_id,
                "policy": done.policy,
                "origin": contract.origin,
                **({"said": turn.said} if turn.said else {}),
            }
        ),
    }


def screen_rows(trajectories: Iterable[ExecutedTrajectory], source: ScreenSource) -> list[dict[str, object]]:
    """Rows of `screens`, each picture once, in the order of their hashes. Raises `StoreError` or `ImageError` for a
    picture that `source` lacks or that is none."""
    rows = []
    for sha256, elements in sorted(_elements(trajectories).items()):
        info = read_image(source.screen_bytes(sha256))
        rows.append(_screen_row(sha256, (info.width_px, info.height_px), info.phash, elements))
    return rows


def _elements(trajectories: Iterable[ExecutedTrajectory]) -> dict[str, Sequence[Mapping[str, Any]]]:
    found: dict[str, Sequence[Mapping[str, Any]]] = {}
    for done in trajectories:
        for turn in (*done.turns, *([done.end] if done.end is not None else [])):
            # The first turn that showed a picture says its elements: equal pixels, equal elements.
            found.setdefault(turn.screenshot_sha256, turn.elements)
    return found


def _screen_row(
    sha256: str, size_px: tuple[int, int], phash: int, elements: Sequence[Mapping[str, object]]
) -> dict[str, Any]:
    return {
        "screenshot_sha256": sha256,
        "width_px": size_px[0],
        "height_px": size_px[1],
        "phash": phash,
        "elements": [dict(element) for element in elements],
        "source": GENERATED_SOURCE,
    }


def episode_of(done: ExecutedTrajectory, source: ScreenSource) -> Episode | None:
    """A trajectory as a judge sees it: actions and screens, without the world's truth; None if nothing was done."""
    rows = step_rows(done)
    if not rows:
        return None
    screens = []
    for sha256, elements in sorted(_elements([done]).items()):
        size = image_size(source.screen_bytes(sha256))  # its header: no judge asks for the phash
        screens.append(_screen_row(sha256, size, 0, elements))
    return make_episode(Steps.table(rows).to_pylist(), ScreenBank(Screens.table(screens), source))


def trajectory_row(done: ExecutedTrajectory, verdict: TrajectoryVerdict) -> dict[str, object]:
    """A row of `Trajectories`."""
    return {
        "trajectory_id": done.trajectory_id,
        "task_id": done.contract.task_id,
        "policy": done.policy,
        "seed": done.seed,
        "ended": done.ended,
        "turns": len(done.turns),
        "answer": done.answer,
        "outcome": verdict.outcome,
        "verified": verdict.verified,
        "reason": verdict.reason,
        "failure_kind": verdict.failure_kind,
        "end_state": canonical_json(dict(done.end_state)),
        "votes": canonical_json(
            [[vote.annotator, vote.outcome, vote.confidence, vote.reason] for vote in verdict.votes]
        ),
    }


def run_row(done: ExecutedTrajectory) -> dict[str, object]:
    """A row of `TrajectoryRuns`."""
    turns = done.turns
    return {
        "trajectory_id": done.trajectory_id,
        "device": done.device,
        "seconds": done.seconds,
        "resumed": done.resumed,
        "anew": done.extra.get("anew", 0),
        "failures": list(done.extra.get("broken", ())),
        "observe_s": [turn.observe_s for turn in turns],
        "decide_s": [turn.decide_s for turn in turns],
        "act_s": [turn.act_s for turn in turns],
        "prompt_tokens": sum(turn.prompt_tokens for turn in turns),
        "completion_tokens": sum(turn.completion_tokens for turn in turns),
    }


def trajectory_tables(
    trajectories: Sequence[ExecutedTrajectory], verdicts: Sequence[TrajectoryVerdict], source: ScreenSource
) -> dict[str, pa.Table]:
    """Tables `steps`, `screens`, `trajectories` and, to be kept out of every hash, `trajectory_runs`; all ordered by
    trajectory id. `verdicts` are those of the trajectories, one each. Raises `ValueError` where they don't fit."""
    # By id in both: rows stay the same whichever worker finished first.
    pairs = sorted(zip(trajectories, verdicts, strict=True), key=lambda pair: pair[0].trajectory_id)
    for done, verdict in pairs:
        if verdict.trajectory_id != done.trajectory_id:
            raise ValueError(f"tables: expected the verdict of {done.trajectory_id}, found {verdict.trajectory_id}")
    steps = [
        row
        for done, verdict in pairs
        # Undecided outcomes are None in `steps`, as an unknown outcome is in any source.
        for row in step_rows(done, OUTCOMES[verdict.outcome] if verdict.decided and verdict.outcome else None)
    ]
    return {
        "steps": Steps.table(steps),
        "screens": Screens.table(screen_rows((done for done, _ in pairs), source)),
        "trajectories": Trajectories.table(trajectory_row(*pair) for pair in pairs),
        "trajectory_runs": TrajectoryRuns.table(run_row(done) for done, _ in pairs),
    }
