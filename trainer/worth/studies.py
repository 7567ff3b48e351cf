"""The three studies: what sources are worth, what rules are, and which mixture measured transfer proposes."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from pipelines.store import Store
from quality.judges.judge import KEEP_FROM
from quality.judges.registry import JudgeConfig, build_judge
from trainer.worth import variants
from trainer.worth.measure import cost_row, measure, worth_row
from trainer.worth.mixture_search import MixtureProposal, propose
from trainer.worth.pools import Cost, Keep, Pool, RowPools, judge_costs
from trainer.worth.probe import ProbeRunner

NANO_JUDGE = "checkpoints/nano_judge"
RAW, REFINED, DEDUPLICATED = "raw", "refined", "refined and deduplicated"


@dataclass(frozen=True)
class Study:
    """Rows of `Worth` and of `WorthCosts`, and what is proposed of the mixture."""

    rows: Sequence[Mapping[str, Any]]
    costs: Sequence[Mapping[str, Any]]
    proposal: Mapping[str, Any] | None = None


def sources(runner: ProbeRunner, pools: RowPools, company: Mapping[str, Pool], shares: variants.Shares) -> Study:
    """Each source left out of all and added alone. `company`: see `source_comparisons`."""
    current = {name: pools.gold(name) for name in pools.golds}
    costs = {name: _cost(pools.store, pool, [name]) for name, pool in current.items()}
    return _study(variants.source_comparisons(current, company, shares, costs), runner)


def rules(runner: ProbeRunner, pools: RowPools, shares: variants.Shares) -> Study:
    """Raw against refined against deduplicated, thresholds of the judge, rules against the nano judge, generated
    trajectories, and each deriver."""
    found, pairs = _rules(pools, runner.settings.thresholds)
    judged = [name for name in pools.golds if _is_judged(pools.store, name)]
    costs = {name: _cost(pools.store, pool, [] if name in _FREE else judged) for name, pool in found.items()}
    everything = _joined(map(pools.gold, pools.golds))
    return _study(
        chain(variants.rule_comparisons(found, pairs, shares, costs), variants.part_comparisons(everything, shares)),
        runner,
    )


def mixture(runner: ProbeRunner, pools: RowPools, shares: variants.Shares) -> Study:
    """Each objective alone, the shares that this proposes, and these against the current ones."""
    pool = pools.deduplicated(_joined(map(pools.gold, pools.golds)))
    proposal, compared = propose_shares(runner, pool)
    if proposal.shares is not None:
        compared.append(variants.mixture_comparison(pool, proposal.shares, shares))
    found = _study(compared, runner)
    return Study(found.rows, found.costs, {**proposal.plain(), "current": dict(shares)})


def propose_shares(runner: ProbeRunner, pool: Pool) -> tuple[MixtureProposal, list[variants.Comparison]]:
    """What measured transfer proposes for these rows, and the comparisons that it was read from."""
    compared = list(variants.objective_comparisons(pool))
    measured = measure([variants.UNTRAINED, *(one.treatment for one in compared)], runner)
    alone = {one.subject: measured[one.treatment.name] for one in compared}
    return propose(alone, measured[variants.UNTRAINED.name], runner.settings.floor), compared


def _rules(pools: RowPools, thresholds: Sequence[int]) -> tuple[dict[str, Pool], list[tuple[str, str]]]:
    """Rule → the rows that it lets train, over the sources that a judge judges, and the pairs that are compared."""
    names = [name for name in pools.golds if _is_judged(pools.store, name)]

    def unified(keep: Mapping[str, Keep]) -> Pool:
        return _joined(pools.unified(name, keep.get(name)) for name in names)

    refined = _joined(map(pools.gold, names))
    found = {RAW: unified({}), REFINED: refined, DEDUPLICATED: pools.deduplicated(refined)}
    pairs = [(REFINED, RAW), (DEDUPLICATED, REFINED), (DEDUPLICATED, RAW)]
    scores = {name: pools.scores(name) for name in names}
    for least in thresholds:
        found[f"score {least} and more"] = unified({name: _at_least(least, scores[name]) for name in names})
        pairs.append((f"score {least} and more", RAW))
    nano = pools.store.current(NANO_JUDGE)
    for config in [JudgeConfig(), JudgeConfig("nano", nano=nano.file("nano.json").parent)] if nano else []:
        judge = build_judge(config)
        # as the pipeline itself would keep them
        letting_through = {name: _at_least(KEEP_FROM, pools.judged(name, judge)) for name in names}
        found[f"{config.name} judge"] = unified(letting_through)
    return found, [*pairs, ("nano judge", "rules judge")]


_FREE = (RAW, "rules judge", "nano judge")
"""Rules whose judge asks no model."""


def _at_least(least: int, scores: Mapping[str, int]) -> Keep:
    return lambda item: scores.get(item, -1) >= least


def _is_judged(store: Store, name: str) -> bool:
    return all(store.current(f"{stage}/{name}") is not None for stage in ("unified", "verdicts"))


def _cost(store: Store, pool: Pool, judged: Iterable[str]) -> Cost:
    tokens, minutes = judge_costs(store, [f"{stage}/{name}" for name in judged for stage in ("verdicts", "gold")])
    return Cost(len(pool), tokens, minutes)


def _joined(pools: Iterable[Pool]) -> Pool:
    return tuple(chain.from_iterable(pools))


def _study(comparisons: Iterable[variants.Comparison], runner: ProbeRunner) -> Study:
    compared = list(comparisons)
    found = measure(chain.from_iterable((one.treatment, one.control) for one in compared), runner)
    return Study([worth_row(one, found) for one in compared], [cost_row(one, found) for one in compared])
