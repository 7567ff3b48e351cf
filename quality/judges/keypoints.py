"""V2's verification of a whole trace (docs/method.md §4): goal → keypoints → windows of screenshots → outcome.

1. One request turns the goal into a few short statements that screenshots can show (keypoints).
2. The trace is cut into overlapping windows of screenshots with the actions drawn; one request per window says for
   each keypoint: met, not met, can't decide, and which screenshot shows it. All windows of all traces run side by side.
3. Where the windows leave no doubt, a rule gives the outcome; else one more request judges the key frames.

completed / partial / infeasible / failed becomes the reachability. The agent's own claim of success is never evidence:
thoughts, conclusions, the text of Finished and the steps' descriptions aren't sent; the text of a CallUser is, as
untrusted data, where the goal asks a question, for then it is the thing to check.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from quality.items.item import Episode, Step
from quality.judges.openai_judge import drawn
from quality.model_client.client import CheckedAnswer, Request, data_block
from quality.model_client.questions import GUARD
from schemas.action_types import CallUser, Finished
from schemas.actions import format as format_action
from schemas.ids import digest

REACHABILITY = {"completed": 9, "partial": 5, "infeasible": 5, "failed": 2}
"""Outcome → reachability (thresholds: docs/method.md §3). completed 9: a model's word, so not 10. partial 5 and
infeasible 5: the trace does something sensible that isn't the goal, so a goal restated to what it reached can make it
true, which is what the band 4–6 is for; an infeasible goal is no merit of the trace, and none of its faults. failed 2:
nothing of the goal was reached, no restated goal keeps its sense, so it is for reconstruction; 0 is kept for
nonsense."""
PREFIX_REACHABILITY = {"completed": 9, "partial": 8, "infeasible": 5, "failed": 4}
"""The same for a trace that a repair cut: its end isn't claimed to reach the goal, so to be on the way is all it has to
do (8), and to have reached nothing yet is doubtful, not wrong (4)."""
OUTCOMES = tuple(REACHABILITY)
VERDICTS = ("met", "not_met", "cant_tell")
RULE_CONFIDENCE = 0.9
"""Where windows agree so far that a rule decides. Below 1: all windows ask the same model, which can err alike."""

TEMPLATE_VERSION = "keypoints-1"
MAX_STATEMENT = 200
_COMMON = f"You check what GUI agents have done. {GUARD} Answer with JSON of the given schema only."
KEYPOINT_RUBRIC = (
    f"{_COMMON}\nList what must be true for the goal to count as reached: short statements, in the order in which they "
    "come true, each of which a screenshot can show or refute. Keep every name, number and text of the goal. Name only "
    "what the goal demands, never a way to get there. Use as few fields as you need, leave the rest empty. "
    "question: yes if the goal asks for an answer in words; then one statement says what the answer must state."
)
WINDOW_RUBRIC = (
    f"{_COMMON}\nThe screenshots are consecutive, numbered from 1, with actions drawn: a red ring is a click, a blue "
    "arrow a finger's path; an action's effect shows on the next screenshot. Decide each statement by what these "
    "screenshots show, never by what an agent says about itself.\nverdict_k: met = a screenshot shows it; not_met = "
    "the screenshots show that it isn't so by the end of this part (the place where it would show is visible and shows "
    "something else); cant_tell = these screenshots don't show it either way. seen_k: the number of the screenshot "
    "that shows it, 0 if none. blocked: the number of a screenshot on which the app or page itself says that the goal "
    "can't be reached (no such item, no access, not offered), else 0. reason: one short sentence."
)
FINAL_RUBRIC = (
    f"{_COMMON}\nSay how this trace ends. The screenshots are its key frames in order, with actions drawn. The "
    "findings are another reader's notes on parts of the trace; they may err.\n"
    "outcome: completed = the screenshots show that everything the goal demands is so at the end; partial = a part of "
    "it is; infeasible = the screens show that the goal can't be reached; failed = nothing of it is, or it was undone. "
    "When in doubt between two, take the worse. confidence: 0 to 10. reason: one short sentence."
)
_PREFIX = "the trace is a prefix: its end isn't claimed to reach the goal; partial = it is on the way"
_FINAL_SCHEMA = {"outcome": OUTCOMES, "confidence": int, "reason": str}


@dataclass(frozen=True, slots=True)
class KeypointConfig:
    """Bounds of the verification. `window` is in screenshots (at most 10: an answer names one by 0..10), `overlap` of
    them are shown again in the next window, so that every action is seen with its effect."""

    max_keypoints: int = 6
    window: int = 5
    overlap: int = 1
    max_windows: int = 20
    final_pictures: int = 6

    def __post_init__(self) -> None:
        bounds = {
            "max_keypoints": (1, 10),
            "window": (2, 10),
            "overlap": (1, self.window - 1),
            "max_windows": (1, 500),
            "final_pictures": (2, 20),
        }
        for name, (low, high) in bounds.items():
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise ValueError(f"keypoints: {name}: expected an int {low}..{high}, found {value!r}")


RUBRIC_VERSION = (
    TEMPLATE_VERSION
    + "-"
    + digest([KEYPOINT_RUBRIC, WINDOW_RUBRIC, FINAL_RUBRIC, REACHABILITY, PREFIX_REACHABILITY, RULE_CONFIDENCE])[:8]
)


@dataclass(frozen=True, slots=True)
class Keypoints:
    """What a goal demands, and whether it asks for an answer in words."""

    statements: tuple[str, ...]
    question: bool


@dataclass(frozen=True, slots=True)
class Sighting:
    """What one window says of one keypoint; `at` is the step index whose screenshot shows it."""

    verdict: str
    at: int | None


@dataclass(frozen=True, slots=True)
class Reading:
    """One window's answer: a sighting for each keypoint, and the step index of a screen that rules the goal out."""

    sightings: tuple[Sighting, ...]
    blocked: int | None


@dataclass(frozen=True, slots=True)
class JudgedOutcome:
    """One of `OUTCOMES`, with the reason and how sure."""

    word: str
    reason: str
    confidence: float


def keypoint_request(goal: str, config: KeypointConfig) -> Request:
    """The question what a goal demands: as many text fields as keypoints are allowed, unused ones empty. Depends on the
    goal alone, so tasks done many times are asked about once."""
    schema = {f"keypoint_{k + 1}": str for k in range(config.max_keypoints)} | {"question": ("yes", "no")}
    return Request(TEMPLATE_VERSION, KEYPOINT_RUBRIC, data_block("goal", goal), (), schema)


def read_keypoints(answer: CheckedAnswer, config: KeypointConfig) -> Keypoints:
    """Statements in order, without empty and repeated ones."""
    texts = (answer.fields[f"keypoint_{k + 1}"].strip()[:MAX_STATEMENT] for k in range(config.max_keypoints))
    # Models repeat themselves to fill fields.
    return Keypoints(tuple(dict.fromkeys(text for text in texts if text)), answer.fields["question"] == "yes")


def shown_steps(episode: Episode) -> list[Step]:
    """Steps with a picture, the last screen without an action included."""
    return [step for step in episode.steps if step.screen is not None]


def windows_of(steps: Sequence[Step], config: KeypointConfig) -> list[list[Step]]:
    """Steps → windows of consecutive ones that overlap. Of a trace with more than `max_windows` a third are its first
    and the others its last ones, where goals are reached (`is_cut` says so)."""
    if not steps:
        return []
    stride = config.window - config.overlap
    # The last stride may hold nothing but what the window before showed; one window there always is.
    starts = list(range(0, max(len(steps) - config.overlap, 1), stride))
    if len(starts) > config.max_windows:
        head = config.max_windows // 3
        # A third from the beginning, two thirds from the end, where goals are reached.
        starts = starts[:head] + starts[head - config.max_windows :]
    return [list(steps[start : start + config.window]) for start in starts]


def is_cut(steps: Sequence[Step], windows: Sequence[Sequence[Step]]) -> bool:
    """Whether windows leave out some of the steps: then what none of them shows isn't refuted."""
    return len({step.item_id for window in windows for step in window}) < len({step.item_id for step in steps})


def window_request(episode: Episode, keypoints: Keypoints, window: Sequence[Step]) -> Request:
    """The question which keypoints a window's screenshots show."""
    schema: dict[str, object] = {}
    for k in range(len(keypoints.statements)):
        schema |= {f"verdict_{k + 1}": VERDICTS, f"seen_{k + 1}": int}
    text = "\n".join(
        [
            data_block("goal", episode.instruction),
            data_block("statements", list(keypoints.statements)),
            data_block("actions", [deed(step, keypoints.question) for step in window]),
        ]
    )
    pictures = tuple(drawn(step.screen, step.action, None) for step in window if step.screen is not None)
    return Request(TEMPLATE_VERSION, WINDOW_RUBRIC, text, pictures, {**schema, "blocked": int, "reason": str})


def deed(step: Step, question: bool) -> str:
    """An action as evidence: without what the agent says of itself (the text of Finished; that of CallUser unless the
    goal asks for an answer)."""
    action = step.action
    if action is None:
        return ""
    if isinstance(action, Finished) or (isinstance(action, CallUser) and not question):
        return f"{type(action).__name__}()"
    return format_action(action)[:200]


def read_window(answer: CheckedAnswer, count: int, window: Sequence[Step]) -> Reading:
    """A window's answer with step indices. A verdict that names no screenshot of the window proves nothing: it counts
    as can't decide."""

    def place(number: int) -> int | None:
        return int(window[number - 1].row["step_index"]) if 1 <= number <= len(window) else None

    sightings = []
    for k in range(count):
        verdict, at = answer.fields[f"verdict_{k + 1}"], place(answer.fields[f"seen_{k + 1}"])
        # A statement without the screenshot that shows it is an opinion.
        sightings.append(Sighting(verdict, at) if at is not None else Sighting("cant_tell", None))
    return Reading(tuple(sightings), place(answer.fields["blocked"]))


def status_of(sightings: Sequence[Sighting]) -> str:
    """What all windows say of one keypoint, in order: met, not_met, undone (met, not met later) or unknown."""
    said = [sighting.verdict for sighting in sightings if sighting.verdict != "cant_tell"]
    if not said:
        return "unknown"
    if "met" not in said:
        return "not_met"
    # Met and refuted later: the trace undid it, unless it was met once more.
    return "met" if said[-1] == "met" else "undone"


def rule(readings: Sequence[Reading], count: int, incomplete: bool) -> JudgedOutcome | None:
    """The outcome where the windows leave no doubt, else None.

    All keypoints met and no screen rules the goal out: completed. All seen and some or all refuted: partial or failed;
    refuted with a screen that rules the goal out: infeasible. Anything unknown or undone is a case for the final
    judgement, and so is an incomplete view (a prefix, a trace too long for all its windows) that doesn't show all met:
    refuted so far isn't refuted.
    """
    states = [status_of([reading.sightings[k] for reading in readings]) for k in range(count)]
    blocked = next((reading.blocked for reading in readings if reading.blocked is not None), None)
    met = states.count("met")
    if not states or "unknown" in states or "undone" in states:
        return None
    # All shown, and a screen that rules the goal out: the two contradict, so the final judgement decides.
    if met == count:
        return (
            JudgedOutcome("completed", f"all {count} keypoints are shown", RULE_CONFIDENCE) if blocked is None else None
        )
    if incomplete:
        return None
    if met:
        return (
            None
            if blocked is not None
            else JudgedOutcome("partial", f"{met} of {count} keypoints are shown, the others refuted", RULE_CONFIDENCE)
        )
    if blocked is not None:
        return JudgedOutcome("infeasible", f"the screen of step {blocked} rules the goal out", RULE_CONFIDENCE)
    return JudgedOutcome("failed", f"all {count} keypoints are refuted", RULE_CONFIDENCE)


def key_frames(steps: Sequence[Step], readings: Sequence[Reading], limit: int) -> list[Step]:
    """The steps to show in the end, in order: the last, those that sightings name (latest first), the first, then
    evenly spaced ones up to `limit`."""
    named = [s.at for reading in reversed(readings) for s in reading.sightings if s.at is not None]
    blocked = [reading.blocked for reading in readings if reading.blocked is not None]
    indices = [int(step.row["step_index"]) for step in steps]
    spread = [indices[round(k * (len(steps) - 1) / max(limit - 1, 1))] for k in range(limit)]
    # In the order of their worth, cut at the limit, and shown in the order of the trace.
    wanted = list(dict.fromkeys([indices[-1], *blocked, *named, indices[0], *spread]))[:limit]
    return [step for step in steps if step.row["step_index"] in wanted]


def final_request(
    episode: Episode, keypoints: Keypoints, readings: Sequence[Reading], config: KeypointConfig
) -> Request:
    """The question how the trace ends, with the windows' findings and the key frames."""
    findings = [
        {
            "statement": statement,
            "status": status_of([reading.sightings[k] for reading in readings]),
            "seen_at": sorted({at for reading in readings if (at := reading.sightings[k].at) is not None}),
        }
        for k, statement in enumerate(keypoints.statements)
    ]
    frames = key_frames(shown_steps(episode), readings, config.final_pictures)
    answers = (
        [s.action.content for s in episode.actions if isinstance(s.action, CallUser)] if keypoints.question else []
    )
    text = "\n".join(
        [
            data_block("goal", episode.instruction),
            data_block("findings", findings),
            data_block("ruled_out_at", [r.blocked for r in readings if r.blocked is not None]),
            # The last sixty: an ending is judged by what led to it.
            data_block("actions", [[s.row["step_index"], deed(s, keypoints.question)] for s in episode.actions][-60:]),
            data_block("frames", [step.row["step_index"] for step in frames]),
            data_block("answer", answers[-1] if answers else ""),
            data_block("note", _PREFIX if episode.is_prefix else ""),
        ]
    )
    pictures = tuple(drawn(step.screen, step.action, None) for step in frames if step.screen is not None)
    return Request(TEMPLATE_VERSION, FINAL_RUBRIC, text, pictures, _FINAL_SCHEMA)


def read_final(answer: CheckedAnswer) -> JudgedOutcome:
    """The final judgement as an outcome."""
    return JudgedOutcome(answer.fields["outcome"], answer.fields["reason"][:300], answer.fields["confidence"] / 10)
