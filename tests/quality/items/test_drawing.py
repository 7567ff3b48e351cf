"""A drawn action changes the picture where the action is, and nothing else is read from it."""

from __future__ import annotations

import numpy as np
import pytest

from quality.items.drawing import BLUE, GREEN, RED, draw_action, to_png
from schemas.actions import Click, Drag, RightClick, Scroll, SelectOption, Wait


def places(image, colour):
    rows, columns = np.nonzero((np.asarray(image) == colour).all(-1))
    return columns * 1000 / image.width, rows * 1000 / image.height


@pytest.mark.parametrize("action", [Click((300, 600)), RightClick((300, 600)), SelectOption((300, 600), "Two")])
def test_a_click_is_ringed_at_its_point(world, buttons, action):
    data = world.data[world.page(buttons)]
    x, y = places(draw_action(data, action), RED)
    assert x.mean() == pytest.approx(300, abs=3) and y.mean() == pytest.approx(600, abs=3)


@pytest.mark.parametrize(
    "action", [Drag((100, 800), (900, 200)), Scroll((500, 700), (500, 300)), Scroll(direction="left")]
)
def test_paths_are_arrows(world, buttons, action):
    x, y = places(draw_action(world.data[world.page(buttons)], action), BLUE)
    assert len(x) > 50
    if action.start is not None:
        assert min(y) <= min(action.start[1], action.end[1]) + 15 and max(y) >= max(action.start[1], action.end[1]) - 15


def test_a_box_is_outlined_and_waiting_draws_nothing(world, buttons):
    data = world.data[world.page(buttons)]
    x, y = places(draw_action(data, Wait(), [100, 200, 400, 300]), GREEN)
    assert (min(x), max(x)) == (pytest.approx(100, abs=4), pytest.approx(400, abs=4))
    assert not len(places(draw_action(data, Wait()), RED)[0])
    assert to_png(draw_action(data, Wait())).startswith(b"\x89PNG")
