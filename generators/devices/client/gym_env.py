"""A Gymnasium environment over a session or any World: the picture in, the canonical text of an action out.

def judge(world, action):
    won = world.state()["won"]
    return float(won), won

env = DeviceEnv(world, start={"seed": 1}, judge=judge)
"""

import io
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from generators.tasks.world_interface import Observation, UnsupportedAction, World, WorldError
from schemas import actions
from schemas.action_types import POINTED, TEXTED
from schemas.actions import Action, Finished

Judge = Callable[[World, Action], tuple[float, bool]]
"""(world, last action) -> (reward, whether the episode is over)."""


def until_finished(world: World, action: Action) -> tuple[float, bool]:
    """The judge that knows nothing: no reward, over when the agent says so."""
    return 0.0, isinstance(action, Finished)


class ActionText(spaces.Space[str]):
    """All canonical texts of a space's actions (`schemas.actions.format`); samples are of every type, at random
    points."""

    def __init__(
        self, space: actions.ActionSpace = actions.ACTION_SPACE, seed: int | np.random.Generator | None = None
    ) -> None:
        super().__init__(None, str, seed)
        self.space = space

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def contains(self, x: object) -> bool:
        """Whether `schemas.actions.parse` reads it."""
        try:
            return isinstance(x, str) and actions.parse(x, self.space) is not None
        except ValueError:
            return False

    def sample(self, mask: object = None, probability: object = None) -> str:
        """A random action. `mask` and `probability` are refused: no space of texts has them."""
        if mask is not None or probability is not None:
            raise ValueError("ActionText.sample: expected no mask and no probability")
        # sorted, so that a seed draws the same actions on every machine
        kinds = sorted(actions.SPACES[self.space])
        return actions.format(self._make(kinds[int(self.np_random.integers(len(kinds)))]))

    def _make(self, kind: str) -> Action:
        def point() -> tuple[int, int]:
            x, y = self.np_random.integers(0, 1001, 2)
            return int(x), int(y)

        cls = actions.SPACES[self.space][kind]
        word = "".join(chr(97 + int(k)) for k in self.np_random.integers(0, 26, 6))
        action: Action
        if kind == "Drag":
            action = actions.Drag(point(), point())
        elif kind == "Scroll":
            action = actions.Scroll(direction=("up", "down", "left", "right")[int(self.np_random.integers(4))])
        elif kind == "Launch":
            action = actions.Launch(app=word)
        elif kind == "Hotkey":
            action = actions.Hotkey(("ctrl", word[0]))
        elif kind == "SelectOption":
            action = actions.SelectOption(point(), word)
        elif cls in TEXTED:
            action = cls(word)
        elif cls in POINTED:
            action = cls(point())
        else:
            action = cls()
        return action

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActionText) and other.space == self.space

    def __repr__(self) -> str:
        return f"ActionText({self.space!r})"


class DeviceEnv(gymnasium.Env[np.ndarray, str]):
    """`start`: what the world is reset to, or a function of the episode's seed that says it. An action that the world
    doesn't have or can't carry out changes nothing and is reported in `info["error"]`; text that is no action raises
    `ValueError`, and a device that fails raises `DeviceError`."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 1}

    def __init__(
        self,
        world: World,
        start: Mapping[str, Any] | Callable[[int], Mapping[str, Any]],
        judge: Judge = until_finished,
        max_steps: int = 50,
        render_mode: str | None = None,
        space: actions.ActionSpace = actions.ACTION_SPACE,
    ) -> None:
        if render_mode not in (None, "rgb_array"):
            raise ValueError(f"DeviceEnv: expected render_mode rgb_array or None, found {render_mode!r}")
        self.world, self._start, self._judge, self._max_steps = world, start, judge, max_steps
        self.render_mode = render_mode
        width, height = world.size_px
        self.observation_space = spaces.Box(0, 255, (height, width, 3), np.uint8)
        self.action_space, self._space = ActionText(space), space
        self._steps = 0
        self._picture: np.ndarray | None = None

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, object] | None = None
    ) -> tuple[np.ndarray, dict[str, object]]:
        """Begin an episode: the same seed, the same one."""
        super().reset(seed=seed)
        # from gymnasium's own generator, so that one seed makes the episode
        start = self._start(int(self.np_random.integers(2**31))) if callable(self._start) else self._start
        self.world.reset(start)
        self._steps = 0
        return self._look()

    def step(self, action: str) -> tuple[np.ndarray, float, bool, bool, dict[str, object]]:
        """One action by its canonical text."""
        parsed, error = actions.parse(action, self._space), ""
        try:
            self.world.act(parsed)
        except (UnsupportedAction, WorldError) as wrong:
            # what can't be carried out is a step all the same, as in every execution
            error = str(wrong)
        self._steps += 1
        picture, info = self._look()
        reward, over = self._judge(self.world, parsed)
        if error:
            info["error"] = error
        return picture, float(reward), bool(over), self._steps >= self._max_steps, info

    def render(self) -> np.ndarray | None:  # type: ignore[override]
        """The last picture, in mode `rgb_array`."""
        return self._picture if self.render_mode == "rgb_array" else None

    def _look(self) -> tuple[np.ndarray, dict[str, Any]]:
        seen = self.world.observe()
        self._picture = picture = _pixels(seen, self.observation_space.shape)
        said = {"said": seen.said} if seen.said else {}
        return picture, {"state": seen.state, "places": [element.as_element() for element in seen.elements], **said}


def _pixels(seen: Observation, shape: tuple[int, ...] | None) -> np.ndarray:
    from PIL import Image

    with Image.open(io.BytesIO(seen.png)) as image:
        pixels = np.asarray(image.convert("RGB"))
    # an environment's observations have one shape for good
    if pixels.shape != shape:
        raise WorldError(f"picture: expected height, width, colours {shape}, found {pixels.shape}")
    return pixels
