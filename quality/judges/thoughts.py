"""Another judge that also holds each step's thought against its action (`quality.evidence.consistency`).

A step whose thought contradicts it scores at most `CONTRADICTED` on alignment: whoever learns from it learns to say one
thing and do another. Nothing is repaired, since nobody knows which of the two is right. What agrees, or says nothing of
the action, keeps the judge's own score. Text that speaks to a judge is left out of thoughts first (`orders`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from quality.code_version import code_digest
from quality.evidence.consistency import check_thought
from quality.evidence.episode import Habits
from quality.evidence.stated_actions import WORDS_VERSION
from quality.evidence.steps import Finding
from quality.items.item import Episode, Item, Step
from quality.judges.heard import READING_CODE, QuietBank, heard
from quality.judges.judge import Judge, Verdict

CONTRADICTED = 2
"""As an action labelled incorrect before it is carried out (`step_labels.ALIGNMENT`)."""
RISK = 0.9
"""Least risk of a contradicted step: on planted thoughts at most one of ten objections is false."""
_CODE = ("evidence/consistency", "evidence/stated_actions", *READING_CODE, "judges/thoughts")
_VERSION = f"thoughts-{code_digest(_CODE)}-{WORDS_VERSION}"


def thought_agrees(step: Step) -> Finding | None:
    """What a step's thought says of its action; None where it has none, or says nothing of it."""
    if not step.row["thought"] or step.action is None:
        return None
    elements = step.screen.elements if step.screen is not None else ()
    found = check_thought(step.row["thought"], step.action, elements)
    if found.agrees is None:
        return None
    if found.agrees:
        return Finding("thought_agrees", 9, found.reason)
    return Finding("thought_contradicts", CONTRADICTED, f"{found.looked_at}: {found.reason}")


class ThoughtJudge:
    """See the module, and `Judge`. All else is the other judge's; the rubric's version names the check too."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.rubric_version = f"{judge.rubric_version}+{_VERSION}"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._judge, name)

    def judge(self, items: Sequence[Item], round_number: int = 0, habits: Habits | None = None) -> list[Verdict]:
        """See `Judge.judge`."""
        against: dict[str, Finding] = {}
        banks: dict[int, QuietBank] = {}
        for item in items:
            if isinstance(item, Episode) and any(step.row["thought"] for step in item.actions):
                for step in heard(item, banks).steps:  # type: ignore[union-attr]  # an episode is heard as one
                    found = thought_agrees(step)
                    if found is not None and found.kind == "thought_contradicts":
                        against[step.item_id] = found
        judged = self._judge.judge(items, round_number, habits)
        return [self._capped(verdict, against.get(verdict.item_id)) for verdict in judged]

    def _capped(self, verdict: Verdict, found: Finding | None) -> Verdict:
        version = f"{verdict.rubric_version}+{_VERSION}"
        if found is None or verdict.pending:
            return replace(verdict, rubric_version=version)
        own = verdict.alignment if verdict.alignment is not None else found.cap
        return replace(
            verdict,
            rubric_version=version,
            alignment=min(own, found.cap),
            reason=f"{found.kind}: {found.reason}; {verdict.reason}"[:500],
            kinds=(found.kind, *verdict.kinds),
            risk=None if verdict.risk is None else max(verdict.risk, RISK),
        )
