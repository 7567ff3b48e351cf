"""How many scripts of apps' documents do what they say: python bench/app_documents.py --scripts 300

The explorer walks sites of all kinds, without a browser; of the graphs it leaves documents are made
(`generators.generation.app_document`). A script of theirs is right where it ends, in a fresh world, on the screen that
it is said to lead to. Exit code 1 where fewer than 95 of 100 are.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.figures import Figure, share
from generators.execution.device_pool import LocalPool
from generators.execution.journal import Journal
from generators.execution.scheduling import run_all
from generators.generation.app_document import effects, run_script, scripts
from generators.generation.proposing.catalogue import Catalogue
from generators.generation.task_worlds.registry import open_task_world
from generators.policies.exploration import Exploration, fingerprint
from generators.policies.exploring import ExploringPolicy
from generators.policies.policy_maker import PolicyMaker
from generators.tasks.world_interface import WorldError
from generators.worlds.fsm.interpreted import InterpretedWorld
from generators.worlds.fsm.sites import make_site

LEAST_RIGHT = 0.95
RUNS, TURNS = 4, 40


def explored(targets: int, folder: Path, seed: int = 0) -> Catalogue:
    """What runs of the explorer saw of so many sites."""
    task_world, tasks = open_task_world("fsm", targets, seed), []
    for target in task_world.targets:
        ideas = islice(task_world.ideas(target, Random(seed)), 60)
        drawn = (task_world.contract([idea], Random(seed)) for idea in ideas)
        # Other tasks, other words: the explorer begins with what resembles them.
        tasks += list(islice({one.task_id: one for one in drawn if one is not None}.values(), RUNS))
    maker, catalogue = PolicyMaker("explorer", lambda contract, world: ExploringPolicy(TURNS)), Catalogue()
    with Journal(folder / "journal") as journal:
        pool = LocalPool({"fsm": lambda: nullcontext(InterpretedWorld(make_site))})
        catalogue.see(run_all(tasks, pool, maker, journal))
    return catalogue


def carried_out(exploration: Exploration) -> Iterator[tuple[tuple[str, ...], str]]:
    """Each script that does something, with what is wrong with it, "" where it does what it says."""
    world = InterpretedWorld(make_site)
    for number, lines in scripts(exploration, effects(exploration)).items():
        if lines:
            try:
                end = fingerprint(run_script(lines, world, exploration.starts[0]))
                yield lines, "" if end == exploration.screens[number].fingerprint else "ends on another screen"
            except WorldError as error:
                yield lines, str(error)


def figure(catalogue: Catalogue, count: int) -> Figure:
    """The share of the first `count` scripts that are right, those of all apps in turn."""
    tried = [one for _, found in sorted(catalogue.explorations.items()) for one in carried_out(found)]
    chosen = Random(0).sample(tried, min(count, len(tried)))
    for lines, why in chosen:
        if why:
            print(f"{why}: {'; '.join(lines)}"[:300])
    return share(
        "scripts by selector that do what they say", sum(not why for _, why in chosen), len(chosen), LEAST_RIGHT
    )


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scripts", type=int, default=300, help="how many are carried out (300)")
    parser.add_argument("--seed", type=int, default=0, help="other sites for another number (0)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = figure(explored(max(options.scripts // 20, 1), Path(folder), options.seed), options.scripts)
    print(found)
    return 0 if found.fine else 1


if __name__ == "__main__":
    raise SystemExit(main())
