"""The judge's contract: items in, verdicts out, and where a score leads.

score = min(alignment, reachability); ≥ 7 keep, 4–6 rewrite, 0–3 reconstruct (or discard, if nothing can be
reconstructed); an abstention (null) goes to review. Thresholds: docs/method.md §3.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from quality.evidence.episode import Habits
from quality.items.item import Item
from quality.model_client.questions import VerdictCost

KEEP_FROM = 7
REWRITE_FROM = 4
BAND_RANK = {"keep": 0, "rewrite": 1, "reconstruct": 2, "discard": 2}
"""Disposition → band, the best first. Reconstruct and discard are one: a score of 0–3 says which of both only once a
repair was tried."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A row of `verdicts` (see `schemas.tables.Verdicts`); scores are ints 0..10, None where the judge abstained."""

    item_id: str
    alignment: int | None
    reachability: int | None
    reason: str
    confidence: float
    judge: str
    model: str
    rubric_version: str
    round: int = 0
    cost: VerdictCost | None = None
    kinds: tuple[str, ...] = ()
    """The evidence that spoke against the item (rules judge); not a column, `reason` names it in words."""
    pending: bool = False
    """Not asked yet because the night's ceiling was reached: no score, no row of `verdicts`, asked the next night."""
    risk: float | None = None
    """Probability 0..1 that the item is of low fidelity, finer than the score; not a column."""
    unanswered: bool = False
    """The model can't answer a question about it: it abstains, and isn't asked again by itself; not a column."""

    def __post_init__(self) -> None:
        if self.pending and (self.alignment is not None or self.reachability is not None):
            raise ValueError(f"verdict of {self.item_id}: pending, so it has no score")
        if self.risk is not None and not 0 <= self.risk <= 1:
            raise ValueError(f"verdict of {self.item_id}: risk must be in 0..1 or None, found {self.risk!r}")
        for name in ("alignment", "reachability"):
            value = getattr(self, name)
            # `bool` is an int, but no score.
            if value is not None and (type(value) is not int or not 0 <= value <= 10):
                raise ValueError(f"verdict of {self.item_id}: {name} must be an int 0..10 or None, found {value!r}")

    @property
    def score(self) -> int | None:
        """min(alignment, reachability) of what was judged; None if neither was."""
        # The worst of the two: a right step of a wrong trace isn't right.
        known = [value for value in (self.alignment, self.reachability) if value is not None]
        return min(known) if known else None

    @property
    def disposition(self) -> str:
        """Where the score leads (`route`); "pending", never a value of the column, while the item isn't judged."""
        return "pending" if self.pending else route(self.score)

    def as_row(self) -> dict[str, object]:
        """A row of `Verdicts`. Raises `ValueError` for a pending item: it has none."""
        if self.pending:
            raise ValueError(f"verdict of {self.item_id}: pending items have no row; see verdicts.split_pending")
        names = ("item_id", "round", "score", "alignment", "reachability", "disposition", "reason", "confidence")
        return {name: getattr(self, name) for name in (*names, "judge", "model", "rubric_version")}

    def cost_row(self) -> dict[str, object] | None:
        """A row of `JudgeCosts`; None if it cost nothing."""
        if self.cost is None:
            return None
        cost = self.cost
        return {
            "item_id": self.item_id,
            "round": self.round,
            "prompt_tokens": cost.prompt_tokens,
            "completion_tokens": cost.completion_tokens,
            "seconds": cost.seconds,
            "cached": cost.cached,
        }


def route(score: int | None) -> str:
    """Score → disposition: None review, ≥ 7 keep, 4–6 rewrite, 0–3 reconstruct."""
    if score is None:
        return "review"
    if score >= KEEP_FROM:
        return "keep"
    return "rewrite" if score >= REWRITE_FROM else "reconstruct"


class Judge(Protocol):
    """Scores items. Rule and model judges return the same record."""

    name: str
    model: str
    rubric_version: str

    def judge(self, items: Sequence[Item], round_number: int = 0, habits: Habits | None = None) -> list[Verdict]:
        """Items → verdicts in order: for an episode one verdict of its own, then one for each step with an action
        (alignment its own, reachability its episode's); for a sample one. Raises `ModelError`; a failure never
        becomes a score. `habits` says how the part writes its episodes, where the items are only some of them."""
        ...


def identity(judge: Judge) -> dict[str, str]:
    """What a verdict depends on besides the item: enters the digest of a part."""
    return {"judge": judge.name, "model": judge.model, "rubric_version": judge.rubric_version}
