"""What a teacher reads besides the student's prompt.

Of UI-Venus-2.0 the true type of action, where the student's was wrong; of OpenClaw-RL's hindsight a hint condensed from
what followed. Neither publishes its words. A stored step has what followed in its conclusion, which was written when
the step was over; that is the hint here, with the type of the action that was taken.
"""

from pipelines.prompts import with_text
from schemas.actions import WIDEST, parse_reply
from trainer.modeling.batches import Row
from trainer.rl.rewards import ReplyTarget

TOLD = " The right type of action is {type}."
HINDSIGHT = " The right type of action is {type}. What follows from it: {conclusion}"


def with_type(row: Row, truth: ReplyTarget) -> Row:
    """The row with the true type of action behind its last question; as it is where truth has none."""
    if truth.action is None:
        return row
    return _with_text(row, TOLD.format(type=type(truth.action).__name__))


def with_hindsight(row: Row, truth: ReplyTarget) -> Row | None:
    """The row with a hint from what followed; None where nothing is known of that. A question about a screen is
    followed by nothing: its teacher reads what the student reads."""
    if truth.action is None:
        return row
    conclusion = parse_reply(row["answer"], WIDEST).conclusion
    if not conclusion:
        return None
    return _with_text(row, HINDSIGHT.format(type=type(truth.action).__name__, conclusion=conclusion))


def _with_text(row: Row, text: str) -> Row:
    return {**row, "messages": with_text(row["messages"], text)}
