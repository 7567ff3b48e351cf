"""A model's stand-in that sees one thing: it answers with the middle of what is red, and refuses without it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipelines.prompts import REFUSAL
from pipelines.store.images import encode_png, open_image
from trainer.modeling.batches import Row
from trainer.modeling.generation import Completion

SCREEN = (540, 960)
TARGET = (400, 700, 440, 730)
"""Of the red element on `screen`, in its pixels: within one window of 320 x 448 alone."""


def screen(box: tuple[int, int, int, int] | None = TARGET, size: tuple[int, int] = SCREEN) -> bytes:
    """White, with a red element."""
    pixels = np.full((size[1], size[0], 3), 255, np.uint8)
    if box is not None:
        pixels[box[1] : box[3], box[0] : box[2]] = (255, 0, 0)
    return encode_png(pixels)


def hits(x: float, y: float, box: tuple[int, int, int, int] = TARGET) -> bool:
    """Whether a point of 0..1000 of `SCREEN` lies in a box of its pixels."""
    return box[0] <= x * SCREEN[0] / 1000 <= box[2] and box[1] <= y * SCREEN[1] / 1000 <= box[3]


class RedSeer:
    """`form`: how it writes a point. `asked`: the sizes of the pictures that it was shown."""

    def __init__(self, form: str = "[{x},{y}]") -> None:
        self.form = form
        self.asked: list[tuple[int, int]] = []

    def __call__(self, rows: Sequence[Row]) -> list[Completion]:
        return [self.answer(one) for one in rows]

    def answer(self, asked: Row) -> Completion:
        """See the module."""
        picture: Any = asked["images"][0]
        pixels = np.asarray(open_image(picture)) if isinstance(picture, bytes) else picture
        high, wide = pixels.shape[:2]
        self.asked.append((wide, high))
        ys, xs = np.nonzero((pixels[..., 1] < 128) & (pixels[..., 0] > 200))
        inside = len(xs) and xs.min() > 0 and ys.min() > 0 and xs.max() < wide - 1 and ys.max() < high - 1
        if not inside:
            return Completion(0, 0, [1], [-0.1], text=REFUSAL, decided=[-0.1])
        x, y = round((xs.min() + xs.max() + 1) / 2 * 1000 / wide), round((ys.min() + ys.max() + 1) / 2 * 1000 / high)
        return Completion(0, 0, [2, 3], [-0.5, -4.0], text=self.form.format(x=x, y=y), decided=[-0.5, 0.0])
