"""Tiny training data drawn with PIL: coloured rectangles on white, grounding and navigation rows over them."""

from __future__ import annotations

import io
import json
import random
from typing import Any

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
        row = {
            "sample_id": f"{seed:04x}{index:028x}",
            "source": "drawn",
            "split": "train",
            "platform": "web",
            "images": [draw(boxes)],
            "target_boxes": [unit],
            "licence": "CC0",
            "parents": [f"episode:drawn/{index}"],
        }
        kind = index % 4
        if kind == 3:
            row |= {
                "objective": "navigation",
                "messages": messages("navigation", navigation_text("scroll on", [])),
                "answer": reply_text(Scroll(direction="down"), "web"),
                "target_boxes": [],
            }
        elif kind == 2:
            row |= {
                "objective": "navigation",
                "messages": messages("navigation", navigation_text(f"click the {asked} box", [])),
                "answer": reply_text(Click((x, y)), "web"),
            }
        else:
            row |= {
                "objective": "grounding",
                "messages": messages("grounding", grounding_text(f"the {asked} box")),
                "answer": f"[{x},{y}]",
            }
        rows.append(row)
    return rows


def scroll_rows(count: int, seed: int, *, habit: bool = False) -> list[dict[str, Any]]:
    """Episodes of three steps over one screen each: scroll down, scroll down, finish.

    With `habit` two episodes of three scroll up instead, for no reason: what supervised data is like, and what a
    reward can settle. The policy's first choice is then surely the wrong one, so that the peak lies after the start.
    """
    from pipelines.prompts import messages, navigation_text, reply_text
    from schemas.actions import Finished, Scroll

    found: list[dict[str, Any]] = []
    for index in range(count):
        x = 10 + (index * 37 + seed * 11) % 150
        picture = draw({"red": (x, 40, x + 40, 80)})
        scroll = Scroll(direction="up" if habit and index % 3 else "down")
        for step, action in enumerate((scroll, scroll, Finished())):
            history = [(i + 1, "Scroll(direction='down')") for i in range(step)]
            found.append(
                {
                    "sample_id": f"{seed:04x}{index:026x}{step:02x}",
                    "source": "drawn",
                    "split": "train",
                    "platform": "web",
                    "images": [picture],
                    "target_boxes": [],
                    "licence": "CC0",
                    "parents": [f"step:drawn/{seed}-{index}/{step}"],
                    "objective": "navigation",
                    "messages": messages("navigation", navigation_text("scroll on", history)),
                    "answer": reply_text(action, "web"),
                    "provenance": json.dumps({"episode": f"{seed}-{index}", "step": step}),
                }
            )
    return found
