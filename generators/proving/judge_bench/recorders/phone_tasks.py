"""Recorder of the phone (`generators.worlds.phone`): its families of tasks, performed by touch."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from random import Random

from generators.proving.judge_bench.recorders.losses import Losses
from generators.proving.judge_bench.recorders.performed import Performed, one_entity_apart
from generators.proving.judge_bench.recorders.references import references
from generators.proving.judge_bench.trace import GroundingScreen, Trace
from generators.tasks.world_interface import WorldError
from generators.worlds.evaluators import holds
from generators.worlds.phone.phone_task import PhoneTask
from generators.worlds.phone.phone_tasks import FAMILIES, make_task
from generators.worlds.phone.phone_world import PhoneWorld, open_phone
from generators.worlds.phone.plan import perform
from generators.worlds.phone.snapshot import APPS, TITLES, start_snapshot
from schemas.action_types import Click

FIRST_SEED = 61_000_000
GROUNDING_SEED = 62_000_000
"""Far from the seeds of tasks in the pool."""
MOST_STEPS = 20
DRAWS = 40
"""Tasks of a family drawn on one phone to find goals one entity apart."""
LEAST_ITEMS = 4


class PhoneRecorder:
    """Recorder over the phone's families. An infeasible task, rightly told to be so, is a hard negative: nothing that
    was asked for happens, and the episode is sound."""

    def __init__(self) -> None:
        self.losses = Losses()

    def open(self) -> AbstractContextManager[PhoneWorld]:
        return open_phone()

    def record(self, world: PhoneWorld, count: int, seed: int) -> Iterator[Trace]:
        """Families in turn, in an order drawn by the seed; a phone that can't carry its family's task is skipped."""
        families = Random(f"judge-bench/phone/{seed}").sample(list(FAMILIES), len(FAMILIES))
        built, number = 0, 0
        # A bound on the tries: where most families fail on these phones,
        # fewer traces come rather than none ever.
        while built < count and number < 4 * count + 40:
            family = families[number % len(families)]
            trace = record_one(world, family, FIRST_SEED + seed + number, self.losses)
            number += 1
            if trace is not None:
                built += 1
                yield trace

    def grounding(self, world: PhoneWorld, count: int, seed: int) -> Iterator[GroundingScreen]:
        """Screens of apps in turn after up to two random taps."""
        for number in range(count):
            rng = Random(f"judge-bench/phone/grounding/{seed + number}")
            app = APPS[number % len(APPS)]
            world.reset({"seed": GROUNDING_SEED + seed + number, "open": f"vesper://{app}"})
            for _ in range(rng.randrange(3)):
                # Keys of the system bar stand on every screen: taps on them would leave the app.
                elements = [p for p in world.elements() if p.clickable and not p.key.startswith("sys:")]
                if elements:
                    world.act(Click(rng.choice(elements).centre))
            shot = world.observe()
            if len(items := references(shot)) >= LEAST_ITEMS:
                uid = f"phone/grounding/{seed + number}"
                yield GroundingScreen(uid, "phone", f"phone/{app}", world.platform, world.size_px, shot, items)
            else:
                self.losses.drop(f"phone/{app}", "grounding: fewer than four expressions")


def record_one(world: PhoneWorld, family: str, seed: int, losses: Losses | None = None) -> Trace | None:
    """The trace of a family's task on the phone of a seed; None where there is none, or its plan takes too long:
    counted in `losses`."""
    losses, lost = losses or Losses(), f"phone/{family}"
    task = make_task(family, seed)
    if task is None:
        losses.drop(lost, "the phone can't carry the task")
        return None
    rule = task.evaluator()
    world.reset(task.start)
    # A task that is already done proves nothing: doing nothing would reach its goal too.
    if holds(rule, world.state(), world.answer):
        losses.drop(lost, "the goal is reached before anything is done")
        return None
    noted = Performed(world, task.goal, Random(f"judge-bench/phone/{family}/{seed}"))
    try:
        perform(world, task.plan, noted.before)
    except WorldError:
        losses.drop(lost, "the oracle failed")
        return None
    noted.finish()
    end, answer = world.state(), world.answer
    if not holds(rule, end, answer):
        losses.drop(lost, "the end doesn't prove the goal")
        return None
    if len(noted.moves) > MOST_STEPS:
        losses.drop(lost, f"more than {MOST_STEPS} moves")
        return None
    # A goal whose rule the end state fulfils as well is no near miss: labelled so, it would be a wrong label.
    near = tuple(sorted({other.goal for other in variants(task) if not holds(other.evaluator(), end, answer)}))
    return Trace(
        f"phone/{family}/{seed}",
        "phone",
        f"phone/{family}",
        world.platform,
        world.size_px,
        task.goal,
        tuple(noted.moves),
        tuple(noted.shots),
        task.start,
        rule,
        end,
        TITLES[task.apps[0]],
        near,
        "" if task.feasible else "infeasible",
    )


def variants(task: PhoneTask) -> Iterator[PhoneTask]:
    """Tasks of the same family on the same phone whose goal is one entity apart."""
    snapshot = start_snapshot(task.start)
    for draw in range(DRAWS):
        try:
            given = {name: task.start[name] for name in ("world", "seed")}
            other = FAMILIES[task.family](given, snapshot, Random(f"variants/{task.goal}/{draw}"))
        # A family draws from lists of the phone; an empty one means that there is no other task of it here.
        except IndexError:
            continue
        if other is not None and other.start == task.start and one_entity_apart(task.goal, other.goal):
            yield other
