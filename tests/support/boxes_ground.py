"""A ground of the staircase without a browser: coloured boxes on white, to be clicked in the goal's order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any

from drawn import COLOURS, draw

from generators.policies.oracles.oracle import Advice, Oracle, click_on
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import Observation, ScreenElement, World
from schemas.actions import Action, Click
from schemas.ids import digest
from trainer.proving.staircase.tasks import Family, StaircaseWorld

SIZE = (96, 128)
PLACES = [(8, 8), (52, 8), (8, 72), (52, 72)]


class BoxesWorld:
    """`start` = {"seed", "wanted"}; a wrong click does nothing."""

    name, platform, size_px = "boxes", "web", SIZE

    def reset(self, start: Mapping[str, Any]) -> None:
        order = Random(start["seed"]).sample(sorted(COLOURS), len(COLOURS))
        self.boxes = {name: (x, y, x + 36, y + 44) for name, (x, y) in zip(order, PLACES, strict=True)}
        self.wanted, self.clicked = list(start["wanted"]), 0

    def observe(self) -> Observation:
        png = draw({name: box for name, box in self.boxes.items() if name not in self.wanted[: self.clicked]}, SIZE)
        return Observation(png, self.elements(), digest(self.state()))

    def elements(self) -> tuple[ScreenElement, ...]:
        shown = [name for name in self.boxes if name not in self.wanted[: self.clicked]]
        wide, high = SIZE
        return tuple(
            ScreenElement(
                (l * 1000 / wide, t * 1000 / high, r * 1000 / wide, b * 1000 / high), "button", name, name, name
            )
            for name in shown
            for l, t, r, b in [self.boxes[name]]
        )

    def act(self, action: Action) -> None:
        if isinstance(action, Click) and self.clicked < len(self.wanted):
            left, top, right, bottom = self.boxes[self.wanted[self.clicked]]
            x, y = action.box[0] * SIZE[0] / 1000, action.box[1] * SIZE[1] / 1000
            self.clicked += left <= x <= right and top <= y <= bottom

    def state(self) -> dict[str, Any]:
        return {"done": self.clicked == len(self.wanted), "next": self.wanted[self.clicked : self.clicked + 1]}


class BoxesGuide:
    def begin(self, contract: TaskSpec) -> None:
        """Nothing to remember."""

    def next(self, elements: Sequence[ScreenElement], state: Mapping[str, Any], last: Action | None) -> Advice:
        wanted = next((element for element in elements if element.name in state["next"]), None)
        return Advice(done=True) if wanted is None else Advice(click_on(wanted), wanted.role, wanted.name)


def boxes_episode(family: Family, seed: int, world: World) -> TaskSpec:
    count = 2 if family.kind == "two" else 1
    wanted = Random(f"wanted/{seed}").sample(sorted(COLOURS), count)
    start = {"world": "boxes", "seed": seed, "wanted": wanted}
    rule = {"rule": "page_state", "checks": [["done", True]]}
    return TaskSpec(f"Click the boxes {', '.join(wanted)}", "web", family.name, start, rule, count)


@contextmanager
def open_boxes() -> Iterator[Any]:
    yield BoxesWorld()


def _families() -> list[Family]:
    return [Family("boxes/one"), Family("boxes/two"), Family("boxes/other", held_out=True)]


def _guide(contract: TaskSpec, world: World) -> Oracle:
    return BoxesGuide()


BOXES = StaircaseWorld("web", open_boxes, _families, boxes_episode, _guide)
