"""The rules judge with evidence of the process: a trace reaches its goal only if what the goal names was acted on.

See `quality.evidence.process`. What it caps is reachability alone; it sees nothing where a source lists no elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from quality.code_version import code_digest
from quality.evidence.episode import Habits
from quality.evidence.process import goal_operations, process_of
from quality.items.item import Episode, Item
from quality.judges.judge import Verdict
from quality.judges.orders import QuietBank, heard
from quality.judges.rules import RUBRIC_VERSION, RulesJudge

UNPROVEN = 5
"""Reachability of a trace whose process lacks something: what it did may be right for another instruction."""
UNDONE = 3
"""Reachability of a trace that took back what it had done."""


class ProcessJudge:
    """See the module, and `Judge`."""

    name = "process"
    model = "none"
    rubric_version = f"{RUBRIC_VERSION}+process-{code_digest(('evidence/process', 'judges/process_judge'))}"

    def __init__(self) -> None:
        self._rules = RulesJudge()

    def judge(self, items: Sequence[Item], round_number: int = 0, habits: Habits | None = None) -> list[Verdict]:
        """See `Judge.judge`."""
        caps: dict[str, tuple[int, str]] = {}
        banks: dict[int, QuietBank] = {}
        for item in items:
            if isinstance(item, Episode) and not item.is_prefix:
                found = self._cap(heard(item, banks))  # type: ignore[arg-type]  # an episode is heard as one
                if found is not None:
                    caps |= dict.fromkeys((item.item_id, *(step.item_id for step in item.actions)), found)
        judged = self._rules.judge(items, round_number, habits)
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
        said = replace(verdict, judge=self.name, rubric_version=self.rubric_version)
        if cap is None or verdict.reachability is None:
            return said
        reason = f"process: {cap[1]}; {verdict.reason}"[:500]
        return replace(
            said, reachability=min(verdict.reachability, cap[0]), reason=reason, kinds=("process", *said.kinds)
        )
