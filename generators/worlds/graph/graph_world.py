"""The world of a screen graph: a phone's app in which every icon opens a screen; thousands of steps a second, without a
browser."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from generators.tasks.world_interface import Observation, UnsupportedAction, WorldError
from generators.worlds.graph.drawing import SIZE, drawn
from generators.worlds.graph.screen_graph import make_graph
from generators.worlds.hit_test import under
from schemas.action_types import CallUser, Click, Finished, PressBack, PressHome, TakeNote, Wait
from schemas.actions import Action

SIZES = {"seed": 0, "screens": 12, "icons": 5, "at": 0}
"""Numbers of a start, and what they are where it doesn't say."""


class GraphWorld:
    """`start` = {"world": "graph", "seed", "screens", "icons", "at", "labels"}: which graph, the screen that is shown,
    and whether icons say what they open. A click on an icon opens its screen, PressBack goes where one came from,
    PressHome to the first screen."""

    name, platform, size_px = "graph", "mobile", SIZE

    def __init__(self) -> None:
        self.reset({})

    def reset(self, start: Mapping[str, object]) -> None:
        """See `World.reset`. Raises `WorldError` for a start that is none of a graph."""
        numbers = {name: start.get(name, usual) for name, usual in SIZES.items()}
        if wrong := [f"{name} {value!r:.40}" for name, value in numbers.items() if type(value) is not int]:
            raise WorldError(f"graph: expected whole numbers, found {', '.join(wrong)}")
        # Through str, since values are typed as objects here; they were checked to be whole.
        seed, screens, icons, at = (int(str(value)) for value in numbers.values())
        try:
            self._graph = make_graph(seed, screens, icons)
        except ValueError as error:
            raise WorldError(str(error)) from error
        if not 0 <= at < screens:
            raise WorldError(f"graph: expected `at` of 0 to {screens - 1}, found {at}")
        self._drawn = seed, screens, icons
        self._labels = start.get("labels") is True
        self._way = [at]

    def observe(self) -> Observation:
        """See `World.observe`."""
        return drawn(*self._drawn, self._way[-1], self._labels)

    def act(self, action: Action) -> None:
        """See `World.act`."""
        match action:
            case Click():
                hit = under(self.observe().elements, action.box)
                # By name: looks are unique on a screen.
                opened = [icon.to for icon in self._graph.icons[self._way[-1]] if hit and icon.name == hit.key]
                self._way += opened
            case PressBack():
                # At the first screen Back does nothing, as on a phone's home.
                self._way = self._way[:-1] or self._way
            case PressHome():
                self._way.append(0)
            case Finished() | CallUser() | TakeNote() | Wait():
                pass
            case _:
                raise UnsupportedAction(f"graph: there is no action {type(action).__name__}")

    def state(self) -> dict[str, Any]:
        """See `World.state`: the screen that is shown, and those that were on the way, in order."""
        names = [self._graph.names[screen] for screen in self._way]
        return {"screen": names[-1], "way": names}


@contextmanager
def open_graph(**options: object) -> Iterator[GraphWorld]:
    """The world; nothing has to be closed. It has no options."""
    if options:
        raise ValueError(f"world graph: expected no options, found {', '.join(options)}")
    yield GraphWorld()
