"""The bounded recursion: rewrite, reconstruct or discard, score again, until nothing changes or `max_rounds`.

Works on the items of one part; all of a round's repairs are judged in one call. An item that ends below 7 is rejected
with its last score and its row. Nothing enters the gold rows but items whose last verdict is `keep`; people have the
last word: what they kept as it was is gold as it was, and isn't repaired.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from quality.evidence.episode import Habits
from quality.evidence.steps import Finding
from quality.items.item import Episode, Row, Sample, Step, make_episode, make_samples, step_id
from quality.items.part import SourcePart
from quality.judges import cleaning
from quality.judges.judge import KEEP_FROM, REWRITE_FROM, Judge, Verdict
from quality.judges.rules import look_at_episode, look_at_sample
from quality.judges.verdicts import split_items, split_pending
from quality.model_client.spending import CeilingReached
from quality.refinement.reconstruct import DROP, reconstruct_episode, reconstruct_sample, reconstruct_step
from quality.refinement.repairs import ItemRewriter, marked
from quality.review.people_decisions import KeepDecision, as_decided, holds, people_verdicts
from schemas.ids import canonical_json

FEW = 0.25
"""Share of a trace's steps that may be discarded while the rest is judged without them; one always may."""


@dataclass
class RejectedItem:
    """An item that didn't become gold: the row as it was last, why, and its last score."""

    item_id: str
    reason: str
    score: int | None
    row: Row

    def as_row(self) -> Row:
        return {"item_id": self.item_id, "reason": self.reason, "score": self.score, "row": canonical_json(self.row)}


@dataclass
class Refined:
    """Gold rows, rejects and the verdicts of rounds 1 and later of a part."""

    steps: list[Row] = field(default_factory=list)
    samples: list[Row] = field(default_factory=list)
    rejects: list[RejectedItem] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    rounds: int = 0
    overruled: int = 0
    """Steps and samples that are gold because people kept them."""
    answered: int = 0
    """Episodes that have a step more than they were recorded with: the answer to what they ask."""
    pending: list[str] = field(default_factory=list)
    """Steps and samples that wait for another night's answers: neither gold nor rejected."""


@dataclass
class _Work:
    """An episode or sample on its way: its newest version, the verdicts on that, steps dropped so far, and what it
    was at first. `waiting`: its newest version isn't judged yet."""

    item: Episode | Sample
    verdicts: dict[str, Verdict]
    first: Episode | Sample
    dropped: list[RejectedItem] = field(default_factory=list)
    waiting: bool = False


def refine_part(
    part: SourcePart,
    first: Sequence[Verdict],
    judge: Judge,
    rewriter: ItemRewriter,
    max_rounds: int = 3,
    waiting: Collection[str] = (),
    kept: Mapping[str, KeepDecision] | None = None,
) -> Refined:
    """Run the recursion over a part. `first` are the verdicts of round 0 on its items; those `waiting` have none yet
    and are left alone, as is an item whose repair isn't judged yet. `kept`: items that people said are right."""
    by_id = {verdict.item_id: verdict for verdict in first}
    habits = Habits.of(part.episodes)
    # What cleaning takes out is rejected by its rule, and no judge sees it.
    cleaned = cleaning.clean(part)
    judged, unjudged = split_items(cleaned.items, waiting)
    works = [_Work(item, _verdicts_of(item, by_id), item) for item in judged]
    waits = [name for item in unjudged for name in _names(item)]
    refined = Refined(rejects=_taken_out(part, cleaned), pending=waits, answered=cleaned.answered)
    # What people kept is gold before anything is repaired.
    works = [work for work in works if not _overruled(work, kept or {}, refined)]
    pending = works
    for number in range(1, max_rounds + 1):
        pending = [work for work in pending if _repaired(work, rewriter, habits, number)]
        # Nothing can be repaired any more: the verdicts are final, however many rounds are left.
        if not pending:
            break
        # All repairs of a round in one call, so that a judge can batch them.
        fresh, unasked = split_pending(judge.judge([work.item for work in pending], number, habits))
        refined.verdicts += fresh
        refined.rounds = number
        by_id = {verdict.item_id: verdict for verdict in fresh}
        for work in pending:
            work.waiting = bool(split_items([work.item], unasked)[1])
            # Not judged tonight: the item keeps its old verdicts and waits, repaired.
            if not work.waiting:
                work.verdicts = _verdicts_of(work.item, by_id)
        # One that waits isn't repaired a second time without a verdict on the first.
        pending = [work for work in pending if not work.waiting]
    for work in works:
        if work.waiting:
            refined.pending += _names(work.first)
        else:
            _settle(work, refined)
    return refined


def _overruled(work: _Work, retained: Mapping[str, KeepDecision], refined: Refined) -> bool:
    """Whether people kept an item, as it is, that the judge doesn't keep whole: it is gold then."""
    # Where the judge agrees nothing is overruled, and the item goes its usual way.
    if all(verdict.disposition == "keep" for verdict in work.verdicts.values()):
        return False
    if (found := holds(work.item, retained)) is None:
        return False
    if isinstance(work.item, Sample):
        refined.samples.append(as_decided(work.item.row, found))
    else:
        refined.steps += [as_decided(step.row, found) for step in work.item.steps]
    refined.verdicts += people_verdicts(work.item, found, work.verdicts, 1)
    refined.overruled += len(_names(work.item))
    return True


def _names(item: Episode | Sample) -> list[str]:
    """Ids of what is counted of an item: its steps, or the sample itself."""
    return [item.item_id] if isinstance(item, Sample) else [step.item_id for step in item.actions]


def _taken_out(part: SourcePart, cleaned: cleaning.Cleaned) -> list[RejectedItem]:
    """What cleaning took out, with its rule; steps and samples, since an episode is its steps."""
    rows = {step.item_id: step.row for episode in part.episodes for step in episode.actions}
    rows |= {sample.item_id: sample.row for sample in part.native_samples}
    return [
        RejectedItem(item_id, f"discarded: {taken.rule}: {taken.detail}", 0, rows[item_id])
        for item_id, taken in sorted(cleaned.taken.items())
        if item_id in rows
    ]


def _verdicts_of(item: Episode | Sample, by_id: dict[str, Verdict]) -> dict[str, Verdict]:
    names = [item.item_id]
    if isinstance(item, Episode):
        names += [step.item_id for step in item.actions]
    missing = [name for name in names if name not in by_id]
    if missing:
        raise ValueError(f"refine: no verdict on {missing[0]}; judge the same items that are refined")
    return {name: by_id[name] for name in names}


def _repaired(work: _Work, rewriter: ItemRewriter, habits: Habits, number: int) -> bool:
    """`_repair`; an item whose rewriter may ask no more tonight waits."""
    try:
        return _repair(work, rewriter, habits, number)
    except CeilingReached:
        work.waiting = True
        return False


def _repair(work: _Work, rewriter: ItemRewriter, habits: Habits, number: int) -> bool:
    """Put the repaired item into `work`; False if nothing could be done."""
    if isinstance(work.item, Sample):
        return _repair_sample(work, work.item, rewriter, number)
    return _repair_episode(work, work.item, rewriter, habits, number)


def _repair_sample(work: _Work, sample: Sample, rewriter: ItemRewriter, number: int) -> bool:
    verdict = work.verdicts[sample.item_id]
    if verdict.disposition not in ("rewrite", "reconstruct"):
        return False
    findings = look_at_sample(sample)
    row, repair = None, "rewrite"
    if verdict.disposition == "rewrite":
        # Words first, since they cost nothing of what was recorded; then the box or answer.
        row = rewriter.rewrite_sample(sample, verdict, findings)
    if row is None and (built := reconstruct_sample(sample, findings)) is not None:
        repair, row = built
    if row is None:
        return False
    new = marked(row, sample.item_id, repair, number)
    # Made again from its row, as everything derived from it is then of the new row.
    [remade] = make_samples([new], sample.bank)
    # The neighbours stay as they were: a shift shared by all of a picture is judged once, on the originals.
    others = tuple(new if other["sample_id"] == new["sample_id"] else other for other in sample.siblings)
    work.item = Sample(remade.row, remade.item_id, remade.screens, sample.bank, others)
    return True


def _repair_episode(work: _Work, episode: Episode, rewriter: ItemRewriter, habits: Habits, number: int) -> bool:
    verdict = work.verdicts[episode.item_id]
    steps = {step.item_id: work.verdicts[step.item_id] for step in episode.actions}
    # An episode is looked at if it or any of its steps is wanting.
    wanting = [v for v in (verdict, *steps.values()) if v.disposition in ("rewrite", "reconstruct")]
    if not wanting:
        return False
    seen = look_at_episode(episode, habits)
    rows: dict[int, Row] = {step.row["step_index"]: step.row for step in episode.steps}
    # The goal first: a step's repair keeps whatever goal stands then.
    changed = _repair_whole(work, episode, rows, verdict, seen.whole, rewriter, number)
    for step in episode.actions:
        index = step.row["step_index"]
        # A cut may have taken the step already.
        if index in rows and _needs_repair(steps[step.item_id]):
            changed |= _repair_step(work, step, rows, steps[step.item_id], seen.steps[step.item_id], rewriter, number)
    # Nothing could be repaired, so the rest is tried without what is bad.
    if not changed and verdict.disposition != "keep":
        changed = _leave_out(work, episode, rows, steps)
    # No action left: there is nothing to judge.
    if not changed or not any(row["action_text"] is not None for row in rows.values()):
        return False
    work.item = make_episode(list(rows.values()), episode.bank)
    return True


def _needs_repair(verdict: Verdict) -> bool:
    """Whether the step itself (not only its episode) was found wanting."""
    return verdict.alignment is not None and verdict.alignment < 7


def _repair_whole(
    work: _Work,
    episode: Episode,
    rows: dict[int, Row],
    verdict: Verdict,
    findings: Sequence[Finding],
    rewriter: ItemRewriter,
    number: int,
) -> bool:
    """Rewrite the goal, else cut; changes `rows`."""
    if verdict.disposition == "rewrite":
        rewritten = rewriter.rewrite_episode(episode, verdict, findings)
        if rewritten is not None:
            for row in rewritten:
                rows[row["step_index"]] = marked(row, step_id(row), f"rewrite:{rewriter.name}", number)
            return True
    if verdict.disposition not in ("rewrite", "reconstruct"):
        return False
    cut = reconstruct_episode(episode, findings)
    if cut is None:
        return False
    repair, last = cut
    # All behind the cut; a last screen without an action just goes.
    for index in [index for index in rows if index > last]:
        row = rows.pop(index)
        if row["action_text"] is not None:
            work.dropped.append(_dropped(row, repair))
    # The mark lies on the last step: its digest changes, so the episode is judged again.
    rows[last] = marked(rows[last], step_id(rows[last]), repair, number)
    return True


def _repair_step(
    work: _Work,
    step: Step,
    rows: dict[int, Row],
    verdict: Verdict,
    findings: Sequence[Finding],
    rewriter: ItemRewriter,
    number: int,
) -> bool:
    """Rewrite or reconstruct one step; changes `rows`."""
    index = step.row["step_index"]
    row, repair = None, f"rewrite:{rewriter.name}"
    # Below 4 no words could make the step right (docs/method.md §3).
    if verdict.alignment is not None and verdict.alignment >= 4:
        row = rewriter.rewrite_step(step, verdict, findings)
    if row is None:
        built = reconstruct_step(step, findings)
        if built is None:
            return False
        repair, row = built
    # A repair that is "leave this step out" of the episode.
    if row is None:
        work.dropped.append(_dropped(rows.pop(index), f"{DROP}: {verdict.reason}"))
        return True
    # The goal may have been rewritten in this round: keep that and change the rest.
    new = {**row, "instruction": rows[index]["instruction"], "provenance": rows[index]["provenance"]}
    rows[index] = marked(new, step.item_id, repair, number)
    return True


def _leave_out(work: _Work, episode: Episode, rows: dict[int, Row], verdicts: Mapping[str, Verdict]) -> bool:
    """Discard the steps that are bad and can't be repaired, so that the rest is judged without them: they speak
    against the trace as well. Only few of a trace whose other steps are all good; changes `rows`."""
    scores = [(step, verdicts[step.item_id].alignment) for step in episode.actions]
    bad = [step for step, score in scores if score is not None and score < REWRITE_FROM]
    good = [step for step, score in scores if score is not None and score >= KEEP_FROM]
    # Few, and fewer than the good: a trace that is mostly bad isn't saved by cutting.
    few = len(bad) <= max(1, FEW * len(scores)) and len(bad) < len(good)
    # Every other step has to be good: one that is doubtful would be judged in a trace with holes.
    if not bad or not few or len(bad) + len(good) < len(scores):
        return False
    for step in bad:
        work.dropped.append(_reject(step.item_id, verdicts[step.item_id], rows.pop(step.row["step_index"])))
    return True


def _settle(work: _Work, refined: Refined) -> None:
    """Gold or reject, by the last verdict."""
    if isinstance(work.item, Sample):
        verdict = work.verdicts[work.item.item_id]
        if verdict.disposition == "keep":
            refined.samples.append(work.item.row)
        else:
            refined.rejects.append(_reject(work.item.item_id, verdict, work.item.row))
        return
    retained: set[int] = set()
    for step in work.item.steps:
        index = step.row["step_index"]
        if step.row["action_text"] is None:
            # The last screen belongs to the action that led to it, and is gold with it.
            if index - 1 in retained:
                refined.steps.append(step.row)
            continue
        verdict = work.verdicts[step.item_id]
        if verdict.disposition == "keep":
            retained.add(index)
            refined.steps.append(step.row)
        else:
            refined.rejects.append(_reject(step.item_id, verdict, step.row))
    refined.rejects += work.dropped


def _dropped(row: Row, repair: str) -> RejectedItem:
    return RejectedItem(step_id(row), f"dropped by {repair}", None, row)


def _reject(item_id: str, verdict: Verdict, row: Row) -> RejectedItem:
    return RejectedItem(item_id, f"{final_word(verdict)}: {verdict.reason}", verdict.score, row)


def final_word(verdict: Verdict) -> str:
    """What becomes of an item that isn't kept in the end: discarded (0–3), unrepaired (4–6), review (abstained)."""
    return {"reconstruct": "discarded", "rewrite": "unrepaired"}.get(verdict.disposition, verdict.disposition)
