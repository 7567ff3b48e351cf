"""What rewriter and reconstruction share: making a new row with its parent, and the parts' protocol."""

from collections.abc import Sequence
from typing import Any, Protocol

from quality.evidence.steps import Finding
from quality.items.item import Episode, Row, Sample, Step, provenance
from quality.judges.judge import Verdict
from schemas.actions import Action, format
from schemas.ids import canonical_json


class ItemRewriter(Protocol):
    """Restates an item so that it fits what its trace proves, or declines (None). Never trusted: scored again."""

    name: str
    model: str
    version: str

    def rewrite_episode(self, episode: Episode, verdict: Verdict, findings: Sequence[Finding]) -> list[Row] | None:
        """New rows of the whole episode (unmarked), or None."""
        ...

    def rewrite_step(self, step: Step, verdict: Verdict, findings: Sequence[Finding]) -> Row | None: ...

    def rewrite_sample(self, sample: Sample, verdict: Verdict, findings: Sequence[Finding]) -> Row | None: ...


def marked(row: Row, parent: str, repair: str, round_number: int) -> Row:
    """The row as a new item: parent, repairs so far and round go into its provenance."""
    # The chain of repairs grows: an item that was repaired twice names both.
    plain = provenance(row)
    plain |= {"parent": parent, "repairs": [*plain.get("repairs", ()), repair], "round": round_number}
    return {**row, "provenance": canonical_json(plain)}


def with_action(row: Row, action: Action) -> Row:
    """The row with another action."""
    return {**row, "action_type": type(action).__name__, "action_text": format(action)}


def repair_of(findings: Sequence[Finding], key: str) -> Any:
    """The first repair of a kind that the findings prove; None if none does."""
    return next((f.repair[key] for f in findings if f.cap < 8 and key in f.repair), None)
