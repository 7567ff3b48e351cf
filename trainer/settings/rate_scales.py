"""Rates of parts of a model, as settings."""

import math
import re
from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator

from schemas.settings import Number


def _checked(scales: dict[str, float]) -> dict[str, float]:
    for pattern, scale in scales.items():
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"expected a regular expression, found {pattern!r} ({error})") from error
        # A factor of nan would pass the bound and silently spoil all weights.
        if not (math.isfinite(scale) and scale >= 0):
            raise ValueError(f"expected a factor of 0 or more for {pattern!r}, found {scale}")
    return scales


RateScales = Annotated[dict[str, Number], AfterValidator(_checked)]
"""Regular expression → factor of the learning rate of parameters in whose names it is found; the first that is found
counts (`trainer.runtime.rates`)."""


def one_rate(scales: Mapping[str, float]) -> None:
    """Raises `ValueError` where an engine of TRL's is given rates by part of the model."""
    if scales:
        raise ValueError(
            f"engine trl: expected no learning_rate_scales, found {dict(scales)}: its Trainer has one rate for all "
            "(engine own has them)"
        )
