"""What explorers find of sites, and whether documents of it are true: python bench/exploring.py

Twelve sites, one of each kind, without a browser, are walked for 40 turns a round. Explorers are compared with a walk
that takes one of the same actions by chance: screens that look different, and ways between them (screen, action,
screen). Of what the explorer found documents are made; a script of theirs is right where it ends, in a fresh world, on
the screen that it is said to lead to. How varied walks are is the entropy of pairs of actions, against a scripted
policy that goes for the rounds' goals alone (GUI-ReWalk). Exit code 1 where the surveyor finds fewer than 1.5 times the
screens or the ways of the walk, or is less than 1.2 times as varied as the goals, or fewer than 95 of 100 scripts are
right.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.figures import Figure
from tests.support.exploring import LEAST_MORE, LEAST_VARIED, POLICIES, counts, explored, script_figure, varied_figures


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="other sites for another number (0)")
    parser.add_argument("--rounds", type=int, default=10, help="of 40 turns a site (10)")
    given = parser.parse_args()
    seen = {name: explored(12, given.rounds, policies, given.seed) for name, policies in POLICIES.items()}
    walked, figures = counts(seen["walk"]), [script_figure(seen["explorer"])]
    for name in ("explorer", "surveyor"):
        least = LEAST_MORE if name == "surveyor" else None
        for what, number in counts(seen[name]).items():
            said = f"{number} for a walk's {walked[what]}"
            figures.append(Figure(f"{name}: {what}", number / walked[what], said, least))
        figures += varied_figures(name, seen[name], seen["goal"], LEAST_VARIED if least else None)
    print(*figures, sep="\n")
    return 0 if all(figure.fine for figure in figures) else 1


if __name__ == "__main__":
    raise SystemExit(main())
