"""What people's answers say of a judge: how far it agrees with them, and from which score it may be trusted to keep.

An item's score is the judge's lowest on it and its steps, as in the queue. The three bands are those of the judge
(discard or reconstruct < rewrite < keep); `unsure` is no band and is left out, and counted. With the queue's weights
the figures speak of all candidates, not of those drawn; their uncertainty then counts the effective number of items
(Kish 1965, (Σw)² / Σw²).
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pipelines.store.manifest import Check, CheckSpec
from quality.items.item import base_id
from quality.judges.judge import BAND_RANK, KEEP_FROM, Verdict, route
from quality.statistics import confusion, score_interval, weighted_kappa

DEFAULT_FLOOR = 0.4
"""Quadratic κ below which a judge is refused: the lower end of "moderate" (Landis and Koch 1977)."""
DEFAULT_MARGIN = 0.05
MIN_SHARE = 0.9
"""Of the human set that a judge must have answered."""
AGREES = CheckSpec("the judge agrees with people", "Quadratic κ with the human set is too low, or under 90 % answered")


@dataclass(frozen=True, slots=True)
class Pair:
    """An item: the judge's score 0..10 (None if it abstained), what people decided, how many items it stands for."""

    item_id: str
    score: int | None
    decision: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class KeepCut:
    """What "keep from this score on" gives: of what it keeps, the share that people keep (with its 95 % interval), and
    of what people keep, the share that it keeps."""

    cut: int
    kept: int
    precision: float
    low: float
    high: float
    recall: float


def cuts(pairs: Sequence[Pair]) -> list[KeepCut]:
    """Every cut 1..10. An abstention is never kept; it counts against the recall if people keep the item."""
    known = [pair for pair in pairs if pair.decision in BAND_RANK]
    wanted = math.fsum(pair.weight for pair in known if pair.decision == "keep")
    built = []
    for cut in range(1, 11):
        retained = [pair for pair in known if pair.score is not None and pair.score >= cut]
        weight = math.fsum(pair.weight for pair in retained)
        right = math.fsum(pair.weight for pair in retained if pair.decision == "keep")
        # Kish's effective sample size: unequal weights say less than their number.
        effective = weight**2 / math.fsum(pair.weight**2 for pair in retained) if retained else 0.0
        precision = right / weight if retained else math.nan
        low, high = score_interval(precision if retained else 0.0, effective)
        built.append(KeepCut(cut, len(retained), precision, low, high, right / wanted if wanted else math.nan))
    return built


def keep_cut(pairs: Sequence[Pair], precision: float = 0.9) -> KeepCut | None:
    """The lowest cut whose precision has its whole 95 % interval at or above the target, and above which no cut has
    a precision below it; None if there is none (then more answers or a better judge are needed).

    Lower cuts keep more, so the lowest one that holds has the greatest recall. A higher cut that keeps so few items
    that its interval is wide doesn't speak against a lower one.
    """
    if not 0 < precision < 1:
        raise ValueError(f"target precision: expected a share between 0 and 1, found {precision}")
    chosen = None
    # From the strictest down; the first that fails ends it, so that none above the chosen one fails.
    for cut in reversed(cuts(pairs)):
        if cut.kept and cut.precision < precision:
            break
        if cut.kept and cut.low >= precision:
            chosen = cut
    return chosen


@dataclass(frozen=True)
class JudgeAgreement:
    """A judge against people on the items that both decided: `kappa` quadratic over the three bands, `keep_kappa`
    Cohen's over keep or not, `share` of the items that the judge answered."""

    items: int
    share: float
    kappa: float
    keep_kappa: float
    counts: tuple[tuple[float, ...], ...]
    """Rows people's bands, columns the judge's."""


def judge_agreement(pairs: Sequence[Pair]) -> JudgeAgreement:
    """κ of the judge and the people; unweighted: it says how they agree on the items that were looked at."""
    known = [pair for pair in pairs if pair.decision in BAND_RANK]
    both = [pair for pair in known if pair.score is not None]
    # Only three bands are compared, as people don't give scores.
    table = confusion([_band(pair.decision) for pair in both], [_band(route(pair.score)) for pair in both], 3)
    # Keep or not: what the corpus depends on.
    keep = np.array([[table[:2, :2].sum(), table[:2, 2].sum()], [table[2, :2].sum(), table[2, 2]]])
    return JudgeAgreement(
        len(both),
        len(both) / len(known) if known else math.nan,
        weighted_kappa(table),
        weighted_kappa(keep, 1),
        tuple(tuple(float(one) for one in line) for line in table),
    )


def _band(decision: str) -> int:
    """Place among the three bands from the worst on, the order of the tables here."""
    return 2 - BAND_RANK[decision]


def report(pairs: Sequence[Pair], precision: float = 0.9) -> dict[str, object]:
    """As JSON: agreement, every cut, the one in use and the one that meets the target; undefined figures are null."""
    found, table, chosen = judge_agreement(pairs), cuts(pairs), keep_cut(pairs, precision)
    return {
        "items": found.items,
        "unsure": sum(pair.decision not in BAND_RANK for pair in pairs),
        "share_answered": _known(found.share),
        "kappa": _known(found.kappa),
        "keep_kappa": _known(found.keep_kappa),
        "bands": [list(line) for line in found.counts],
        "target_precision": precision,
        "keep_from": chosen.cut if chosen else None,
        "keep_from_in_use": KEEP_FROM,
        "cuts": [{name: _known(getattr(cut, name)) for name in KeepCut.__slots__} for cut in table],
    }


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


# --- the gate ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class HumanSet:
    """A frozen set of items with what people decided on them. `judged` names, for each item, all whose lowest score is
    its score (an episode and its steps). `kappa` is the recorded judge's, None if none was asked or it is undefined."""

    digest: str
    decisions: Mapping[str, str]
    judged: Mapping[str, tuple[str, ...]]
    kappa: float | None
    judge: str


def scores_of(verdicts: Iterable[Verdict], judged: Mapping[str, Sequence[str]]) -> dict[str, int | None]:
    """Verdicts → score of each item: the lowest of all it names, None if one of these was abstained from; an item is
    missing if any of them wasn't judged."""
    last: dict[str, tuple[int, int | None]] = {}
    for verdict in verdicts:
        base = base_id(verdict.item_id)
        # The last round counts; a verdict that waits isn't one yet.
        if not verdict.pending and (base not in last or verdict.round >= last[base][0]):
            last[base] = (verdict.round, verdict.score)
    found: dict[str, int | None] = {}
    for item_id, names in judged.items():
        # An episode whose steps weren't all judged has no score.
        if all(base_id(name) in last for name in names):
            scores = [last[base_id(name)][1] for name in names]
            known = [score for score in scores if score is not None]
            found[item_id] = min(known) if len(known) == len(scores) else None
    return found


def pairs_of(verdicts: Iterable[Verdict], human: HumanSet) -> list[Pair]:
    """Verdicts beside what people decided; an item that wasn't judged counts as an abstention."""
    scores = scores_of(verdicts, human.judged)
    return [Pair(item_id, scores.get(item_id), decision) for item_id, decision in human.decisions.items()]


def gate(
    verdicts: Iterable[Verdict], human: HumanSet, floor: float = DEFAULT_FLOOR, margin: float = DEFAULT_MARGIN
) -> Check:
    """A judge's verdicts on the frozen set → a blocking check. It fails if quadratic κ with people is below `floor`,
    or more than `margin` below the recorded one, or undefined, or if less than `MIN_SHARE` of the set was answered: a
    judge can't pass by staying silent on what is hard."""
    found = judge_agreement(pairs_of(verdicts, human))
    # A first judge has nothing to fall below but the floor.
    least = max(floor, (human.kappa if human.kappa is not None else -1.0) - margin)
    text = f"kappa {found.kappa:.3f} on {found.items} items, {found.share:.0%} answered"
    passed = found.kappa >= least and found.share >= MIN_SHARE  # NaN fails both
    wanted = f"kappa of at least {least:.3f} and {MIN_SHARE:.0%} answered (human set {human.digest[:12]})"
    return AGREES.check(bool(passed), text, wanted, found.kappa, least)
