"""The mixture that measured transfer proposes: shares of the objectives, with intervals.

Each objective is trained alone from the base, on equal tokens. What it gains in a domain of questions is its transfer
there. A domain gives its weight to the objectives that transfer to it (interval above 0), in proportion to what they
gain; a domain in which none does says nothing. Every objective keeps a floor. So an objective that helps one domain and
harms another is mixed in for what it helps: the others are there for the rest.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from trainer.statistics import DRAWS, SEED, TELLING, Interval
from trainer.worth.measure import Measured, difference
from trainer.worth.variants import Shares

Transfers = Mapping[tuple[str, str], Interval]
"""(objective, domain) → what the objective alone gains there, 0..1."""


@dataclass(frozen=True)
class MixtureProposal:
    """Shares that measured transfer proposes; None where it says nothing of any domain. `intervals`: 95 %."""

    shares: Shares | None
    intervals: Mapping[str, tuple[float, float]]
    transfers: Transfers

    def plain(self) -> dict[str, Any]:
        """JSON-able."""
        rows = [{"objective": one, "domain": domain, **asdict(gain)} for (one, domain), gain in self.transfers.items()]
        return {"shares": self.shares, "intervals": dict(self.intervals), "transfers": rows}


def propose(alone: Mapping[str, Measured], base: Measured, floor: float) -> MixtureProposal:
    """From the probes of each objective alone and those of the base (one of either for each seed)."""
    objectives = sorted(alone)
    domains = sorted({record["domain"] for record in base.results[0].records})
    # of fewer clusters no interval says anything
    domains = [name for name in domains if len(_clusters(base, name)) >= TELLING]
    transfers = {(one, name): difference(alone[one], base, "right", name) for one in objectives for name in domains}
    means = np.array([[max(0.0, transfers[one, name].mean) for name in domains] for one in objectives])  # [O, D]
    # a transfer that may be none, or harm, gives no weight
    clear = np.array([[transfers[one, name].low > 0 for name in domains] for one in objectives], bool)
    if not clear.any():
        return MixtureProposal(None, {}, transfers)
    drawn = _draws(alone, base, objectives, domains)  # [draws, O, D]
    shares = _shares(means * clear, floor)
    spread = np.array([_shares(np.maximum(one, 0.0) * clear, floor) for one in drawn])
    low, high = np.quantile(spread, [0.025, 0.975], axis=0)
    found = {one: round(float(share), 4) for one, share in zip(objectives, shares, strict=True)}
    largest = max(found, key=lambda one: found[one])
    found[largest] = round(1.0 - sum(share for one, share in found.items() if one != largest), 4)  # rounding's rest
    ends = {one: (float(low[place]), float(high[place])) for place, one in enumerate(objectives)}
    return MixtureProposal(found, ends, transfers)


def _shares(gains: np.ndarray, floor: float) -> np.ndarray:
    """Gains [O, D] of 0 and more → shares [O]; those of domains where nothing gains are left out, all alike if that is
    every domain."""
    sums = gains.sum(0)
    if not (sums > 0).any():
        return np.full(len(gains), 1 / len(gains))
    # a domain gives the same weight in all, however much there is to gain in it
    mean: np.ndarray = (gains[:, sums > 0] / sums[sums > 0]).mean(1)
    return floor + (1 - floor * len(gains)) * mean


def _clusters(measured: Measured, domain: str) -> list[str]:
    return sorted({one["cluster"] for one in measured.results[0].records if one["domain"] == domain})


def _draws(
    alone: Mapping[str, Measured], base: Measured, objectives: Sequence[str], domains: Sequence[str]
) -> np.ndarray:
    """Gains [DRAWS, O, D] over drawn clusters and seeds. A draw takes the same clusters and seeds for all objectives,
    which answered the same questions."""
    source = np.random.Generator(np.random.PCG64(SEED))
    seeds = len(base.results)
    runs = source.multinomial(seeds, np.full(seeds, 1 / seeds), size=DRAWS)  # [draws, S]
    gains = np.zeros((DRAWS, len(objectives), len(domains)))
    for place, name in enumerate(domains):
        clusters = {one: index for index, one in enumerate(_clusters(base, name))}
        chosen = source.multinomial(len(clusters), np.full(len(clusters), 1 / len(clusters)), size=DRAWS)  # [draws, C]
        for number, objective in enumerate(objectives):
            sums, sizes = np.zeros((2, len(clusters), seeds))
            for seed, (made, held) in enumerate(zip(alone[objective].results, base.results, strict=True)):
                right = {one["sample_id"]: one["right"] for one in held.records}
                for one in made.records:
                    if one["domain"] == name and one["sample_id"] in right:
                        sums[clusters[one["cluster"]], seed] += one["right"] - right[one["sample_id"]]
                        sizes[clusters[one["cluster"]], seed] += 1
            weight = np.einsum("dc,cr,dr->d", chosen, sizes, runs)
            # at least 1: a draw without a question of this domain gains nothing
            gains[:, number, place] = np.einsum("dc,cr,dr->d", chosen, sums, runs) / np.maximum(weight, 1)
    return gains
