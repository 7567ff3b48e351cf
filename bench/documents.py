"""Proposals from documents: what man pages say, what of it a desktop shows, and what can be done in the terminal.

    python bench/documents.py --out out/documents      resumable: DIR/rows.jsonl has a line a proposal

Of each capability that the pages name one proposal is drawn (then a second, on another file, until there are enough),
and tried on a sealed desktop as the proposer `documents` does. What is admitted is carried out on a desktop of its own
by its plan: the goal must not hold at the start, nor before the last step, and hold after it. Exit code 1 where fewer
than 95 of 100 do.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from random import Random
from time import monotonic

from generators.generation.proposing.catalogue import Catalogue
from generators.generation.proposing.document_proposer import DocumentProposer, drafts
from generators.generation.task_worlds.registry import open_task_world
from generators.tasks.world_interface import WorldError
from generators.worlds.desktop.check import SIZE, GateRow, code_digest, rows_of
from generators.worlds.desktop.desktop_task import DesktopTask
from generators.worlds.desktop.desktop_world import DesktopWorld
from generators.worlds.desktop.plan import prove
from generators.worlds.desktop.session import open_desktop
from quality.statistics import wilson

LEAST_EXECUTABLE = 0.95
EVERY = 10_000
"""More programs, and more capabilities, than any machine has pages of."""


def admitted(count: int) -> list[DesktopTask]:
    """The first `count` proposals that the desktop shows; prints what became of the others."""
    world = open_task_world("desktop", EVERY)
    proposer, found, seed = DocumentProposer(world, Catalogue()), dict[str, DesktopTask](), 0
    while len(found) < count and seed < 4:
        wanted = drafts(Random(f"bench/{seed}"), EVERY, EVERY)
        made = proposer.checked(wanted)
        programs = {draft.capability.program for draft in wanted}
        print(f"{len(wanted)} capabilities of {len(programs)} programs by their pages, {len(made)} admitted")
        found |= {task.contract().task_id: task for task in made}
        seed += 1
    print("refused:", ", ".join(f"{why} {number}" for why, number in proposer.refused.most_common()))
    return list(found.values())[:count]


def executed(tasks: Sequence[DesktopTask], out: Path, limit_s: float) -> list[GateRow]:
    """A row of each task that was carried out, now or before; stops beginning new ones after `limit_s`."""
    out.mkdir(parents=True, exist_ok=True)
    path, begin = out / "rows.jsonl", monotonic()
    known = rows_of(path)
    with open_desktop(SIZE) as endpoint, DesktopWorld(endpoint) as world, path.open("a", encoding="utf-8") as file:
        for number, task in enumerate(tasks):
            if (task.name, number, 0) in known or monotonic() - begin > limit_s:
                continue
            started, why, steps = monotonic(), "", 0
            try:
                steps = len(prove(task, world))
            except WorldError as error:
                why = str(error)[:400]
            took = round(monotonic() - started, 1)
            row = GateRow(task.name, number, 0, code_digest(), str(task.start["program"]), why, "", steps, seconds=took)
            known[task.name, number, 0] = row
            # At once, so that a bench that is killed goes on from here.
            file.write(json.dumps(asdict(row), ensure_ascii=False) + "\n")
            file.flush()
            print(f"{number:3} {task.name:40} {row.seconds:5.1f} s  {why or 'executable'}", flush=True)
    return [known[key] for number, task in enumerate(tasks) if (key := (task.name, number, 0)) in known]


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="where rows.jsonl is")
    parser.add_argument("--count", type=int, default=100, help="proposals to carry out")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds after which no further one is begun")
    given = parser.parse_args()
    rows = executed(admitted(given.count), given.out, given.limit)
    fine = sum(row.passed for row in rows)
    low, high = wilson(fine, len(rows)) if rows else (0.0, 1.0)
    kinds = len({row.family for row in rows})
    print(f"executable: {fine} of {len(rows)} ({kinds} capabilities) [{low:.3f}, {high:.3f}]")
    return 0 if len(rows) == given.count and fine >= LEAST_EXECUTABLE * len(rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
