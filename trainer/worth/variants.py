"""What probes differ in: pairs of variants of the corpus that differ in one thing. Pure functions of pools of rows."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from schemas.ids import GENERATED_SOURCE
from schemas.tables import OBJECTIVES
from trainer.worth.pools import Cost, Pool
from trainer.worth.tables import ALONE, DERIVER, GENERATION, LEFT_OUT, MIXTURE_KIND, OBJECTIVE, RULE

Shares = Mapping[str, float]
"""Objective → share of the tokens; those of objectives without rows go to the others."""


@dataclass(frozen=True)
class Variant:
    """What a probe trains on. One without rows isn't trained: the probe is the base itself."""

    name: str
    pool: Pool
    shares: Shares


@dataclass(frozen=True)
class Comparison:
    """`subject` is worth the points of `treatment` above those of `control`. `kind` groups the rows of a table."""

    kind: str
    subject: str
    treatment: Variant
    control: Variant
    cost: Cost


UNTRAINED = Variant("the base, untrained", (), {})


def source_comparisons(
    current: Mapping[str, Pool], company: Mapping[str, Pool], shares: Shares, costs: Mapping[str, Cost]
) -> Iterator[Comparison]:
    """Each source beside the others and without it, and added alone to the base. `company`: the rows of the sources
    beside which a source is measured. One that has none to be beside, or no rows, has no such comparison."""
    everything = Variant("all sources", _joined(company.values()), shares)
    for name, pool in current.items():
        others = [one for other, one in company.items() if other != name]
        without = Variant(f"without {name}", _joined(others), shares)
        together = Variant(f"with {name}", _joined([*others, pool]), shares)
        # the same rows under one name, so that their probes are run once
        if pool == company.get(name):
            together = everything
        if pool and without.pool:
            yield Comparison(LEFT_OUT, name, together, without, costs[name])
        if pool:
            yield Comparison(ALONE, name, Variant(f"{name} alone", pool, shares), UNTRAINED, costs[name])


def rule_comparisons(
    rules: Mapping[str, Pool], pairs: Sequence[tuple[str, str]], shares: Shares, costs: Mapping[str, Cost]
) -> Iterator[Comparison]:
    """Each pair of rules (what is measured, what it is held against) of which both have rows."""
    for name, control in pairs:
        if rules.get(name) and rules.get(control):
            made, held = (Variant(one, rules[one], shares) for one in (name, control))
            yield Comparison(RULE, f"{name} against {control}", made, held, costs[name])


def part_comparisons(pool: Pool, shares: Shares) -> Iterator[Comparison]:
    """With and without generated trajectories, and each deriver's samples."""
    everything = Variant("all samples", pool, shares)
    generated = {one.digest for one in pool if one.row["source"] == GENERATED_SOURCE}
    yield from _without(GENERATION, "generated", everything, generated)
    by_deriver: dict[str, set[str]] = {}
    for one in pool:
        if name := json.loads(one.row["provenance"]).get("deriver"):
            by_deriver.setdefault(str(name), set()).add(one.digest)
    for name, rows in sorted(by_deriver.items()):
        yield from _without(DERIVER, name, everything, rows)


def _without(kind: str, subject: str, everything: Variant, rows: set[str]) -> Iterator[Comparison]:
    # by content, since several parents may have given equal rows
    rest = tuple(one for one in everything.pool if one.digest not in rows)
    if rows and rest:
        yield Comparison(
            kind, subject, everything, Variant(f"without {subject}", rest, everything.shares), Cost(len(rows))
        )


def objective_comparisons(pool: Pool) -> Iterator[Comparison]:
    """Each objective alone, added to the base: what it transfers to."""
    for name in OBJECTIVES:
        rows = tuple(one for one in pool if one.row["objective"] == name)
        if rows:
            yield Comparison(OBJECTIVE, name, Variant(f"{name} alone", rows, {name: 1.0}), UNTRAINED, Cost(len(rows)))


def mixture_comparison(pool: Pool, proposed: Shares, current: Shares) -> Comparison:
    """Proposed shares against those that the mixture has now, of the same rows."""
    made, held = Variant("proposed shares", pool, proposed), Variant("current shares", pool, current)
    return Comparison(MIXTURE_KIND, "proposed shares against current", made, held, Cost(len(pool)))


def _joined(pools: Iterable[Pool]) -> Pool:
    return tuple(row for pool in pools for row in pool)
