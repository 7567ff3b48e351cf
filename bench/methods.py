"""Members of plug points side by side, each learning the same small world with truth: python bench/methods.py

    python bench/methods.py                            # all checks, five seeds
    python bench/methods.py --check loophole --seeds 3

Every member has the same budget and the same seeds. Each cell (check, member, seed) is a file below --out, written once
it is done, so that a run that was ended goes on. The difference from the reference is paired by seed; its interval is a
bootstrap over seeds, and few seeds make it wide or, if they agree, narrower than it should be; `spread` is the standard
deviation over seeds.
"""

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path

import torch

from pipelines.whole_files import put_json
from trainer.proving.methods import MethodCheck
from trainer.statistics import Interval, interval, paired

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/support")]
FILES = [path for home in ("trainer/proving/methods", "tests") for path in sorted((ROOT / home).rglob("*.py"))]
MODULES = [path.relative_to(ROOT) for path in FILES if "\nCHECK = MethodCheck(" in path.read_text(encoding="utf-8")]
FOUND = (import_module(".".join(path.with_suffix("").parts)).CHECK for path in MODULES)
CHECKS: dict[str, MethodCheck] = {check.name: check for check in FOUND}
"""By name. Some of the small worlds stand with the tests that hold a member to its law."""
Cells = Mapping[str, Sequence[Mapping[str, float]]]
"""Member → its figures, a seed each."""


def cells_of(check: MethodCheck, seeds: int, share: float, out: Path) -> dict[str, list[dict[str, float]]]:
    """The figures of every member and seed, those on the disk as they are."""
    found: dict[str, list[dict[str, float]]] = {member: [] for member in check.members}
    for seed in range(seeds):
        for member in check.members:
            budget = "" if share == 1.0 else f"-{share:g}"
            path = out / f"{check.name}-{member}-{seed}{budget}.json"
            if not path.exists():
                since = time.process_time()
                figures = {**check.run(member, seed, share), "cpu_s": round(time.process_time() - since, 2)}
                put_json(path, figures)
            found[member].append(json.loads(path.read_text(encoding="utf-8")))
    return found


def table(check: MethodCheck, cells: Cells) -> Iterator[str]:
    """Lines of Markdown: a row a member, means over seeds, and what differs from the reference."""
    seeds = [str(seed) for seed in range(len(cells[check.reference]))]
    first, *others = check.figures
    yield f"### {check.name} ({check.system})\n\n{check.asks}; {len(seeds)} seeds\n"
    yield " | ".join(["| member", first, "spread", f"− {check.reference}", "seeds of the same sign", *others]) + " |"
    yield "|---" * (5 + len(others)) + "|"
    usual = [one[first] for one in cells[check.reference]]
    for member in check.members:
        own = [one[first] for one in cells[member]]
        gap = agree = ""
        if member != check.reference:
            gap = _with_interval(paired(own, usual, seeds), "+")
            agree = str(max(sum((a - b) * sign > 0 for a, b in zip(own, usual, strict=True)) for sign in (1, -1)))
        spread = statistics.stdev(own) if len(own) > 1 else 0.0
        rest = [f"{sum(one[name] for one in cells[member]) / len(seeds):.2f}" for name in others]
        mean = _with_interval(interval(own, seeds, proportion=False))
        yield " | ".join([f"| {member}", mean, f"{spread:.2f}", gap, agree, *rest]) + " |"
    seconds = sum(one["cpu_s"] for some in cells.values() for one in some)
    yield f"\n{seconds:.0f} CPU seconds\n"


def _with_interval(found: Interval, sign: str = "") -> str:
    """As it is printed; few seeds that all found the same tell of no interval."""
    told = f"{found.mean:{sign}.2f}"
    return told if math.isnan(found.low) else f"{told} [{found.low:.2f}, {found.high:.2f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="append", choices=CHECKS, help="one of them; may be given again (all)")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--share", type=float, default=1.0, help="of each check's budget, for a smoke run (1)")
    parser.add_argument("--out", type=Path, default=Path(".vesper/bench/methods"), help="where cells are kept")
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.out.mkdir(parents=True, exist_ok=True)
    for name in given.check or CHECKS:
        print("\n".join(table(CHECKS[name], cells_of(CHECKS[name], given.seeds, given.share, given.out))), flush=True)


if __name__ == "__main__":
    main()
