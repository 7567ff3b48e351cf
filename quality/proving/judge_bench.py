"""Measures a judge on a judge bench (`quality.items.truth`): asks it about the whole folder, then scores its answers.

The judge is asked itself, over a part built from the folder's tables and pictures: what cleaning takes out of a corpus
(passwords, traces that are too short) says nothing about the judge. It is handed no path, so nothing leads it to
`truth.parquet`. Figures: `quality.proving.figures`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from quality.evidence.episode import Habits
from quality.items.bench_folder import judged_part, read_truth
from quality.items.part import SourcePart
from quality.judges.judge import BAND_RANK, Judge, Verdict, identity, route
from quality.judges.registry import report_of, requests_sent
from quality.model_client.errors import ModelError
from quality.model_client.prices import Prices
from quality.proving.figure_rows import PREVALENCE, Costs, Figures, Scored
from quality.proving.figures import figures

Split = Literal["all", "seen", "held_out"]
SPLITS: tuple[Split, ...] = ("all", "seen", "held_out")


@dataclass(frozen=True)
class BenchResult:
    """A judge's figures on a bench. `figures` depend on bench and answers alone; `costs` on the machine and the day."""

    judge: dict[str, str]
    elements: bool
    split: Split
    figures: Figures
    costs: Costs
    scored: tuple[Scored, ...]
    """Every labelled item of the bench that was judged, whichever the split, in the order of the truth."""
    pending: int
    """Labelled items that a night's ceiling kept the judge from being asked about: in no figure."""
    told: dict[str, Any]
    """What the judge says of its own work (a cascade: calls saved)."""

    @property
    def title(self) -> str:
        """Judge (with its model) and what it could see."""
        model = "" if self.judge["model"] == "none" else f" {self.judge['model']}"
        return f"{self.judge['judge']}{model}, {'with' if self.elements else 'without'} elements"


def measure(
    folder: Path,
    judge: Judge,
    elements: bool = True,
    split: Split = "held_out",
    *,
    rounds: int = 200,
    seed: int = 0,
    prices: Prices | None = None,
) -> BenchResult:
    """Ask a judge about a bench and score it.

    `elements=False` empties every screen's element list (a source without a UI tree). `split` picks the items that
    figures are about; cuts come from the seen ones, but for a judge that learned from those (see `figures`).
    `rounds`, `seed`: of the bootstrap. Raises `ValueError` for a folder that is no bench or a judge that leaves out an
    item, `ModelError` if it fails or everything is pending.
    """
    if split not in SPLITS:
        raise ValueError(f"split: expected one of {', '.join(SPLITS)}, found {split!r}")
    part = judged_part(folder, elements)
    truth = read_truth(folder, part)
    before = requests_sent(judge)
    began = time.perf_counter()
    verdicts = judge.judge(part.items, 0, Habits.of(part.episodes))
    seconds = time.perf_counter() - began
    scored = score_items(truth, verdicts, part, judge.name)
    if not scored:
        raise ModelError(f"judge {judge.name}: all {len(truth)} labelled items are pending; run again later")
    costs = _costs(verdicts, seconds, requests_sent(judge) - before, prices)
    found = figures(scored, split, rounds=rounds, seed=seed, learned=getattr(judge, "learned", False))
    return BenchResult(
        identity(judge), elements, split, found, costs, tuple(scored), len(truth) - len(scored), report_of(judge)
    )


def _item_ids(part: SourcePart) -> set[str]:
    """Episodes, steps with an action, and samples."""
    steps = {step.item_id for episode in part.episodes for step in episode.actions}
    return steps | {item.item_id for item in part.items}


# --- what was answered ------------------------------------------------------------------------------------------------
def score_items(
    truth: Sequence[Mapping[str, Any]], verdicts: Sequence[Verdict], part: SourcePart, name: str
) -> list[Scored]:
    """Labelled items with the judge's risk and band.

    Units: a step by its own alignment (its episode's reachability says nothing about the step), a sample by its score,
    an episode by its verdict's own `risk` where the judge gives one (it speaks for the whole), else by the greatest
    risk among its own verdict and its steps' alignments, for sound and damaged ones alike: a trace is as trustworthy
    as its worst step. An item that nothing was said about has the expected share of bad ones as its risk and no band;
    an episode abstains only if all its verdicts do. What is pending is left out. Raises `ValueError` for missing,
    repeated or foreign verdicts.
    """
    steps = {episode.item_id: [step.item_id for step in episode.actions] for episode in part.episodes}
    expected = _item_ids(part)
    by_id: dict[str, Verdict] = {}
    for verdict in verdicts:
        if verdict.item_id in by_id or verdict.item_id not in expected:
            text = "a second verdict on" if verdict.item_id in by_id else "a verdict on an item it wasn't given:"
            raise ValueError(f"judge {name}: gave {text} {verdict.item_id!r:.120}; expected one for each item")
        by_id[verdict.item_id] = verdict
    scored = []
    for row in truth:
        item_id = row["item_id"]
        wanted = [item_id, *steps.get(item_id, ())]
        if missing := [one for one in wanted if one not in by_id]:
            raise ValueError(f"judge {name}: gave no verdict on {missing[0]!r:.120}; expected one for each item")
        verdicts_on = [by_id[one] for one in wanted]
        if not any(verdict.pending for verdict in verdicts_on):
            scored.append(_scored(row, verdicts_on))
    return scored


def _scored(row: Mapping[str, Any], verdicts: Sequence[Verdict]) -> Scored:
    unit = row["item_id"].partition(":")[0]
    if unit == "episode" and verdicts[0].risk is not None:
        verdicts = verdicts[:1]
    axis = [_axis(verdict, own=index == 0 and unit != "step") for index, verdict in enumerate(verdicts)]
    risks = [found for verdict, value in zip(verdicts, axis) if (found := risk_of(verdict, value)) is not None]
    values = [value for value in axis if value is not None]
    return Scored(
        item_id=row["item_id"],
        unit=unit,
        label=row["label"],
        kind=row["kind"],
        family=row["family"],
        held_out=row["held_out"],
        held_out_by=row["held_out_by"],
        magnitude=row["magnitude"],
        band=BAND_RANK[row["band"]],
        risk=max(risks, default=PREVALENCE),
        said=BAND_RANK[route(min(values))] if values else None,
        abstained=not risks,
    )


def _axis(verdict: Verdict, own: bool) -> int | None:
    """The value that speaks for the item: alignment of a step, the score of a sample or of an episode's own verdict."""
    return verdict.score if own else verdict.alignment


def risk_of(verdict: Verdict, value: int | None) -> float | None:
    """The verdict's own `risk` (a probability that the item is bad) where the judge gives one, else (10 − value)/10;
    None for an abstention. Raises `ValueError` for a risk that isn't in 0..1."""
    risk = verdict.risk
    if risk is None:
        return None if value is None else (10 - value) / 10
    if isinstance(risk, bool) or not isinstance(risk, int | float | np.floating) or not 0 <= risk <= 1:
        raise ValueError(
            f"verdict of {verdict.item_id[:120]}: risk must be a number in 0..1 or None, found {risk!r:.40}"
        )
    return float(risk)


def _costs(verdicts: Sequence[Verdict], seconds: float, requests: int, prices: Prices | None) -> Costs:
    billed = [verdict.cost for verdict in verdicts if verdict.cost is not None]
    requested = [cost for cost in billed if not cost.cached]
    prompt, completion = (
        sum(cost.prompt_tokens for cost in requested),
        sum(cost.completion_tokens for cost in requested),
    )
    return Costs(
        items=sum(not verdict.item_id.startswith("episode:") for verdict in verdicts),
        seconds=seconds,
        model_seconds=math.fsum(cost.seconds for cost in requested),
        requests=requests,
        prompt_tokens=prompt,
        completion_tokens=completion,
        cached=len(billed) - len(requested),
        price=prices.of(prompt, completion) if prices is not None and prices.known else None,
    )
