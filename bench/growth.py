"""How each stage grows with its data: python bench/growth.py [--scales 1 10 100] [--pictures anew]

Makes recordings of AITZ's form, 1,000 steps at scale 1, and runs every stage from `raw` to the mixture on each scale,
each in a process of its own on one core. Acts, texts and elements are drawn at random, so that no two recordings are
alike; of pictures there are eight for all, or one for each step. Prints rows, CPU seconds and peak memory, and the
slope between the last two scales: 1 is linear. Writes growth.json and growth.svg into --out. Exit code 1 where a slope
is past 1.1 or memory past its bound.

With `--workers` each scale is run by so many worker processes instead (a part has 8,192 steps at most), in a store of
its own each time: the seconds that pass, and exit code 1 where an asset's data version isn't the same for all of them.
"""

import argparse
import json
import math
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from bench import native  # noqa: E402

SOURCE = "aitz"
BASE_STEPS = 1_000
MOST_SLOPE = 1.1
MOST_MB = 1_024
"""Of any stage, at any number of rows."""
SETTLED_S = 0.5
"""CPU seconds under which a stage is all start-up, whose slope says nothing."""
SIDE = (24, 12)
"""Blocks of a picture, of eight pixels each way."""


@dataclass(frozen=True)
class Measured:
    """One stage at one scale. `cpu_s` and `wall_s` are the stage's own, after imports; `peak_mb` the whole process's.
    Workers count in `wall_s` alone."""

    stage: str
    scale: int
    rows: int
    cpu_s: float
    peak_mb: float
    wall_s: float = 0.0


def write_raw(folder: Path, scale: int, pictures: str) -> None:
    """Recordings of a scale. `native.nested` draws ids and acts at random, so no two recordings are alike."""
    native.nested(folder, scale * BASE_STEPS // native.STEPS)
    for number, path in enumerate(sorted(folder.rglob("*.json"))):
        for step in json.loads(path.read_text(encoding="utf-8")):
            seed = [step["step_id"], number if pictures == "anew" else 0]
            (folder / "train" / step["image_path"]).write_bytes(_picture(seed))


def _picture(seed: Sequence[int]) -> bytes:
    from pipelines.store.images import encode_png

    noise = np.random.default_rng(list(seed)).integers(0, 255, (*SIDE, 3), np.uint8)
    return encode_png(noise.repeat(8, 0).repeat(8, 1))


def stages(raw: Path, workers: int = 0) -> dict[str, Callable[..., object]]:
    """Stage → what runs it on a store, in order; by so many worker processes, or in this one."""
    from pipelines.engines.run_parts import Execution
    from pipelines.engines.settings import EngineSettings
    from pipelines.mapping.adapter import Raw
    from pipelines.raw.rawdata import register_raw
    from pipelines.training_data.mixture import build_mixture
    from pipelines.training_data.shards import build_shards
    from pipelines.unify.unify import unify_source
    from quality.contamination.contamination import find_contamination
    from quality.contamination.shard_scan import scan_shards
    from quality.contamination.split_fingerprints import build_split_fingerprints
    from quality.duplicates.dedup import find_duplicates
    from quality.duplicates.screen_owners import find_screen_owners
    from quality.judges.registry import JudgeConfig, build_judge
    from quality.judges.verdicts import judge_source
    from quality.refinement.gold import build_gold
    from quality.refinement.rewriters import build_rewriter
    from quality.review.queue import build_queue
    from quality.safety.scan import scan_sources

    runner = {"runner": "processes", "workers": workers} if workers else {"runner": "in-process"}
    here, config, suite = Execution(EngineSettings(**runner)), JudgeConfig(), f"{SOURCE}_test"
    judge, rewriter = build_judge(config), build_rewriter(config)
    return {
        "raw": lambda store: register_raw(store, SOURCE, raw),
        "unify": lambda store: unify_source(
            store, SOURCE, Raw(raw), inputs={f"raw/{SOURCE}": store.require(f"raw/{SOURCE}").version}, execution=here
        ),
        "judge": lambda store: judge_source(store, SOURCE, judge, config=config, execution=here),
        "refine": lambda store: build_gold(store, SOURCE, judge, rewriter, judge_config=config, execution=here),
        "fingerprints": lambda store: build_split_fingerprints(store, SOURCE, execution=here),
        "screens": lambda store: find_screen_owners(store, [SOURCE]),
        "duplicates": lambda store: find_duplicates(store, [SOURCE]),
        "contamination": lambda store: find_contamination(store, [SOURCE], [suite], execution=here),
        "safety": lambda store: scan_sources(store, [SOURCE], execution=here),
        "queue": lambda store: build_queue(store, [SOURCE]),
        "shards": lambda store: build_shards(store, [SOURCE], execution=here),
        "scan": lambda store: scan_shards(store, [suite], execution=here),
        "mixture": lambda store: build_mixture(store),
    }


def run_stage(name: str, home: Path, raw: Path, workers: int) -> None:
    """Run a stage in this process and print what it took as JSON."""
    from pipelines.store import Store

    store, run = Store(home), stages(raw, workers)[name]
    began, passed = time.process_time(), time.monotonic()
    run(store)
    spent, passed = time.process_time() - began, time.monotonic() - passed
    # not ru_maxrss: that begins at what the process was forked from
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    print(json.dumps({"cpu_s": spent, "peak_mb": int(peak[1]) / 1024 if peak else math.nan, "wall_s": passed}))


def measure(name: str, scale: int, home: Path, raw: Path, workers: int = 0) -> Measured:
    """Run a stage in a process of its own. Raises `SystemExit` with the end of its output if it fails."""
    words = [sys.executable, str(Path(__file__)), "--stage", name, "--home", str(home), "--raw", str(raw)]
    words += ["--workers", str(workers)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    if done.returncode:
        raise SystemExit(f"growth: {name} at scale {scale} failed: {done.stderr[-2000:]}")
    plain = json.loads(done.stdout.splitlines()[-1])
    return Measured(name, scale, scale * BASE_STEPS, **plain)


def slope(smaller: Measured, larger: Measured) -> float | None:
    """Exponent of the growth between two scales; None where the smaller one is too quick to tell."""
    if smaller.cpu_s < SETTLED_S:
        return None
    return math.log(larger.cpu_s / smaller.cpu_s) / math.log(larger.rows / smaller.rows)


def faults(found: Mapping[str, Sequence[Measured]]) -> list[str]:
    """What grows faster than its data, or takes more memory than it may."""
    said = []
    for name, line in found.items():
        steepness = slope(line[-2], line[-1]) if len(line) > 1 else None
        if steepness is not None and steepness > MOST_SLOPE:
            said.append(f"{name}: slope {steepness:.2f}, at most {MOST_SLOPE}")
        if line[-1].peak_mb > MOST_MB:
            said.append(f"{name}: {line[-1].peak_mb:.0f} MB at {line[-1].rows:,} rows, at most {MOST_MB}")
    return said


def draw(path: Path, found: Mapping[str, Sequence[Measured]]) -> None:
    """CPU seconds over rows, a line a stage, both in powers of ten."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 6), layout="constrained")
    axes = figure.subplots()
    for name, line in found.items():
        axes.loglog([one.rows for one in line], [max(one.cpu_s, 1e-2) for one in line], marker="o", label=name)
    axes.set(xlabel="steps", ylabel="CPU seconds on one core", title="What each stage takes")
    axes.legend(loc="upper left")
    figure.savefig(path)


def by_workers(place: Path, scale: int, workers: Sequence[int]) -> list[str]:
    """All stages by each number of workers, in a store of its own each; assets whose data versions differ."""
    from pipelines.store import Store

    found: dict[str, set[str]] = {}
    for many in workers:
        home = place / f"home-{many}"
        for name in stages(place / "raw"):
            one = measure(name, scale, home, place / "raw", many)
            print(f"{name:14} x{scale:<5} {many:3} workers {one.wall_s:9.1f} s passed", flush=True)
        store, root = Store(home), home / "assets"
        for path in root.rglob("current.json"):
            asset = path.parent.relative_to(root).as_posix()
            found.setdefault(asset, set()).add(store.require(asset).data_version)
    print(f"{len(found)} assets, {sum(len(versions) == 1 for versions in found.values())} of them the same by all")
    return [f"{asset}: {len(versions)} data versions" for asset, versions in found.items() if len(versions) > 1]


def main() -> int:
    """Measure all stages at all scales."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scales", type=int, nargs="+", default=[1, 10, 100], help="times 1,000 steps")
    parser.add_argument("--pictures", choices=("once", "anew"), default="once", help="whether each step has its own")
    parser.add_argument("--workers", type=int, nargs="+", default=[], help="compare so many worker processes instead")
    parser.add_argument("--out", type=Path, default=Path("growth"), help="folder of the stores and the figures")
    parser.add_argument("--stage", help=argparse.SUPPRESS)
    parser.add_argument("--home", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--raw", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.stage:
        run_stage(options.stage, options.home, options.raw, options.workers[0])
        return 0
    found: dict[str, list[Measured]] = {}
    wrong = []
    for scale in sorted(options.scales):
        place = options.out / f"{options.pictures}-{scale}"
        if not (place / "raw").is_dir():
            write_raw(place / "raw", scale, options.pictures)
        if options.workers:
            wrong += by_workers(place, scale, options.workers)
            continue
        for name in stages(place / "raw"):
            one = measure(name, scale, place / "home", place / "raw")
            found.setdefault(name, []).append(one)
            print(f"{name:14} x{scale:<5} {one.rows:>10,} rows {one.cpu_s:9.2f} s {one.peak_mb:8.0f} MB", flush=True)
    for name, line in found.items():
        steepness = slope(line[-2], line[-1]) if len(line) > 1 else None
        print(f"{name:14} slope {'too quick to tell' if steepness is None else f'{steepness:.2f}'}")
    if found:
        plain = {name: [asdict(one) for one in line] for name, line in found.items()}
        (options.out / "growth.json").write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
        draw(options.out / "growth.svg", found)
    for line in (wrong := [*wrong, *faults(found)]):
        print(f"growth: {line}", file=sys.stderr)
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main())
