"""Round 0: `unified/<source>` → `verdicts/<source>`, one part per unified part.

Items that a night's ceiling left unasked have no row in `verdicts`: their ids stand in the table `pending` (in parts
that have any), the manifest counts them, and the part is judged again the next night (`nightly`). On items that the
model can't answer the judge abstains: they have their row and their reason, and the rest of their part goes on.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pipelines.engines.run_parts import Execution, PartCall, run_parts
from pipelines.store import PartResult, PartSpec, PartWriter, Store
from pipelines.store.change_checks import not_shifted
from pipelines.store.manifest import Check, CheckSpec, Manifest
from quality.evidence.episode import Habits
from quality.items.item import Item, Row, Sample, base_id
from quality.items.part import SourcePart, load_part, rows_by_part
from quality.judges import cleaning
from quality.judges.judge import Judge, Verdict, identity
from quality.judges.nightly import Nightly, PartWork, ask_again_of, ceiling_of, clients_of, in_threads, prices_of
from quality.judges.registry import JudgeConfig, asks_a_model, judge_of
from quality.model_client.prices import Prices
from schemas.ids import digest
from schemas.tables import Column, JudgeCosts, Table, Verdicts

CODE_VERSION = f"2.{cleaning.VERSION}"
ITEMS_A_SECOND = 450
"""Steps and samples that the rules judge on one core, roughly."""
ONE_VERDICT = CheckSpec("every item has one verdict", "An item was judged twice or never")
JUDGES = CheckSpec("the judge judges", "The judge abstained from every item")
ANSWERED = CheckSpec("the model has answered", "The model gave no valid answer about some items", blocking=False)
NOTHING_PENDING = CheckSpec("nothing is pending", "The night's ceiling was reached; the rest waits", blocking=False)
SCORES_AGAINST_CURRENT = CheckSpec("scores_against_current", "The scores shifted", blocking=False, sometimes=True)
CHECKS = (ONE_VERDICT, JUDGES, ANSWERED, NOTHING_PENDING, SCORES_AGAINST_CURRENT)


class Pending(Table, version=1):
    """An item that waits for another night."""

    item_id = Column(pa.string(), "an item that the ceiling left for another night")


class Risks(Table, version=1):
    """What a trained judge gave an item besides its score."""

    item_id = Column(pa.string(), "the item, with the version that was judged")
    risk = Column(pa.float64(), "the chance that it is untrue, as the judge sees it")


@dataclass(frozen=True)
class VerdictsPart:
    """All a worker needs to judge a part: plain data."""

    home: str
    unified: tuple[str, str]
    """Asset and version of what is judged."""
    asset: Nightly
    version: str
    spec: PartSpec
    judge: JudgeConfig


def judge_source(
    store: Store,
    source: str,
    judge: Judge,
    moved: float = 0.15,
    *,
    config: JudgeConfig | None = None,
    execution: Execution | None = None,
    kept_as: str = "",
) -> Manifest:
    """Judge all items of a source. Counts: items (steps and samples), one per disposition, `pending` ones, one per kind
    of objection; of a judge that asks a model, `bill`: tokens of all answers behind the verdicts, and their price.

    A rerun with equal inputs asks the judge nothing. `moved`: share of the scores that may differ from the current
    version's without a warning. `config` is what the judge was built from: if it asks no model, workers build it again,
    and `execution` says where they are. `kept_as`: the asset of the verdicts, `verdicts/<source>` by default. Raises
    `ModelError`, `StoreError`.
    """
    unified = store.require(f"unified/{source}")
    known = identity(judge)
    # Judge and part alone: neither where it runs nor what it costs changes a verdict.
    specs = [PartSpec(key, digest([CODE_VERSION, known, files])) for key, files in unified.part_hashes.items()]
    inputs = {unified.asset: unified.version}
    key = kept_as or f"verdicts/{source}"
    current = store.compared_with(key)
    asset = Nightly(key, CODE_VERSION, known, inputs, specs, ceiling_of(judge), ask_again_of(judge))

    def run(version: str) -> list[PartResult]:
        # Judges that ask no model compute, so worker processes pay; the others wait, in threads of this one.
        if config is not None and not asks_a_model(config):
            rows, small = rows_by_part(unified), asset.without_parts()
            parts = [
                PartCall(
                    VerdictsPart(str(store.home), (unified.asset, unified.version), small, version, spec, config),
                    asset.receipts(spec),
                    rows[spec.key] / ITEMS_A_SECOND,
                    rows[spec.key],
                )
                for spec in specs
            ]
            return run_parts(store, asset.asset, run_verdicts_part, parts, execution)
        return in_threads(
            lambda spec: asset.run_part(
                store.root(asset.asset), version, spec, lambda: _work(load_part(unified, spec.key, store), judge)
            ),
            specs,
            getattr(judge, "parts_at_once", 1),
            lambda: _stop(judge),
        )

    return asset.build(
        store,
        run,
        lambda totals: {**shares(totals), **bill(totals, prices_of(judge))},
        lambda totals: [*_checks(totals), *_against(current, inputs, totals, moved)],
    )


def _stop(judge: Judge) -> None:
    for client in clients_of(judge):
        client.stop("interrupted")


def run_verdicts_part(item: VerdictsPart) -> PartResult:
    """Judge one part; called by an engine's workers. Raises `ValueError` where they build another judge."""
    store, judge = Store(item.home), judge_of(item.judge)
    require_judge(judge, item.asset)
    unified = store.version(*item.unified)
    root = store.root(item.asset.asset)
    return item.asset.run_part(
        root, item.version, item.spec, lambda: _work(load_part(unified, item.spec.key, store), judge)
    )


def require_judge(judge: Judge, asset: Nightly) -> None:
    """Raises `ValueError` if a worker's judge isn't the one that the asset's version names."""
    if any(asset.config[name] != value for name, value in identity(judge).items()):
        raise ValueError(f"{asset.asset}: this worker's judge is {identity(judge)}, expected {dict(asset.config)}")


def _work(part: SourcePart, judge: Judge) -> PartWork:
    verdicts = judge_part(part, judge)

    def write(out: PartWriter) -> dict[str, int]:
        write_verdicts(out, verdicts)
        return dict(count(verdicts))

    return PartWork(sum(v.pending for v in verdicts), write, sum(v.unanswered for v in verdicts))


def judge_part(part: SourcePart, judge: Judge) -> list[Verdict]:
    """Verdicts on all items of a part, round 0: what cleaning takes out isn't shown to the judge."""
    cleaned = cleaning.clean(part)
    # Habits are read off all episodes of the part, also those that cleaning takes out.
    verdicts = judge.judge(cleaned.items, 0, Habits.of(part.episodes)) if cleaned.items else []
    return [*verdicts, *(taken.verdict() for _, taken in sorted(cleaned.taken.items()))]


def write_verdicts(out: PartWriter, verdicts: Sequence[Verdict]) -> None:
    """Tables `verdicts`, `pending` if any are, and outside the hash `risks` of a judge that has them and `costs`."""
    judged, waiting = split_pending(verdicts)
    out.table("verdicts", Verdicts.table(verdict.as_row() for verdict in judged))
    if waiting:
        out.table("pending", Pending.table({"item_id": item_id} for item_id in sorted(waiting)))
    risks = [{"item_id": v.item_id, "risk": v.risk} for v in judged if v.risk is not None]
    if risks:
        out.table("risks", Risks.table(risks), hashed=False)
    costs = [row for verdict in verdicts if (row := verdict.cost_row()) is not None]
    # Time and money never enter a hash, or no rerun would be equal.
    out.table("costs", JudgeCosts.table(costs), hashed=False)


def split_pending(verdicts: Iterable[Verdict]) -> tuple[list[Verdict], frozenset[str]]:
    """Verdicts → (those that are, in order; ids of the items that wait for another night)."""
    judged, waiting = [], set()
    for verdict in verdicts:
        if verdict.pending:
            waiting.add(verdict.item_id)
        else:
            judged.append(verdict)
    return judged, frozenset(waiting)


def read_pending(manifest: Manifest, key: str) -> frozenset[str]:
    """Ids of the items of a part that have no verdict yet; an episode waits with all its steps."""
    return frozenset(manifest.read_part(key, "pending", Pending.schema)["item_id"].to_pylist())


def split_items(items: Iterable[Item], waiting: Collection[str]) -> tuple[list[Item], list[Item]]:
    """Items → (judged whole, waiting): one waits if it or any of its steps does."""
    parted: tuple[list[Item], list[Item]] = ([], [])
    for item in items:
        names = [item.item_id] if isinstance(item, Sample) else [item.item_id, *(s.item_id for s in item.actions)]
        parted[any(name in waiting for name in names)].append(item)
    return parted


def last_verdicts(rows: Iterable[Row]) -> dict[str, tuple[int, int | None, float]]:
    """Rows of `verdicts` → the last round's word on each item, whichever version of it was judged."""
    last: dict[str, tuple[int, int | None, float]] = {}
    for row in rows:
        base = base_id(row["item_id"])
        # A later round judged a repaired version of the same item.
        if base not in last or row["round"] >= last[base][0]:
            last[base] = (row["round"], row["score"], row["confidence"])
    return last


def count(verdicts: Iterable[Verdict]) -> Counter[str]:
    """items, dispositions or pending, `kind:<objection>`, tokens; episodes are counted apart, their steps are the
    items. `unanswered` counts verdicts, of episodes too."""
    counts: Counter[str] = Counter()
    for verdict in verdicts:
        counts["unanswered"] += verdict.unanswered
        if verdict.cost is not None:
            counts["answers"] += 1
            counts["prompt_tokens"] += verdict.cost.prompt_tokens
            counts["completion_tokens"] += verdict.cost.completion_tokens
        # An episode is its steps: counting both would count it twice.
        if verdict.item_id.startswith("episode:"):
            counts["episodes"] += 1
            continue
        counts["items"] += 1
        counts[verdict.disposition] += 1
        for score in [verdict.score] if verdict.score is not None else []:
            counts[f"score:{score}"] += 1
        for kind in set(verdict.kinds):
            counts[f"kind:{kind}"] += 1
    return counts


def shares(totals: Counter[str]) -> dict[str, object]:
    """Totals with the share of judged items to keep."""
    judged = totals["items"] - totals["pending"]
    names = ("items", "episodes", "keep", "rewrite", "reconstruct", "review", "pending", "unanswered")
    plain: dict[str, Any] = {name: totals[name] for name in names}
    plain["share_keep"] = totals["keep"] / judged if judged else 0.0
    plain["kinds"] = {n.partition(":")[2]: c for n, c in sorted(totals.items()) if n.startswith("kind:")}
    plain["scores"] = {str(score): totals[f"score:{score}"] for score in range(11)}
    return plain


def bill(totals: Counter[str], prices: Prices) -> dict[str, Any]:
    """`bill`: tokens of the answers behind the verdicts, whichever night paid for them; nothing if none was asked."""
    if not totals["answers"]:
        return {}
    plain = prices.bill(totals["prompt_tokens"], totals["completion_tokens"])
    return {"bill": {"answers": totals["answers"], **plain, "cost_per_verdict": plain["cost"] / totals["answers"]}}


def _against(current: Manifest | None, inputs: dict[str, str], totals: Counter[str], moved: float) -> list[Check]:
    """The scores against those of the current version; of the same items, what was found when it became current."""
    if current is None:
        return []
    # The same source again: against the version before it, as it was compared then.
    if current.inputs == inputs:
        return [check for check in current.checks if check.name == "scores_against_current"]
    now: dict[str, Any] = dict(shares(totals))
    found = not_shifted(now["scores"], current.counts.get("scores", {}), moved, "scores")
    return [SCORES_AGAINST_CURRENT.check(*found)]


def _checks(totals: Counter[str]) -> list[Check]:
    items, waiting, reviewed = totals["items"], totals["pending"], totals["review"]
    routed = sum(totals[name] for name in ("keep", "rewrite", "reconstruct", "review"))
    judged, unanswered = items - waiting, totals["unanswered"]
    return [
        ONE_VERDICT.check(routed == judged, f"{routed} verdicts, {waiting} pending", items, routed + waiting),
        JUDGES.check(
            judged == 0 or reviewed < judged, f"{reviewed} abstentions", f"fewer than {judged}", reviewed, judged
        ),
        ANSWERED.check(unanswered == 0, f"{unanswered} verdicts without it", 0, unanswered),
        NOTHING_PENDING.check(waiting == 0, f"{waiting} of {items} wait for another night", 0, waiting),
    ]
