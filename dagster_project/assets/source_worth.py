"""What a source was found to be worth, on the source's own page: points beside costs, plotted over measurements."""

from collections.abc import Iterator

import dagster as dg

from dagster_project.assets.keys import asset_key
from pipelines.store.manifest import Manifest
from trainer.worth.tables import ALONE, LEFT_OUT, SOURCES

NAMES = {LEFT_OUT: "worth: beside the others", ALONE: "worth: alone"}


def observations(manifest: Manifest) -> Iterator[dg.AssetObservation]:
    """One for the gold of each source that a version of `worth/sources` measured; none for other assets."""
    if manifest.asset != SOURCES:
        return
    costs = {(row["kind"], row["subject"]): row for row in manifest.read("costs").to_pylist()}
    found: dict[str, dict[str, float | int | str]] = {}
    # Two studies of a source: left out of all, and added alone to a base.
    for row in manifest.read("worth").to_pylist():
        cost, name = costs[row["kind"], row["subject"]], NAMES[row["kind"]]
        facts = found.setdefault(row["subject"], {"version": manifest.version})
        ends = {f"{name}, {end} end": row[side] for end, side in (("lower", "low"), ("upper", "high"))}
        facts |= {f"{name} (points)": row["points"], f"{name} says": row["says"]}
        facts |= {key: value for key, value in ends.items() if value is not None}
        facts |= {"cost: rows": row["rows"], "cost: judge tokens": cost["judge_tokens"]}
        facts |= {
            "cost: judge minutes": cost["judge_minutes"],
            # The name without "worth: ", as both studies have probes of their own.
            f"cost: minutes of probes {name[7:]}": cost["probe_minutes"],
        }
    for source, facts in found.items():
        yield dg.AssetObservation(asset_key(f"gold/{source}"), "What the agent gains by it.", metadata=facts)
