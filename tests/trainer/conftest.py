"""Tiny data and a tiny model: coloured rectangles on white, drawn with PIL."""

from __future__ import annotations

import io
from typing import Any

import pytest

COLOURS = {"red": (220, 30, 30), "green": (20, 160, 40), "blue": (30, 60, 220), "black": (10, 10, 10)}


def draw(boxes: dict[str, tuple[int, int, int, int]], size: tuple[int, int] = (224, 160)) -> bytes:
    """Colour → box in pixels, on white; PNG bytes."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", size, "white")
    pen = ImageDraw.Draw(image)
    for colour, box in boxes.items():
        pen.rectangle(box, fill=COLOURS[colour])
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def make_rows(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Grounding and navigation rows over random screens of two or three rectangles."""
    import random

    from pipelines.prompts import grounding_text, messages, navigation_text, reply_text
    from schemas.actions import Click, Scroll

    rng = random.Random(seed)
    rows: list[dict[str, Any]] = []
    for index in range(count):
        chosen = rng.sample(sorted(COLOURS), 2 + index % 2)
        boxes = {c: (x := rng.randrange(0, 180), y := rng.randrange(0, 120), x + 40, y + 36) for c in chosen}
        asked = chosen[0]
        l, t, r, b = boxes[asked]
        unit = [l / 0.224, t / 0.160, r / 0.224, b / 0.160]
        x, y = round((unit[0] + unit[2]) / 2), round((unit[1] + unit[3]) / 2)
        row = {"sample_id": f"{seed:04x}{index:028x}", "source": "drawn", "split": "train", "platform": "web",
               "images": [draw(boxes)], "target_boxes": [unit], "licence": "CC0", "parents": [f"episode:drawn/{index}"]}
        kind = index % 4
        if kind == 3:
            row |= {"objective": "navigation", "messages": messages("navigation", navigation_text("scroll on", [])),
                    "answer": reply_text(Scroll(direction="down"), "web"), "target_boxes": []}
        elif kind == 2:
            row |= {"objective": "navigation",
                    "messages": messages("navigation", navigation_text(f"click the {asked} box", [])),
                    "answer": reply_text(Click((x, y)), "web")}
        else:
            row |= {"objective": "grounding", "messages": messages("grounding", grounding_text(f"the {asked} box")),
                    "answer": f"[{x},{y}]"}
        rows.append(row)
    return rows


@pytest.fixture(scope="session")
def rows() -> list[dict[str, Any]]:
    return make_rows(16)


@pytest.fixture(scope="session")
def tiny_preset() -> Any:
    from dataclasses import replace

    from trainer.presets import Shape, preset

    shape = Shape(vocab_size=1536, hidden=64, layers=2, heads=2, kv_heads=2, intermediate=128, vision_hidden=64,
                  vision_depth=2, vision_heads=2, vision_intermediate=96, deepstack=(0,), pixels=96 * 128)
    return replace(preset("nano"), name="tiny", shape=shape, max_pixels=96 * 128)


@pytest.fixture(scope="session")
def processor(rows: list[dict[str, Any]], tiny_preset: Any) -> Any:
    from pipelines.prompts import prompt_text
    from trainer.batches import Processor, image_processor
    from trainer.tokenizer import train_tokenizer

    texts = [prompt_text(r["messages"]) for r in rows] + [r["answer"] for r in rows]
    return Processor(train_tokenizer(texts, 1536), image_processor(tiny_preset), tiny_preset)


@pytest.fixture
def model(processor: Any, tiny_preset: Any) -> Any:
    from trainer.model import build_model

    return build_model(tiny_preset, processor.tokenizer, seed=1)
