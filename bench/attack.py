"""Everything that strangers may try, tried on us: python bench/attack.py [--only NAME] [--json FILE]

Hostile replies and texts, archives, links, foreign pages, inner networks, clients without a token, clients that are
slow. Each row of the table is a group of tests; the fuzzers among them draw ten times as many examples as in the suite.
Exit code 1 where anything got in, where a test didn't run, and where all of it took more than ten minutes.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from dataclasses import asdict, dataclass
from pathlib import Path

from quality.evidence.word_lists import sections_of

ROOT = Path(__file__).parents[1]
BUDGET_S = 600.0
"""For all groups: what `make attack` may take."""


@dataclass(frozen=True)
class Group:
    """Tests of one kind of attack. `asks` is what is tried, in the words of the table."""

    name: str
    asks: str
    tests: tuple[str, ...]


GROUPS = tuple(
    Group(name, asks, tuple(tests)) for name, (asks, *tests) in sections_of(Path(__file__).with_suffix(".txt")).items()
)


@dataclass(frozen=True)
class Outcome:
    """What a group gave. `holes`: names of the tests that failed, or didn't run."""

    name: str
    asks: str
    tried: int
    held: int
    holes: tuple[str, ...]
    seconds: float


def attack(group: Group) -> Outcome:
    """Run a group's tests in a process of its own."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="vesper-attack-") as room:
        report = Path(room) / "report.xml"
        words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
        told = {**os.environ, "VESPER_TEST_PROFILE": "attack", "PYTHONPATH": str(ROOT)}
        ran = subprocess.run([sys.executable, *words, *group.tests], cwd=ROOT, env=told, capture_output=True, text=True)
        cases = list(ET.parse(report).iter("testcase")) if report.exists() else []
    holes = [
        f"{case.get('classname')}::{case.get('name')}" for case in cases if len(case) and case[0].tag != "properties"
    ]
    if ran.returncode not in (0, 1) or not cases:
        holes.append(f"the tests didn't run: {(ran.stdout + ran.stderr).strip()[-300:]}")
    return Outcome(
        group.name, group.asks, len(cases), max(0, len(cases) - len(holes)), tuple(holes), time.monotonic() - began
    )


def main(arguments: list[str] | None = None) -> int:
    """Run the groups one after the other; print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = [group.name for group in GROUPS]
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help=f"of {', '.join(names)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the outcomes there too")
    options = parser.parse_args(arguments)
    outcomes = []
    print(f"{'attack':10} {'what is tried':50} {'tried':>6} {'held':>6} {'seconds':>8}", flush=True)
    for group in GROUPS:
        if options.only is None or group.name in options.only:
            outcomes.append(found := attack(group))
            counts = f"{found.tried:6} {found.held:6} {found.seconds:8.0f}"
            print(f"{found.name:10} {found.asks:50} {counts}{'  <-- A HOLE' if found.holes else ''}", flush=True)
    for found in outcomes:
        for hole in found.holes:
            print(f"{found.name}: {hole}")
    spent = sum(found.seconds for found in outcomes)
    if spent > BUDGET_S:
        print(f"it took {spent:.0f} s, more than {BUDGET_S:.0f}")
    if options.json:
        options.json.write_text(json.dumps([asdict(found) for found in outcomes], indent=1) + "\n", "utf-8")
    return 1 if spent > BUDGET_S or any(found.holes for found in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
