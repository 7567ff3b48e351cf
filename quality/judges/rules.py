"""The rules judge: scores from evidence that needs no model, with the reasons it found.

score of an axis = the lowest cap any evidence sets; if none objects, 8 plus one for each of up to two pieces of
evidence that speak for the item. It abstains (null, → review) on a step whose claim nothing could check at all.

What it can't see: the meaning of a picture or a goal. It can't decide whether a plausible click serves the goal,
whether an unnamed icon is the one meant, whether the end state is what was asked, or anything about steps without
picture, elements and step instruction. It trusts elements (boxes and texts) as the source gives them. It reads the text
of a task only to compare it with other text, and doesn't read what speaks to a judge ("give this a 10", `orders`).
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from quality.code_version import code_digest
from quality.evidence.effects import EFFECT_EVIDENCE
from quality.evidence.episode import EPISODE_EVIDENCE, STEPWISE_EVIDENCE, Habits
from quality.evidence.goal import goal_chosen, left_unconfirmed
from quality.evidence.order import in_order, late_screens
from quality.evidence.samples import SAMPLE_EVIDENCE
from quality.evidence.steps import STEP_EVIDENCE, Finding
from quality.items.item import Episode, Item, Sample, Step
from quality.judges.heard import READING_CODE, QuietBank, heard
from quality.judges.judge import Verdict

_CODE = (
    "../pipelines/store/small_greys",
    "evidence/words",
    "items/pixels",
    "items/screens",
    "items/item",
    "evidence/steps",
    "evidence/effects",
    "evidence/episode",
    "evidence/goal",
    "evidence/order",
    "evidence/samples",
    *READING_CODE,
    "judges/rules",
)
RUBRIC_VERSION = f"rules-1-{code_digest(_CODE)}"
"""Holds a digest of the rules' code: edited evidence judges anew, nobody has to remember a number."""
UNSEEN_SCORE = 8
"""Nothing objects, nothing confirms."""


@dataclass(frozen=True, slots=True)
class EpisodeFindings:
    """The findings about an episode: per step item id, and about the whole."""

    steps: dict[str, list[Finding]]
    whole: list[Finding]


_SEEN: OrderedDict[int, tuple[weakref.ref[Episode], Habits, EpisodeFindings]] = OrderedDict()
MOST_SEEN = 4096
"""Episodes whose findings are kept: what refinement has judged in one round it repairs in the next."""


def look_at_episode(episode: Episode, habits: Habits) -> EpisodeFindings:
    """All findings about an episode and its steps, which are looked at once while the episode is there."""
    # By identity: an id may be that of another object by now, which the weak reference tells.
    known = _SEEN.get(id(episode))
    if known is not None and known[0]() is episode and known[1] == habits:
        return known[2]
    seen = _look(episode, habits)
    _SEEN[id(episode)] = (weakref.ref(episode), habits, seen)
    if len(_SEEN) > MOST_SEEN:
        _SEEN.popitem(last=False)
    return seen


def _look(episode: Episode, habits: Habits) -> EpisodeFindings:
    steps = {step.item_id: look_at_step(step) for step in episode.actions}
    for gather in (*STEPWISE_EVIDENCE.values(), late_screens):
        for item_id, finding in gather(episode).items():
            steps[item_id].append(finding)
    # Order and the episode's own evidence are about all steps together, and cap its reachability.
    looks = (*EPISODE_EVIDENCE.values(), in_order)
    whole = [found for look in looks if (found := look(episode, habits)) is not None]
    # A step that went astray or is missing explains an unmet goal better than a wrong goal does.
    whole_trace = not any(step.follows_gap for step in episode.steps)
    if whole_trace and not any(f.cap < 4 for found in steps.values() for f in found):
        whole += [found for look in (goal_chosen, left_unconfirmed) if (found := look(episode)) is not None]
    return EpisodeFindings(steps, whole)


def look_at_step(step: Step) -> list[Finding]:
    """Findings about one step by itself."""
    looks = (*STEP_EVIDENCE.values(), *EFFECT_EVIDENCE.values())
    return [found for look in looks if (found := look(step)) is not None]


def look_at_sample(sample: Sample) -> list[Finding]:
    """Findings about a native sample."""
    return [found for look in SAMPLE_EVIDENCE.values() if (found := look(sample)) is not None]


def axis_score(findings: Iterable[Finding]) -> int:
    """Lowest cap, else 8 plus up to two for confirmations (a confirmation has a cap of 8 or more)."""
    listed = list(findings)
    # One serious objection is enough, however many things speak for the item.
    lowest = min((f.cap for f in listed if f.cap < 8), default=None)
    return lowest if lowest is not None else min(UNSEEN_SCORE + sum(f.cap >= 9 for f in listed), 10)


def objections(findings: Iterable[Finding]) -> list[Finding]:
    """The findings that speak against, the gravest first."""
    return sorted((f for f in findings if f.cap < 8), key=lambda f: f.cap)


def _says(findings: Sequence[Finding]) -> str:
    """The reason of a verdict: `kind: words`, the gravest first."""
    against = objections(findings)
    if against:
        return "; ".join(f"{f.kind}: {f.reason}" for f in against[:3])
    return "; ".join(f.reason for f in findings[:3]) or "nothing objects, nothing could be checked"


def _confidence(findings: Sequence[Finding]) -> float:
    """How much was seen: 0.3 for nothing, up to 0.95 for several pieces that agree."""
    return min(0.3 + 0.2 * len(findings), 0.95)


class RulesJudge:
    """The embedded judge; see the module's docstring for what it can't see."""

    name = "rules"
    model = "none"
    rubric_version = RUBRIC_VERSION

    def judge(self, items: Sequence[Item], round_number: int = 0, habits: Habits | None = None) -> list[Verdict]:
        """Items → verdicts (see `Judge`). `habits` are read off the items' episodes unless given."""
        habits = habits or Habits.of([item for item in items if isinstance(item, Episode)])
        verdicts: list[Verdict] = []
        banks: dict[int, QuietBank] = {}
        # Without what speaks to judges: a text mustn't earn its item a score.
        for item in (heard(item, banks) for item in items):
            if isinstance(item, Sample):
                verdicts.append(self._sample(item, round_number))
            else:
                verdicts += self._episode(item, round_number, habits)
        return verdicts

    def _verdict(
        self, item_id: str, alignment: int | None, reachability: int | None, findings: Sequence[Finding], number: int
    ) -> Verdict:
        return Verdict(
            item_id,
            alignment,
            reachability,
            _says(findings),
            _confidence(findings),
            self.name,
            self.model,
            self.rubric_version,
            number,
            kinds=tuple(f.kind for f in objections(findings)),
        )

    def _sample(self, sample: Sample, number: int) -> Verdict:
        findings = look_at_sample(sample)
        # Without a screen only an objection counts: nothing else was checked.
        unseen = sample.screen is None and not objections(findings)
        return self._verdict(sample.item_id, None if unseen else axis_score(findings), None, findings, number)

    def _episode(self, episode: Episode, number: int, habits: Habits) -> list[Verdict]:
        seen = look_at_episode(episode, habits)
        reach = axis_score(seen.whole)
        verdicts = [self._verdict(episode.item_id, None, reach, seen.whole, number)]
        against = objections(seen.whole)
        for step in episode.actions:
            findings = seen.steps[step.item_id]
            # Without a picture and without any finding nothing was checked: the step is for people to look at.
            unseen = step.screen is None and not findings
            alignment = None if unseen else axis_score(findings)
            reached = None if unseen and not against else reach
            # A step inherits what speaks against its episode, and names it.
            verdicts.append(self._verdict(step.item_id, alignment, reached, [*findings, *against], number))
        return verdicts
