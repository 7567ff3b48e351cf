"""`vesper desktop gate`: every task of the desktop held to its gate, in real programs."""

import argparse
from pathlib import Path

from generators.worlds.desktop.desktop_tasks import FAMILIES, enter
from generators.worlds.desktop.programs import find_program

EXAMPLES = """examples:
  vesper desktop gate --out out/desktop --rounds 2 --workers 2
  vesper desktop gate --out out/notepad --program notepad.py:notepad --only notepad."""


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of the command."""
    parser.epilog = EXAMPLES
    add = parser.add_argument
    add("--out", type=Path, required=True, help="where rows.jsonl lies; what is there isn't done again")
    add("--only", action="append", default=[], metavar="BEGINNING", help="families that begin so (again: of several)")
    add("--program", action="append", default=[], metavar="FILE:NAME", help="a program of your own")
    add("--seed", type=int, default=0, help="of the tasks (0)")
    add("--rounds", type=int, default=1, help="how often each task is done; all must say the same (1)")
    add("--workers", type=int, default=1, help="desktops side by side (1)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print a table of the programs and what failed. Exit code 1 where a task failed, or rounds differ. Raises
    `DesktopMissing` where no session can start, `ValueError` for a program that can't be had."""
    from generators.worlds.desktop import check  # with SSH's client, which `--help` does without

    for name in options.program:
        enter(find_program(name))
    # Families that were entered by --program are among them.
    families = [name for name in FAMILIES if not options.only or name.startswith(tuple(options.only))]
    rows = check.run(options.out, families, options.seed, options.rounds, options.workers)
    print("\n".join(check.table(rows)))
    unequal = check.differing(rows)
    wrong = [row for row in rows if row.why]
    print(f"{len(families)} tasks, {len(wrong)} rows failed, {len(unequal)} tasks differ between rounds: {unequal}")
    for row in wrong:
        print(f"  {row.why}")
    return 1 if wrong or unequal else 0
