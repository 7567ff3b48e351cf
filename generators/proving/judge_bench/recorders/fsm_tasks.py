"""Recorder of the sites built from specs (`generators.worlds.fsm`): goals, alone and joined, by their paths."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from random import Random

from generators.proving.judge_bench.recorders.losses import Losses
from generators.proving.judge_bench.recorders.performed import Performed, one_entity_apart
from generators.proving.judge_bench.recorders.references import references
from generators.proving.judge_bench.trace import GroundingScreen, Trace
from generators.tasks.world_interface import WorldError
from generators.worlds.evaluators import holds
from generators.worlds.fsm.evaluate import evaluator
from generators.worlds.fsm.fsm_tasks import FsmTask, TaskMaker, contradict, phrase
from generators.worlds.fsm.fsm_world import FsmWorld, open_fsm
from generators.worlds.fsm.sites import TEMPLATES, make_site
from generators.worlds.fsm.spec import Goal, SiteSpec
from generators.worlds.hit_test import under
from schemas.action_types import Click

FIRST_SEED = 71_000
"""Far from the seeds of tasks in the pool."""
SITES = 3
"""Traces of a site before the next seed's site is taken."""
GOALS = (1, 1, 2, 2, 3)
MOST_STEPS = 18
PHRASINGS = 12
"""Wordings tried of a goal that is one entity apart."""
LEAST_ITEMS = 4


class FsmRecorder:
    """Recorder over all kinds of sites."""

    def __init__(self) -> None:
        self.losses = Losses()

    def open(self) -> AbstractContextManager[FsmWorld]:
        return open_fsm()

    def record(self, world: FsmWorld, count: int, seed: int) -> Iterator[Trace]:
        """Kinds of sites in turn; goals that can't be joined, or take too long, are generated again with the next
        turn."""
        kinds, built, number = sorted(TEMPLATES), 0, 0
        makers: dict[str, TaskMaker] = {}
        # Four draws for each trace wanted: many goals can't be joined.
        while built < count and number < 4 * count + 40:
            kind, turn = kinds[number % len(kinds)], number // len(kinds)
            number += 1
            site = make_site(kind, FIRST_SEED + seed + turn // SITES)
            maker = makers.get(kind)
            if maker is None or maker.site is not site:
                maker = makers[kind] = TaskMaker(site)
            trace = record_one(world, maker, seed + turn, self.losses)
            if trace is not None:
                built += 1
                yield trace

    def grounding(self, world: FsmWorld, count: int, seed: int) -> Iterator[GroundingScreen]:
        """Pages of sites in turn."""
        kinds = sorted(TEMPLATES)
        for number in range(count):
            rng = Random(f"judge-bench/fsm/grounding/{seed + number}")
            kind = kinds[number % len(kinds)]
            site = make_site(kind, 2 * FIRST_SEED + seed + number)
            world.reset({"kind": kind, "seed": site.seed, "page": rng.choice(site.pages).id})
            shot = world.observe()
            if len(items := references(shot)) >= LEAST_ITEMS:
                uid = f"fsm/grounding/{kind}/{seed + number}"
                yield GroundingScreen(uid, "fsm", f"fsm/{kind}", world.platform, world.size_px, shot, items)
            else:
                self.losses.drop(f"fsm/{kind}", "grounding: fewer than four expressions")


def record_one(world: FsmWorld, maker: TaskMaker, seed: int, losses: Losses | None = None) -> Trace | None:
    """The trace of one to three of a site's goals; None where they can't be joined or take too long: counted in
    `losses`."""
    site = maker.site
    losses, family = losses or Losses(), f"fsm/{site.kind}"
    rng = Random(f"judge-bench/{site.target}/{seed}")
    wanted = rng.choice(GOALS)
    goals = [goal for goal in site.goals if wanted == 1 or not goal.alone]
    task = maker.joined(rng.sample(goals, min(wanted, len(goals))), rng)
    if task is None:
        losses.drop(family, "the goals can't be joined")
        return None
    # Longer than agents' recordings usually are.
    if task.expected_steps >= MOST_STEPS:
        losses.drop(family, f"more than {MOST_STEPS} moves")
        return None
    noted = Performed(world, task.instruction, rng)
    world.reset(task.start)
    try:
        for action in task.path:
            noted.before(action, under(world.elements(), action.box) if isinstance(action, Click) else None)
            world.act(action)
    except WorldError:
        losses.drop(family, "the oracle failed")
        return None
    noted.finish()
    end = world.state()
    # Performed and not believed.
    if not holds(task.rule, end):
        losses.drop(family, "the end doesn't prove the goal")
        return None
    return Trace(
        f"{site.target}/{'+'.join(task.goals)}/{seed}",
        "fsm",
        family,
        world.platform,
        world.size_px,
        task.instruction,
        tuple(noted.moves),
        tuple(noted.shots),
        task.start,
        task.rule,
        end,
        site.name,
        near_misses(site, task, end),
    )


def near_misses(site: SiteSpec, task: FsmTask, end: dict[str, object]) -> tuple[str, ...]:
    """Goals with one of the task's exchanged for another of the site, one entity apart, that the end doesn't reach."""
    named = {goal.id: goal for goal in site.goals}
    goals = [named[name] for name in task.goals]
    found: set[str] = set()
    for at in range(len(goals)):
        for other in site.goals:
            changed = [*goals[:at], other, *goals[at + 1 :]]
            atoms = [atom for goal in changed for atom in goal.when]
            page = next((goal.page for goal in reversed(changed) if goal.page), "")
            # What the end also reaches isn't a wrong goal.
            if other.id in task.goals or contradict(atoms) or holds(evaluator(atoms, page), end):
                continue
            found |= {words for words in phrasings(site, changed) if one_entity_apart(task.instruction, words)}
    return tuple(sorted(found))


def phrasings(site: SiteSpec, goals: Sequence[Goal]) -> set[str]:
    """Some wordings of goals as one instruction."""
    return {phrase(site, goals, Random(f"phrasing/{number}")) for number in range(PHRASINGS * len(goals))}
