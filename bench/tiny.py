"""Drawn screens and a tiny model's processor, for benches that need a batch and no data."""

import io
import random
from dataclasses import replace
from typing import Any

COLOURS = {"red": (220, 30, 30), "green": (20, 160, 40), "blue": (30, 60, 220), "black": (10, 10, 10)}


def rows(count: int, seed: int = 0, size: tuple[int, int] = (128, 96)) -> list[dict[str, Any]]:
    """Grounding rows over random screens of coloured boxes, as the shards hold them; seeded."""
    from PIL import Image, ImageDraw

    from pipelines.prompts import grounding_text, messages

    rng = random.Random(seed)
    made = []
    for index in range(count):
        image = Image.new("RGB", size, "white")
        pen = ImageDraw.Draw(image)
        for colour in rng.sample(sorted(COLOURS), 3):
            x, y = rng.randrange(size[0] * 3 // 4), rng.randrange(size[1] * 3 // 4)
            pen.rectangle((x, y, x + size[0] // 4, y + size[1] // 4), fill=COLOURS[colour])
        file = io.BytesIO()
        image.save(file, "PNG")
        made.append(
            {
                "sample_id": f"{seed:04x}{index:028x}",
                "images": [file.getvalue()],
                "objective": "grounding",
                "messages": messages("grounding", grounding_text(f"the {colour} box")),
                "answer": f"[{round((x + size[0] / 8) / size[0] * 1000)},{round((y + size[1] / 8) / size[1] * 1000)}]",
            }
        )
    return made


def processor_of(preset: Any, texts: list[dict[str, Any]]) -> Any:
    """A processor of a preset that is built from scratch, its tokenizer trained on the rows."""
    from pipelines.prompts import prompt_text
    from trainer.modeling.processor import Processor
    from trainer.modeling.tokenizer import train_tokenizer
    from trainer.presets import image_processor

    words = [prompt_text(row["messages"]) for row in texts] + [row["answer"] for row in texts]
    return Processor(train_tokenizer(words, preset.shape.vocab_size), image_processor(preset), preset)


def tiny_processor(texts: list[dict[str, Any]]) -> Any:
    """The same of the smallest preset that has every part of the published ones."""
    from trainer.presets import preset
    from trainer.settings.model_shape import Shape

    shape = Shape(
        vocab_size=1536,
        hidden=64,
        layers=3,
        heads=2,
        kv_heads=2,
        intermediate=128,
        vision_hidden=64,
        vision_depth=3,
        vision_heads=2,
        vision_intermediate=96,
        deepstack=(0, 1, 2),
        pixels=96 * 128,
    )
    return processor_of(replace(preset("nano"), name="tiny", shape=shape, max_pixels=96 * 128), texts)
