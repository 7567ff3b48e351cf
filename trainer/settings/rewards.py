"""Settings of the rewards of offline RL (docs/method.md §6)."""

from typing import Any, Literal, Self

from pydantic import model_validator

from schemas.settings import Flag, Number, Settings, setting

REGION_SIDE = 60.0
"""Side of a region that a point votes for, in 1/1000 of the screen: about a button of a phone."""
CONFIDENCE_SPREAD = 1.0
"""Standard deviation of a Gaussian in half sides of the element: on the middle of a border it is exp(-1/2)."""


ReplyProfile = Literal["vesper", "qwen3-vl", "ui-tars", "os-atlas", "molmo", "fractions", "pixels", "any"]
"""Whose way of writing points and actions replies are read by (`trainer.rl.reply_forms`)."""
UNREADABLE_SHARE = 0.2
"""Share of replies without anything that can be read from which on a warning says so."""


class OwnTerm(Settings):
    """A reward term that a setting names: what it counts, and its own settings (docs/add-a-reward.md)."""

    weight: Number = setting(1.0, "What it counts beside the others; below 0 it takes off.")
    options: dict[str, Any] = setting({}, "What its function is called with, by name.")


class RewardConfig(Settings):
    """Weights and radii of the reward's terms, in the 0..1000 frame; the defaults where the reports give none."""

    w_format: Number = setting(0.1, "Weight of the reply's form.", ge=0)
    w_answer: Number = setting(0.9, "Weight of what it says: point in box, or type and content of the action.", ge=0)
    alpha: Number = setting(
        1.0, "α: reward of a point within `delta2`, half of it within `delta1`; and of the right keys.", ge=0
    )
    beta: Number = setting(
        1.0, "β: reward of a scroll whose start and way are right; half as much again where its end is, too.", ge=0
    )
    delta1: Number = setting(140.0, "Radius around the true point within which a point is worth half.")
    delta2: Number = setting(70.0, "Radius within which it is worth all; at most `delta1`.", gt=0)
    delta3: Number = setting(140.0, "Radius for each end of a scroll.", gt=0)
    box_aware: Flag = setting(False, "Where the target's box is known, a point is worth all only inside it.")
    w_consistency: Number = setting(
        0.0, "Weight of the agreement of a group's replies to a grounding question, which needs no truth.", ge=0
    )
    region: Number = setting(REGION_SIDE, "Side of a vote for that agreement.", gt=0)
    w_iou: Number = setting(0.0, "Above 0 a grounding reply is a box: weight of its overlap with the true one.", ge=0)
    w_box_size: Number = setting(0.0, "Above 0 a grounding reply is a box: weight of its size.", ge=0)
    w_confidence: Number = setting(
        0.0, "Above 0 a grounding reply states how sure it is, `[x,y] 0.8`: weight of knowing that.", ge=0
    )
    spread: Number = setting(
        CONFIDENCE_SPREAD, "How fast the confidence that is wanted falls off from the middle of the element.", gt=0
    )

    reply_profile: ReplyProfile = setting(
        "vesper",
        "Whose way of writing points and actions replies are read by; vesper: `[x,y]` and our three tags alone.",
        neutral=True,
    )
    warn_unreadable: Number = setting(
        UNREADABLE_SHARE, "Share of unreadable replies above which a warning shows one.", ge=0, le=1, neutral=True
    )

    reply_terms: dict[str, OwnTerm] = setting(
        {}, "More terms for each reply: a name, module:function or file.py:function → weight and options.", neutral=True
    )
    group_terms: dict[str, OwnTerm] = setting({}, "The same for the replies to one question together.", neutral=True)

    @model_validator(mode="after")
    def _contradictions(self) -> Self:
        # The inner radius can't be the larger one.
        if self.delta2 > self.delta1:
            raise ValueError(f"expected delta2 <= delta1, found delta2 {self.delta2} and delta1 {self.delta1}")
        return self

    @property
    def boxes(self) -> bool:
        """Whether a grounding reply is asked for a box."""
        return max(self.w_iou, self.w_box_size) > 0

    @property
    def free_form(self) -> bool:
        """Whether a grounding reply may be as long as others: with a thought, JSON or a tool call."""
        return self.reply_profile != "vesper"

    @property
    def wide(self) -> bool:
        """Whether a grounding reply says more than a point, see `generation.reply_limit`."""
        return self.boxes or self.w_confidence > 0
