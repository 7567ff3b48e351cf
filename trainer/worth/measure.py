"""Points of the agent: what each comparison's probes answered, paired over questions and seeds, with 95 % intervals."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trainer.statistics import Interval, crossed_interval
from trainer.worth.plan import Plan, plan
from trainer.worth.probe import Probe, ProbeResult, ProbeRunner, Record
from trainer.worth.tables import HARMS, HELPS, SAME_ROWS, SAYS_NOTHING
from trainer.worth.variants import Comparison, Variant


@dataclass(frozen=True)
class Measured:
    """The plans and answers of a variant, one of each a seed."""

    plans: Sequence[Plan]
    results: Sequence[ProbeResult]

    @property
    def minutes(self) -> float:
        """What its probes took when they were run."""
        return sum(result.seconds for result in self.results) / 60

    def values(self, name: str) -> dict[tuple[str, int], float]:
        """A measure of each (question, seed)."""
        return {
            (record["sample_id"], seed): record[name]
            for seed, result in enumerate(self.results)
            for record in result.records
        }


def measure(variants: Iterable[Variant], runner: ProbeRunner) -> dict[str, Measured]:
    """Variant → what its probes answered, each for every seed. Variants of one name are one."""
    settings, named = runner.settings, {variant.name: variant for variant in variants}
    seeds = range(settings.first_seed, settings.first_seed + settings.seeds)
    plans = {
        # of a name once: several comparisons share the base and their controls
        name: [plan(one, seed, settings.tokens, settings.batch_size, runner.length) for seed in seeds]
        for name, one in named.items()
    }
    probes = [Probe(made, seed) for listed in plans.values() for seed, made in zip(seeds, listed, strict=True)]
    results = iter(runner.results(probes))
    return {name: Measured(listed, [next(results) for _ in listed]) for name, listed in plans.items()}


def worth_row(comparison: Comparison, found: Mapping[str, Measured]) -> dict[str, Any]:
    """A row of `Worth`."""
    treated, held = found[comparison.treatment.name], found[comparison.control.name]
    points = difference(treated, held, "right")
    # turned round, since less loss is better
    loss = difference(held, treated, "loss")
    # two variants that trained on the same rows in the same order differ in nothing
    same = [one.digests for one in treated.plans] == [one.digests for one in held.plans]
    questions = {record["sample_id"]: record["cluster"] for record in treated.results[0].records}
    return {
        "kind": comparison.kind,
        "subject": comparison.subject,
        "treatment": comparison.treatment.name,
        "control": comparison.control.name,
        # None stays None: an interval that can't be told
        **{name: value and 100 * value for name, value in _plain(points, "points", "").items()},
        "says": SAME_ROWS if same else says(points),
        **_plain(loss, "loss", "loss_"),
        "loss_says": SAME_ROWS if same else says(loss),
        "questions": len(questions),
        "clusters": len(set(questions.values())),
        "seeds": len(treated.results),
        "tokens": max(one.tokens for one in treated.plans),
        "rows": comparison.cost.rows,
        "distinct": max(one.distinct for one in treated.plans),
    }


def difference(more: Measured, less: Measured, name: str, domain: str = "") -> Interval:
    """A measure of one variant less that of the other, question by question and seed by seed; of the questions of a
    domain (or of those below it) if one is named."""
    one, other = more.values(name), less.values(name)
    records = {record["sample_id"]: record for record in more.results[0].records}
    both = [key for key in sorted(one.keys() & other.keys()) if within(records[key[0]], domain)]
    gaps = [one[key] - other[key] for key in both]
    clusters = [records[sample]["cluster"] for sample, _ in both]
    # the training seeds are drawn, too: a difference of one pair of probes may be luck
    return crossed_interval(gaps, clusters, [str(seed) for _, seed in both], proportion=False)


def within(record: Record, domain: str) -> bool:
    """Whether a question is of a domain, or of one below it; every question is of ""."""
    return not domain or record["domain"] == domain or str(record["domain"]).startswith(f"{domain}/")


def says(found: Interval) -> str:
    """What an interval of a difference says."""
    if found.low > 0:
        return HELPS
    return HARMS if found.high < 0 else SAYS_NOTHING


def cost_row(comparison: Comparison, found: Mapping[str, Measured]) -> dict[str, Any]:
    """A row of `WorthCosts`."""
    minutes = sum(found[one.name].minutes for one in (comparison.treatment, comparison.control))
    return {
        "kind": comparison.kind,
        "subject": comparison.subject,
        "judge_tokens": comparison.cost.judge_tokens,
        "judge_minutes": comparison.cost.judge_minutes,
        "probe_minutes": minutes,
    }


def _plain(found: Interval, mean: str, prefix: str) -> dict[str, float | None]:
    plain = found.plain()
    return {mean: plain["mean"], f"{prefix}low": plain["low"], f"{prefix}high": plain["high"]}
