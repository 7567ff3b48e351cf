"""Compares a judge with the scores that a source ships with its episodes.

AgentNet publishes `alignment_score` and `efficiency_score` (0–10, by its makers' model) for each episode; its adapter
keeps them among the `rules` of every step's provenance as `alignment_score=8`. They are another judge's word, not the
truth: agreement with them is a comparison, and decides nothing.
"""

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from quality.items.folder import read_directory
from quality.items.item import Episode
from quality.items.part import SourcePart
from quality.judges.judge import BAND_RANK, Judge, Verdict, identity, route
from quality.judges.verdicts import judge_part
from quality.proving import calibration as cal
from quality.proving.figure_rows import plain
from quality.statistics import confusion, weighted_kappa

SCORES = ("alignment_score", "efficiency_score")
_RULE = re.compile(rf"({'|'.join(SCORES)})=(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class NativeAgreement:
    """A judge's episode scores beside one native score. `correlation`: Spearman; `same_band`: the share that the cuts
    7 and 4 put into the same band; `kappa`: quadratic, over these bands; `apart`: mean |difference|."""

    native: str
    episodes: int
    correlation: float
    correlation_interval: tuple[float, float]
    same_band: float
    kappa: float
    apart: float


@dataclass(frozen=True)
class NativeComparison:
    """What came of it. `left_out` says why there is nothing to compare; `skipped` counts episodes by reason."""

    judge: dict[str, str]
    agreements: tuple[NativeAgreement, ...]
    left_out: str
    skipped: dict[str, int]

    def as_json(self) -> dict[str, Any]:
        """Plain data; NaN → null."""

        return dict(plain(asdict(self)))


def compare_native(folder: Path, judge: Judge, *, rounds: int = 200, seed: int = 0) -> NativeComparison:
    """Judge a folder of `vesper unify agentnet` (or of any source that keeps such scores) and compare by episode.

    A judge's episode score is the least of its own verdict and its steps' alignments. The judge is asked only if there
    are scores. Raises `ValueError` for a folder that isn't one, `ModelError`.
    """
    part = read_directory(folder)
    natives = {episode.item_id: native_scores(episode) for episode in part.episodes}
    if not any(natives.values()):
        text = f"none of {len(natives)} episodes carries {' or '.join(SCORES)} in its provenance"
        return NativeComparison(identity(judge), (), text, {})
    said = episode_scores(part, judge_part(part, judge))
    skipped: Counter[str] = Counter()
    agreements = []
    for name in SCORES:
        pairs = []
        for item_id, scores in natives.items():
            if name not in scores:
                skipped[f"{name}: none, or not a number in 0..10"] += 1
            elif (score := said.get(item_id)) is None:
                skipped[f"{name}: the judge abstained"] += 1
            else:
                pairs.append((scores[name], score))
        if pairs:
            agreements.append(_agreement(name, pairs, rounds, seed))
    left_out = "" if agreements else "the judge abstained on every episode that has a native score"
    return NativeComparison(identity(judge), tuple(agreements), left_out, dict(sorted(skipped.items())))


def native_scores(episode: Episode) -> dict[str, float]:
    """Native scores of an episode by name; what isn't a number in 0..10 is left out."""
    found: dict[str, float] = {}
    for step in episode.steps:
        rules = step.provenance.get("rules")
        for rule in rules if isinstance(rules, list) else ():
            match = _RULE.fullmatch(rule) if isinstance(rule, str) else None
            if match and (value := _score(match[2])) is not None:
                found.setdefault(match[1], value)
    return found


def _score(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 <= value <= 10 else None


def episode_scores(part: SourcePart, verdicts: Sequence[Verdict]) -> Mapping[str, int | None]:
    """Episode → the least of its own score and its steps' alignments; None if nothing was said."""
    by_id = {verdict.item_id: verdict for verdict in verdicts}
    scores: dict[str, int | None] = {}
    for episode in part.episodes:
        own = by_id.get(episode.item_id)
        steps = (by_id.get(step.item_id) for step in episode.actions)
        values = [own.score if own else None, *(step.alignment if step else None for step in steps)]
        scores[episode.item_id] = min((value for value in values if value is not None), default=None)
    return scores


def _agreement(name: str, pairs: Sequence[tuple[float, int]], rounds: int, seed: int) -> NativeAgreement:
    native, said = [pair[0] for pair in pairs], [float(pair[1]) for pair in pairs]
    # A native score may be a fraction: the cuts of `route` stand at whole numbers, so its floor has the same band.
    bands = [(BAND_RANK[route(math.floor(a))], BAND_RANK[route(int(b))]) for a, b in pairs]
    counts = confusion([one[0] for one in bands], [one[1] for one in bands], 3)
    interval = cal.cluster_bootstrap(
        [f"{number}" for number in range(len(pairs))],
        lambda at: cal.spearman([native[one] for one in at], [said[one] for one in at]),
        rounds,
        seed,
    )
    return NativeAgreement(
        name,
        len(pairs),
        cal.spearman(native, said),
        interval,
        sum(a == b for a, b in bands) / len(pairs),
        weighted_kappa(counts),
        math.fsum(abs(a - b) for a, b in zip(native, said)) / len(pairs),
    )
