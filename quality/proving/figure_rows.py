"""The rows of the judge bench's figures; how they are computed: `quality.proving.figures`."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from quality.proving import calibration as cal

PREVALENCE = 0.303
"""Share of low fidelity that the method reports before refinement (100 − 69.7 %): what thresholds are frozen at."""
PREVALENCES = (0.10, PREVALENCE, 0.50)
FALSE_ALARMS = 0.05
UNITS = ("step", "sample", "episode")
HELD_OUT_BY = ("family", "operator", "magnitude")


@dataclass(frozen=True, slots=True)
class Scored:
    """A labelled item and the judge's answer. Bands: 0 keep, 1 rewrite, 2 reconstruct or discard."""

    item_id: str
    unit: str
    label: str
    kind: str
    family: str
    held_out: bool
    held_out_by: str
    magnitude: float | None
    band: int
    risk: float
    said: int | None
    """The band its score leads to; None for an abstention."""
    abstained: bool

    @property
    def bad(self) -> bool:
        return self.label in ("planted", "natural")


@dataclass(frozen=True, slots=True)
class Costs:
    """What the judging took; `items` are steps and samples. Cached answers count no tokens and no seconds."""

    items: int
    seconds: float
    model_seconds: float
    requests: int
    prompt_tokens: int
    completion_tokens: int
    cached: int
    price: float | None

    def per_item(self) -> dict[str, float | None]:
        """Seconds, tokens and price of one item."""
        count = max(self.items, 1)
        tokens = self.prompt_tokens + self.completion_tokens
        price = None if self.price is None else self.price / count
        return {"seconds": self.seconds / count, "tokens": tokens / count, "price": price}


@dataclass(frozen=True, slots=True)
class DetectionRow:
    """Bad items of one name (a defect, a kind of natural error, a reason of being held out) against the sound ones.

    `unit` is "all" where the name has items of several units: AUROC is then the mean over units by their items, recall
    counts all items. Intervals are 95 %, by page family. `recall` has the frozen cut of 5 % false alarms; `recall_own`
    one of at most 5 % on the very sound items measured (what a cut that transfers perfectly would give). Average
    precision is at a prevalence of 30.3 %.
    """

    name: str
    unit: str
    n: int
    auroc: float
    auroc_interval: tuple[float, float]
    average_precision: float
    recall: float
    recall_interval: tuple[float, float]
    recall_own: float
    abstained: int


@dataclass(frozen=True, slots=True)
class Alarm:
    """Sound items of one kind ("" = clean): how many are flagged, with Wilson's interval."""

    kind: str
    unit: str
    n: int
    flagged: int
    share: float
    interval: tuple[float, float]


@dataclass(frozen=True, slots=True)
class FrozenCut:
    """A frozen cut of a unit. `chosen`: the false alarm rate where it was chosen; `actual`: where it is measured."""

    unit: str
    rule: str
    cut: float
    chosen_on: int
    chosen: float
    sound: int
    actual: float
    actual_interval: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Point:
    """A frozen cut at several prevalences. Every defect that needs no reading of intent weighs the same in recall."""

    rule: str
    unit: str
    defects: int
    recall: float
    false_alarms: float
    at: tuple[cal.Operating, ...]


@dataclass(frozen=True, slots=True)
class Calibrated:
    """Risks as probabilities, weighted to the prevalence of 30.3 %, every kind of bad item weighing the same."""

    unit: str
    n: int
    error: float
    brier: float
    brier_of_prevalence: float
    """Brier score of saying 30.3 % for everything: what a judge has to beat."""
    bins: tuple[cal.Bin, ...]


@dataclass(frozen=True, slots=True)
class BandAgreement:
    """Agreement on the three bands, weighted as `Calibrated`; abstentions have no band and are left out."""

    n: int
    abstained: int
    quadratic: float
    linear: float
    table: tuple[tuple[int, ...], ...]
    """Counts as found: rows the right band, columns the judge's."""


@dataclass(frozen=True)
class Figures:
    """All figures of one judge on one split."""

    split: str
    sound: int
    bad: int
    abstained: int
    defects: tuple[DetectionRow, ...]
    natural: tuple[DetectionRow, ...]
    held_out: tuple[DetectionRow, ...]
    alarms: tuple[Alarm, ...]
    cuts: tuple[FrozenCut, ...]
    points: tuple[Point, ...]
    macro_recall: float
    """Mean recall over the defects that need no reading of intent, at the cut of 5 % false alarms."""
    macro_recall_interval: tuple[float, float]
    macro_auroc: float
    agreement: BandAgreement
    calibrated: tuple[Calibrated, ...]
    notes: tuple[str, ...]
    """What couldn't be measured, and why."""

    def as_json(self) -> dict[str, Any]:
        """Plain data: NaN → null, infinite cuts as text."""
        return dict(plain(asdict(self)))


def plain(value: object) -> Any:
    """JSON data of figures."""
    if isinstance(value, float):
        return None if math.isnan(value) else value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {str(name): plain(one) for name, one in value.items()}
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value
