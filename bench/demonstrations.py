"""What one demonstration is worth to a policy that can read it (LearnAct): python bench/demonstrations.py

Half of the goals of twelve sites, one of each kind and without a browser, are done by the scripted policy and
remembered. A reader, which sees no truth, does the other half twice: by its goal's words alone, and with the nearest
demonstration beside the goal, whose steps it repeats with its own goal's names. Exit code 1 where that adds fewer than
20 points, or where a task is shown its own solution.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.support.demonstrated import figures


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="other sites for another number (0)")
    found = figures(seed=parser.parse_args().seed)
    print(*found, sep="\n")
    return 0 if all(figure.fine for figure in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
