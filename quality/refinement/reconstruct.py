"""Reconstruction (docs/method.md §3: 0–3): keep what evidence proves, else decline, and the item is discarded.

Steps: flip a scroll whose measured shift contradicts its word, realign an off-by-one screenshot, snap a slightly
shifted point or box to the element that is named, type what the next screen shows, drop a repetition. Episodes: cut
after the first Finished, or at an end that isn't reached, and keep the valid prefix. What it makes is scored again.

What it can't repair: anything without elements or measured pixels, a click whose target nothing names, and goals.
"""

from collections.abc import Sequence
from dataclasses import replace

from quality.evidence.samples import boxes_of
from quality.evidence.steps import Finding, point_of
from quality.evidence.words import holds
from quality.items.item import Episode, Row, Sample, Step
from quality.items.screens import Box
from quality.refinement.repairs import repair_of, with_action
from schemas.action_types import DIRECTIONS, OPPOSITE, Scroll, Type, scroll_direction

SNAP_LIMIT = 150.0
"""Units of 0..1000: a point or box further from the element named isn't slightly shifted, it is something else."""
DROP = "drop"
EARLY = {"entities_unmet", "not_reached", "left_unconfirmed"}
"""Findings that say: the steps are right, the end comes too early."""

StepRepair = tuple[str, Row | None]
"""Name of the repair and the new row; None = the step is dropped."""


def reconstruct_step(step: Step, findings: Sequence[Finding]) -> StepRepair | None:
    """The first repair that the findings prove; None if none does (the step is then discarded)."""
    # The gravest first; findings from 8 on speak for the step and prove no repair.
    against = sorted((f for f in findings if f.cap < 8), key=lambda f: f.cap)
    for finding in against:
        for key, make in _STEP_REPAIRS.items():
            # A repair may decline, and the next finding is asked then.
            if key in finding.repair and (built := make(step, finding)) is not None:
                return key, built
        if finding.kind == "repeated":
            return DROP, None
    return None


def _flip(step: Step, finding: Finding) -> Row | None:
    """The measured direction in the place of the word; points are swapped with it."""
    action, measured = step.action, finding.repair["flip"]
    if not isinstance(action, Scroll) or measured not in DIRECTIONS:
        return None
    if action.start is None or action.end is None:
        return with_action(step.row, Scroll(direction=measured))
    # The way stays, walked the other way round, and the word turns with it.
    swapped = Scroll(action.end, action.start, OPPOSITE[action.direction] if action.direction else "")
    agrees = swapped.direction or scroll_direction(swapped.start, swapped.end)  # type: ignore[arg-type]
    return with_action(step.row, swapped) if agrees == measured else None


def _snap(step: Step, finding: Finding) -> Row | None:
    """The point moves to the centre of the element named, if it lay no further than `SNAP_LIMIT` from it."""
    box, point, action = tuple(finding.repair["snap"]), point_of(step), step.action
    # Further away it isn't a slip but another element.
    if point is None or action is None or distance(point, box) > SNAP_LIMIT:
        return None
    centre = (round((box[0] + box[2]) / 2), round((box[1] + box[3]) / 2))
    return with_action(step.row, replace(action, box=centre))  # type: ignore[arg-type]


def distance(point: Sequence[float], box: Sequence[float]) -> float:
    """Euclidean distance from a point to a box; 0 inside."""
    dx = max(box[0] - point[0], 0.0, point[0] - box[2])
    dy = max(box[1] - point[1], 0.0, point[1] - box[3])
    return float((dx * dx + dy * dy) ** 0.5)


def _realign(step: Step, finding: Finding) -> Row | None:
    """The screenshot before or after, which the action fits."""
    other = step.previous if finding.repair["realign"] < 0 else step.next
    return None if other is None else {**step.row, "screenshot_sha256": other.sha256}


def _type(step: Step, finding: Finding) -> Row | None:
    """What the next screen shows was typed, if the instruction asks for that too."""
    shown = finding.repair["type"]
    if not isinstance(step.action, Type):
        return None
    # The screen alone could show an autocompletion; that the instruction asks for it, too, is the proof.
    requested = (step.row["instruction"], step.row["step_instruction"] or "")
    stated = next((text for text in requested if holds(text, shown)), None)
    return with_action(step.row, Type(shown)) if stated is not None else None


_STEP_REPAIRS = {"flip": _flip, "snap": _snap, "realign": _realign, "type": _type}


def reconstruct_episode(episode: Episode, findings: Sequence[Finding]) -> tuple[str, int] | None:
    """Where to cut: (name of the repair, last step index kept); None if nothing valid is left or proven.

    Steps after Finished are cut off. An episode without its Finished, or with one whose goal is met only in part,
    keeps its steps as a prefix: its end isn't claimed.
    """
    kinds = {f.kind for f in findings if f.cap < 8}
    actions = episode.actions
    # A failed episode has no right beginning that anybody could vouch for.
    if "failed" in kinds or "nothing_done" in kinds:
        return None
    after = repair_of(findings, "cut_after")
    if after is not None:
        return "cut", int(after)
    if episode.is_prefix:
        return None
    # Only the end is missing: all steps stay, as a prefix.
    if "no_finish" in kinds and kinds <= {"no_finish"}:
        return "cut:no_finish", int(actions[-1].row["step_index"])
    # The end is claimed too early, and nothing else is wrong: only the claim goes.
    early = kinds <= EARLY and ("entities_unmet" not in kinds or _partly_met(findings))
    if kinds and early and len(actions) > 1 and actions[-1].row["action_type"] == "Finished":
        return "cut:early_finish", int(actions[-2].row["step_index"])
    return None


def _partly_met(findings: Sequence[Finding]) -> bool:
    return any(f.kind == "entities_unmet" and f.repair.get("met") for f in findings)


def reconstruct_sample(sample: Sample, findings: Sequence[Finding]) -> tuple[str, Row] | None:
    """Move a box to the element named, move it back with the others of its picture, put the answer's point into the
    box, or the answer that the screen shows; None if nothing is proven."""
    against = sorted((f for f in findings if f.cap < 8), key=lambda f: f.cap)
    for finding in against:
        repair = finding.repair
        boxes = boxes_of(sample)
        if "move" in repair and boxes:
            dx, dy = repair["move"]
            return "move", _with_boxes(sample.row, [(b[0] + dx, b[1] + dy, b[2] + dx, b[3] + dy) for b in boxes])
        if "snap" in repair and len(boxes) == 1:
            # The middle of the box decides, as it is where an answer would point.
            centre = ((boxes[0][0] + boxes[0][2]) / 2, (boxes[0][1] + boxes[0][3]) / 2)
            if distance(centre, repair["snap"]) <= SNAP_LIMIT:
                return "snap", _with_boxes(sample.row, [tuple(repair["snap"])])
        if repair.get("recentre") and len(boxes) == 1:
            return "recentre", _with_boxes(sample.row, boxes)
        if "answer" in repair:
            return "answer", {**sample.row, "answer": repair["answer"]}
    return None


def _with_boxes(row: Row, boxes: Sequence[Box]) -> Row:
    """The row with other target boxes, and a grounding answer at the centre of the first."""
    # A box moved back may hang over the border by rounding.
    clamped = [[min(max(value, 0.0), 1000.0) for value in box] for box in boxes]
    new = {**row, "target_boxes": clamped}
    if row["objective"] == "grounding":
        left, top, right, bottom = clamped[0]
        # Rounded half up, as answers are written elsewhere: Python's round takes 0.5 to the even side.
        new["answer"] = f"[{int((left + right) / 2 + 0.5)},{int((top + bottom) / 2 + 0.5)}]"
    return new
