"""What the rows of an epoch are: the settings of the mixture, which the deployment and the launchpad show as they stand
here. Apart from the mixture itself, so that settings are read without what reads tables."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from schemas.action_types import SPACES, WIDEST
from schemas.settings import Number, Settings, Whole, setting

TARGET_SHARES = {"perception": 0.208, "vqa": 0.221, "grounding": 0.248, "navigation": 0.323}
"""By tokens (UI-Venus-1.5, section 2.1.1)."""
FLOORED = (*TARGET_SHARES, "mobile", "web", "desktop", *SPACES[WIDEST])
"""What can be given a floor: objectives, platforms, action types."""


class MixtureConfig(Settings):
    """What the rows of an epoch are; all of it enters the mixture's config hash."""

    shares: dict[str, Annotated[Number, Field(ge=0)]] = setting(
        dict(TARGET_SHARES), "Token share of each objective; they sum to 1."
    )
    seed: Whole = setting(0, "Of which rows are taken.")
    max_repeats: Whole = setting(
        4,
        "How often a row may be seen in one epoch; where data is shorter than this allows, the share is not reached.",
        ge=1,
    )
    budget_tokens: Whole | None = setting(None, "Tokens of one epoch; null: as many as there are.", ge=1)
    tolerance: Number = setting(
        0.02, "By how much a reached share may miss its target where data is not short.", ge=0, le=1
    )
    sparse_action: Number = setting(
        0.005,
        "Share of navigation's tokens to which the rows of rarer action types are repeated, as often as max_repeats "
        "allows.",
        ge=0,
        le=0.0625,
    )
    most_of_source: dict[str, Annotated[Number, Field(ge=0, le=1)]] = setting(
        {"care_episodes": 0.05},
        "Most of an objective's tokens that a source may have, by its id: for data that is to teach a habit, not to be "
        "one.",
    )
    least_of_target: Number = setting(
        0.25, "What part of its target each objective has to reach, however short its data is.", ge=0, le=1
    )
    least_platform: Number = setting(
        0.01, "Least token share of each platform that has data; `floors` says more.", ge=0, le=1
    )
    least_action: Number = setting(
        0.0005, "Least share of navigation's tokens of each action type that has data; `floors` says more.", ge=0, le=1
    )
    floors: dict[str, Annotated[Number, Field(ge=0, le=1)]] = setting(
        {},
        "Least token share of an objective, a platform or an action type (of navigation's tokens), by its name; holds "
        "for what has no data, too.",
    )

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if set(self.shares) - set(TARGET_SHARES) or abs(sum(self.shares.values()) - 1) > 1e-6:
            raise ValueError(
                f"shares: expected shares of {', '.join(TARGET_SHARES)} that sum to 1, found {dict(self.shares)}"
            )
        if unknown := sorted(set(self.floors) - set(FLOORED)):
            raise ValueError(f"floors: {unknown[0]!r:.60} is no objective, platform or action type")
        return self
