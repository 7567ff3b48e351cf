"""Zoom on a checkpoint in the form of the published ones: the same tokens without it, and with it the same point as a
crop made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from drawn import draw
from PIL import Image
from tiny_published import write_tiny

from pipelines.prompts import grounding_text, messages
from pipelines.store.images import encode_png, open_image
from schemas.actions import parse_reply
from trainer.data.row_sources import ListSource
from trainer.midtrain.train import train
from trainer.modeling.generation import generate
from trainer.modeling.published import load_base
from trainer.modeling.sampler import Sampler
from trainer.presets import preset
from trainer.reading.read import answers
from trainer.settings.reading import Reading
from trainer.settings.supervised import MidtrainConfig

SIZE = (256, 128)
FIRST, SECOND = (250, 500), (700, 200)
"""What the model is taught to say of the screen, and of the part around that."""


def row(picture: bytes, answer: str = "") -> dict[str, Any]:
    text = messages("grounding", grounding_text("the red one"))
    return {"sample_id": "one", "objective": "grounding", "messages": text, "images": [picture], "answer": answer}


def cropped(picture: bytes) -> tuple[bytes, tuple[int, int, int, int]]:
    """The half of each side around `FIRST`, by hand."""
    middle = (SIZE[0] * FIRST[0] // 1000, SIZE[1] * FIRST[1] // 1000)
    box = (middle[0] - 64, middle[1] - 32, middle[0] + 64, middle[1] + 32)
    part = open_image(picture).crop(box).resize(SIZE, Image.Resampling.BICUBIC)
    return encode_png(np.asarray(part)), box


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any, bytes]:
    """A tiny model of the published form that points at `FIRST` on the screen and at `SECOND` on its part."""
    folder = write_tiny(tmp_path_factory.mktemp("published") / "tiny", "dense")
    named = replace(preset("2b"), source=str(folder), max_pixels=SIZE[0] * SIZE[1], min_pixels=32 * 32)
    model, processor = load_base(named)
    screen = draw({"red": (30, 40, 90, 80), "blue": (150, 30, 230, 110)}, SIZE)
    known = [
        row(screen, f"[{FIRST[0]},{FIRST[1]}]"),
        row(cropped(screen)[0], f"[{SECOND[0]},{SECOND[1]}]"),
    ]
    config = MidtrainConfig(max_steps=120, batch_size=2, learning_rate=3e-3, sigma=(0, 0), threads=1)
    train(model, processor, ListSource(known), config, progress=False)
    return model, processor, screen


def test_without_zoom_the_tokens_are_those_of_the_published_processor(taught: tuple[Any, Any, bytes]) -> None:
    model, processor, screen = taught
    assert processor.preset.reading == Reading()
    images = processor.images(open_image(screen), return_tensors="np")
    ours = processor.prompt(row(screen))
    flat, grid = processor.patches(ours.pictures[0])
    assert np.allclose(flat, images["pixel_values"], atol=1e-6) and tuple(images["image_grid_thw"][0]) == grid
    [plain] = generate(model, processor, [row(screen)], max_new_tokens=16)
    [read] = answers(Sampler(model, processor), [row(screen)], max_new_tokens=16)
    assert read.completion.token_ids == plain.token_ids and read.text == plain.text


def test_with_zoom_the_point_is_that_of_a_crop_made_by_hand(taught: tuple[Any, Any, bytes]) -> None:
    model, processor, screen = taught
    part, (left, top, right, bottom) = cropped(screen)
    first, second = generate(model, processor, [row(screen), row(part)], max_new_tokens=16)
    assert parse_reply(first.text).point == FIRST and parse_reply(second.text).point == SECOND, "it was taught so"
    by_hand = (
        round((left + SECOND[0] * (right - left) / 1000) * 1000 / SIZE[0]),
        round((top + SECOND[1] * (bottom - top) / 1000) * 1000 / SIZE[1]),
    )
    zooming = processor.apart()
    zooming.preset = replace(processor.preset, reading=Reading(mode="zoom", zoom=2.0))
    [read] = answers(Sampler(model, zooming), [row(screen)], max_new_tokens=16)
    assert parse_reply(read.text).point == by_hand
    assert read.completion.token_ids == second.token_ids and read.asked == 2
