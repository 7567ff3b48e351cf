"""What do worker processes win? python bench/workers.py [--items N] [--parts N] [--workers 1 2]

The embedded AITZ data as `bench.quality_speed` repeats it, unified once into at least so many parts; then judged by
the rules and refined by each number of worker processes, in a store of its own each time. Printed side by side: seconds
that passed, and the share of the first; exit code 1 if the data versions differ.
"""

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from bench.quality_speed import SOURCE, make_raw  # noqa: E402
from pipelines.engines.run_parts import Execution  # noqa: E402
from pipelines.engines.settings import PROCESSES, EngineSettings  # noqa: E402
from pipelines.mapping.adapter import Raw  # noqa: E402
from pipelines.store import Store  # noqa: E402
from pipelines.unify import buckets  # noqa: E402
from pipelines.unify.changes import ChangeBands  # noqa: E402
from pipelines.unify.unify import unify_source  # noqa: E402
from quality.judges.registry import JudgeConfig, build_judge  # noqa: E402
from quality.judges.verdicts import judge_source  # noqa: E402
from quality.refinement.gold import build_gold  # noqa: E402
from quality.refinement.rewriters import build_rewriter  # noqa: E402

STAGES = ("judge", "gold")


def measured(home: Path, workers: int) -> dict[str, tuple[float, str]]:
    """Stage → (seconds that passed, data version)."""
    store, config = Store(home), JudgeConfig()
    by = Execution(EngineSettings(runner=PROCESSES, workers=workers))
    began = time.monotonic()
    judged = judge_source(store, SOURCE, build_judge(config), config=config, execution=by)
    middle = time.monotonic()
    judge, rewriter = build_judge(config), build_rewriter(config)
    gold = build_gold(store, SOURCE, judge, rewriter, judge_config=config, execution=by)
    seconds = (middle - began, time.monotonic() - middle)
    return dict(zip(STAGES, zip(seconds, (judged.data_version, gold.data_version), strict=True), strict=True))


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=6000, help="steps to judge and refine (6000)")
    parser.add_argument("--parts", type=int, default=8, help="parts at least (8)")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="worker processes (1 2)")
    options = parser.parse_args()
    buckets.BUCKET_ROWS = max(1, options.items // options.parts)
    found: dict[int, dict[str, tuple[float, str]]] = {}
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        make_raw(work / "raw", options.items)
        unified = unify_source(Store(work / "home"), SOURCE, Raw(work / "raw"), bands=ChangeBands(damaged_files=1))
        print(f"{unified.rows('steps')} steps in {len(unified.paths('steps'))} parts", flush=True)
        for workers in options.workers:
            shutil.copytree(work / "home", work / f"by-{workers}", symlinks=True, copy_function=_link)
            found[workers] = measured(work / f"by-{workers}", workers)
            shutil.rmtree(work / f"by-{workers}")
            for stage, (seconds, version) in found[workers].items():
                share = seconds / found[options.workers[0]][stage][0]
                print(f"{stage:6} {workers:2} workers {seconds:8.1f} s  {share:5.2f}  {version[:12]}", flush=True)
    return int(any(len({by[stage][1] for by in found.values()}) > 1 for stage in STAGES))


def _link(source: str, target: str) -> None:
    Path(target).hardlink_to(source)


if __name__ == "__main__":
    sys.exit(main())
