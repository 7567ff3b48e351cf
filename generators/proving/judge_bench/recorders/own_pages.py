"""Recorder of our own pages (`generators.worlds.pages.pages_world`): scripted oracles on phone and desktop."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from random import Random
from typing import Any

from generators.proving.judge_bench.recorders.losses import Losses
from generators.proving.judge_bench.recorders.references import references
from generators.proving.judge_bench.recorders.thoughts import thought
from generators.proving.judge_bench.trace import GroundingScreen, Move, Trace
from generators.tasks.world_interface import Observation, ScreenElement, WorldError
from generators.worlds.pages.own_pages import APPS
from generators.worlds.pages.page_task import evaluator
from generators.worlds.pages.page_tasks import FAMILIES, TITLES, PageTask, app_of, holds, make_task
from generators.worlds.pages.pages_world import PagesWorld, open_pages_world
from schemas.action_types import Click, Drag, Finished, Hotkey, Launch, PressBack, PressEnter, Scroll, Type, Wait
from schemas.actions import Action
from schemas.coordinates import point_to_unit

VARIANTS = 240
"""Draws of a family on one screen, to find its goals that differ in one entity."""
THOUGHTFUL = 1 / 3
GROUNDING_SEED = 31_000_000


class PageOracle:
    """Carries out a task's plan by unified actions, writing down screen and move before each."""

    def __init__(self, world: PagesWorld, goal: str, rng: Random) -> None:
        self.world = world
        self.goal = goal
        self.rng = rng
        self.thoughtful = rng.random() < THOUGHTFUL
        self.moves: list[Move] = []
        self.shots: list[Observation] = []

    def do(self, action: Action, words: str, element: ScreenElement | None = None) -> None:
        """Note the screen and the move, then act."""
        name = element.name or element.text if element else ""
        says = thought(action, self.goal, name, self.rng) if self.thoughtful else ""
        self.shots.append(self.world.observe())
        self.moves.append(Move(action, words, element.key if element else "", element.box if element else None, says))
        self.world.act(action)

    def reveal(self, key: str) -> ScreenElement:
        """Scroll until the element shows well. Raises `WorldError` after eight strokes."""
        for _ in range(8):
            found = next((e for e in self.world.pages.elements() if e.key == key), None)
            if found is not None and found.visible_share > 0.6 and (element := self.world._element(found)):
                return element
            where = self.world.pages.page.evaluate("key => vesperFind(key)", key)
            if where is None:
                raise WorldError(f"own pages: no element {key!r} on this screen")
            self._scroll("down" if where["bottom"] > where["viewBottom"] - 2 else "up", where)
        raise WorldError(f"own pages: {key!r} didn't come into view")

    def _scroll(self, direction: str, where: Mapping[str, float]) -> None:
        words = self.rng.choice((f"Scroll {direction} to see more", f"Scroll {direction}", "Look further"))
        if self.world.platform == "desktop":
            self.do(Scroll(direction=direction), words)
            return
        width, height = self.world.size_px
        view = where["viewBottom"] - where["viewTop"]
        # Relative to what scrolls, not the screen: a stroke on a fixed bar moves nothing.
        x, low = width * self.rng.uniform(0.4, 0.7), where["viewTop"] + view * self.rng.uniform(0.68, 0.85)
        points = [point_to_unit(p, (width, height)) for p in ((x, low), (x, low - view * self.rng.uniform(0.4, 0.55)))]
        start, end = points if direction == "down" else points[::-1]
        self.do(Scroll(start, end, direction), words)

    def tap(self, key: str) -> None:
        element = self.reveal(key)
        left, top, right, bottom = element.box
        x = int(left + (right - left) * self.rng.uniform(0.3, 0.7))
        y = int(top + (bottom - top) * self.rng.uniform(0.35, 0.65))
        verb = "Tap" if self.world.platform == "mobile" else "Click"
        name = element.name or element.text
        says = (f'{verb} "{name}"', f'{verb} on "{name}"', f'Press "{name}"')
        self.do(Click((x, y)), self.rng.choice(says), element)

    def type(self, key: str, text: str) -> None:
        self.reveal(key)
        # A field with the cursor needs no tap, which would be an odd step.
        if not any(e.key == key and e.focused for e in self.world.pages.elements()):
            self.tap(key)
        self.do(Type(text), self.rng.choice((f'Type "{text}"', f'Enter "{text}"', f'Write "{text}"')), self.reveal(key))

    def select(self, key: str, option: str) -> None:
        self.tap(key)
        self.tap(f"opt:{option}")

    def slide(self, key: str, percent: str) -> None:
        element = self.reveal(key)
        left, top, right, bottom = element.box
        target = (round(left + (right - left) * int(percent) / 100), round((top + bottom) / 2))
        # A touch on a slider's track sets it; a mouse drags the handle from where it is.
        words = f"Move the {element.name} slider"
        if self.world.platform == "mobile":
            self.do(Click(target), words, element)
            return
        now = self.world.pages.page.evaluate('k => +document.querySelector(`[data-k="${k}"]`).ariaValueNow', key)
        start = (round(left + (right - left) * int(now) / 100), target[1])
        self.do(Drag(start, target), words, element)

    def back(self) -> None:
        if self.world.platform == "mobile":
            self.do(PressBack(), "Go back to the previous screen")
        elif self.rng.random() < 0.4:
            self.do(Hotkey(("alt", "left")), "Go back with the keyboard")
        else:
            self.tap("up")

    def enter(self) -> None:
        self.do(PressEnter(), "Press enter")

    def run(self, task: PageTask, by_name: bool) -> None:
        """The whole plan, then Finished. Raises `WorldError` where it can't be carried out."""
        if task.entry and by_name:
            self.do(Launch(app=TITLES[task.app]), f"Open the {TITLES[task.app]} app")
        elif task.entry:
            self.tap(f"app:{task.app}")
        for verb, *args in task.plan:
            # Pages load after any step of the plan, so each step waits first.
            self.wait()
            getattr(self, verb)(*args)
        self.wait()
        self.do(Finished(), "The task is complete")

    def wait(self) -> None:
        if self.world.state()["loading"]:
            self.do(Wait(), "Wait until the page has loaded")


class OwnPagesRecorder:
    """Recorder of our own pages on a `phone` or a `desktop`."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.losses = Losses()

    def open(self) -> AbstractContextManager[PagesWorld]:
        return open_pages_world(self.kind)

    def record(self, world: PagesWorld, count: int, seed: int) -> Iterator[Trace]:
        """Families in turn; a screen that can't carry its family's task, or an oracle that fails, is skipped."""
        families, built, number = list(FAMILIES), 0, 0
        while built < count and number < 4 * count + 40:
            family = families[number % len(families)]
            try:
                trace = self._one(world, family, seed + number)
            except WorldError:
                trace = None
                self.losses.drop(f"own/{family}", "the oracle failed")
            number += 1
            if trace is not None:
                built += 1
                yield trace

    def _one(self, world: PagesWorld, family: str, seed: int) -> Trace | None:
        rng = Random(f"judge-bench/{self.kind}/{family}/{seed}")
        app, home = app_of(family), rng.random() < 0.5
        start = {"app": app, "seed": seed, "home": home and self.kind == "phone"}
        if home and self.kind == "desktop":
            # On a desktop the task starts in another app, since there is no home screen.
            start["app"] = rng.choice([other for other in APPS if other != app])
        world.reset(start)
        before = world.state()
        tasks = variants(family, before, f"{family}/{seed}")
        if not tasks:
            self.losses.drop(f"own/{family}", "the screen can't carry the task")
            return None
        # Sorted: the draw must not depend on the order in which variants were found.
        task = rng.choice([tasks[key] for key in sorted(tasks)])
        task = replace(task, entry=home)
        oracle = PageOracle(world, task.goal, rng)
        oracle.run(task, by_name=home and self.kind == "phone" and rng.random() < 0.5)
        end = world.state()
        # A goal that held before proves nothing: doing nothing would reach it too.
        if not holds(end, task.checks) or holds(before, task.checks):
            self.losses.drop(f"own/{family}", "the end doesn't prove the goal")
            return None
        return Trace(
            f"own/{self.kind}/{family}/{seed}",
            "own",
            f"own/{family}",
            world.platform,
            world.size_px,
            task.goal,
            tuple(oracle.moves),
            tuple(oracle.shots),
            start,
            evaluator(task.checks),
            end,
            TITLES[app],
            near_misses(task, tasks, end),
        )

    def grounding(self, world: PagesWorld, count: int, seed: int) -> Iterator[GroundingScreen]:
        """Screens after up to two random taps, with expressions for elements whose name is unique."""
        for number in range(count):
            rng = Random(f"judge-bench/grounding/{self.kind}/{seed + number}")
            app = APPS[number % len(APPS)]
            world.reset({"app": app, "seed": GROUNDING_SEED + seed + number, "home": False})
            for _ in range(rng.randrange(3)):
                seen = world.observe().elements
                # Keys of the system bar would leave the app.
                elements = [p for p in seen if p.clickable and p.key and not p.key.startswith("sys:")]
                if elements:
                    world.act(Click(rng.choice(elements).centre))
                    world.act(Wait())
            shot = world.observe()
            items = references(shot)
            if len(items) >= 4:
                uid = f"own/{self.kind}/grounding/{seed + number}"
                yield GroundingScreen(uid, "own", f"own/{app}", world.platform, world.size_px, shot, items)
            else:
                self.losses.drop(f"own/{app}", "grounding: fewer than four expressions")


def variants(family: str, state: dict[str, Any], name: str) -> dict[str, PageTask]:
    """Tasks of a family that a screen can carry, one for each set of slots: canonical slots → task."""
    found: dict[str, PageTask] = {}
    for draw in range(VARIANTS):
        task = make_task(family, state, Random(f"variants/{name}/{draw}"))
        if task is not None:
            found.setdefault(repr(sorted(task.slots.items())), task)
    return found


def near_misses(task: PageTask, tasks: Mapping[str, PageTask], end: dict[str, Any]) -> tuple[str, ...]:
    """Goals that differ from the task's in one slot and that the end state doesn't reach, in the task's own words."""
    goals = []
    words = task.templates[task.template]
    # Slots that this phrasing leaves out can't make its words differ.
    lines = [slot for slot in task.slots if f"{{{slot}}}" in words]
    for key in sorted(tasks):
        other = tasks[key]
        differ = [slot for slot in lines if other.slots.get(slot) != task.slots[slot]]
        if len(differ) == 1 and not holds(end, other.checks):
            goals.append(other.phrase(task.template))
    return tuple(goals)


def task_of(family: str, state: dict[str, Any], instruction: str) -> PageTask | None:
    """The family's task on this screen whose goal an instruction is, in any of its phrasings."""
    for task in variants(family, state, f"accept/{instruction}").values():
        if any(task.phrase(template).casefold() == instruction.casefold() for template in range(len(task.templates))):
            return task
    return None
