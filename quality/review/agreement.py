"""How far people agree beyond chance, and the items on which they don't.

Answers are labels without order (nominal). An undefined figure (nothing answered twice, or chance can't disagree) is
NaN, never 0 or 1. `unsure` is an answer like the others: leaving it out would make the agreement look better.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from quality.review.verdict_store import HumanVerdict

Label = str


def cohen_kappa(pairs: Sequence[tuple[Label, Label]]) -> float:
    """κ of two annotators, (p_o − p_e) / (1 − p_e), chance from each one's own shares (Cohen 1960)."""
    count = len(pairs)
    if not count:
        return math.nan
    left, right = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    observed = sum(a == b for a, b in pairs) / count
    chance = sum(left[label] * right[label] for label in left) / count**2
    # Without any variation chance explains everything, and κ isn't defined.
    return (observed - chance) / (1 - chance) if chance < 1 else math.nan


def fleiss_kappa(counts: Sequence[Sequence[int]]) -> float:
    """κ of n annotators (Fleiss 1971): one row an item, one column a label, how many chose it; all rows sum to n ≥ 2.
    Raises `ValueError` if they don't."""
    if not counts:
        return math.nan
    raters = sum(counts[0])
    if raters < 2 or any(sum(row) != raters or min(row) < 0 for row in counts):
        raise ValueError(f"fleiss_kappa: expected rows that all sum to the same n of 2 or more, found {raters} first")
    agreeing = [sum(one * (one - 1) for one in row) / (raters * (raters - 1)) for row in counts]
    observed = math.fsum(agreeing) / len(counts)
    shares = [sum(column) / (len(counts) * raters) for column in zip(*counts)]
    chance = math.fsum(share * share for share in shares)
    # One label alone: likewise.
    return (observed - chance) / (1 - chance) if sum(share > 0 for share in shares) > 1 else math.nan


def krippendorff_alpha(units: Iterable[Sequence[Label | None]]) -> float:
    """α for nominal labels, any number of annotators, missing answers None: 1 − D_o / D_e over the values of the units
    with two or more answers (Krippendorff 2011, "Computing Krippendorff's Alpha-Reliability")."""
    known = [[label for label in unit if label is not None] for unit in units]
    pairable = [Counter(unit) for unit in known if len(unit) > 1]
    totals: Counter[Label] = sum(pairable, Counter())
    values = sum(totals.values())
    apart = math.fsum(
        (sum(unit.values()) ** 2 - sum(one * one for one in unit.values())) / (sum(unit.values()) - 1)
        for unit in pairable
    )
    chance = values**2 - sum(one * one for one in totals.values())
    return 1 - (values - 1) * apart / chance if chance else math.nan


def percent_agreement(units: Iterable[Sequence[Label | None]]) -> float:
    """The mean over units of the share of pairs of answers that are equal; units with fewer than two don't count."""
    shares = []
    for unit in units:
        counts = Counter(label for label in unit if label is not None)
        count = sum(counts.values())
        if count > 1:
            shares.append(sum(one * (one - 1) for one in counts.values()) / (count * (count - 1)))
    return math.fsum(shares) / len(shares) if shares else math.nan


@dataclass(frozen=True)
class AnnotatorAgreement:
    """Figures over the items that two or more people answered. `kappa` is Cohen's for two people (over more: the mean
    of the pairs, in `pairs` one by one), `fleiss` over the items that all answered, `alpha` over all of them."""

    annotators: tuple[str, ...]
    items: int
    percent: float
    kappa: float
    fleiss: float
    alpha: float
    pairs: Mapping[str, tuple[float, int]]
    """`a | b` → (Cohen's κ, items both answered)."""

    def plain(self) -> dict[str, Any]:
        """As JSON: undefined figures are null."""
        return {
            "annotators": list(self.annotators),
            "items": self.items,
            "percent": _known(self.percent),
            "kappa": _known(self.kappa),
            "fleiss": _known(self.fleiss),
            "alpha": _known(self.alpha),
            "pairs": {name: [_known(value), count] for name, (value, count) in sorted(self.pairs.items())},
        }


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def answers(verdicts: Iterable[HumanVerdict]) -> dict[str, dict[str, Label]]:
    """item → annotator → decision, adjudications left out (they were made knowing the others)."""
    table: dict[str, dict[str, Label]] = {}
    for verdict in verdicts:
        # Adjudicators knew what the others had said.
        if verdict.role == "annotator":
            table.setdefault(verdict.item_id, {})[verdict.annotator] = verdict.decision
    return table


def agreement(verdicts: Iterable[HumanVerdict]) -> AnnotatorAgreement:
    """All figures of the answers that count (`VerdictStore.verdicts`)."""
    table = answers(verdicts)
    people = tuple(sorted({name for row in table.values() for name in row}))
    units = [[row.get(name) for name in people] for row in table.values()]
    pairs = {}
    for a, b in combinations(people, 2):
        both = [(row[a], row[b]) for row in table.values() if a in row and b in row]
        if both:
            pairs[f"{a} | {b}"] = (cohen_kappa(both), len(both))
    known = [value for value, _ in pairs.values() if not math.isnan(value)]
    labels = sorted({label for row in table.values() for label in row.values()})
    # Fleiss needs equally many answers for each item.
    whole = [row for row in table.values() if len(row) == len(people) > 1]
    counts = [[list(row.values()).count(label) for label in labels] for row in whole]
    return AnnotatorAgreement(
        people,
        sum(len(row) > 1 for row in table.values()),
        percent_agreement(units),
        math.fsum(known) / len(known) if known else math.nan,
        fleiss_kappa(counts),
        krippendorff_alpha(units),
        pairs,
    )


@dataclass(frozen=True, slots=True)
class Disagreement:
    """An item whose annotators differ; `adjudicated` is the last word on it, None while it waits."""

    item_id: str
    decisions: Mapping[str, Label]
    adjudicated: HumanVerdict | None


def disagreements(verdicts: Sequence[HumanVerdict]) -> list[Disagreement]:
    """The disagreement queue: waiting ones first, then those with a last word; each by item id."""
    last = _adjudications(verdicts)
    found = [
        Disagreement(item_id, row, last.get(item_id))
        for item_id, row in sorted(answers(verdicts).items())
        if len(set(row.values())) > 1
    ]
    # Those still to be settled come first.
    return sorted(found, key=lambda one: (one.adjudicated is not None, one.item_id))


def _adjudications(verdicts: Iterable[HumanVerdict]) -> dict[str, HumanVerdict]:
    built = sorted((one for one in verdicts if one.role == "adjudicator"), key=lambda one: one.id)
    # By id, which grows: the last word is the one that counts.
    return {one.item_id: one for one in built}


def consensus(verdicts: Sequence[HumanVerdict], overlap: int = 2) -> dict[str, str]:
    """item → what people say of it: the adjudication if there is one, else what all of at least `overlap` annotators
    said. Items that wait for more answers or for an adjudication have none."""
    agreed = {
        item_id: next(iter(row.values()))
        for item_id, row in answers(verdicts).items()
        if len(row) >= overlap and len(set(row.values())) == 1
    }
    return agreed | {item_id: one.decision for item_id, one in _adjudications(verdicts).items()}
