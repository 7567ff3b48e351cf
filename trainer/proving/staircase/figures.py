"""Rows of one or several training seeds → intervals over tasks and seeds, paired differences, and what they say."""

from collections.abc import Mapping, Sequence
from typing import Any

from trainer.statistics import crossed_interval, mean_or_none, pass_at_k

ROWS = (
    "random",
    "random_weights",
    "base",
    "mid",
    "offline",
    "online",
    "linear",
    "ties",
    "more_supervised",
    "more_offline",
)
"""In the order of the table. The last two are the controls: as long as online RL, from the checkpoint it began with."""
COMPARED = (
    ("mid", "base"),
    ("offline", "mid"),
    ("online", "offline"),
    ("online", "more_supervised"),
    ("online", "more_offline"),
    ("linear", "online"),
    ("ties", "online"),
    ("ties", "linear"),
)
Records = Sequence[Mapping[str, Any]]
Seeds = Mapping[int, Mapping[str, Mapping[str, Any]]]
"""Training seed → row → its records, as `evaluation.Evaluation.row` gives them."""


def table(seeds: Seeds) -> dict[str, object]:
    """Row → {"greedy", "sampled", "pass_at_k" (and `k`), "finished", "by_task", "grounding"} with 95 % intervals."""
    # In the table's order, not in that of the records.
    names = [name for name in ROWS if any(name in rows for rows in seeds.values())]
    return {name: _row({seed: rows[name] for seed, rows in seeds.items() if name in rows}) for name in names}


def _row(found: Mapping[int, Mapping[str, Any]]) -> dict[str, Any]:
    greedy = [(seed, r) for seed, row in found.items() for r in _counted(row["greedy"])]
    sampled = [(seed, r) for seed, row in found.items() for r in _counted(row["sampled"])]
    groups: dict[tuple[int, str], list[Mapping[str, Any]]] = {}
    for seed, record in sampled:
        groups.setdefault((seed, record["task_id"]), []).append(record)
    # The k of pass@k: tasks that lost an attempt to a device have fewer, and count for the rest only.
    k = max((len(group) for group in groups.values()), default=1)
    whole = {key: group for key, group in groups.items() if len(group) == k}
    solved = {key: pass_at_k(k, int(sum(r["success"] for r in group)), k) for key, group in whole.items()}
    lost = sum(r["success"] is None for row in found.values() for part in ("greedy", "sampled") for r in row[part])
    return {
        "greedy": _over(greedy, "success"),
        "sampled": _over(sampled, "success"),
        "k": k,
        # Crossed: an episode's family and its training seed both make its outcomes alike.
        "pass_at_k": crossed_interval(
            list(solved.values()), [whole[key][0]["cluster"] for key in solved], [str(seed) for seed, _ in solved]
        ).plain(),
        "finished": _over(greedy, "finished"),
        "not_counted": lost,
        "steps": mean_or_none([r["steps"] for _, r in greedy]),
        "by_task": {
            name: mean_or_none([r["success"] for _, r in greedy if r["cluster"] == name])
            for name in sorted({r["cluster"] for _, r in greedy})
        },
        "grounding": grounding([(seed, r) for seed, row in found.items() for r in row["grounding"]]),
    }


def grounding(records: Sequence[tuple[int, Mapping[str, Any]]]) -> dict[str, object] | None:
    """Hits on elements that are there, beside the controls, by page; refusals apart. None where nothing was asked."""
    there = [(seed, r) for seed, r in records if not r["refusal"]]
    if not there:
        return None
    absent = [(seed, r) for seed, r in records if r["refusal"]]
    names = ("hit", "blind", "random_element", "swapped")
    return {
        # A record without a figure (a control that couldn't be asked) says nothing about it.
        **{name: _over([(s, r) for s, r in there if r[name] is not None], name, "page") for name in names},
        "refused": _over(absent, "hit", "page") if absent else None,
    }


def differences(seeds: Seeds) -> dict[str, Any]:
    """ "one - other" → paired differences of greedy and sampled success on the same episodes and training seeds."""
    found = {}
    for one, other in COMPARED:
        both = {seed: (rows[one], rows[other]) for seed, rows in seeds.items() if one in rows and other in rows}
        if both:
            found[f"{one} - {other}"] = {part: _difference(both, part) for part in ("greedy", "sampled")}
    return found


def reference_steps(seeds: Seeds) -> dict[str, list[Mapping[str, object]]]:
    """Training seed → each step of online RL's reference policy towards the policy (`trainer.online.reference`), with
    the comparison that it followed upon; records without them are left out."""
    followed = {seed: rows.get("online", {}).get("reference_steps") for seed, rows in sorted(seeds.items())}
    return {str(seed): list(steps) for seed, steps in followed.items() if steps is not None}


def _difference(both: Mapping[int, tuple[Mapping[str, Any], Mapping[str, Any]]], part: str) -> dict[str, Any]:
    values, clusters, runs = [], [], []
    for seed, (one, other) in both.items():
        first, second = _by_episode(one[part]), _by_episode(other[part])
        # Episodes that both have: a difference over others would compare tasks, not rows.
        for task in sorted(set(first) & set(second)):
            values.append(first[task][0] - second[task][0])
            clusters.append(first[task][1])
            runs.append(str(seed))
    # Differences lie in -1..1, so the bounds of a share don't hold.
    return crossed_interval(values, clusters, runs, proportion=False).plain()


def _by_episode(records: Records) -> dict[str, tuple[float, str]]:
    """Episode → (mean success over its attempts, its family)."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for record in _counted(records):
        groups.setdefault(record["task_id"], []).append(record)
    return {
        task: (sum(r["success"] for r in group) / len(group), group[0]["cluster"]) for task, group in groups.items()
    }


def _counted(records: Records) -> list[Mapping[str, Any]]:
    return [record for record in records if record["success"] is not None]


def _over(records: Sequence[tuple[int, Mapping[str, Any]]], name: str, cluster: str = "cluster") -> dict[str, Any]:
    values = [float(record[name]) for _, record in records]
    return crossed_interval(values, [r[cluster] for _, r in records], [str(seed) for seed, _ in records]).plain()


def joined(first: Sequence[Mapping[str, Any]], more: Sequence[Mapping[str, Any]]) -> list[dict[str, object]]:
    """Looks of offline RL up to its peak, and those of the control that went on from the peak's weights, counted on."""
    if not first:
        return []
    peak = first[-1]["peak_update"]
    kept = [dict(look) for look in first if look["update"] <= peak]
    # Without the control's own first look, which is the peak's.
    return kept + [{**look, "update": look["update"] + peak} for look in more if look["update"] > 0]


def course(looks: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Offline RL's looks as found: step and trace success by update, the updates at which each was highest, and
    whether traces had fallen from their peak at the end while steps had not."""
    points = [
        {name: look.get(name) for name in ("update", "step_success", "trace_success", "reward", "traces")}
        for look in looks
    ]
    known: list[Any] = [p for p in points if p["trace_success"] is not None and p["step_success"] is not None]
    if len(known) < 2:
        return {"looks": points, "trace_peak": None, "step_peak": None, "traces_fell_steps_did_not": None}
    # The earlier of two equal peaks.
    trace_peak = max(known, key=lambda p: (p["trace_success"], -p["update"]))
    step_peak = max(known, key=lambda p: (p["step_success"], -p["update"]))
    last = known[-1]
    fell = last["trace_success"] < trace_peak["trace_success"]
    return {
        "looks": points,
        "trace_peak": trace_peak["update"],
        "step_peak": step_peak["update"],
        "traces_fell_steps_did_not": bool(fell and last["step_success"] >= trace_peak["step_success"]),
    }
