"""What the rows of an epoch are: the settings of the mixture, which the deployment and the launchpad show as they stand
here. Apart from the mixture itself, so that settings are read without what reads tables."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, model_validator

from schemas.settings import Number, Settings, Whole, setting

TARGET_SHARES = {"perception": 0.208, "vqa": 0.221, "grounding": 0.248, "navigation": 0.323}
"""By tokens (UI-Venus-1.5, section 2.1.1)."""


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

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if set(self.shares) - set(TARGET_SHARES) or abs(sum(self.shares.values()) - 1) > 1e-6:
            raise ValueError(
                f"shares: expected shares of {', '.join(TARGET_SHARES)} that sum to 1, found {dict(self.shares)}"
            )
        return self
