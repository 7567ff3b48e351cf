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
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch

from pipelines.whole_files import put_json
from trainer.proving.methods import MethodCheck
from trainer.proving.methods.checks import CHECKS
from trainer.statistics import interval, paired

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
    yield f"| member | {first} | spread | − {check.reference} | seeds of the same sign | " + " | ".join(others) + " |"
    yield "|---" * (5 + len(others)) + "|"
    usual = [one[first] for one in cells[check.reference]]
    for member in check.members:
        own = [one[first] for one in cells[member]]
        mean = interval(own, seeds, proportion=False)
        spread = statistics.stdev(own) if len(own) > 1 else 0.0
        gap = paired(own, usual, seeds)
        agree = max(sum((a - b) * sign > 0 for a, b in zip(own, usual, strict=True)) for sign in (1, -1))
        differs = "" if member == check.reference else f"{gap.mean:+.2f} [{gap.low:.2f}, {gap.high:.2f}]"
        rest = [f"{sum(one[name] for one in cells[member]) / len(seeds):.2f}" for name in others]
        yield (
            f"| {member} | {mean.mean:.2f} [{mean.low:.2f}, {mean.high:.2f}] | {spread:.2f} | "
            f"{differs} | {agree if differs else ''} | {' | '.join(rest)} |"
        )
    seconds = sum(one["cpu_s"] for some in cells.values() for one in some)
    yield f"\n{seconds:.0f} CPU seconds\n"


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
