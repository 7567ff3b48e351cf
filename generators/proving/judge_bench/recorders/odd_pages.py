"""Hard negatives: sound episodes that look odd, on a small set of seeded apps for phone and desktop.

Kinds: a click on what is already selected, a password that shows dots, a refresh that changes nothing, repeated +1
clicks, waits, banners that move by themselves, toasts, scrolling back up, going back and forth between two pages, undo
and redo, an effect that comes one step late, long lists that look alike, the same button in every row.

Time on these pages is a count of actions: every `act` ends with a tick, so a trace performed again shows the same
pictures.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from generators.devices.browser import open_browser
from generators.proving.judge_bench.recorders.losses import Losses
from generators.proving.judge_bench.recorders.odd_oracle import OddOracle
from generators.proving.judge_bench.recorders.odd_scenarios import KINDS, SCENARIOS
from generators.proving.judge_bench.recorders.odd_world import OddWorld
from generators.proving.judge_bench.trace import GroundingScreen, Referred, Trace, reached
from generators.tasks.world_interface import Observation, WorldError
from generators.worlds.pages.own_pages import VIEWPORTS
from generators.worlds.pages.page_task import evaluator
from schemas.action_types import Click, Wait

FOLDER = Path(__file__).parent
MOVING = ("carousel", "ticker", "bars", "progress")
MOVING_ANYWAY = 0.15
"""Share of the other kinds' episodes in which a part of the page moves by itself."""
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
        turns, built, number = _turns(seed), 0, 0
        # A bound on the tries: where many screens can't carry their task,
        # fewer traces come rather than none ever.
        while built < count and number < 4 * count + 40:
            app, kind = turns[number % len(turns)]
            try:
                trace = self._one(world, app, kind, seed + number)
            except WorldError:
                trace = None
                self.losses.drop(f"odd/{app}", f"{kind}: the oracle failed")
            number += 1
            if trace is not None:
                built += 1
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
        # A goal that the start reaches already is reached by doing nothing.
        if task is None or reached(before, evaluator(task.checks)):
            self.losses.drop(f"odd/{app}", f"{kind}: the screen can't carry the task")
            return None
        oracle = OddOracle(world, task.goal, kind, moves, rng)
        oracle.run(task)
        end = world.state()
        if not reached(end, evaluator(task.checks)):
            self.losses.drop(f"odd/{app}", f"{kind}: the end doesn't prove the goal")
            return None
        # A goal that the end fulfils as well is no near miss: labelled so, it would be a wrong label.
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
        """Screens after up to two random taps; buttons that stand in every row are distinguished by what is beside."""
        apps = sorted(SCENARIOS)
        for number in range(count):
            rng = Random(f"judge-bench/odd/grounding/{self.kind}/{seed + number}")
            app = apps[number % len(apps)]
            world.reset(
                {"app": app, "seed": GROUNDING_SEED + seed + number, "anim": rng.choice(("", *MOVING)), "waits": 1}
            )
            for _ in range(rng.randrange(3)):
                elements = [element for element in world.observe().elements if element.clickable and element.key]
                world.act(Click(rng.choice(elements).centre))
                # A tap may start a load; its end is a tick away.
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
    for element in shot.elements:
        if not (element.clickable and element.name and element.key):
            continue
        name, _, beside = element.key.partition(":")
        # Elements without a key (bars that the phone draws) can't be meant, so they make no name ambiguous.
        if sum(other.name.lower() == element.name.lower() for other in shot.elements if other.key) == 1:
            if element.role == "button" and not element.text:
                odd[len(items)] = "tiny_icon"
            items.append(Referred(SAYS.get(element.role, "the {name} button").format(name=element.name), element))
        # Buttons of a row have a key "verb:row", which says what stands beside them.
        elif name in ("del", "ship", "add", "remove") and beside:
            odd[len(items)] = "alike"
            what = f"Order {beside}" if name == "ship" else beside
            items.append(Referred(f'the {element.name} button beside "{what}"', element))
    return tuple(items), odd
