"""Proposals from documents: what man pages say, what of it a desktop shows, and what can be done in the terminal.

    python bench/documents.py

Of each capability that the pages name one proposal is drawn (then a second, on another file, until there are enough),
and tried on a sealed desktop as the proposer `documents` does. What is admitted is carried out on a desktop of its own
by its plan: the goal must not hold at the start, nor before the last step, and hold after it. Exit code 1 where fewer
than 95 of 100 do.
"""

import argparse
from collections.abc import Sequence
from random import Random
from time import monotonic

from generators.generation.proposing.catalogue import Catalogue
from generators.generation.proposing.document_proposer import DocumentProposer, drafts
from generators.generation.task_worlds.registry import open_task_world
from generators.tasks.world_interface import WorldError
from generators.worlds.desktop.check import SIZE
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


def executed(tasks: Sequence[DesktopTask], limit_s: float) -> dict[str, list[str]]:
    """Capability → why each of its tasks couldn't be carried out, "" for one that could; stops beginning new ones after
    `limit_s`."""
    found, begin = dict[str, list[str]](), monotonic()
    with open_desktop(SIZE) as endpoint, DesktopWorld(endpoint) as world:
        for task in tasks:
            if monotonic() - begin > limit_s:
                break
            why = ""
            try:
                prove(task, world)
            except WorldError as error:
                why = str(error)[:400]
            found.setdefault(task.name, []).append(why)
            print(f"{monotonic() - begin:6.0f} s  {task.name:40} {why or 'executable'}", flush=True)
    return found


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100, help="proposals to carry out")
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds after which no further one is begun")
    given = parser.parse_args()
    found = executed(admitted(given.count), given.limit)
    done = sum(map(len, found.values()))
    fine = sum(whys.count("") for whys in found.values())
    low, high = wilson(fine, done) if done else (0.0, 1.0)
    print(f"executable: {fine} of {done} ({len(found)} capabilities) [{low:.3f}, {high:.3f}]")
    return 0 if done == given.count and fine >= LEAST_EXECUTABLE * done else 1


if __name__ == "__main__":
    raise SystemExit(main())
