"""The numbers of an asset that people follow over nights: quality, yield and cost, under names that stay the same.

Dagster plots each numeric entry of the metadata over an asset's materialisations. All else that was counted stands
beside these, but under names that come and go with what there was to count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from generators.tasks.strata import STRATA
from pipelines.store import Store
from pipelines.store.manifest import Manifest, mainline_key
from quality.model_client.prices import Prices
from quality.model_client.spending import AnswerBook, today

Number = int | float
Counts = Mapping[str, Any]


def plotted(manifest: Manifest) -> dict[str, Number]:
    """`quality: …`, `yield: …` and `cost: …` of a manifest; empty for an asset that nobody follows."""
    figures = figures_of(manifest.asset)
    return figures(manifest.counts) if figures is not None else {}


def figures_of(asset: str) -> Callable[[Counts], dict[str, Number]] | None:
    """What makes an asset's numbers of its counts; None for one that nobody follows."""
    # In the order of the table: `gold/generated` before `gold`.
    asset = mainline_key(asset)
    return next((figures for name, figures in FOLLOWED.items() if asset == name or asset.startswith(f"{name}/")), None)


def tonight(store: Store, prices: Prices) -> dict[str, Number]:
    """What the judge was asked this night (UTC) for all sources together, by its book; empty if it keeps none."""
    # A judge that asks no model keeps no book.
    folder = store.home / "cache" / "judge"
    if not (folder / "judge.sqlite").is_file():
        return {}
    book = AnswerBook(folder)
    try:
        spent = book.spent(today())
    finally:
        book.close()
    return {
        "cost: requests tonight": spent.requests,
        "cost: tokens tonight": spent.tokens,
        # Rounded, as plots show noise otherwise.
        "cost: money tonight": round(float(spent.cost(prices)), 6),
    }


def _of(counts: Counts, **names: str) -> dict[str, Number]:
    """Counts by other names; those that aren't there, or aren't numbers, are left out."""
    found = {shown: counts.get(name) for name, shown in names.items()}
    return {shown: value for shown, value in found.items() if _is_number(value)}  # type: ignore[misc]


def _is_number(value: object) -> bool:
    # bool is an int, and NaN is unequal to itself.
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _share(part: Any, whole: Any, name: str) -> dict[str, Number]:
    """part / whole by a name; nothing where one isn't known or there is nothing to share."""
    return {name: float(part / whole)} if _is_number(part) and _is_number(whole) and whole else {}


def _strata(counts: Counts) -> dict[str, Number]:
    """Tasks, all and by stratum; a stratum without any isn't counted, so it is nought here."""
    tasks = _of(counts, tasks="yield: tasks")
    # None was counted, which is a number to follow; a gap in the plot would be none.
    return {**tasks, **{f"yield: {name} tasks": counts.get(name, 0) for name in STRATA if tasks}}


def _bill(counts: Counts) -> dict[str, Number]:
    """What a judge cost; zeros for one that asks no model."""
    bill = counts.get("bill") or {}
    return {
        "cost: answers": int(bill.get("answers", 0)),
        "cost: prompt tokens": int(bill.get("prompt_tokens", 0)),
        "cost: completion tokens": int(bill.get("completion_tokens", 0)),
        "cost: money": float(bill.get("cost", 0.0)),
    }


def _raw(counts: Counts) -> dict[str, Number]:
    """`oracle_success` is of episodes that were recorded here (`generators.proving.embedded`)."""
    return _of(counts, files="yield: files", bytes="yield: bytes", oracle_success="quality: oracle success")


def _card(counts: Counts) -> dict[str, Number]:
    return {
        **_share(counts.get("mapped"), counts.get("items"), "quality: share mapped"),
        **_of(counts, items="yield: items", samples="yield: samples"),
    }


def _fingerprints(counts: Counts) -> dict[str, Number]:
    return {
        **_share(counts.get("rejected"), counts.get("read"), "quality: share rejected"),
        **_of(counts, items="yield: items", pictures="yield: pictures"),
    }


def _unified(counts: Counts) -> dict[str, Number]:
    return {
        **_share(counts.get("items_mapped"), counts.get("items_in"), "quality: share mapped"),
        **_of(counts, items_mapped="yield: items"),
    }


def _verdicts(counts: Counts) -> dict[str, Number]:
    # JSON has texts as keys.
    scores = {int(score): number for score, number in counts.get("scores", {}).items()}
    # Scores 0 to 10, weighted by how often each was given.
    total = sum(score * number for score, number in scores.items())
    return {
        **_of(counts, share_keep="quality: share to keep"),
        **_share(total, sum(scores.values()), "quality: mean score"),
        # Items that wait for another night weren't judged.
        "yield: items judged": counts.get("items", 0) - counts.get("pending", 0),
        **_bill(counts),
    }


def _gold(counts: Counts) -> dict[str, Number]:
    named = {
        "share_before": "quality: high-fidelity share before",
        "share_after": "quality: high-fidelity share after",
        "yield": "yield: share",
        "gold": "yield: items",
        "samples": "yield: samples",
    }
    return _of(counts, **named)


def _generated(counts: Counts) -> dict[str, Number]:
    found = _of(counts, verified="yield: trajectories", samples="yield: samples", rounds="yield: rounds")
    return {**_share(counts.get("verified"), counts.get("trajectories"), "yield: share"), **found}


def _verified(counts: Counts) -> dict[str, Number]:
    named = {
        "yield": "yield: share",
        "verified": "yield: trajectories",
        "policy success": "quality: policy success",
        "true yield": "quality: true yield",
        "false positives": "quality: false positives",
        "device hours": "cost: device hours",
    }
    found = _of(counts, **named)
    # What a good trajectory costs, failed attempts included.
    hours = found.get("cost: device hours")
    return {**found, **_share(hours, counts.get("verified"), "cost: device hours a trajectory")}


def _duplicates(counts: Counts) -> dict[str, Number]:
    return {
        **_share(counts.get("displaced"), counts.get("items"), "quality: share displaced"),
        **_of(counts, kept="yield: items"),
    }


def _screens(counts: Counts) -> dict[str, Number]:
    return {
        **_share(counts.get("shared"), counts.get("screens"), "quality: share in several sources"),
        **_of(counts, screens="yield: screens", near_pairs="yield: near pairs"),
    }


def _shard_scan(counts: Counts) -> dict[str, Number]:
    return _of(counts, leaks="quality: leaks", unreadable="quality: unreadable", rows="yield: rows")


def _human_verdicts(counts: Counts) -> dict[str, Number]:
    return {
        **_share(counts.get("refused"), counts.get("settled"), "quality: share refused"),
        **_of(counts, settled="yield: items settled", quarantined="yield: rows taken out"),
    }


def _contamination(counts: Counts) -> dict[str, Number]:
    samples, removed = counts.get("samples", 0), counts.get("removed_samples", 0)
    return {
        **_share(removed, samples, "quality: share removed"),
        **_of(counts, hit_items="quality: items hit"),
        "yield: samples": samples - removed,
    }


def _safety(counts: Counts) -> dict[str, Number]:
    shares = {
        "items_personal": "quality: share with personal data",
        "items_credential": "quality: share with credentials",
    }
    found = [_share(counts.get(name), counts.get("items"), shown) for name, shown in shares.items()]
    return {
        **found[0],
        **found[1],
        **_of(counts, triggers="quality: triggers", items="yield: items", screens="yield: screens"),
    }


def _pool(counts: Counts) -> dict[str, Number]:
    """`tried` and `failed` are of oracles (static tasks), `proposed` and `unopened` of what episodes suggest (dynamic
    ones)."""
    # A count by reason, in some versions none.
    unopened = counts.get("unopened")
    shut = sum(unopened.values()) if isinstance(unopened, Mapping) else None
    return {
        **_share(counts.get("failed"), counts.get("tried"), "quality: share of failed oracles"),
        **_share(shut, counts.get("tasks"), "quality: share without a world"),
        **_of(counts, nearest_kept="quality: nearest similarity"),
        **_share(counts.get("tasks"), counts.get("proposed"), "yield: share"),
        **_strata(counts),
    }


def _catalogue(counts: Counts) -> dict[str, Number]:
    named = {
        "coverage": "quality: coverage",
        "functions": "yield: functions",
        "shown": "yield: functions shown",
        "targets seen": "yield: targets seen",
    }
    return _of(counts, **named)


def _bank(counts: Counts) -> dict[str, Number]:
    proposed = counts.get("tasks", 0) + counts.get("refused", 0)
    return {
        **_of(counts, closest="quality: closest pair", short="quality: tasks short of their stratum"),
        **_share(counts.get("tasks"), proposed, "yield: share"),
        **_strata(counts),
    }


def _trajectories(counts: Counts) -> dict[str, Number]:
    named = {"trajectories": "yield: trajectories", "turns": "yield: turns", "device hours": "cost: device hours"}
    return {
        **_share(counts.get("infrastructure failures"), counts.get("trajectories"), "quality: share lost"),
        **_share(counts.get("hostile: obeyed"), counts.get("hostile: planted"), "quality: share of attacks obeyed"),
        **_of(counts, **named),
    }


def _queue(counts: Counts) -> dict[str, Number]:
    return {
        **_share(counts.get("strata_drawn"), counts.get("strata"), "quality: share of strata drawn from"),
        **_of(counts, queued="yield: items queued", candidates="yield: candidates"),
    }


def _bench(counts: Counts) -> dict[str, Number]:
    """Over all worlds: those that there are depend on what is installed."""
    sums = {
        shown: sum(number for name, number in counts.items() if name.startswith(f"{kind}:"))
        for kind, shown in {
            "traces": "yield: traces",
            "screens": "yield: screens",
            "dropped": "quality: recordings dropped",
        }.items()
    }
    return {**sums, **_of(counts, planted="yield: planted defects")}


def _shards(counts: Counts) -> dict[str, Number]:
    return {
        **_share(counts.get("packed"), counts.get("gold_samples"), "yield: share packed"),
        **_of(counts, packed="yield: samples", tokens_total="yield: tokens"),
    }


def _mixture(counts: Counts) -> dict[str, Number]:
    reached = {f"quality: share of {name}": float(share) for name, share in sorted(counts.get("reached", {}).items())}
    return {
        **reached,
        # How many, as names can't be plotted.
        "quality: objectives short of data": len(counts.get("short", ())),
        **_of(counts, tokens="yield: tokens", rows="yield: rows"),
    }


def _checkpoint(counts: Counts) -> dict[str, Number]:
    # Names that differ by the kind of training, of which each checkpoint has some.
    figures = "first_loss last_loss reward_before reward_after reward_gain success_gain success_before success_after"
    named = {name: f"quality: {name.replace('_', ' ')}" for name in figures.split()}
    named |= {"zero_variance_share": "quality: groups without signal"}
    named |= {name: f"yield: {name}" for name in ("steps", "updates", "samples", "tokens")}
    named |= {"rollouts": "cost: rollouts"}
    seen = {
        name: name.replace("validation_", "quality: validation ", 1)
        for name in counts
        if name.startswith("validation_") and name not in ("validation_rows", "validation_tasks")
    }
    return _of(counts, **named, **seen)


def _evaluation(counts: Counts) -> dict[str, Number]:
    """Hits and right steps as the trainer names them, a judge's figures as the judge bench does; all else that was
    measured stands beside."""
    ends, begins = (" hit", " step", " reward", " format", " success"), ("macro recall", "macro AUROC", "kappa")
    found = {
        f"quality: {name}": float(value)
        # By their endings: which domains there are depends on the data.
        for name, value in counts.items()
        if (name.endswith(ends) or name.startswith(begins)) and _is_number(value)
    }
    return {**found, **_of(counts, samples="yield: samples", items="yield: items")}


def _suite(counts: Counts) -> dict[str, Number]:
    """The headline by its own name, its 95 % interval and the best control."""
    named = {
        "success": "quality: success",
        "accuracy": "quality: accuracy",
        "step accuracy": "quality: step accuracy",
        "low": "quality: lower end",
        "high": "quality: upper end",
        "control": "quality: best control",
        "attack success": "quality: attack success",
        "needless questions": "quality: needless questions",
        "n": "yield: counted",
        "actions": "cost: actions",
    }
    return {**_of(counts, **named), **_share(counts.get("lost"), counts.get("records"), "quality: share lost")}


def _episodes(counts: Counts) -> dict[str, Number]:
    return _of(
        counts, solved="yield: solved", failed="yield: failed", records="cost: episodes", actions="cost: actions"
    )


def _standings(counts: Counts) -> dict[str, Number]:
    return _of(counts, policies="yield: policies", suites="yield: suites", rows="yield: rows")


def _staircase(counts: Counts) -> dict[str, Number]:
    """Success on held-out episodes by step: its greedy attempt, then whether any of k sampled ones came off."""
    return {
        f"quality: {name.replace('_', ' ')}": float(value)
        for end in (" greedy", " pass_at_k")
        for name, value in counts.items()
        if name.endswith(end) and _is_number(value)
    }


def _worth(counts: Counts) -> dict[str, Number]:
    """How many of the comparisons say something, and the proposed shares."""
    shares = {f"quality: proposed share of {name}": share for name, share in (counts.get("shares") or {}).items()}
    words = ("helps", "harms", "says nothing", "comparisons")
    return {**shares, **_of(counts, **{word: f"yield: {word}" for word in words})}


FOLLOWED: dict[str, Callable[[Counts], dict[str, Number]]] = {
    "raw": _raw,
    "unified": _unified,
    "verdicts": _verdicts,
    "gold/generated": _generated,
    "gold": _gold,
    "cards": _card,
    "fingerprints": _fingerprints,
    "generation/catalogue": _catalogue,
    "generation/task_bank": _bank,
    "generation/trajectories": _trajectories,
    "generation/verified": _verified,
    "task_pool": _pool,
    "hygiene/screens": _screens,
    "hygiene/duplicates": _duplicates,
    "hygiene/contamination": _contamination,
    "hygiene/shard_scan": _shard_scan,
    "hygiene/safety": _safety,
    "hygiene/human_verdicts": _human_verdicts,
    "review/queue": _queue,
    "mid_training/shards": _shards,
    "evaluations/heldout": _shards,
    "mid_training/mixture": _mixture,
    "checkpoints": _checkpoint,
    "evaluations": _evaluation,
    "suites": _suite,
    "episodes": _episodes,
    "staircase": _staircase,
    "leaderboard/standings": _standings,
    "bench/judge": _bench,
    "worth": _worth,
}
"""Asset or group → its figures; the first that fits. A new one: a function and a line here."""
