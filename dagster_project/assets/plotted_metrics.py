"""The numbers of an asset that people follow over nights: quality, yield and cost, under names that stay the same.

Dagster plots each numeric entry of the metadata over an asset's materialisations. All else that was counted stands
beside these, but under names that come and go with what there was to count.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from generators.tasks.strata import STRATA
from pipelines.store import Store
from pipelines.store.manifest import Manifest, mainline_key
from quality.evidence.word_lists import sections_of
from quality.model_client.prices import Prices
from quality.model_client.spending import AnswerBook, today

Number = int | float
Counts = Mapping[str, Any]
Table = Mapping[str, str | tuple[str, str]]
"""Name in plots → the count that it shows, or the two of which it is a share."""


def plotted(manifest: Manifest) -> dict[str, Number]:
    """`quality: …`, `yield: …` and `cost: …` of a manifest; empty for an asset that nobody follows."""
    figures = figures_of(manifest.asset)
    return figures(manifest.counts) if figures is not None else {}


def figures_of(asset: str) -> Callable[[Counts], dict[str, Number]] | None:
    """What makes an asset's numbers of its counts; None for one that nobody follows."""
    # In the order of the table: `gold/generated` before `gold`.
    asset = mainline_key(asset)
    group = next((name for name in TABLES if asset == name or asset.startswith(f"{name}/")), None)
    if group is None:
        return None
    computed = COMPUTED.get(group, lambda counts: {})
    return lambda counts: {**computed(counts), **_named(TABLES[group], counts)}


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


def _is_number(value: object) -> bool:
    # bool is an int, and NaN is unequal to itself.
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _share(part: Any, whole: Any, name: str) -> dict[str, Number]:
    """part / whole by a name; nothing where one isn't known or there is nothing to share."""
    return {name: float(part / whole)} if _is_number(part) and _is_number(whole) and whole else {}


def _strata(counts: Counts) -> dict[str, Number]:
    """Tasks, all and by stratum; a stratum without any isn't counted, so it is nought here."""
    tasks = _named({"yield: tasks": "tasks"}, counts)
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


def _named(table: Table, counts: Counts) -> dict[str, Number]:
    """Counts and shares by the names of a table; those that aren't there, or aren't numbers, are left out."""
    found: dict[str, Number] = {}
    for shown, name in table.items():
        if isinstance(name, tuple):
            found |= _share(counts.get(name[0]), counts.get(name[1]), shown)
        elif _is_number(value := counts.get(name)):
            found[shown] = value  # type: ignore[assignment]
    return found


def _verdicts(counts: Counts) -> dict[str, Number]:
    # JSON has texts as keys.
    scores = {int(score): number for score, number in counts.get("scores", {}).items()}
    # Scores 0 to 10, weighted by how often each was given.
    total = sum(score * number for score, number in scores.items())
    return {
        **_share(total, sum(scores.values()), "quality: mean score"),
        # Items that wait for another night weren't judged.
        "yield: items judged": counts.get("items", 0) - counts.get("pending", 0),
        **_bill(counts),
    }


def _contamination(counts: Counts) -> dict[str, Number]:
    samples, removed = counts.get("samples", 0), counts.get("removed_samples", 0)
    return {**_share(removed, samples, "quality: share removed"), "yield: samples": samples - removed}


def _pool(counts: Counts) -> dict[str, Number]:
    # A count by reason, in some versions none.
    unopened = counts.get("unopened")
    shut = sum(unopened.values()) if isinstance(unopened, Mapping) else None
    return {**_share(shut, counts.get("tasks"), "quality: share without a world"), **_strata(counts)}


def _bank(counts: Counts) -> dict[str, Number]:
    proposed = counts.get("tasks", 0) + counts.get("refused", 0)
    return {**_share(counts.get("tasks"), proposed, "yield: share"), **_strata(counts)}


def _bench(counts: Counts) -> dict[str, Number]:
    """Over all worlds: those that there are depend on what is installed."""
    kinds = {"traces": "yield: traces", "screens": "yield: screens", "dropped": "quality: recordings dropped"}
    return {
        shown: sum(number for name, number in counts.items() if name.startswith(f"{kind}:"))
        for kind, shown in kinds.items()
    }


def _mixture(counts: Counts) -> dict[str, Number]:
    reached = {f"quality: share of {name}": float(share) for name, share in sorted(counts.get("reached", {}).items())}
    # How many, as names can't be plotted.
    return {**reached, "quality: objectives short of data": len(counts.get("short", ()))}


def _checkpoint(counts: Counts) -> dict[str, Number]:
    seen: Table = {
        name.replace("validation_", "quality: validation ", 1): name
        for name in counts
        if name.startswith("validation_") and name not in ("validation_rows", "validation_tasks")
    }
    return _named(seen, counts)


def _evaluation(counts: Counts) -> dict[str, Number]:
    """Hits and right steps as the trainer names them, a judge's figures as the judge bench does; all else that was
    measured stands beside."""
    ends, begins = (" hit", " step", " reward", " format", " success"), ("macro recall", "macro AUROC", "kappa")
    return {
        f"quality: {name}": float(value)
        # By their endings: which domains there are depends on the data.
        for name, value in counts.items()
        if (name.endswith(ends) or name.startswith(begins)) and _is_number(value)
    }


def _staircase(counts: Counts) -> dict[str, Number]:
    """Success on held-out episodes by step: its greedy attempt, then whether any of k sampled ones came off."""
    return {
        f"quality: {name.replace('_', ' ')}": float(value)
        for end in (" greedy", " pass_at_k")
        for name, value in counts.items()
        if name.endswith(end) and _is_number(value)
    }


def _worth(counts: Counts) -> dict[str, Number]:
    return {f"quality: proposed share of {name}": share for name, share in (counts.get("shares") or {}).items()}


def _shown(line: str) -> tuple[str, str | tuple[str, str]]:
    name, counts = line.split(" = ")
    count, _, whole = counts.partition(" / ")
    return name, (count, whole) if whole else count


TABLES: dict[str, Table] = {
    group: dict(map(_shown, lines)) for group, lines in sections_of(Path(__file__).with_suffix(".txt")).items()
}
"""Asset or group → names in plots and the counts, or shares of two counts, that they show; the first that fits. A new
one is an entry in the file, and a function in `COMPUTED` where a number has to be computed."""
COMPUTED: dict[str, Callable[[Counts], dict[str, Number]]] = {
    "verdicts": _verdicts,
    "generation/task_bank": _bank,
    "task_pool": _pool,
    "hygiene/contamination": _contamination,
    "mid_training/mixture": _mixture,
    "checkpoints": _checkpoint,
    "evaluations": _evaluation,
    "staircase": _staircase,
    "bench/judge": _bench,
    "worth": _worth,
}
