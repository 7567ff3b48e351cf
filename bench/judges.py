"""What judges of thoughts, steps and whole runs find of what was planted: python bench/judges.py [--only NAME]

Everything is drawn or scripted, without a browser, a server of others or a GPU; a few minutes on one core. Each figure
stands beside the goal that it was built for; exit code 1 where one is missed.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from generators.generation.annotators import TreeEvidence
from generators.generation.process_annotator import ProcessAnnotator
from generators.generation.tables import episode_of
from generators.proving.false_successes import FALSE_KINDS, ClaimedSuccess, DrawnScreens, claimed_successes
from generators.proving.imperfect_reviewers import PlantedStep, ReviewerAtRate, planted_steps, step_key
from generators.proving.imperfect_steps import right_steps
from generators.proving.planted_thoughts import LANGUAGES, PlantedThought, generated_thoughts
from generators.tasks.task_spec import TaskSpec
from generators.worlds.fsm.fsm_tasks import TaskMaker
from generators.worlds.fsm.interpreted import InterpretedWorld
from generators.worlds.fsm.sites import TEMPLATES, make_site
from quality.evidence.consistency import check_thought
from quality.evidence.process import goal_operations, process_of
from quality.refinement.dual_review import DualRuling

sys.path.insert(0, str(Path(__file__).parents[1]))

from bench.figures import Figure

SEEDS = (0, 1, 2)
ROWS = 1200
SITES = ("shop", "bank", "calendar", "issues")


def thoughts() -> Iterator[Figure]:
    """D-Artemis: thought against action."""
    for part in ("seen", "held_out"):
        rows = [row for seed in SEEDS for row in generated_thoughts(part, ROWS, seed)]  # type: ignore[arg-type]
        yield _f1(f"thoughts, {part.replace('_', ' ')} phrasings", rows, 0.9)
        if part == "held_out":
            for language in LANGUAGES:
                yield _f1(f"  of them {language}", [row for row in rows if row.origin == language], 0.9)


def _f1(name: str, rows: Sequence[PlantedThought], least: float) -> Figure:
    found = [(check_thought(row.thought, row.action, row.elements).agrees is False, bool(row.planted)) for row in rows]
    hits = sum(flagged and planted for flagged, planted in found)
    flagged, planted = sum(one for one, _ in found), sum(one for _, one in found)
    return Figure(f"{name}: F1", 2 * hits / (flagged + planted), f"{planted} planted, {len(rows)} rows", least)


def site_tasks(each: int, kinds: Sequence[str] = SITES, seed: int = 1) -> list[TaskSpec]:
    """The first tasks of one site of each kind."""
    return [task.contract() for kind in kinds for task in TaskMaker(make_site(kind, seed)).tasks(each)]


def steps() -> Iterator[Figure]:
    """Step verification: a policy right in 60 of 100 under a check right in 80 of 100."""

    def opened() -> InterpretedWorld:
        return InterpretedWorld(make_site)

    tasks = site_tasks(8)
    shares = {}
    for name, rate in (("unchecked", None), ("checked", 0.8), ("checked by chance", 0.5)):
        found = [right_steps(tasks, opened, 0.6, rate, seed=seed) for seed in SEEDS]
        right, of = sum(one for one, _ in found), sum(one for _, one in found)
        shares[name] = right / of
        yield Figure(f"steps right, 60 % policy {name}", right / of, f"{of} steps, {len(SEEDS)} seeds")
    gain = shares["checked"] - shares["unchecked"]
    yield Figure("  gain by a check right in 80 of 100", gain, "three draws a turn at most", 0.15)


def process() -> Iterator[Figure]:
    """ProBench: planted false successes, by what a task requires on the way, and by the goal's words alone."""
    screens = DrawnScreens()
    tasks = [task for seed in (2, 3) for task in site_tasks(4, sorted(TEMPLATES), seed)]
    runs = list(claimed_successes(tasks, ("sound", *FALSE_KINDS), 0))
    votes = {
        "required operations": lambda run: ProcessAnnotator(screens).vote(run.done).outcome,
        "the goal's words alone": lambda run: _by_words(run, screens),
        "last screens (TreeEvidence)": lambda run: TreeEvidence(screens).vote(run.done).outcome,
    }
    for name, vote in votes.items():
        goal = name == "required operations"
        refused = [(run.kind, vote(run) not in ("completed", None)) for run in runs]
        false = [no for kind, no in refused if kind != "sound"]
        sound = [no for kind, no in refused if kind == "sound"]
        of = f"{len(false)} false successes"
        yield Figure(f"{name}: false refused", sum(false) / len(false), of, 0.95 if goal else None)
        of = f"{len(sound)} sound runs"
        yield Figure("  true ones refused", sum(sound) / len(sound), of, None, 0.03 if goal else None)


def _by_words(run: ClaimedSuccess, screens: DrawnScreens) -> str:
    episode = episode_of(run.done, screens)
    assert episode is not None
    return "completed" if process_of(episode, goal_operations(episode)).complete else "failed"


def dual() -> Iterator[Figure]:
    """MagicGUI-RMS: two reviewers that accept 10 and 20 of 100 wrong steps by draws of their own."""
    tasks = site_tasks(4, sorted(TEMPLATES))
    runs = list(claimed_successes(tasks, ("sound",), 0))
    rulings: list[tuple[PlantedStep, DualRuling]] = []
    for seed in SEEDS:
        planted = list(planted_steps(runs, seed))
        truth = {step_key(one.step): one.right for one in planted}
        specialist = ReviewerAtRate("specialist", truth, 0.1, 0.1, 0.85, seed)
        generalist = ReviewerAtRate("generalist", truth, 0.2, 0.1, 0.0, seed)
        for one in planted:
            first = specialist.review(one.episode, one.step)
            rulings.append((one, DualRuling(one.step, first, generalist.review(one.episode, one.step, first))))
    wrong = [ruling for one, ruling in rulings if not one.sound]
    accepted = sum(ruling.outcome == "accepted" for ruling in wrong)
    of = f"{len(wrong)} wrong of {len(rulings)} steps"
    yield Figure("two reviewers: wrong steps accepted", accepted / len(wrong), of, None, 0.05)
    alone = sum(ruling.specialist.accepted for ruling in wrong)
    yield Figure("  by the specialist alone", alone / len(wrong), of)
    corrected = [(one, ruling) for one, ruling in rulings if ruling.outcome == "corrected"]
    right = sum(ruling.specialist.corrected == one.right for one, ruling in corrected)
    of = f"{len(corrected)} corrections"
    yield Figure("  corrections that are right", right / max(1, len(corrected)), of, 0.8)
    disputed = sum(ruling.outcome == "disputed" for _, ruling in rulings)
    yield Figure("  disputed, for judges to learn from", disputed / len(rulings), f"{len(rulings)} steps")


GROUPS: dict[str, Callable[[], Iterator[Figure]]] = {
    "thoughts": thoughts,
    "steps": steps,
    "process": process,
    "dual": dual,
}


def main(arguments: list[str] | None = None) -> int:
    """Print the figures of the groups, one a line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=sorted(GROUPS), metavar="NAME", help=", ".join(GROUPS))
    options = parser.parse_args(arguments)
    missed = 0
    for name, group in GROUPS.items():
        if options.only is None or name in options.only:
            began = time.monotonic()
            for figure in group():
                print(figure, flush=True)
                missed += not figure.fine
            print(f"{name}: {time.monotonic() - began:.0f} s", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
