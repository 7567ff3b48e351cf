"""The judge bench, the nano judge trained on it, and each offline judge's figures, as assets of a store."""

import json
import math
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from generators.proving.judge_bench import assets
from generators.proving.judge_bench.assets import BENCH, BUILD_VERSION, NANO, NANO_VERSION, figures_of
from generators.proving.judge_bench.build import BenchConfig, build
from pipelines.store import PartSpec, PartWriter, Store
from pipelines.store.manifest import Manifest
from quality.code_version import code_digest
from quality.evidence.reading import reader_beside
from quality.judges.judge import Judge, identity
from quality.judges.nano.judge import model_version
from quality.judges.nano.training import NanoConfig, train_nano
from quality.judges.registry import JudgeConfig, build_judge
from quality.proving import bench_report
from quality.proving.judge_bench import measure
from schemas.ids import digest

FOLDER = "bench"
"""The bench within its version's folder; pictures lie beside the tables and are named by their content."""
FILES = ("steps.parquet", "samples.parquet", "screens.parquet", "truth.parquet", "episodes.jsonl", "bench.json")
SMALL = BenchConfig(traces=40, screens=28, copies=8, natural=8)
"""The bench of a demo: a minute and a half on two cores."""
BETTER_THAN_CHANCE = 0.6


def bench_folder(manifest: Manifest) -> Path:
    """The bench as a folder that judges are measured on."""
    return manifest.file("truth.parquet").parent


def nano_folder(manifest: Manifest) -> Path:
    """The folder that a nano judge is loaded from."""
    return manifest.file("nano.json").parent


def build_bench(store: Store, config: BenchConfig = SMALL, pages: Path | None = None) -> Manifest:
    """Build the judge bench in the store; a rerun with an equal configuration does nothing."""
    settings = {**asdict(config), "pages": pages is not None}
    spec = PartSpec("bench", digest([BUILD_VERSION, settings]))

    def run(out: PartWriter) -> dict[str, Any]:
        folder = out.path(f"{FOLDER}/{FILES[0]}").parent
        shutil.rmtree(folder)  # a killed run's screens, which `build` wouldn't take for a bench
        report = build(folder, config, pages)
        for name in FILES[1:]:
            out.path(f"{FOLDER}/{name}")
        return dict(report["counts"])

    with store.build(BENCH, code_version=str(BUILD_VERSION), config=settings, inputs={}, parts=[spec]) as built:
        counts = built.run_part(spec, run).counts
        planted = sum(count for name, count in counts.items() if name.startswith("planted:"))
        checks = [assets.HAS_PLANTED_DEFECTS.check(planted > 0, planted, "more than 0", limit=0)]
        return built.commit(counts={**counts, "planted": planted}, checks=checks)


def _cache(store: Store) -> Path:
    """Where the store's judges keep what they needn't ask or read twice."""
    return store.home / "cache" / "judge"


def train_judge(store: Store, read: str = "") -> Manifest:
    """Train the nano judge on what of the bench isn't held out; with `read` also on what that program reads there."""
    bench = store.require(BENCH)
    config = NanoConfig()
    reader = reader_beside(_cache(store), read) if read else None
    settings = {**asdict(config), "read": reader.version if reader else None}
    spec = PartSpec("nano", digest([NANO_VERSION, settings, bench.data_version]))

    def run(out: PartWriter) -> dict[str, Any]:
        weights = out.path("nano.safetensors")
        about = train_nano(bench_folder(bench), weights.parent, config, tell=lambda line: None, reader=reader)
        out.path("nano.json")
        return {"examples": about["examples"], "cuts": about["cuts"]}

    inputs = {bench.asset: bench.version}
    with store.build(NANO, code_version=NANO_VERSION, config=settings, inputs=inputs, parts=[spec]) as built:
        counts = built.run_part(spec, run).counts
        least = min(counts["examples"].values())
        checks = [
            assets.ENOUGH_EXAMPLES.check(least >= 50, least, "50 of each unit", limit=50),
            assets.CUTS_ARE_RISKS.check(
                all(0 < cut < 1 for cut in counts["cuts"].values()), str(counts["cuts"]), "0..1"
            ),
        ]
        weights = next(entry for entry in built.results[0].files if entry.path.endswith("nano.safetensors"))
        version = model_version((built.root / weights.path).parent)  # as its verdicts name it
        return built.commit(counts={**counts, "model": version}, checks=checks)


def offline_judge(store: Store, name: str, read: str = "") -> Judge:
    """The rules judge, or the store's nano judge. Raises `StoreError` if that isn't trained."""
    nano = nano_folder(store.require(NANO)) if name == "nano" else None
    return build_judge(JudgeConfig(name, nano=nano, cache=_cache(store), read=read))


def measure_judge(store: Store, name: str, read: str = "") -> Manifest:
    """Figures of a judge on what of the bench is held out, with and without the UI tree, and their pictures."""
    bench = store.require(BENCH)
    judge = offline_judge(store, name, read)
    inputs = {bench.asset: bench.version}
    if name == "nano":
        inputs[NANO] = store.require(NANO).version
    code = code_digest(
        (
            "proving/judge_bench",
            "proving/figures",
            "proving/figure_rows",
            "proving/bench_report",
            "proving/calibration",
            "statistics",
            "items/bench_folder",
        )
    )
    spec = PartSpec("figures", digest([code, identity(judge), bench.data_version]))

    def run(out: PartWriter) -> dict[str, Any]:
        results = [measure(bench_folder(bench), judge, elements) for elements in (True, False)]
        figures = {"with elements": results[0].figures.as_json(), "without": results[1].figures.as_json()}
        out.bytes("figures.json", (json.dumps(figures, indent=1, sort_keys=True) + "\n").encode())
        out.bytes("recall.png", bench_report.recall_png(results), hashed=False)
        out.bytes("reliability.png", bench_report.reliability_png(results), hashed=False)
        counts: dict[str, Any] = {}
        # The order of `results`: True (with elements) first.
        for seen, result in zip(("with", "without"), results, strict=True):
            counts[f"macro recall, {seen} elements"] = result.figures.macro_recall
            counts[f"macro AUROC, {seen} elements"] = result.figures.macro_auroc
            counts[f"kappa, {seen} elements"] = result.figures.agreement.quadratic
        counts["items"] = results[0].figures.sound + results[0].figures.bad
        # NaN isn't JSON: a figure that can't be computed is left out rather than written.
        return {name: value for name, value in counts.items() if not (isinstance(value, float) and math.isnan(value))}

    with store.build(figures_of(name), code_version=code, config=identity(judge), inputs=inputs, parts=[spec]) as built:
        counts = built.run_part(spec, run).counts
        # A judge without a macro AUROC (one class only) counts as no better than chance.
        auroc = counts.get("macro AUROC, with elements", 0.0)
        checks = [
            assets.ABOVE_CHANCE.check(
                auroc >= BETTER_THAN_CHANCE,
                round(auroc, 3),
                "macro AUROC above that of a coin",
                limit=BETTER_THAN_CHANCE,
            )
        ]
        return built.commit(counts=counts, checks=checks)
