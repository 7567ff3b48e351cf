"""Our own pages (phone and desktop) as a world of the judge bench: eight apps whose state says what was reached."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from random import Random
from typing import Any

from generators.environments.pages import APPS, Element, World, open_pages
from generators.environments.pages.tasks import FAMILIES, TITLES, Task, app_of, holds, make_task
from generators.environments.world import Observation, Place, WorldError
from generators.judge_bench.thoughts import thought
from generators.judge_bench.trace import GroundingScreen, Move, Referred, Trace
from schemas.action_types import (
    Click,
    DoubleClick,
    Drag,
    Finished,
    Hotkey,
    Hover,
    Launch,
    LongPress,
    PressBack,
    PressEnter,
    PressHome,
    Scroll,
    Type,
    Wait,
)
from schemas.actions import Action
from schemas.coordinates import OffScreen, box_to_unit, point_to_unit
from schemas.ids import digest

PLATFORM = {"phone": "mobile", "desktop": "desktop"}
WHEEL_PX = 250
VARIANTS = 240
"""Draws of a family on one screen, to find its goals that differ in one entity."""
THOUGHTFUL = 1 / 3
GROUNDING_SEED = 31_000_000
SAYS = {"listitem": 'the entry "{name}"', "switch": "the {name} switch", "tab": "the {name} tab",
        "textbox": "the {name} field", "checkbox": 'the box for "{name}"', "radio": "the option {name}"}  # fmt: skip


class OwnWorld:
    """One browser page that shows any of our apps (see `World`)."""

    name = "own"

    def __init__(self, pages: World, kind: str) -> None:
        self.pages = pages
        self.platform = PLATFORM[kind]
        self.size_px = (pages.viewport.width, pages.viewport.height)

    def reset(self, start: Mapping[str, Any]) -> None:
        """`start` = {"app", "seed", "home"}."""
        self.pages.start(start["app"], start["seed"], home=start["home"])

    def observe(self) -> Observation:
        places = (self._place(element) for element in self.pages.elements())
        return Observation(self.pages.screenshot(), tuple(p for p in places if p), digest(self.state()))

    def _place(self, element: Element) -> Place | None:
        try:
            box = box_to_unit(element.box, self.size_px)
        except OffScreen:
            return None
        return Place(tuple(box), element.role, element.text, element.name, element.key, element.clickable)  # type: ignore[arg-type]

    def state(self) -> dict[str, Any]:
        return self.pages.state()

    def pixel(self, point: Sequence[float]) -> tuple[float, float]:
        """A point of 0..1000 in CSS pixels, inside the screen."""
        width, height = self.size_px
        return min(point[0] * width / 1000, width - 1), min(point[1] * height / 1000, height - 1)

    def act(self, action: Action) -> None:
        """See `World.act`."""
        do = _ACTS.get(type(action))
        if do is None:
            raise WorldError(f"our pages on {self.platform} have no action {type(action).__name__}")
        do(self, action)

    def _click(self, action: Any) -> None:
        mouse = self.pages.page.mouse
        if isinstance(action, DoubleClick):
            mouse.dblclick(*self.pixel(action.box))
        else:
            mouse.click(*self.pixel(action.box))
        mouse.move(0, 0)

    def _scroll(self, action: Scroll) -> None:
        if self.platform == "mobile" and action.start and action.end:
            path = [*self.pixel(action.start), *self.pixel(action.end)]
            self.pages.page.evaluate("([a, b, c, d]) => vesperSwipe(a, b, c, d)", path)
            return
        down = {"down": 1, "up": -1}.get(action.direction)
        if down is None:
            return  # nothing scrolls sideways here
        page = self.pages.page
        seen = page.evaluate("vesperWheels()")
        page.mouse.move(*self.pixel((500, 500)))
        page.mouse.wheel(0, WHEEL_PX * down)
        page.wait_for_function("n => vesperWheels() > n", arg=seen, timeout=5000)
        page.mouse.move(0, 0)

    def _drag(self, action: Drag) -> None:
        mouse = self.pages.page.mouse
        mouse.move(*self.pixel(action.start))
        mouse.down()
        mouse.move(*self.pixel(action.end))
        mouse.up()
        mouse.move(0, 0)

    def _launch(self, action: Launch) -> None:
        app = next((app for app, title in TITLES.items() if title == action.app), None)
        if app is not None:  # an app that isn't there opens nothing
            self.pages.page.evaluate("app => vesperOpen(app)", app)

    def _hotkey(self, action: Hotkey) -> None:
        names = {"alt": "Alt", "left": "ArrowLeft", "ctrl": "Control", "shift": "Shift"}
        self.pages.page.keyboard.press("+".join(names.get(key, key) for key in action.keys))


_ACTS: dict[type, Callable[[OwnWorld, Any], object]] = {
    Click: OwnWorld._click, DoubleClick: OwnWorld._click, LongPress: OwnWorld._click, Scroll: OwnWorld._scroll,
    Drag: OwnWorld._drag, Launch: OwnWorld._launch, Hotkey: OwnWorld._hotkey,
    Hover: lambda world, action: world.pages.page.mouse.move(*world.pixel(action.box)),
    Type: lambda world, action: world.pages.page.keyboard.type(action.content),
    PressBack: lambda world, _: world.pages.page.evaluate("vesperBack()"),
    PressHome: lambda world, _: world.pages.page.evaluate("vesperHome()"),
    PressEnter: lambda world, _: world.pages.page.keyboard.press("Enter"),
    Wait: lambda world, _: world.pages.page.evaluate("vesperTick()"),
    Finished: lambda world, _: None,
}  # fmt: skip


class Oracle:
    """Carries out a task's plan by unified actions, writing down screen and move before each."""

    def __init__(self, world: OwnWorld, goal: str, rng: Random) -> None:
        self.world = world
        self.goal = goal
        self.rng = rng
        self.thoughtful = rng.random() < THOUGHTFUL
        self.moves: list[Move] = []
        self.shots: list[Observation] = []

    def do(self, action: Action, words: str, place: Place | None = None) -> None:
        """Note the screen and the move, then act."""
        name = place.name or place.text if place else ""
        says = thought(action, self.goal, name, self.rng) if self.thoughtful else ""
        self.shots.append(self.world.observe())
        self.moves.append(Move(action, words, place.key if place else "", place.box if place else None, says))
        self.world.act(action)

    def reveal(self, key: str) -> Place:
        """Scroll until the element shows well. Raises `WorldError` after eight strokes."""
        for _ in range(8):
            found = next((e for e in self.world.pages.elements() if e.key == key), None)
            if found is not None and found.visible_share > 0.6 and (place := self.world._place(found)):
                return place
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
        x, low = width * self.rng.uniform(0.4, 0.7), where["viewTop"] + view * self.rng.uniform(0.68, 0.85)
        points = [point_to_unit(p, (width, height)) for p in ((x, low), (x, low - view * self.rng.uniform(0.4, 0.55)))]
        start, end = points if direction == "down" else points[::-1]
        self.do(Scroll(start, end, direction), words)

    def tap(self, key: str) -> None:
        place = self.reveal(key)
        left, top, right, bottom = place.box
        x = int(left + (right - left) * self.rng.uniform(0.3, 0.7))
        y = int(top + (bottom - top) * self.rng.uniform(0.35, 0.65))
        verb = "Tap" if self.world.platform == "mobile" else "Click"
        name = place.name or place.text
        says = (f'{verb} "{name}"', f'{verb} on "{name}"', f'Press "{name}"')
        self.do(Click((x, y)), self.rng.choice(says), place)

    def type(self, key: str, text: str) -> None:
        self.reveal(key)
        if not any(e.key == key and e.focused for e in self.world.pages.elements()):
            self.tap(key)
        self.do(Type(text), self.rng.choice((f'Type "{text}"', f'Enter "{text}"', f'Write "{text}"')), self.reveal(key))

    def select(self, key: str, option: str) -> None:
        self.tap(key)
        self.tap(f"opt:{option}")

    def slide(self, key: str, percent: str) -> None:
        place = self.reveal(key)
        left, top, right, bottom = place.box
        target = (round(left + (right - left) * int(percent) / 100), round((top + bottom) / 2))
        words = f"Move the {place.name} slider"
        if self.world.platform == "mobile":
            self.do(Click(target), words, place)
            return
        now = self.world.pages.page.evaluate('k => +document.querySelector(`[data-k="${k}"]`).ariaValueNow', key)
        start = (round(left + (right - left) * int(now) / 100), target[1])
        self.do(Drag(start, target), words, place)

    def back(self) -> None:
        if self.world.platform == "mobile":
            self.do(PressBack(), "Go back to the previous screen")
        elif self.rng.random() < 0.4:
            self.do(Hotkey(("alt", "left")), "Go back with the keyboard")
        else:
            self.tap("up")

    def enter(self) -> None:
        self.do(PressEnter(), "Press enter")

    def run(self, task: Task, by_name: bool) -> None:
        """The whole plan, then Finished. Raises `WorldError` where it can't be carried out."""
        if task.entry and by_name:
            self.do(Launch(app=TITLES[task.app]), f"Open the {TITLES[task.app]} app")
        elif task.entry:
            self.tap(f"app:{task.app}")
        for verb, *args in task.plan:
            self.wait()
            getattr(self, verb)(*args)
        self.wait()
        self.do(Finished(), "The task is complete")

    def wait(self) -> None:
        if self.world.state()["loading"]:
            self.do(Wait(), "Wait until the page has loaded")


class OwnPages:
    """Recorder of our own pages on a `phone` or a `desktop`."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    @contextmanager
    def open(self) -> Iterator[OwnWorld]:
        with open_pages(self.kind) as pages:
            yield OwnWorld(pages, self.kind)

    def record(self, world: OwnWorld, count: int, seed: int) -> Iterator[Trace]:
        """Families in turn; a screen that can't carry its family's task, or an oracle that fails, is skipped."""
        families, made, number = list(FAMILIES), 0, 0
        while made < count and number < 4 * count + 40:
            family = families[number % len(families)]
            try:
                trace = self._one(world, family, seed + number)
            except WorldError:
                trace = None
            number += 1
            if trace is not None:
                made += 1
                yield trace

    def _one(self, world: OwnWorld, family: str, seed: int) -> Trace | None:
        rng = Random(f"judge-bench/{self.kind}/{family}/{seed}")
        app, home = app_of(family), rng.random() < 0.5
        start = {"app": app, "seed": seed, "home": home and self.kind == "phone"}
        if home and self.kind == "desktop":
            start["app"] = rng.choice([other for other in APPS if other != app])
        world.reset(start)
        before = world.state()
        tasks = variants(family, before, f"{family}/{seed}")
        if not tasks:
            return None
        task = rng.choice([tasks[key] for key in sorted(tasks)])
        task = replace(task, entry=home)
        oracle = Oracle(world, task.goal, rng)
        oracle.run(task, by_name=home and self.kind == "phone" and rng.random() < 0.5)
        end = world.state()
        if not holds(end, task.checks) or holds(before, task.checks):
            return None
        return Trace(
            f"own/{self.kind}/{family}/{seed}", "own", f"own/{family}", world.platform, world.size_px, task.goal,
            tuple(oracle.moves), tuple(oracle.shots), start, task.checks, end, TITLES[app],
            near_misses(task, tasks, end),
        )  # fmt: skip

    def grounding(self, world: OwnWorld, count: int, seed: int) -> Iterator[GroundingScreen]:
        """Screens after up to two random taps, with expressions for elements whose name is unique."""
        for number in range(count):
            rng = Random(f"judge-bench/grounding/{self.kind}/{seed + number}")
            app = APPS[number % len(APPS)]
            world.reset({"app": app, "seed": GROUNDING_SEED + seed + number, "home": False})
            for _ in range(rng.randrange(3)):
                places = [p for p in world.observe().places if p.clickable and p.key and not p.key.startswith("sys:")]
                if places:
                    world.act(Click(rng.choice(places).centre))
                    world.act(Wait())
            shot = world.observe()
            named = [p for p in shot.places if p.clickable and p.name and not p.key.startswith("sys:")]
            alone = [p for p in named if sum(q.name.lower() == p.name.lower() for q in shot.places) == 1]
            items = tuple(Referred(SAYS.get(p.role, "the {name} button").format(name=p.name), p) for p in alone)
            if len(items) >= 4:
                uid = f"own/{self.kind}/grounding/{seed + number}"
                yield GroundingScreen(uid, "own", f"own/{app}", world.platform, world.size_px, shot, items)


def variants(family: str, state: dict[str, Any], name: str) -> dict[str, Task]:
    """Tasks of a family that a screen can carry, one for each set of slots: canonical slots → task."""
    found: dict[str, Task] = {}
    for draw in range(VARIANTS):
        task = make_task(family, state, Random(f"variants/{name}/{draw}"))
        if task is not None:
            found.setdefault(repr(sorted(task.slots.items())), task)
    return found


def near_misses(task: Task, tasks: Mapping[str, Task], end: dict[str, Any]) -> tuple[str, ...]:
    """Goals that differ from the task's in one slot and that the end state doesn't reach, in the task's own words."""
    goals = []
    words = task.templates[task.template]
    told = [slot for slot in task.slots if f"{{{slot}}}" in words]
    for key in sorted(tasks):
        other = tasks[key]
        differ = [slot for slot in told if other.slots.get(slot) != task.slots[slot]]
        if len(differ) == 1 and not holds(end, other.checks):
            goals.append(other.phrase(task.template))
    return tuple(goals)
