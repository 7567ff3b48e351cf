"""Recorder of MiniWoB++ tasks: sound traces by scripted oracles, each proved by the page's own reward."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from random import Random

from generators.proving.judge_bench.recorders.losses import Losses
from generators.proving.judge_bench.recorders.miniwob_oracles import Solver
from generators.proving.judge_bench.recorders.miniwob_oracles_sites import APPS, SOLVERS
from generators.proving.judge_bench.trace import GroundingScreen, Referred, Trace
from generators.worlds.miniwob.html import OracleMiss
from generators.worlds.miniwob.miniwob_world import MiniwobNode, MiniwobWorld, open_miniwob_world
from generators.worlds.pages.page_task import evaluator

GROUNDING_SEED = 51_000_000
SINGLE = (
    "click-button",
    "click-link",
    "click-tab",
    "focus-text-2",
    "click-test-2",
    "click-widget",
    "unicode-test",
    "click-dialog-2",
    "email-inbox-delete",
    "email-inbox-important",
)
"""Tasks of one click, taken every second time only: few defects apply to them."""
MOST_STEPS = 16
SEEDS_A_TURN, NEXT_SEED = 6, 1000
"""Seeds of a task that are tried in its turn, and how far apart: half of what a scroll list asks for, say, is two
entries at once, which takes a key held down."""


class MiniwobRecorder:
    """Recorder over the tasks in `SOLVERS`.

    Near misses are the utterance with one entity changed for another of the same page (or another text). The end
    state can't reach them because the page rewards exactly one value of that entity: the option clicked, the set
    checked, the text in the field. A trace is kept only where the reward for the true value is whole (`SOLVED`).
    """

    def __init__(self) -> None:
        self.losses = Losses()

    def open(self) -> AbstractContextManager[MiniwobWorld]:
        return open_miniwob_world()

    def record(self, world: MiniwobWorld, count: int, seed: int) -> Iterator[Trace]:
        """Tasks in turn; for a seed whose task the oracle can't read, or doesn't solve, another one is tried."""
        tasks, built, number = list(SOLVERS), 0, 0
        while built < count and number < 4 * count + 40:
            task, turn = tasks[number % len(tasks)], number // len(tasks)
            number += 1
            if task in SINGLE and turn % 2:
                continue
            seeds = (seed + turn + again * NEXT_SEED for again in range(SEEDS_A_TURN))
            trace = next((one for at in seeds if (one := record_one(world, task, at, self.losses))), None)
            if trace is not None:
                built += 1
                yield trace

    def grounding(self, world: MiniwobWorld, count: int, seed: int) -> Iterator[GroundingScreen]:
        """First screens of tasks in turn, with expressions for what can be clicked and is called as nothing else."""
        tasks, built = sorted(SOLVERS), 0
        for number in range(4 * count):
            if built == count:
                return
            task = tasks[(number * 7 + seed) % len(tasks)]
            world.reset({"task": task, "seed": GROUNDING_SEED + seed + number})
            items, odd = _expressions(world.nodes())
            if len(items) < 2:
                self.losses.drop(f"miniwob/{task}", "grounding: fewer than two expressions")
                continue
            uid = f"miniwob/grounding/{task}/{seed + number}"
            shot = world.observe()
            built += 1
            yield GroundingScreen(uid, "miniwob", f"miniwob/{task}", world.platform, world.size_px, shot, items, odd)


def record_one(world: MiniwobWorld, task: str, seed: int, losses: Losses | None = None) -> Trace | None:
    """The trace of one task and seed; None where the oracle misses or the reward isn't whole: counted in `losses`."""
    losses, family = losses or Losses(), f"miniwob/{task}"
    start = {"task": task, "seed": seed}
    world.reset(start)
    solver = Solver(world, Random(f"judge-bench/miniwob/{task}/{seed}"))
    try:
        SOLVERS[task](solver)
    except OracleMiss:
        losses.drop(family, "the oracle can't read the page")
        return None
    solver.finish()
    end = world.state()
    if not end["solved"]:
        losses.drop(family, "the reward isn't whole")
        return None
    if len(solver.moves) > MOST_STEPS:
        losses.drop(family, f"more than {MOST_STEPS} moves")
        return None
    typed = {value.strip().lower() for value in end["inputs"].values()}
    near = [goal for goal in dict.fromkeys(solver.changed) if goal != solver.goal]
    # A changed goal that says what a field holds anyway may be reached by accident.
    near = [goal for goal in near if not _says_typed(goal, solver.goal, typed)]
    rule = evaluator((*start.items(), ("solved", True)))  # a state of another task or seed doesn't reach this goal
    return Trace(
        f"miniwob/{task}/{seed}",
        "miniwob",
        family,
        world.platform,
        world.size_px,
        solver.goal,
        tuple(solver.moves),
        tuple(solver.shots),
        start,
        rule,
        end,
        APPS.get(task.partition("-")[0], "Widgets"),
        tuple(near),
    )


def _says_typed(goal: str, true: str, typed: set[str]) -> bool:
    """Whether a changed goal's new word is what stands in a field at the end: then it wouldn't be untrue."""
    new = set(goal.split()) - set(true.split())
    return any(word.strip('".,').lower() in typed for word in new)


def _expressions(nodes: list[MiniwobNode]) -> tuple[tuple[Referred, ...], dict[int, str]]:
    items: list[Referred] = []
    odd: dict[int, str] = {}
    named = [node for node in nodes if node.place.clickable and node.place.name.strip() and len(node.place.name) < 40]
    for node in named:
        name = node.place.name
        # A name that another element has too leaves open which is meant.
        if sum(other.place.name.lower() == name.lower() for other in nodes) > 1:
            continue
        left, top, right, bottom = node.place.box
        if (right - left) * (bottom - top) < 8_000:  # under 1/125 of the screen
            odd[len(items)] = "tiny_icon" if node.place.role == "icon" else "tiny"
        says = {
            "textbox": "the {} field",
            "checkbox": 'the box "{}"',
            "radio": "the option {}",
            "tab": "the {} tab",
            "link": "the link {}",
            "icon": "the {} icon",
            "combobox": "the {} list",
            "option": "the entry {}",
            "menuitem": "the entry {}",
        }.get(node.place.role, "the {} button")
        items.append(Referred(says.format(name), node.place))
    return tuple(items), odd
