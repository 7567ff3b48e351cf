"""Whether tasks inferred from recordings can be played and judged: python bench/dynamic_tasks.py

The embedded recordings are made and mapped, `task_pool/dynamic` is built of them, and each task whose app a world here
shows is opened there, played for a few turns by the policy without a plan, and given to the judge of the last screen,
whose model a stand-in replaces that always says no. Exit code 1 below 90 of 100 of the tasks that name an app.
"""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from pipelines.store import Store
from tests.support.dynamic_tasks import figures


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, help="store to leave everything in; what lies there isn't made again")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = figures(Store(given.home or folder))
    print(*found, sep="\n")
    return 0 if all(figure.fine for figure in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
