"""Settings of how a screen is read that is larger than what a model sees at once."""

from typing import Literal, Self

from pydantic import model_validator

from schemas.settings import Number, Settings, Whole, setting

Mode = Literal["whole", "windows", "zoom"]


class Reading(Settings):
    """How a screen is put to a model: whole, or looked at in parts whose answers are mapped back to its frame."""

    mode: Mode = setting(
        "whole",
        "whole: one picture, made smaller where the model's limit asks for it; windows: overlapping parts at scale 1, "
        "of which the surest answers; zoom: the whole screen first, then the part around its answer, enlarged.",
    )
    window: tuple[Whole, Whole] = setting((320, 448), "Of windows: their width and height in pixels.")
    overlap: Whole = setting(64, "Of windows: pixels that neighbours share at least.", ge=0)
    most: Whole = setting(9, "Of windows: a screen that takes more is made smaller first.", ge=1)
    sure_from: Number = setting(
        0.0,
        "Of windows: how sure the surest one has to be that what a question asks for is there (0 to 1), or the answer "
        "is a refusal. 0: the whole screen has the last word where all windows refuse.",
        ge=0,
        lt=1,
    )
    zoom: Number = setting(2.0, "Of zoom: how many times the part is enlarged; it is that much smaller.", gt=1, le=8)

    @model_validator(mode="after")
    def _contradictions(self) -> Self:
        # Equal would never advance.
        if min(self.window) <= self.overlap:
            raise ValueError(
                f"reading: expected windows larger than their overlap, found {self.window}, {self.overlap}"
            )
        return self
