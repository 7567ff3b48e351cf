"""V2's verification of a step before it is carried out (docs/method.md §4): correct, exploratory, ineffective or
incorrect.

The model sees the goal, the screen before the action with the action drawn, the actions before it, and the step's
native reasoning where the source has one. It never sees the screen after: the label says what could be known in
advance, so a lucky click on the wrong element isn't excused by its outcome. What it can't see: whether the action had
the effect expected of it, which `rules` measures and `openai` looks at.
"""

from quality.items.item import Episode, Step
from quality.judges.openai_judge import drawn
from quality.model_client.client import Request, data_block
from quality.model_client.questions import GUARD
from schemas.ids import digest

LABELS = ("correct", "exploratory", "ineffective", "incorrect")
ALIGNMENT = {"correct": 9, "exploratory": 7, "ineffective": 5, "incorrect": 2}
"""Label → alignment (thresholds: docs/method.md §3). correct 9: not 10, since the outcome wasn't shown. exploratory 7:
worth training on, looking around is how unknown apps are used, but only just: there is a shorter way. ineffective 5:
neither wrong nor a help; the same score as the rules' `no_effect`. incorrect 2: wrong element, text or direction, for
no restated instruction makes it right; 2 and not 0, which the rubrics keep for nonsense."""

TEMPLATE_VERSION = "step-labels-1"
EARLIER_ACTIONS = 5
MAX_THOUGHT = 2000
RUBRIC = (
    f"You check single steps of GUI agents before they are carried out. {GUARD} Answer with JSON of the given schema "
    "only.\n"
    "The screenshot shows the screen before the action: a red ring marks the point of a click, a blue arrow the path "
    "of a finger, a green box the target. The reasoning is the agent's own claim; check it against the screenshot.\n"
    "label: correct = it brings the goal nearer; exploratory = it can't finish the goal by itself, but it is a "
    "sensible way to find what is needed; ineffective = it is harmless and of no use (nothing there to act on, already "
    "done, a needless repeat); incorrect = wrong element, wrong text, wrong direction, it leads away from the goal or "
    "contradicts its own reasoning. A Finished is correct only if the screenshot shows the goal reached. "
    "confidence: 0 to 10. reason: one short sentence."
)
SCHEMA = {"label": LABELS, "confidence": int, "reason": str}
RUBRIC_VERSION = f"{TEMPLATE_VERSION}-{digest([RUBRIC, ALIGNMENT, EARLIER_ACTIONS, MAX_THOUGHT])[:8]}"


def label_request(episode: Episode, step: Step) -> Request | None:
    """The question about one step; None without a screenshot, since then there is nothing to check it against."""
    if step.screen is None:
        return None
    before = [str(s.row["action_text"])[:200] for s in episode.actions if s.row["step_index"] < step.row["step_index"]]
    text = "\n".join(
        [
            data_block("goal", episode.instruction),
            data_block("earlier_actions", before[-EARLIER_ACTIONS:]),
            data_block("step_instruction", step.row["step_instruction"]),
            data_block("reasoning", (step.row["thought"] or "")[:MAX_THOUGHT]),
            data_block("action", step.row["action_text"]),
        ]
    )
    return Request(TEMPLATE_VERSION, RUBRIC, text, (drawn(step.screen, step.action, step.row),), SCHEMA)
