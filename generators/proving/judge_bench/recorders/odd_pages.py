"""Hard negatives: sound episodes that look odd, on a small set of seeded apps for phone and desktop.

Kinds: a click on what is already selected, a password that shows dots, a refresh that changes nothing, repeated +1
clicks, waits, banners that move by themselves, toasts, scrolling back up, going back and forth between two pages, undo
and redo, an effect that comes one step late, long lists that look alike, the same button in every row.

Time on these pages is a count of actions: every `act` ends with a tick, so a trace performed again shows the same
pictures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from generators.devices.browser import Camera, evaluate_json, key_chord, open_browser
from generators.proving.judge_bench.recorders.losses import Losses
from generators.proving.judge_bench.recorders.odd_tasks import Do, OddTask
from generators.proving.judge_bench.recorders.odd_tasks_forms import KINDS, SCENARIOS
from generators.proving.judge_bench.recorders.thoughts import thought
from generators.proving.judge_bench.trace import GroundingScreen, Move, Referred, Trace, reached
from generators.tasks.world_interface import Observation, Place, UnsupportedAction, WorldError
from generators.worlds.pages import VIEWPORTS, Element, read_elements
from generators.worlds.pages.page_task import evaluator
from schemas.action_types import (
    CallUser,
    Click,
    DoubleClick,
    Drag,
    Finished,
    Hotkey,
    Hover,
    LongPress,
    PressBack,
    PressEnter,
    Scroll,
    Type,
    Wait,
)
from schemas.actions import Action
from schemas.coordinates import OffScreen, box_to_unit, point_to_unit
from schemas.ids import digest

if TYPE_CHECKING:
    from playwright.sync_api import Page

FOLDER = Path(__file__).parent
PLATFORM = {"phone": "mobile", "desktop": "desktop"}
WHEEL_PX = 250
THOUGHTFUL = 1 / 3
MOVING = ("carousel", "ticker", "bars", "progress")
MOVING_ANYWAY = 0.15
"""Share of the other kinds' episodes in which a part of the page moves by itself."""
SCROLLING = ("look_alike_list", "scroll_back")
SUITE = {
    "shop": "Store",
    "orders": "Store",
    "account": "Store",
    "inbox": "Office",
    "planner": "Office",
    "notes": "Office",
}
"""What an app says it belongs to."""
GROUNDING_SEED = 41_000_000
_SAYS: dict[str, tuple[str, ...]] = {
    "noop_selected": ('"{name}" seems to be selected already. I click it to make sure.',),
    "noop_password": (
        "The field hides what is typed; I type {text} all the same.",
        "I type the secret {text}; it shows as dots.",
    ),
    "noop_refresh": ("I refresh, although there may be nothing new.",),
    "repeated_click": ('The number isn\'t right yet: "{name}" once more.', 'I click "{name}" to add one.'),
    "late_effect": ("This may take effect a moment later. I go on.",),
    "undo_redo": ('The goal asks for this: I click "{name}".',),
    "same_buttons": ('Every row has "{name}"; I take the one beside {beside}.',),
    "scroll_back": ("I scroll {direction} as the goal asks.",),
}


class OddWorld:
    """One browser page that shows any of the apps (see `World`)."""

    name = "odd"

    def __init__(self, page: Page, kind: str) -> None:
        self.page = page
        self.kind = kind
        self.platform = PLATFORM[kind]
        viewport = VIEWPORTS[kind]
        self.size_px = (viewport.width, viewport.height)
        self._camera = Camera(page, viewport)

    def reset(self, start: Mapping[str, Any]) -> None:
        """`start` = {"app", "seed", "anim", "waits", "rows"}: anim as in `MOVING` or "", waits = actions that loading
        lasts, rows = whether every row of a list surely has its button."""
        self.page.mouse.move(0, 0)
        self.page.evaluate("config => oddStart(config)", {**start, "platform": self.kind})

    def elements(self) -> list[Element]:
        return read_elements(self.page)

    def observe(self) -> Observation:
        places = (self.place(element) for element in self.elements())
        return Observation(self._camera.shoot(), tuple(place for place in places if place), digest(self.state()))

    def place(self, element: Element) -> Place | None:
        """An element in the frame of the schema; a secret shows as dots, as on the screen."""
        try:
            box = box_to_unit(element.box, self.size_px)
        except OffScreen:
            return None
        text = "•" * len(element.value) if "secret" in element.classes else element.text
        return Place(tuple(box), element.role, text, element.name, element.key, element.clickable)  # type: ignore[arg-type]

    def state(self) -> dict[str, Any]:
        state: dict[str, Any] = evaluate_json(self.page, "oddState()")
        return state

    def pixel(self, point: Sequence[float]) -> tuple[float, float]:
        """A point of 0..1000 in CSS pixels, inside the screen."""
        width, height = self.size_px
        return min(point[0] * width / 1000, width - 1), min(point[1] * height / 1000, height - 1)

    def act(self, action: Action) -> None:
        """See `World.act`; every action but Finished and CallUser lets one tick pass."""
        if isinstance(action, Finished | CallUser):
            return
        do = _ACTS.get(type(action))
        if do is None:
            raise UnsupportedAction(f"the odd pages on {self.platform} have no action {type(action).__name__}")
        do(self, action)
        self.page.evaluate("oddTick()")

    def _click(self, action: Any) -> None:
        mouse = self.page.mouse
        (mouse.dblclick if isinstance(action, DoubleClick) else mouse.click)(*self.pixel(action.box))
        mouse.move(0, 0)

    def _scroll(self, action: Scroll) -> None:
        if self.platform == "mobile" and action.start and action.end:
            (x, y), (_, y2) = self.pixel(action.start), self.pixel(action.end)
            path = [x, y, y - y2]
        else:
            path = [*self.pixel((500, 500)), {"down": WHEEL_PX, "up": -WHEEL_PX}.get(action.direction, 0)]
        self.page.evaluate("([x, y, dy]) => oddScroll(x, y, dy)", path)

    def _hotkey(self, action: Hotkey) -> None:
        if tuple(key.lower() for key in action.keys) == ("alt", "left"):
            self.page.evaluate("oddBack()")
            return
        self.page.keyboard.press(key_chord(action.keys))


_ACTS: dict[type, Callable[[OddWorld, Any], object]] = {
    Click: OddWorld._click,
    DoubleClick: OddWorld._click,
    LongPress: OddWorld._click,
    Scroll: OddWorld._scroll,
    Hotkey: OddWorld._hotkey,
    Type: lambda world, action: world.page.keyboard.type(action.content),
    PressEnter: lambda world, _: world.page.keyboard.press("Enter"),
    PressBack: lambda world, _: world.page.evaluate("oddBack()"),
    Hover: lambda world, _: None,  # nothing shows a hover
    Drag: lambda world, _: None,  # nothing can be dragged
    Wait: lambda world, _: None,  # the tick does it
}


class OddOracle:
    """Carries out a plan by unified actions, writing down screen and move before each."""

    def __init__(self, world: OddWorld, goal: str, kind: str, moving: bool, rng: Random) -> None:
        self.world = world
        self.goal = goal
        self.kind = kind
        self.moving = moving
        self.rng = rng
        self.thoughtful = rng.random() < THOUGHTFUL
        self.moves: list[Move] = []
        self.shots: list[Observation] = []

    def note(self, action: Action, words: str, place: Place | None = None, odd: str = "", beside: str = "") -> None:
        """Note the screen and the move, then act."""
        name = (place.name or place.text) if place else ""
        says = self._thought(action, odd, name, beside) if self.thoughtful else ""
        if self.moving and not isinstance(action, Finished):
            odd = odd or "animation"
        self.shots.append(self.world.observe())
        self.moves.append(Move(action, words, place.key if place else "", place.box if place else None, says, odd))
        self.world.act(action)

    def _thought(self, action: Action, odd: str, name: str, beside: str) -> str:
        if odd not in _SAYS or isinstance(action, Wait | PressBack) or (odd == "scroll_back" and name):
            return thought(action, self.goal, name, self.rng)
        text = f'"{getattr(action, "content", "")}"'
        direction = getattr(action, "direction", "")
        return self.rng.choice(_SAYS[odd]).format(name=name, text=text, beside=f'"{beside}"', direction=direction)

    def reveal(self, key: str) -> Place:
        """Scroll until the element shows well. Raises `WorldError` if it doesn't."""
        for _ in range(14):
            found = next((e for e in self.world.elements() if e.key == key), None)
            if found is not None and found.visible_share > 0.7 and (place := self.world.place(found)):
                return place
            where = self.world.page.evaluate("key => oddFind(key)", key)
            if where is None:
                raise WorldError(f"the odd pages: no element {key!r} on this screen")
            down = where["bottom"] > where["viewBottom"] - 2
            if not down and where["top"] >= where["viewTop"]:
                break  # covered by a toast
            self.scroll("down" if down else "up")
        raise WorldError(f"the odd pages: {key!r} didn't come into view")

    def scroll(self, direction: str) -> None:
        words = self.rng.choice((f"Scroll {direction}", f"Scroll {direction} to see more", "Look further"))
        odd = self.kind if self.kind in SCROLLING else ""
        if self.world.platform == "desktop":
            self.note(Scroll(direction=direction), words, odd=odd)
            return
        width, height = self.world.size_px
        x, low = width * self.rng.uniform(0.4, 0.7), height * self.rng.uniform(0.72, 0.8)
        ends = [point_to_unit(p, (width, height)) for p in ((x, low), (x, low - height * self.rng.uniform(0.4, 0.5)))]
        start, end = ends if direction == "down" else ends[::-1]
        self.note(Scroll(start, end, direction), words, odd=odd)

    def tap(self, do: Do) -> None:
        place = self.reveal(do.key)
        left, top, right, bottom = place.box
        x = int(left + (right - left) * self.rng.uniform(0.3, 0.7))
        y = int(top + (bottom - top) * self.rng.uniform(0.35, 0.65))
        verb = "Tap" if self.world.platform == "mobile" else "Click"
        name = place.name or place.text
        says = (f'{verb} "{name}"', f'{verb} on "{name}"', f'Press "{name}"')
        words = self.rng.choice(says) + (f' beside "{do.beside}"' if do.beside else "")
        self.note(Click((x, y)), words, place, do.odd, do.beside)

    def write(self, do: Do) -> None:
        self.reveal(do.key)
        if not any(e.key == do.key and e.focused for e in self.world.elements()):
            self.tap(Do("tap", do.key))
        says = (f'Type "{do.text}"', f'Enter "{do.text}"', f'Write "{do.text}"')
        self.note(Type(do.text), self.rng.choice(says), self.reveal(do.key), do.odd)

    def back(self, do: Do) -> None:
        if self.world.platform == "mobile" and self.rng.random() < 0.6:
            self.note(PressBack(), "Go back to the previous screen", odd=do.odd)
        elif self.world.platform == "desktop" and self.rng.random() < 0.4:
            self.note(Hotkey(("alt", "left")), "Go back with the keyboard", odd=do.odd)
        else:
            self.tap(Do("tap", "back", odd=do.odd))

    def wait(self, do: Do) -> None:
        self.note(Wait(), "Wait for a moment", odd=do.odd or "wait")

    def bottom(self, do: Do) -> None:
        while not self.world.state()["ends"].get("main"):
            if len(self.moves) > 14:
                raise WorldError("the odd pages: the list has no end within 14 strokes")
            self.scroll("down")

    def top(self, do: Do) -> None:
        while self.world.page.evaluate("document.getElementById('view').scrollTop") > 0:
            self.scroll("up")

    def run(self, task: OddTask) -> None:
        """The plan, waiting wherever the page loads, then Finished. Raises `WorldError` where it can't be done."""
        for do in task.plan:
            getattr(self, do.verb)(do)
            while self.world.state()["loading"]:
                self.wait(Do("wait"))
        self.note(Finished(), "The task is complete")


class OddPages:
    """Recorder of the odd pages on a `phone` or a `desktop`."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.losses = Losses()

    @contextmanager
    def open(self) -> Iterator[OddWorld]:
        with open_browser(VIEWPORTS[self.kind]) as context:
            page = context.new_page()
            page.goto((FOLDER / "odd_pages.html").as_uri())
            yield OddWorld(page, self.kind)

    def record(self, world: OddWorld, count: int, seed: int) -> Iterator[Trace]:
        """Kinds in turn, each in its apps in turn. A screen that can't carry its task, or whose message covers what
        is needed next, is skipped."""
        turns, made, number = _turns(seed), 0, 0
        while made < count and number < 4 * count + 40:
            app, kind = turns[number % len(turns)]
            try:
                trace = self._one(world, app, kind, seed + number)
            except WorldError:
                trace = None
                self.losses.drop(f"odd/{app}", f"{kind}: the oracle failed")
            number += 1
            if trace is not None:
                made += 1
                yield trace

    def _one(self, world: OddWorld, app: str, kind: str, seed: int) -> Trace | None:
        rng = Random(f"judge-bench/odd/{self.kind}/{app}/{kind}/{seed}")
        moves = kind == "animation" or rng.random() < MOVING_ANYWAY
        waits = rng.randint(2, 3) if kind == "wait" else rng.randint(1, 2)
        start = {
            "app": app,
            "seed": seed,
            "anim": rng.choice(MOVING) if moves else "",
            "waits": waits,
            "rows": kind == "same_buttons",
        }
        world.reset(start)
        before = world.state()
        task = SCENARIOS[app][kind](before, rng)
        if task is None or reached(before, evaluator(task.checks)):
            self.losses.drop(f"odd/{app}", f"{kind}: the screen can't carry the task")
            return None
        oracle = OddOracle(world, task.goal, kind, moves, rng)
        oracle.run(task)
        end = world.state()
        if not reached(end, evaluator(task.checks)):
            self.losses.drop(f"odd/{app}", f"{kind}: the end doesn't prove the goal")
            return None
        near = tuple(dict.fromkeys(goal for goal, checks in task.near if not reached(end, evaluator(checks))))
        uid = f"odd/{self.kind}/{app}.{kind}/{seed}"
        return Trace(
            uid,
            "odd",
            f"odd/{app}",
            world.platform,
            world.size_px,
            task.goal,
            tuple(oracle.moves),
            tuple(oracle.shots),
            start,
            evaluator(task.checks),
            end,
            SUITE[app],
            near,
            kind,
        )

    def grounding(self, world: OddWorld, count: int, seed: int) -> Iterator[GroundingScreen]:
        """Screens after up to two random taps; buttons that stand in every row are told apart by what is beside."""
        apps = sorted(SCENARIOS)
        for number in range(count):
            rng = Random(f"judge-bench/odd/grounding/{self.kind}/{seed + number}")
            app = apps[number % len(apps)]
            world.reset(
                {"app": app, "seed": GROUNDING_SEED + seed + number, "anim": rng.choice(("", *MOVING)), "waits": 1}
            )
            for _ in range(rng.randrange(3)):
                places = [place for place in world.observe().places if place.clickable and place.key]
                world.act(Click(rng.choice(places).centre))
                world.act(Wait())
            shot = world.observe()
            items, odd = _expressions(shot)
            if len(items) >= 4:
                uid = f"odd/{self.kind}/grounding/{seed + number}"
                yield GroundingScreen(uid, "odd", f"odd/{app}", world.platform, world.size_px, shot, items, odd)
            else:
                self.losses.drop(f"odd/{app}", "grounding: fewer than four expressions")


def _turns(seed: int) -> list[tuple[str, str]]:
    """(app, kind): each kind once with one of its apps, then each once more with another, and so on."""
    rng = Random(f"judge-bench/odd/turns/{seed}")
    apps = {
        kind: rng.sample(found, len(found))
        for kind in KINDS
        if (found := [app for app in sorted(SCENARIOS) if kind in SCENARIOS[app]])
    }
    rounds = max(len(found) for found in apps.values())
    return [(apps[kind][turn], kind) for turn in range(rounds) for kind in KINDS if turn < len(apps[kind])]


SAYS = {
    "listitem": 'the entry "{name}"',
    "tab": "the {name} tab",
    "textbox": "the {name} field",
    "radio": "the option {name}",
}


def _expressions(shot: Observation) -> tuple[tuple[Referred, ...], dict[int, str]]:
    """Expressions that mean one element each, and which of them are hard: icons without words, buttons alike."""
    items: list[Referred] = []
    odd: dict[int, str] = {}
    for place in shot.places:
        if not (place.clickable and place.name and place.key):
            continue
        name, _, beside = place.key.partition(":")
        if sum(other.name.lower() == place.name.lower() for other in shot.places if other.key) == 1:
            if place.role == "button" and not place.text:
                odd[len(items)] = "tiny_icon"
            items.append(Referred(SAYS.get(place.role, "the {name} button").format(name=place.name), place))
        elif name in ("del", "ship", "add", "remove") and beside:
            odd[len(items)] = "alike"
            what = f"Order {beside}" if name == "ship" else beside
            items.append(Referred(f'the {place.name} button beside "{what}"', place))
    return tuple(items), odd
