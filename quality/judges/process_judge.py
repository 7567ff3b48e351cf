"""Another judge with evidence of the process: a trace reaches its goal only if what the goal names was acted on.

See `quality.evidence.process`. What it caps is reachability alone; it sees nothing where a source lists no elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from quality.code_version import code_digest
from quality.evidence.episode import Habits
from quality.evidence.process import goal_operations, process_of
from quality.items.item import Episode, Item
from quality.judges.heard import QuietBank, heard
from quality.judges.judge import Judge, Verdict

UNPROVEN = 5
"""Reachability of a trace whose process lacks something: what it did may be right for another instruction."""
UNDONE = 3
"""Reachability of a trace that took back what it had done."""


RISK = 0.9
"""Least risk of a trace that is capped: of as many false successes as true ones, 93 of 100 objections by the goal's
words alone are right (`bench/judges.py`)."""
_VERSION = f"process-{code_digest(('evidence/process', 'judges/process_judge'))}"


class ProcessJudge:
    """See the module, and `Judge`. All else is the other judge's; the rubric's version names the evidence too. With a
    `name` the verdicts are by a judge of that name."""

    def __init__(self, judge: Judge, name: str = "") -> None:
        self._judge = judge
        self.name = name or judge.name
        self.rubric_version = f"{judge.rubric_version}+{_VERSION}"

    def __getattr__(self, name: str) -> Any:
        return getattr(self._judge, name)

    def judge(self, items: Sequence[Item], round_number: int = 0, habits: Habits | None = None) -> list[Verdict]:
        """See `Judge.judge`."""
        caps: dict[str, tuple[int, str]] = {}
        banks: dict[int, QuietBank] = {}
        for item in items:
            if isinstance(item, Episode) and not item.is_prefix:
                found = self._cap(heard(item, banks))  # type: ignore[arg-type]  # an episode is heard as one
                if found is not None:
                    caps |= dict.fromkeys((item.item_id, *(step.item_id for step in item.actions)), found)
        judged = self._judge.judge(items, round_number, habits)
        return [self._capped(verdict, caps.get(verdict.item_id)) for verdict in judged]

    @staticmethod
    def _cap(episode: Episode) -> tuple[int, str] | None:
        """(highest reachability, why) of an episode; None where nothing objects or nothing can be seen."""
        if episode.one_picture or not any(step.screen is not None and step.screen.elements for step in episode.steps):
            return None
        evidence = process_of(episode, goal_operations(episode))
        if evidence.complete:
            return None
        return (UNDONE if evidence.undone else UNPROVEN), evidence.reason

    def _capped(self, verdict: Verdict, cap: tuple[int, str] | None) -> Verdict:
        by = self.name if self.name != self._judge.name else verdict.judge
        said = replace(verdict, judge=by, rubric_version=f"{verdict.rubric_version}+{_VERSION}")
        if cap is None or verdict.reachability is None:
            return said
        reason = f"process: {cap[1]}; {verdict.reason}"[:500]
        return replace(
            said,
            reachability=min(verdict.reachability, cap[0]),
            reason=reason,
            kinds=("process", *said.kinds),
            risk=None if said.risk is None else max(said.risk, RISK),
        )
