"""What tokens cost."""

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Prices:
    """Money per million tokens, from configuration. An unknown price counts as 0, and `bill` says so."""

    prompt: float | None = None
    completion: float | None = None
    currency: str = "USD"

    def __post_init__(self) -> None:
        for name in ("prompt", "completion"):
            value = getattr(self, name)
            if value is not None and not (math.isfinite(value) and value >= 0):
                raise ValueError(f"price per million {name} tokens: expected a number from 0 on, found {value!r}")

    @property
    def known(self) -> bool:
        return self.prompt is not None and self.completion is not None

    def of(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Money for so many tokens; unknown prices count as 0."""
        return (prompt_tokens * (self.prompt or 0.0) + completion_tokens * (self.completion or 0.0)) / 1e6

    def at_most(self, tokens: int) -> float:
        """Money for so many tokens if they are of the dearer kind."""
        return max(self.of(tokens, 0), self.of(0, tokens))

    def bill(self, prompt_tokens: int, completion_tokens: int) -> dict[str, Any]:
        """Tokens and their price, plain, for reports and counts."""
        plain: dict[str, Any] = {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "cost": round(self.of(prompt_tokens, completion_tokens), 6),
            "currency": self.currency,
        }
        if not self.known:
            missing = [name for name in ("prompt", "completion") if getattr(self, name) is None]
            plain["note"] = f"price of {' and '.join(missing)} tokens unknown, counted as 0"
        return plain
