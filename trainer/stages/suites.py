"""`suites/<suite>`: the merged agent on a suite, as an asset: what `vesper eval` measures, made by the graph.

Each version holds the report and its records beside the figures that the asset plots, so the leaderboard and the
steering of rounds read it like what `vesper eval --record` keeps.
"""

import json
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipelines.store import Build, PartSpec, PartWriter, Store
from pipelines.store.manifest import Manifest
from schemas.ids import digest
from schemas.settings import SettingsError, nearest
from trainer.runtime.tracking import OnEvent
from trainer.settings.stages import CORPUS
from trainer.stages.assets import checkpoint_folder
from trainer.stages.care_gate import held_against_production
from trainer.stages.settings import stage_settings
from trainer.suites.leaderboard import RECORDS, SUITES_GROUP, figures, measured, put_report
from trainer.suites.options import EvaluationSubject, SuiteOptions
from trainer.suites.registry import CARE, SUITES, suite
from trainer.suites.run import run_suite

AGENT, CODE_VERSION = "checkpoints/unified", "2"
USED = {
    "worlds": ("limit", "seed", "attempts", "temperature", "workers"),
    "grounding": ("limit", "seed"),
    "steps": ("limit", "seed"),
}
"""Kind of suite → the settings that change its figures; a suite sees no others, so that they don't make it anew."""
MEASURES = {"worlds": "success", "grounding": "accuracy", "steps": "step accuracy"}
"""Kind of suite → what its headline is called among the counts."""
MOST_LOST = 0.1
"""Share of a suite's episodes that devices may lose: above it the figures would be those of an evening, for good."""


def asset_of(name: str) -> str:
    """Suite → asset key."""
    return f"{SUITES_GROUP}/{name}"


def inputs_of(name: str) -> tuple[str, ...]:
    """Asset keys that a suite's asset reads: the agent, and where its questions come from. Raises `ValueError` for a
    suite that isn't made as an asset."""
    known = suite(name)
    # Other kinds need files or devices that an asset can't ask for.
    if known.kind not in USED:
        raise ValueError(
            f"suite {name}: expected one of {', '.join(USED)} to make as an asset, found {known.kind}; "
            "use `vesper eval --record`"
        )
    asked = {"grounding": (f"raw/{known.raw}",), "steps": (f"unified/{known.raw}",)}
    return (AGENT, *asked.get(known.kind, ()))


def suite_settings(name: str, config: Mapping[str, object]) -> dict[str, Any]:
    """What `suites` and `device` of the trainer's configuration say of a suite; what stands under its own name wins.

    Raises `ValueError` naming a setting that is unknown, or whose value can't be.
    """
    asked = stage_settings(asset_of(name), config)
    # Names of suites stand beside the common settings.
    by_suite = asked.suites.__pydantic_extra__
    if unknown := sorted(set(by_suite) - set(SUITES)):
        raise SettingsError("trainer", {("suites",): f"unknown {unknown[0]!r:.60}; {nearest(unknown[0], SUITES)}"})
    own = by_suite[name].given() if name in by_suite else {}
    chosen = {**asked.suites.plain(), **own}
    # Settings that this kind doesn't use stay out, so that they don't make it anew.
    return {**{word: chosen[word] for word in USED[suite(name).kind]}, "device": asked.device}


def build_suite(
    store: Store,
    name: str,
    config: Mapping[str, object] | None = None,
    raw: Path | None = None,
    on_event: OnEvent | None = None,
    *,
    progress: bool = False,
) -> Manifest:
    """Make `suites/<name>` of the current agent, unless equal inputs made it before, or go on where a killed call
    stopped. `config`: the trainer's whole configuration; `raw`: native files of a grounding suite.

    Raises `StoreError` for an input that is missing, `ValueError` for a setting, or for files that aren't there,
    `RuntimeError` where devices lost more than `MOST_LOST` of the episodes.
    """
    known, asset, keys = suite(name), asset_of(name), inputs_of(name)
    settings = suite_settings(name, config or {})
    inputs = {key: store.require(key) for key in keys}
    # The blind table is made of training rows; worlds have none.
    if known.kind != "worlds" and (shards := store.current(CORPUS)) is not None:
        inputs[CORPUS] = shards  # of the blind table
    versions = {key: manifest.version for key, manifest in sorted(inputs.items())}
    data = {key: manifest.data_version for key, manifest in sorted(inputs.items())}  # made anew alike: as it was
    spec = PartSpec("suite", digest([asset, CODE_VERSION, settings, data]))
    with store.build(asset, code_version=CODE_VERSION, config=settings, inputs=versions, parts=[spec]) as build:
        work = store.home / "cache" / "training" / f"{asset.replace('/', '-')}-{build.version}"

        def measure(out: PartWriter) -> dict[str, object]:
            began = time.perf_counter()
            asked = {key: value for key, value in settings.items() if key != "device"}
            report = run_suite(
                name,
                EvaluationSubject(checkpoint_folder(inputs[AGENT]), device=settings["device"]),
                SuiteOptions(store, raw if known.kind == "grounding" else None, state=work, progress=progress, **asked),
                on_event,
            )
            _require_devices(asset, report, work)
            put_report(out, report)
            timing = {"seconds": round(time.perf_counter() - began, 3)}
            out.bytes("timing.json", json.dumps(timing).encode(), hashed=False)
            return counts_of(report)

        counts = build.run_part(spec, measure).counts
        checks = [measured(counts["n"])]
        if name == CARE and (held := held_against_production(store, versions[AGENT], _records(build))) is not None:
            checks.append(held)
        manifest = build.commit(counts=counts, checks=checks)
    shutil.rmtree(work, ignore_errors=True)  # journals of a finished run
    return manifest


def _records(build: Build) -> list[dict[str, Any]]:
    """The records of a suite that is being committed."""
    [path] = [build.root / entry.path for one in build.results for entry in one.files if entry.path.endswith(RECORDS)]
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _require_devices(asset: str, report: Mapping[str, Any], state: Path) -> None:
    """Raises `RuntimeError` if too many episodes broke down; these are tried again when the asset is made next."""
    records = report["records"]
    why = [one["why"] for one in records if str(one.get("why", "")).startswith("infrastructure")]
    if len(why) > MOST_LOST * len(records):
        # Tried again next time: journals would keep the lost episodes as they are.
        shutil.rmtree(state, ignore_errors=True)
        raise RuntimeError(
            f"{asset}: expected at most {MOST_LOST:.0%} of {len(records)} episodes lost to devices, "
            f"found {len(why)} ({why[0]}); see to them and materialise again"
        )


def counts_of(report: Mapping[str, Any]) -> dict[str, object]:
    """A report's headline with its interval (`low`, `high`: 95 %) and the best control, over `n` attempts, questions or
    steps; `lost`: those that a device, a browser or a picture kept from counting; `actions` of episodes."""
    kind, summary, records = report["suite_kind"], report["summary"], report["records"]
    headline, *beside = figures(report)
    counts = {
        "suite": report["suite"],
        "policy": report["policy"],
        "records": len(records),
        "n": headline["n"],
        MEASURES[kind]: headline["mean"],
        "low": headline["low"],
        "high": headline["high"],
        "control": headline["control_mean"],
        # Other figures of the suite under their own names.
        **{one["measure"]: one["mean"] for one in beside},
    }
    if kind == "worlds":
        return {**counts, "lost": summary["not_counted"]["attempts"], "actions": sum(one["steps"] for one in records)}
    return {**counts, "lost": summary["not_answered"]}
