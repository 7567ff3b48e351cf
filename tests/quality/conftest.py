"""Small made-up screens, episodes and samples for the quality tests."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from PIL import Image, ImageDraw

from pipelines.prompts import grounding_text, messages
from pipelines.store.images import phash, read_image
from quality.items.item import Episode, Sample, make_episode, make_samples
from quality.items.screens import ScreenBank
from schemas.actions import Action, format
from schemas.tables import Samples, Screens, Steps

SIZE = (360, 640)
Button = tuple[tuple[int, int, int, int], str]
"""Pixel box and label."""


def png(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def draw_page(
    buttons: Sequence[Button] = (), *, offset: int = 0, note: str = "", size: tuple[int, int] = SIZE
) -> bytes:
    """A white phone screen with grey buttons; `offset` moves the content up, as scrolling down does."""
    image = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(image)
    for box, label in buttons:
        moved = (box[0], box[1] - offset, box[2], box[3] - offset)
        draw.rectangle(moved, fill=(205, 205, 215), outline="black")
        draw.text((moved[0] + 6, moved[1] + 6), label, fill="black")
    draw.text((8, size[1] - 20), note, fill="black")
    return png(image)


def long_page(offset: int) -> bytes:
    """A page of uneven blocks, seen from `offset` px on, under a fixed bar."""
    image = Image.new("RGB", SIZE, "white")
    draw = ImageDraw.Draw(image)
    top, number = 0, 0
    while top < 2400:
        number += 1
        height = 30 + number * 37 % 61
        draw.rectangle(
            (20, top - offset, 60 + number * 53 % 270, top + height - 12 - offset), fill=(number * 71 % 200,) * 3
        )
        draw.text((30, top + 4 - offset), f"row {number * 7919}", fill="white")
        top += height
    draw.rectangle((0, 0, 360, 60), fill=(40, 90, 160))
    return png(image)


class World:
    """Screens by hash, as a `ScreenSource`, with a table of their elements."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}
        self.rows: dict[str, dict[str, Any]] = {}
        self.reads = 0

    def screen_bytes(self, sha256: str) -> bytes:
        self.reads += 1
        return self.data[sha256]

    def screen(self, data: bytes, buttons: Sequence[Button] = (), size: tuple[int, int] = SIZE) -> str:
        """Keep a picture with elements (pixel boxes); returns its hash."""
        info = read_image(data)
        self.data[info.sha256] = data
        elements = [
            {"box": [box[i] * 1000 / size[i % 2] for i in range(4)], "role": "button", "text": label, "name": label}
            for box, label in buttons
        ]
        image = Image.open(io.BytesIO(data))
        self.rows[info.sha256] = {
            "screenshot_sha256": info.sha256,
            "width_px": size[0],
            "height_px": size[1],
            "phash": phash(image),
            "elements": elements,
            "source": "made",
        }
        return info.sha256

    def page(self, buttons: Sequence[Button], **more: Any) -> str:
        """Draw and keep a page."""
        return self.screen(draw_page(buttons, **more), buttons)

    def bank(self) -> ScreenBank:
        return ScreenBank(Screens.table(self.rows.values()), self)

    def row(self, index: int, action: Action | None, screen: str | None, **more: Any) -> dict[str, Any]:
        where = {"file": "f", "locator": "0", "record": more.get("episode_id", "e1"), "native_index": index}
        return {
            "source": "made",
            "episode_id": "e1",
            "step_index": index,
            "split": "train",
            "platform": "mobile",
            "language": "en",
            "app": None,
            "instruction": "do it",
            "step_instruction": None,
            "screenshot_sha256": screen,
            "width_px": SIZE[0],
            "height_px": SIZE[1],
            "action_type": type(action).__name__ if action else None,
            "action_text": format(action) if action else None,
            "target_box": None,
            "thought": None,
            "conclusion": None,
            "episode_outcome": None,
            "native_action": "{}",
            "provenance": json.dumps(where),
            **more,
        }

    def episode(
        self, *steps: tuple[Action | None, str | None] | tuple[Action | None, str | None, str], **more: Any
    ) -> Episode:
        """Steps (action, screen[, step instruction]) → episode."""
        rows = []
        for index, (action, screen, *told) in enumerate(steps):
            rows.append(self.row(index, action, screen, **{"step_instruction": told[0] if told else None, **more}))
        Steps.table(rows)
        return make_episode(rows, self.bank())

    def sample(
        self, objective: str, text: str, answer: str, screen: str, boxes: Sequence[Sequence[float]] = (), k: int = 0
    ) -> dict[str, Any]:
        row = {
            "sample_id": f"{k:032x}",
            "source": "made",
            "split": "train",
            "platform": "mobile",
            "objective": objective,
            "images": [screen],
            "messages": messages(objective, text),
            "answer": answer,
            "target_boxes": [list(box) for box in boxes],
            "tokens": 1,
            "licence": "x",
            "parents": [],
            "synthetic": False,
            "provenance": json.dumps({"record": "r1", "native_index": k, "deriver": "native"}),
        }
        Samples.table([row])
        return row

    def grounding(self, expression: str, screen: str, box_px: Sequence[float], k: int = 0) -> dict[str, Any]:
        box = [box_px[i] * 1000 / SIZE[i % 2] for i in range(4)]
        centre = f"[{round((box[0] + box[2]) / 2)},{round((box[1] + box[3]) / 2)}]"
        return self.sample("grounding", grounding_text(expression), centre, screen, [box], k)

    def samples(self, *rows: dict[str, Any]) -> list[Sample]:
        return make_samples(rows, self.bank())


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def scrolled() -> Callable[[int], bytes]:
    """Offset in px → picture of a long page."""
    return long_page


BUTTONS: list[Button] = [
    ((20, 100, 160, 150), "Settings"),
    ((200, 100, 340, 150), "Search"),
    ((20, 300, 340, 350), "Save note"),
]


@pytest.fixture
def buttons() -> list[Button]:
    return list(BUTTONS)
