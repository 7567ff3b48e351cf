"""What improved at each stage, read from the committed manifests: `report.json` and the table that the demo prints."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dagster_project.stages.training import title
from generators.generation.feedback import rounds_of
from generators.generation.round_names import VERIFIED
from pipelines.store import Store
from quality.judges.cleaning import EPISODE_RULES, SAMPLE_RULES
from quality.refinement.fidelity import fidelity
from schemas.tables import PLATFORMS
from trainer.proving.staircase.figures import ROWS
from trainer.proving.staircase.stage import ASSET as STAIRCASE
from trainer.settings.domains import DOMAINS, platforms_of
from trainer.settings.stages import ONLINE, SPECIALISTS, STAGES
from trainer.stages.assets import CHECKPOINTS
from trainer.stages.episodes import ASSET as EPISODES

MERGES = tuple(name for name, stage in STAGES.items() if stage.merges)


def make(store: Store, sources: Sequence[str], assets: Sequence[str]) -> dict[str, Any]:
    """The whole report. What isn't committed yet is left out, and named under `missing`."""
    committed = {asset: store.current(asset) for asset in assets}
    found: dict[str, Any] = {
        "sources": {name: row for name in sources if (row := _source(store, name))},
        "dedup": _dedup(store),
        "cleaning": _cleaning(store, sources),
        "contamination": _counts(store, "hygiene/contamination"),
        "shard_scan": _counts(store, "hygiene/shard_scan"),
        "screens": _counts(store, "hygiene/screens"),
        "tokens": _tokens(store),
        "generation": _rounds(store),
        "task_pool": _counts(store, "task_pool/shards"),
        "evaluations": {name: row for name in CHECKPOINTS if (row := _evaluation(store, name))},
        "specialists": {name: row for name in SPECIALISTS if (row := _specialist(store, name))},
        "online": {name: row for name in ONLINE if (row := _online(store, name))},
        "merges": {name: row for name in MERGES if (row := _merge(store, name))},
        "comparisons": comparisons(store),
        "staircase": _counts(store, STAIRCASE),
        "episodes": _counts(store, EPISODES),
        "data_versions": {asset: m.data_version for asset, m in committed.items() if m is not None},
        "missing": sorted(asset for asset, m in committed.items() if m is None),
    }
    found["fidelity"] = _overall(found["sources"])
    return found


def _rounds(store: Store) -> dict[str, Any]:
    """Round of the generation loop → its counts."""
    return {name: found for name in rounds_of(store, VERIFIED) if (found := _counts(store, f"{VERIFIED}/{name}"))}


def _source(store: Store, name: str) -> dict[str, Any] | None:
    unified = store.current(f"unified/{name}")
    if unified is None:
        return None
    counts = unified.counts
    row: dict[str, Any] = {
        "records": {k: counts[f"records_{k}"] for k in ("in", "mapped", "quarantined")},
        "items": {k: counts[f"items_{k}"] for k in ("in", "mapped", "quarantined")},
        "reasons": counts["reasons"],
        "loss": counts["losses"],
    }
    # Fidelity needs both ends of the comparison.
    if store.current(f"verdicts/{name}") and store.current(f"gold/{name}"):
        row["fidelity"] = fidelity(store, name, store.home / "raw" / "_truth" / f"{name}.jsonl").as_json()
        row["gold_samples"] = store.require(f"gold/{name}").counts.get("samples")
    return row


def _overall(sources: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Shares over all sources: by the judge, weighted by items; by the truth, likewise where it is known."""
    rows = [row["fidelity"] for row in sources.values() if "fidelity" in row]

    def mean(share: str, weight: str) -> float | None:
        # Planted truth is known for embedded sources only.
        known = [row for row in rows if row[share] is not None]
        total = sum(row[weight] for row in known)
        return sum(row[share] * row[weight] for row in known) / total if total else None

    return {
        "judge_before": mean("judge_before", "items"),
        "judge_after": _after(rows),
        "truth_before": mean("truth_before", "items"),
        "truth_after": mean("truth_after", "gold"),
        "gold_yield": mean("gold_yield", "items"),
        "items": sum(row["items"] for row in rows),
        "gold": sum(row["gold"] for row in rows),
    }


def _after(rows: Sequence[Mapping[str, Any]]) -> float | None:
    """Gold ÷ what the pools still hold, over all sources (a source's own share is gold ÷ its pool)."""
    # Each source's share is gold of what its pool still held, so pools are added, not shares.
    pools = sum(row["gold"] / row["judge_after"] for row in rows if row["judge_after"])
    return sum(row["gold"] for row in rows) / pools if pools else None


def _counts(store: Store, asset: str) -> dict[str, Any] | None:
    manifest = store.current(asset)
    return dict(manifest.counts) if manifest else None


def _cleaning(store: Store, sources: Sequence[str]) -> dict[str, int]:
    """Items that each cleaning rule took out, over all sources."""
    kinds = [m.counts.get("kinds", {}) for name in sources if (m := store.current(f"verdicts/{name}")) is not None]
    return {rule: sum(kind.get(rule, 0) for kind in kinds) for rule in sorted({*EPISODE_RULES, *SAMPLE_RULES})}


def _dedup(store: Store) -> dict[str, Any] | None:
    manifest = store.current("hygiene/duplicates")
    if manifest is None:
        return None
    return {**manifest.counts, "kept_rows": manifest.rows("keep"), "displaced_rows": manifest.rows("displaced")}


def _tokens(store: Store) -> dict[str, Any] | None:
    manifest = store.current("mid_training/mixture")
    if manifest is None:
        return None
    rows = manifest.read("shares").to_pylist()
    return {
        row["name"]: {k: row[k] for k in ("available_tokens", "chosen_tokens", "target_share", "reached_share")}
        for row in rows
        # Objectives alone: platforms and sources have shares of their own in the same table.
        if row["group"] == "objective"
    }


def _figures(store: Store, asset: str, name: str) -> dict[str, Any]:
    made = store.current(asset)
    return made.json_file(name) if made is not None else {}


def _evaluation(store: Store, name: str) -> dict[str, Any] | None:
    report = _figures(store, f"evaluations/{name}", "evaluation.json")
    return report["summary"] if report else None


def _specialist(store: Store, name: str) -> dict[str, Any] | None:
    metrics = _figures(store, f"checkpoints/{name}", "rl.json")
    if not metrics:
        return None
    names = ("reward_gain", "zero_variance_share", "weight_delta", "weight_delta_norm", "peak_update", "updates")
    return {key: metrics[key] for key in names if key in metrics} | {
        "reward_before": metrics["before"]["reward"],
        "reward_after": metrics["after"]["reward"],
    }


def _online(store: Store, name: str) -> dict[str, Any] | None:
    counts = _counts(store, f"checkpoints/{name}")
    names = (
        "tasks",
        "updates",
        "rollouts",
        "lost_rollouts",
        "groups",
        "groups_with_signal",
        "success_before",
        "success_after",
        "success_gain",
        "weight_delta",
    )
    return {key: counts[key] for key in names if key in counts} if counts else None


def _merge(store: Store, name: str) -> dict[str, Any] | None:
    report = _figures(store, f"checkpoints/{name}", "merge.json")
    return {k: report[k] for k in ("method", "density", "weight", "lam", "total")} if report else None


EVERYWHERE = {
    "grounding hit": ("hit", "grounding"),
    "navigation step": ("step", "navigation"),
    "navigation type": ("type", "navigation"),
    "navigation format": ("format", "navigation"),
}
"""Comparison → its measure and domain, of whatever stages."""


def comparisons(store: Store) -> dict[str, object]:
    """Paired differences on the same held-out samples: mid-trained − random, TIES − linear, each specialist − mid; what
    a stage is compared with stands in `STAGES`, what is no specialist comes first. Then the merged agent − each
    specialist that it was made of, in that one's own domain: what the merge costs it."""
    # Specialists last, as they are compared with what came before them.
    stages = sorted(STAGES.values(), key=lambda stage: bool(stage.domain))
    found = {
        f"{one.name} - {other}": _differences(store, one.name, other, EVERYWHERE)
        for one in stages
        for other in one.beside
    }
    merged = _merged_domains(store)
    for name, domain in merged.items():
        objective = DOMAINS[domain].objective
        measure = "hit" if objective == "grounding" else "step"
        # A specialist is compared where it was trained, and only there.
        own, platforms = {f"{domain} {measure}": (measure, objective)}, platforms_of(domain, merged.values())
        found[f"unified - {name}"] = _differences(store, "unified", name, own, platforms)
    return {pair: differences for pair, differences in found.items() if differences}


def _differences(
    store: Store, first: str, second: str, wanted: Mapping[str, tuple[str, str]], platforms: Sequence[str] = PLATFORMS
) -> dict[str, object]:
    """Two stages compared on the samples of some platforms; empty where either has no evaluation."""
    one, other = store.current(f"evaluations/{first}"), store.current(f"evaluations/{second}")
    if one is None or other is None:
        return {}
    from trainer.evaluation.evaluate import compare

    a, b = (
        [row for row in manifest.read("records").to_pylist() if row["platform"] in platforms]
        for manifest in (one, other)
    )
    return {title: compare(a, b, measure, domain) for title, (measure, domain) in wanted.items()}


def _merged_domains(store: Store) -> dict[str, str]:
    """Specialist → its domain, of those that the agent is a merge of."""
    agent = store.current("checkpoints/unified")
    # By the agent's own inputs: another demo may merge others.
    names = [asset.partition("/")[2] for asset in agent.inputs] if agent is not None else []
    return {name: STAGES[name].domain for name in names if name in STAGES and STAGES[name].domain in DOMAINS}


# --- text -------------------------------------------------------------------------------------------------------------
def text(report: Mapping[str, object]) -> str:
    """The report as a person reads it at the end of the demo."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Mapping[str, Any]) -> Iterator[str]:
    yield from _source_lines(report)
    yield from _corpus_lines(report)
    yield from _training_lines(report)
    if report["missing"]:
        yield f"\nNot made: {', '.join(report['missing'])}"


def _source_lines(report: Mapping[str, Any]) -> Iterator[str]:
    yield "\nSources: native actions, expressions, questions; high-fidelity share before → after"
    yield f"  {'':18} {'in':>7} {'mapped':>7} {'quarantined':>12} {'by judge':>19} {'by truth':>19} {'yield':>7}"
    for name, row in report["sources"].items():
        yield _source_line(name, row["items"], row.get("fidelity", {}))
    totals = {k: sum(row["items"][k] for row in report["sources"].values()) for k in ("in", "mapped", "quarantined")}
    yield _source_line("all", totals, report["fidelity"])


def _source_line(name: str, items: Mapping[str, int], fidelity: Mapping[str, Any]) -> str:
    both = f"{shares(fidelity, 'judge'):>19} {shares(fidelity, 'truth'):>19}"
    got = percent(fidelity.get("gold_yield"))
    return f"  {name:18} {items['in']:7} {items['mapped']:7} {items['quarantined']:12} {both} {got:>7}"


def _corpus_lines(report: Mapping[str, Any]) -> Iterator[str]:
    taken = {rule: count for rule, count in report["cleaning"].items() if count}
    yield "\nCleaning: " + (", ".join(f"{rule} {count}" for rule, count in taken.items()) or "nothing taken out")
    if report["contamination"] and report["shard_scan"]:
        found, scan = report["contamination"], report["shard_scan"]
        yield (
            f"Contamination: {found.get('hits', 0)} hits against {', '.join(scan['present']) or 'no suite'}; "
            f"the packed shards hold {scan['leaks']} leaks in {scan['rows']} rows"
        )
    if report["dedup"]:
        yield f"Duplicates: {report['dedup']['displaced_rows']} displaced, {report['dedup']['kept_rows']} kept"
    if report["tokens"]:
        yield "\nMid-training tokens by objective"
        for name, row in report["tokens"].items():
            yield (
                f"  {name:12} {row['chosen_tokens']:10,} of {row['available_tokens']:10,} there   "
                f"reached {percent(row['reached_share'])}, target {percent(row['target_share'])}"
            )
    for name, row in report["generation"].items():
        yield (
            f"\nGeneration {name}: {row['verified']} of {row['executed']} verified ({percent(row['yield'])}); by the "
            f"world's truth {percent(row['feasible'])} could be done, {row['false positives']} verified wrongly"
        )
    if report["task_pool"]:
        plain = {k: v for k, v in report["task_pool"].items() if isinstance(v, int)}
        yield "\nTask pool: " + ", ".join(f"{name} {number}" for name, number in plain.items())


HEADS = ("point in box", "absent: refused", "step success", "step type", "reply format")
"""Columns of the held-out table: grounding of what is there and of what isn't, then navigation."""


def _training_lines(report: Mapping[str, Any]) -> Iterator[str]:
    if report["evaluations"]:
        yield "\nHeld-out figures, % with 95 % intervals"
        yield f"  {'':16}" + "".join(f" {head:>20}" for head in HEADS)
        for name, found in report["evaluations"].items():
            grounding, navigation = found.get("grounding", {}), found.get("navigation", {})
            cells = [grounding.get("present"), grounding.get("absent")]
            cells += [navigation.get(k) for k in ("step", "type", "format")]
            yield f"  {title(name):16} " + " ".join(f"{interval(cell):>20}" for cell in cells)
        yield from _control_lines(report["evaluations"])
    for name, found in report["specialists"].items():
        yield (
            f"  {title(name)}: held-out reward {number(found['reward_before'])} → {number(found['reward_after'])}, "
            f"gain {spread(found['reward_gain'])}; weight change {number(found.get('weight_delta_norm'))}; "
            f"groups without variance {percent(found.get('zero_variance_share'))}"
        )
    for name, found in report["online"].items():
        yield (
            f"  {title(name)}: {found['rollouts']} rollouts in {found['updates']} updates, "
            f"{found['groups_with_signal']} of {found['groups']} groups with a comparison; validation "
            f"success {percent(found['success_before'])} → {percent(found['success_after'])}"
        )
    if found := report["episodes"]:
        yield (
            f"\nThe merged agent at play, until one of each: {found['solved']} solved and {found['failed']} failed of "
            f"{found['records']} tasks (no success rate; see report.html)"
        )
    if report["staircase"]:
        yield from _staircase_lines(report["staircase"])
    if report["comparisons"]:
        yield "\nPaired differences on the same samples, points with 95 % intervals"
        for pair, found in report["comparisons"].items():
            first, second = pair.split(" - ")
            message = "; ".join(f"{name} {spread(value, 100)}" for name, value in found.items() if value.get("n"))
            yield f"  {title(first)} - {title(second)}: {message}"


def _staircase_lines(counts: Mapping[str, Any]) -> Iterator[str]:
    yield "\nThe staircase in its short form: success on a few held-out episodes (the long one: docs/staircase.md)"
    yield f"  {'':16} {'greedy':>10} {'any of a few tries':>20}"
    for row in (name for name in ROWS if f"{name} greedy" in counts):
        yield f"  {row:16} {percent(counts[f'{row} greedy']):>10} {percent(counts[f'{row} pass_at_k']):>20}"


def _control_lines(evaluations: Mapping[str, Any]) -> Iterator[str]:
    # Controls of the last stage, as they hardly change between stages.
    last = "unified" if "unified" in evaluations else list(evaluations)[-1]
    grounding, navigation = evaluations[last].get("grounding"), evaluations[last].get("navigation")
    if grounding:
        for name, stated in (
            ("blind", "element name → usual place, no picture"),
            ("random_element", "a random element"),
            ("swapped", f"{title(last)} on swapped screens"),
        ):
            if name in grounding["controls"]:
                yield f"  control         {interval(grounding['controls'][name]):>21}  {stated}"
    if navigation:
        blind = interval(navigation["controls"]["blind"])
        yield f"  control         {'':>21} {'':>20} {blind:>20}  steps, without the picture"


def percent(share: float | None) -> str:
    """0.123 → "12.3 %"; "-" for None."""
    return "-" if share is None else f"{100 * share:.1f} %"


def number(value: float | None) -> str:
    """Three digits; "-" for None."""
    return "-" if value is None else f"{value:.3g}"


def shares(fidelity: Mapping[str, Any], name: str) -> str:
    """Share of high fidelity before → after, by the `judge` or the `truth`; "-" where it isn't known."""
    before, after = fidelity.get(f"{name}_before"), fidelity.get(f"{name}_after")
    return "-" if before is None or after is None else f"{percent(before)} → {percent(after)}"


def interval(found: Mapping[str, Any] | None) -> str:
    """Mean with its interval in per cent."""
    if not found or found.get("mean") is None:
        return "-"
    # Too few samples for an interval is said, not hidden.
    bounds = "no interval" if found.get("low") is None else f"{100 * found['low']:.1f}, {100 * found['high']:.1f}"
    return f"{100 * found['mean']:.1f} [{bounds}]"


def spread(found: Mapping[str, Any], scale: float = 1.0) -> str:
    """A difference with its interval, signed."""
    if found.get("mean") is None:
        return "-"
    bounds = "no interval" if found.get("low") is None else f"{scale * found['low']:+.3g}, {scale * found['high']:+.3g}"
    return f"{scale * found['mean']:+.3g} [{bounds}]"


def write(report: Mapping[str, object], path: Path) -> None:
    """`report.json`, keys sorted."""
    path.write_text(json.dumps(report, indent=1, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")
