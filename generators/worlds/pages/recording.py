"""Neutral recorded episodes: scripted oracles that act in a real Chromium with real mouse and keyboard events.

A `EpisodeRecorder` carries out a task's plan on `OwnPages`, taking the screen before every action. What it writes down
is what was done (pixels of the screen, origin top left), and success is read from the page's own state, never assumed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Literal

from generators.devices.browser import evaluate_json
from generators.worlds.pages import step_phrases as phrases
from generators.worlds.pages.own_pages import APPS, OwnPages, PageElement
from generators.worlds.pages.page_tasks import TITLES, PageTask, app_of, holds, make_task

Point = tuple[int, int]
Box = tuple[float, float, float, float]
Kind = Literal[
    "tap",
    "type",
    "swipe",
    "wheel",
    "drag",
    "back",
    "home",
    "enter",
    "wait",
    "open_app",
    "select",
    "hotkey",
    "done",
    "impossible",
    "unknown",
]


@dataclass(frozen=True)
class RecordedAct:
    """One action in pixels of its screen. `direction` is what the view does (down = shows what lies below)."""

    kind: Kind
    point: Point | None = None
    end: Point | None = None
    text: str = ""
    direction: str = ""
    amount: int = 0  # wheel notches
    keys: tuple[str, ...] = ()
    key: str = ""  # the element that was meant
    name: str = ""
    role: str = ""
    box: Box | None = None


@dataclass(frozen=True)
class DomNode:
    """One DOM element of a web page, for sources that carry HTML; `rect` = x, y, width, height on the whole page."""

    uid: int
    tag: str
    attributes: dict[str, str]
    rect: tuple[float, float, float, float]
    key: str
    text: str
    clickable: bool


@dataclass(frozen=True)
class WebPage:
    """The page at a step: whole-page screenshot (as the step's `png`), its size, its HTML and nodes."""

    width: int
    height: int
    raw_html: str
    cleaned_html: str
    nodes: tuple[DomNode, ...]


@dataclass(frozen=True)
class RecordedStep:
    """A screen, what was done on it, and the same in words; `broken` marks a picture that was damaged on purpose."""

    png: bytes
    elements: tuple[PageElement, ...]
    act: RecordedAct
    instruction: str
    web: WebPage | None = None


@dataclass(frozen=True)
class RecordedEpisode:
    """A recorded task. The last step is always `done` or `impossible` on the final screen."""

    uid: str
    task: PageTask
    goal: str
    width: int
    height: int
    app: str
    steps: tuple[RecordedStep, ...]
    seed: int
    split: str = "train"


class OracleError(RuntimeError):
    """The scripted oracle couldn't find what its plan names; such a recording is dropped and counted."""


SWIPE_SHARE = 0.5  # of the view's height, a finger's stroke
WHEEL_PX = 100  # a notch
DONE = RecordedAct("done")


class EpisodeRecorder:
    """Carries out one task's plan. `world.platform` decides how: a finger, a mouse, or whole web pages. Without
    `pictures` the steps hold none: taking them is a third of the time."""

    def __init__(self, world: OwnPages, rng: Random, pictures: bool = True) -> None:
        self.world, self.pictures = world, pictures
        self.page = world.page
        self.rng = rng
        self.steps: list[RecordedStep] = []
        self.web = world.platform == "web"
        self._looked: list[PageElement] | None = None
        """What `_element` read; good for the next `_note`, for nothing is done between the two."""

    # --- looking -------------------------------------------------------------------------------------------------
    def _element(self, key: str) -> PageElement | None:
        # What was read here is good for the note that follows: reading twice costs as much as acting.
        self._looked = self.world.elements()
        found = [e for e in self._looked if e.key == key]
        return found[0] if found else None

    def _note(self, act: RecordedAct) -> None:
        """Write down the screen as it stands and what is about to be done on it."""
        # The words are drawn even where nobody keeps them, so that the stream of chance stays the same.
        words = phrases.instruction(act, self.rng, self.world.platform)
        elements, self._looked = self._looked or self.world.elements(), None
        if not self.web:
            picture = self.world.screenshot() if self.pictures else b""
            self.steps.append(RecordedStep(picture, tuple(elements), act, words))
            return
        web = read_web_page(self.world)
        down = float(self.page.evaluate("scrollY"))
        moved = tuple(replace(e, box=lower(e.box, down)) for e in elements)
        if act.point is not None and act.box is not None:
            act = replace(act, point=(act.point[0], round(act.point[1] + down)), box=lower(act.box, down))
        self.steps.append(RecordedStep(self.world.screenshot(full_page=True), moved, act, words, web))

    # --- acting --------------------------------------------------------------------------------------------------
    def wait_while_loading(self) -> None:
        if self.world.state()["loading"]:
            self._note(RecordedAct("wait"))
            self.page.evaluate("vesperTick()")

    def reveal(self, key: str) -> PageElement:
        """Scroll, as a person would, until the element named `key` shows; raises OracleError after eight strokes."""
        # Eight strokes reach the end of every page of ours.
        for _ in range(8):
            found = self._element(key)
            if found is not None and found.visible_share > 0.6:
                return found
            where = self.page.evaluate("key => vesperFind(key)", key)
            if where is None:
                raise OracleError(f"{self.world.platform}: no element {key!r} on this screen")
            self._scroll("down" if where["bottom"] > where["viewBottom"] - 2 else "up", where)
        raise OracleError(f"{self.world.platform}: {key!r} didn't come into view")

    def _scroll(self, direction: str, where: dict[str, float]) -> None:
        top, bottom = where["viewTop"], where["viewBottom"]
        width, height = self.world.viewport.width, bottom - top
        x = round(width * self.rng.uniform(0.4, 0.7))
        if self.world.platform == "phone":
            y = round(top + height * self.rng.uniform(0.68, 0.85))
            far = round(y - height * SWIPE_SHARE * self.rng.uniform(0.8, 1.1))
            start, end = ((x, y), (x, far)) if direction == "down" else ((x, far), (x, y))
            self._note(RecordedAct("swipe", point=start, end=end, direction=direction))
            self.page.evaluate("([a, b, c, d]) => vesperSwipe(a, b, c, d)", [*start, *end])
        elif self.web:
            self.page.evaluate("dy => scrollBy(0, dy)", 300 if direction == "down" else -300)
        else:
            # One or two notches don't bring a new element into view on our pages.
            y = round(top + height / 2)
            notches = self.rng.randint(2, 3)
            self._note(RecordedAct("wheel", point=(x, y), direction=direction, amount=notches))
            seen = self.page.evaluate("vesperWheels()")
            self.page.mouse.move(x, y)
            self.page.mouse.wheel(0, WHEEL_PX * notches * (1 if direction == "down" else -1))
            self.page.wait_for_function("n => vesperWheels() > n", arg=seen, timeout=5000)

    def point_in(self, element: PageElement) -> Point:
        """A point in the inner part of the element's visible box, as a finger or a mouse would hit it."""
        left, top, right, bottom = element.box
        x = left + (right - left) * self.rng.uniform(0.25, 0.75)
        y = top + (bottom - top) * self.rng.uniform(0.3, 0.7)
        return int(x), int(y)

    def tap(self, key: str) -> None:
        element = self.reveal(key)
        point = self.point_in(element)
        self._note(self._aimed("tap", element, point))
        self._press(point)

    def _aimed(self, kind: Kind, element: PageElement, point: Point, **more: Any) -> RecordedAct:
        return RecordedAct(
            kind, point=point, key=element.key, name=element.name, role=element.role, box=element.box, **more
        )

    def _press(self, point: Point) -> None:
        self.page.mouse.click(*point)
        self.page.mouse.move(0, 0)

    def type(self, key: str, text: str) -> None:
        """On the web one step, as Mind2Web records it; elsewhere a tap on the field (unless focused), then text."""
        element = self.reveal(key)
        if self.web:
            point = self.point_in(element)
            self._note(self._aimed("type", element, point, text=text))
            self._press(point)
        else:
            if not element.focused:
                self.tap(key)
            element = self.reveal(key)
            self._note(RecordedAct("type", text=text, key=key, name=element.name, role=element.role, box=element.box))
        self.page.keyboard.type(text)

    def select(self, key: str, option: str) -> None:
        if self.web:
            element = self.reveal(key)
            self._note(self._aimed("select", element, self.point_in(element), text=option))
            self.page.locator(f'[data-k="{key}"]').select_option(option)
            return
        self.tap(key)
        self.tap(f"opt:{option}")

    def slide(self, key: str, percent: int) -> None:
        element = self.reveal(key)
        left, top, right, bottom = element.box
        target = (round(left + (right - left) * percent / 100), round((top + bottom) / 2))
        if self.world.platform == "desktop":
            # From where the knob is now, which a mouse has to grab.
            now = int(self.page.evaluate('key => +document.querySelector(`[data-k="${key}"]`).ariaValueNow', key))
            start = (round(left + (right - left) * now / 100), target[1])
            self._note(self._aimed("drag", element, start, end=target))
            self.page.mouse.move(*start)
            self.page.mouse.down()
            self.page.mouse.move(*target)
            self.page.mouse.up()
            self.page.mouse.move(0, 0)
        else:
            self._note(self._aimed("tap", element, target))
            self._press(target)

    def back(self) -> None:
        if self.world.platform == "desktop" and self.rng.random() < 0.4:
            self._note(RecordedAct("hotkey", keys=("alt", "left")))
            self.page.keyboard.press("Alt+ArrowLeft")
        elif self.world.platform == "phone":
            self._note(RecordedAct("back"))
            self.page.evaluate("vesperBack()")
        else:
            self.tap("up")

    def enter(self) -> None:
        self._note(RecordedAct("enter"))
        self.page.keyboard.press("Enter")

    def open_app(self, app: str, *, by_name: bool) -> None:
        """From the phone's launcher or the desktop's task bar; `by_name` as a system call without a tap."""
        if by_name:
            self._note(RecordedAct("open_app", text=TITLES[app], name=TITLES[app]))
            self.page.evaluate("app => vesperOpen(app)", app)
        else:
            self.tap(f"app:{app}")

    def run(self, task: PageTask, *, by_name: bool) -> bool:
        """The whole task; True if the page's state says that it was done."""
        if task.entry:
            self.open_app(task.app, by_name=by_name)
        for intent in task.plan:
            self.wait_while_loading()
            verb, *args = intent
            if verb == "slide":
                self.slide(args[0], int(args[1]))
            else:
                getattr(self, verb)(*args)
        self.wait_while_loading()
        # On the final screen, whatever came of it; whether it was done is read below.
        self._note(DONE)
        return holds(self.world.state(), task.checks)


def lower(box: Box, down: float) -> Box:
    """A box of the viewport in the frame of the whole page."""
    return box[0], box[1] + down, box[2], box[3] + down


def read_web_page(world: OwnPages) -> WebPage:
    """HTML and nodes of the page in whole-page CSS pixels, in one call."""
    raw = evaluate_json(world.page, "vesperPage()")
    nodes = tuple(
        DomNode(n["uid"], n["tag"], n["attributes"], tuple(n["rect"]), n["key"], n["text"], n["clickable"])
        for n in raw["nodes"]
    )
    return WebPage(raw["width"], raw["height"], raw["raw"], raw["cleaned"], nodes)


@dataclass(frozen=True)
class RecordingPlan:
    """What to record: platform and families in turn, seeds from `first_seed` on (sources keep apart by their seeds)."""

    platform: str
    families: tuple[str, ...]
    count: int
    first_seed: int
    by_name: bool = False  # open apps by a system call, as AndroidControl does


@dataclass
class OracleTally:
    """How the oracles did; `failed` holds the reasons."""

    tried: int = 0
    failed: list[str] = field(default_factory=list)

    @property
    def success_rate(self) -> float:
        return 1 - len(self.failed) / self.tried if self.tried else 1.0


ENTRY_SHARE = 0.6  # of the other tasks: they start outside the app as well
SHORT = ("mail.star", "settings.switch", "settings.slider")  # one step inside the app, so they start outside it


def record_one(world: OwnPages, family: str, seed: int, plan: RecordingPlan, pictures: bool = True) -> RecordedEpisode:
    """One task of `family` on the screen of `seed`, for a web page always with its pictures. Raises OracleError if the
    plan can't be carried out."""
    rng = Random(f"{family}/{seed}")
    app = app_of(family)
    # A task of one step alone would leave an episode of a single screen.
    entry = plan.platform != "web" and (family in SHORT or rng.random() < ENTRY_SHARE)
    if entry and plan.platform == "desktop":
        world.start(rng.choice([a for a in APPS if a != app]), seed)
    else:
        world.start(app, seed, home=entry)
    task = make_task(family, world.state(), rng)
    if task is None:
        raise OracleError(f"{family}: screen {seed} can't carry the task")
    task = replace(task, entry=entry)
    recorder = EpisodeRecorder(world, rng, pictures)
    # Only successes are kept as recorded: a slip of the oracle's isn't data.
    if not recorder.run(task, by_name=plan.by_name and entry):
        raise OracleError(f"{family}: seed {seed}: the final state doesn't hold {task.checks}")
    size = world.viewport
    return RecordedEpisode(
        uid=str(seed),
        task=task,
        goal=task.goal,
        width=size.width,
        height=size.height,
        app=app,
        steps=tuple(recorder.steps),
        seed=seed,
    )


def record(world: OwnPages, plan: RecordingPlan, tally: OracleTally | None = None) -> list[RecordedEpisode]:
    """`plan.count` episodes; a seed whose oracle fails is counted in `tally` and the next seed is tried."""
    tally = tally if tally is not None else OracleTally()
    episodes: list[RecordedEpisode] = []
    seed = plan.first_seed
    while len(episodes) < plan.count:
        # By the seed and not by the count: a family whose oracle fails doesn't shift the others.
        family = plan.families[seed % len(plan.families)]
        tally.tried += 1
        try:
            episodes.append(record_one(world, family, seed, plan))
        except OracleError as error:
            tally.failed.append(str(error))
            # More failures than episodes: the oracle is broken, not unlucky.
            if len(tally.failed) > 10 + plan.count:
                raise
        seed += 1
    return episodes


def split_of(index: int, count: int) -> str:
    """The last 15 % of the episodes are test, the 10 % before them validation: whole episodes, screens stay apart."""
    # From the end, so that recording more episodes leaves the earlier ones in train.
    test = max(1, round(count * 0.15))
    held = test + (max(1, round(count * 0.1)) if count > 3 else 0)
    if index >= count - test:
        return "test"
    return "validation" if index >= count - held else "train"


def with_splits(episodes: Sequence[RecordedEpisode]) -> list[RecordedEpisode]:
    return [replace(e, split=split_of(i, len(episodes))) for i, e in enumerate(episodes)]
