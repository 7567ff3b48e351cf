"""Which items people look at: part where the judge is least sure, part at random, every stratum in turn.

A candidate lies in a cell: its stratum (source / platform / objective or rarest action) and its band, how unsure the
judge is of it. In a cell items are drawn in the order of hash(seed, item_id), so the draw is a simple random sample of
the cell, the same on every run, and new data changes little of it. `weight` = candidates of the cell ÷ those drawn:
with it, figures over the queue estimate figures over all candidates of the drawn cells.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from quality.items.item import Episode, Sample, base_id, provenance
from quality.judges.judge import KEEP_FROM, REWRITE_FROM

ACTIONS = (
    "Click",
    "Scroll",
    "Finished",
    "Type",
    "Wait",
    "PressBack",
    "PressHome",
    "PressEnter",
    "Launch",
    "Hover",
    "CallUser",
    "LongPress",
    "DoubleClick",
    "Drag",
    "Hotkey",
    "PressRecent",
    "SelectOption",
    "RightClick",
    "TakeNote",
    "GetUrl",
)
"""From common to rare (docs/method.md §2): an episode's stratum is named after the rarest action it holds."""

QUEUE_BANDS = ("abstained", "near_cut", "low_confidence", "sure", "rejected", "unjudged")
UNCERTAIN = QUEUE_BANDS[:3]
Cell = tuple[str, str]


@dataclass(frozen=True, slots=True)
class QueueConfig:
    """How many items, from which share of uncertainty; `low_confidence` is the judge's own, below it is unsure."""

    size: int = 200
    seed: int = 0
    uncertain_share: float = 0.5
    rejected_share: float = 0.1
    low_confidence: float = 0.5

    def __post_init__(self) -> None:
        if self.size < 1:
            raise ValueError(f"review queue: size must be at least 1, found {self.size}")
        shares = (self.uncertain_share, self.rejected_share, 1 - self.uncertain_share - self.rejected_share)
        if not all(0 <= share <= 1 for share in shares):
            raise ValueError(f"review queue: shares must be 0..1 and sum to at most 1, found {shares[:2]}")

    def plain(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class ReviewCandidate:
    """An item that may be reviewed. `score` and `confidence` are the judge's lowest on it and its steps; both None if
    no judge saw it, `score` alone None if one abstained. `origin`: gold, or rejected on the way there."""

    item_id: str
    source: str
    platform: str
    kind: str
    """Objective of a sample; `navigation:<rarest action>` of an episode."""
    score: int | None
    confidence: float | None
    origin: str
    part: str = ""

    @property
    def stratum(self) -> str:
        return f"{self.source}/{self.platform}/{self.kind}"


@dataclass(frozen=True, slots=True)
class QueuedItem:
    """A row of the queue; `priority` 0 comes first."""

    item_id: str
    source: str
    stratum: str
    reason: str
    priority: int
    band: str
    score: int | None
    confidence: float | None
    weight: float
    origin: str
    part: str


def band(candidate: ReviewCandidate, config: QueueConfig) -> str:
    """How unsure the judge is: abstained; a score next to a cut (3/4, 6/7); low confidence; else sure."""
    # No judge was asked; one that abstained has a confidence.
    if candidate.confidence is None and candidate.score is None:
        return "unjudged"
    if candidate.score is None:
        return "abstained"
    if candidate.score in (REWRITE_FROM - 1, REWRITE_FROM, KEEP_FROM - 1, KEEP_FROM):
        return "near_cut"
    if candidate.confidence is not None and candidate.confidence < config.low_confidence:
        return "low_confidence"
    return "sure" if candidate.origin == "gold" else "rejected"


def cell(candidate: ReviewCandidate, config: QueueConfig) -> Cell:
    """(stratum, band)."""
    return candidate.stratum, band(candidate, config)


def order(item_id: str, seed: int) -> bytes:
    """The place of an item among those of its cell."""
    # A hash instead of a generator: the order doesn't depend on how many there are.
    return hashlib.sha256(f"{seed}\n{item_id}".encode("utf-8", "backslashreplace")).digest()


def draw(
    candidates: Iterable[ReviewCandidate], config: QueueConfig, sizes: Mapping[Cell, int] | None = None
) -> list[QueuedItem]:
    """Candidates → the queue in order of priority: abstentions, next to a cut, low confidence, then the random ones.

    `sizes` are the cells' true sizes where the candidates are only the first of each (`first_of_cells`). A band that
    has too few leaves its places to the others.
    """
    cells: dict[Cell, list[ReviewCandidate]] = {}
    # An item that two parts hold is asked about once.
    for candidate in {one.item_id: one for one in candidates}.values():
        cells.setdefault(cell(candidate, config), []).append(candidate)
    for inside in cells.values():
        inside.sort(key=lambda one: order(one.item_id, config.seed))
    turns = {
        name: list(_in_turn({key: cells[key] for key in cells if key[1] == name}, config.seed)) for name in QUEUE_BANDS
    }
    taken = _quotas({name: len(turns[name]) for name in QUEUE_BANDS}, config)
    chosen = _with_every_stratum(turns, taken)
    drawn = Counter(cell(one, config) for one in chosen)
    whole = sizes or {key: len(inside) for key, inside in cells.items()}
    return [
        QueuedItem(
            one.item_id,
            one.source,
            one.stratum,
            _reason(one, config),
            place,
            band(one, config),
            one.score,
            one.confidence,
            # How many candidates each one stands for.
            whole[cell(one, config)] / drawn[cell(one, config)],
            one.origin,
            one.part,
        )
        for place, one in enumerate(chosen)
    ]


def first_of_cells(
    candidates: Iterable[ReviewCandidate], config: QueueConfig
) -> tuple[list[ReviewCandidate], Counter[Cell]]:
    """(at most `size` candidates of each cell, those that would be drawn first; size of every cell): what a part has to
    hand on, however large it is."""
    cells: dict[Cell, list[ReviewCandidate]] = {}
    for candidate in candidates:
        cells.setdefault(cell(candidate, config), []).append(candidate)
    retained: list[ReviewCandidate] = []
    for key in sorted(cells):
        # More than `size` of one cell are never drawn.
        retained += sorted(cells[key], key=lambda one: order(one.item_id, config.seed))[: config.size]
    return retained, Counter({key: len(inside) for key, inside in cells.items()})


def _with_every_stratum(
    turns: Mapping[str, Sequence[ReviewCandidate]], taken: Mapping[str, int]
) -> list[ReviewCandidate]:
    """The first `taken` of each band, where the last ones of strata that have several make room for the first of each
    stratum that would have none: in its band if that has any, else in the one that has most."""
    drawn = {name: list(inside[: taken[name]]) for name, inside in turns.items()}
    held = Counter(one.stratum for inside in drawn.values() for one in inside)
    for name, inside in turns.items():
        for one in inside[taken[name] :]:
            if held[one.stratum]:
                continue
            for other in sorted(drawn, key=lambda other: (other != name, -len(drawn[other]))):
                # Only from strata that keep another one.
                spare = [place for place, held_one in enumerate(drawn[other]) if held[held_one.stratum] > 1]
                if spare:
                    # The last one is the least urgent.
                    held[drawn[other].pop(spare[-1]).stratum] -= 1
                    held[one.stratum] += 1
                    drawn[name].append(one)
                    break
    return [one for name in QUEUE_BANDS for one in drawn[name]]


def _in_turn(cells: Mapping[Cell, Sequence[ReviewCandidate]], seed: int) -> Iterator[ReviewCandidate]:
    """One of each cell, then the next of each: rare strata come as early as common ones."""
    # Of the cells as well, or those early in the alphabet would always come first.
    keys = sorted(cells, key=lambda key: order("/".join(key), seed))
    for place in range(max(map(len, cells.values()), default=0)):
        yield from (cells[key][place] for key in keys if place < len(cells[key]))


def _quotas(there: Mapping[str, int], config: QueueConfig) -> dict[str, int]:
    """Places of each band: its share, at most what is there; what is left goes to the bands in order of need."""
    taken = dict.fromkeys(QUEUE_BANDS, 0)

    def take(names: Sequence[str], places: int) -> int:
        for name in names:
            more = min(there[name] - taken[name], places)
            taken[name] += more
            places -= more
        return places

    uncertain = round(config.size * config.uncertain_share)
    rejected = round(config.size * config.rejected_share)
    left = 0
    for place, name in enumerate(UNCERTAIN):  # a third each, what one lacks goes on: no kind of doubt starves another
        share = uncertain // 3 + (place < uncertain % 3)
        left = take((name,), share + left)
    left = take(UNCERTAIN, left) + take(("rejected",), rejected)
    left += take(("sure", "unjudged"), config.size - uncertain - rejected)
    take(("sure", "unjudged", *UNCERTAIN, "rejected"), left)
    return taken


def _reason(candidate: ReviewCandidate, config: QueueConfig) -> str:
    """Why it was drawn, in words."""
    return {
        "abstained": "the judge abstained",
        "near_cut": f"next to a cut: score {candidate.score}",
        "low_confidence": f"low confidence: {candidate.confidence or 0:.2f}",
        "sure": "audit of gold",
        "rejected": "audit of rejects",
        "unjudged": "not judged",
    }[band(candidate, config)]


# --- from items and verdicts ------------------------------------------------------------------------------------------
Judged = Mapping[str, tuple[int, int | None, float]]
"""item id without version → (round, score, confidence) of its last verdict."""


def episode_candidate(episode: Episode, judged: Judged, origin: str, part: str = "") -> ReviewCandidate:
    """An episode with the lowest score and confidence of its own verdict and its steps'."""
    names = [base_id(episode.item_id), *(base_id(step.item_id) for step in episode.actions)]
    score, confidence = _lowest(names, judged)
    types = [str(step.row["action_type"]) for step in episode.actions]
    # The rarest action names the kind, as that is where the judge has seen least.
    rarest = max(types, key=lambda name: ACTIONS.index(name) if name in ACTIONS else len(ACTIONS), default="none")
    platform = episode.steps[0].platform
    return ReviewCandidate(
        episode.item_id, episode.source, platform, f"navigation:{rarest}", score, confidence, origin, part
    )


def sample_candidate(sample: Sample, judged: Judged, origin: str, part: str = "") -> ReviewCandidate:
    """A native sample with its own score."""
    score, confidence = _lowest([base_id(sample.item_id)], judged)
    row = sample.row
    return ReviewCandidate(
        sample.item_id, row["source"], row["platform"], row["objective"], score, confidence, origin, part
    )


def _lowest(names: Sequence[str], judged: Judged) -> tuple[int | None, float | None]:
    known = [judged[name] for name in names if name in judged]
    if not known:
        return None, None
    scores = [score for _, score, _ in known]
    # One abstention is an abstention.
    lowest = None if any(score is None for score in scores) else min(score for score in scores if score is not None)
    return lowest, min(confidence for *_, confidence in known)


def is_native(sample: Sample) -> bool:
    """Whether a sample came with its source; one derived from gold stands and falls with its parent."""
    return bool(provenance(sample.row).get("deriver") == "native")
