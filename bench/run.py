"""`make bench`: Vesper's ways beside the plain ones, on this machine, into bench/results.json.

Each line: name, value, unit, peer, peer_value, ratio (value / peer_value), command. Both sides do the same work on the
same data in this process, on one core (unless a name says otherwise), best of several rounds; that they agree is
asserted before they count. One file a theme: `rows()` yields its lines.
"""

import argparse
import importlib
import inspect
import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
OUT = Path(__file__).parent / "results.json"
THEMES = (
    "basics",
    "tfrecord",
    "raw_hashes",
    "unify",
    "hygiene",
    "dedup",
    "judge_client",
    "gateway",
    "reader",
    "training",
    "trainer_peers",
    "online_rollouts",
)


def main() -> int:
    """Run all and write the list."""
    parser = argparse.ArgumentParser(description="Side-by-side figures.", epilog="example: python bench/run.py --quick")
    parser.add_argument("--quick", action="store_true", help="small data, for a look")
    parser.add_argument("--only", choices=THEMES, action="append", help="a theme; may be given several times")
    parser.add_argument("--out", type=Path, default=OUT, help="where the figures go (bench/results.json)")
    options = parser.parse_args()
    importlib.import_module("pipelines")  # before Arrow loads, as in the command: it sets up the allocator
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"
    results = []
    for theme in options.only or THEMES:
        rows = importlib.import_module(f"bench.{theme}").rows
        small = {"small": 20} if options.quick and "small" in inspect.signature(rows).parameters else {}
        for found in rows(**small):
            results.append(found)
            print(
                f"{found['name']:44} {found['value']:>13,} {found['unit']:16} {found['peer']}: "
                f"{found['peer_value']:,}   x{found['ratio']}",
                flush=True,
            )
    options.out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
