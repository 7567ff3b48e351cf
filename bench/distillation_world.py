"""A drawn world with a checkable truth in three domains, and a model with a bad habit in each (bench/distillation.py).

Screens are coloured boxes on white. `grounding` asks for a box by its colour. A page is clicked, scrolled down and
finished; on a phone the same goals take a long press, scrolling up and the Back key. The supervised rows have habits
that the truth has not (another box than the one asked for, the other press, the other way, the other end), as
supervised data has: what rewards settle afterwards, domain by domain.
"""

import io
import random
from collections.abc import Iterator
from typing import Any

from PIL import Image, ImageDraw

from bench.tiny import COLOURS
from pipelines.prompts import grounding_text, messages, navigation_text, reply_text
from schemas.actions import Action, Click, Finished, LongPress, PressBack, PressHome, Scroll
from trainer.settings.domains import DomainName

SIZE, SIDE = (128, 96), 32
DOMAINS: tuple[DomainName, ...] = ("grounding", "mobile", "web")
HABITS = {"grounding": 0.3, "mobile": 0.6, "web": 0.6}
"""Share of the supervised rows of a domain in which the habit stands in place of the truth."""


def rows(domain: DomainName, count: int, seed: int, *, habit: bool = False) -> list[dict[str, Any]]:
    """Rows of a domain as the shards hold them; seeded. With `habit` as the supervised data has them."""
    rng = random.Random(f"{seed}/{domain}")
    return [_row(domain, f"{seed}-{domain}-{index}", rng, habit) for index in range(count)]


def supervised(count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Rows of all domains in turn, with their habits."""
    for made in zip(*(rows(domain, count, seed, habit=True) for domain in DOMAINS), strict=True):
        yield from made


def _row(domain: DomainName, name: str, rng: random.Random, habit: bool) -> dict[str, Any]:
    places = [(x, y) for x in (2, 46, 92) for y in (4, 56)]
    boxes = dict(zip(rng.sample(sorted(COLOURS), 3), rng.sample(places, 3), strict=True))
    asked, other, *_ = boxes
    wrong = habit and rng.random() < HABITS[domain]
    unit, shown = _unit(boxes[asked]), _unit(boxes[other if wrong else asked])
    x, y = round((shown[0] + shown[2]) / 2), round((shown[1] + shown[3]) / 2)
    row = {
        "sample_id": name,
        "source": "drawn",
        "split": "train",
        "platform": "mobile" if domain == "mobile" else "web",
        "images": [_drawn(boxes)],
        "target_boxes": [unit],
        "licence": "CC0",
        "parents": [f"episode:drawn/{name}"],
    }
    if domain == "grounding":
        question = messages("grounding", grounding_text(f"the {asked} box"))
        return {**row, "objective": "grounding", "messages": question, "answer": f"[{x},{y}]"}
    goal, action, pointed = _step(domain, asked, (x, y), wrong, rng)
    return {
        **row,
        "objective": "navigation",
        "messages": messages("navigation", navigation_text(goal, [])),
        "answer": reply_text(action, str(row["platform"])),
        "target_boxes": [unit] if pointed else [],
    }


def _step(
    domain: DomainName, asked: str, point: tuple[int, int], wrong: bool, rng: random.Random
) -> tuple[str, Action, bool]:
    """(goal, action, whether it is at a box) of one of a domain's three kinds of steps."""
    kind, where = rng.randrange(3), "the phone" if domain == "mobile" else "the page"
    if kind == 0:
        own, other = (LongPress, Click) if domain == "mobile" else (Click, LongPress)
        return f"on {where} use the {asked} box", (other if wrong else own)(point), True
    if kind == 1 and domain == "mobile":
        return f"leave {where}", PressHome() if wrong else PressBack(), False
    if kind == 1:
        return f"leave {where}", PressBack() if wrong else Finished(), False
    return f"read on in {where}", Scroll(direction="up" if wrong == (domain == "web") else "down"), False


def _unit(place: tuple[int, int]) -> list[float]:
    x, y = place
    return [x / SIZE[0] * 1000, y / SIZE[1] * 1000, (x + SIDE) / SIZE[0] * 1000, (y + SIDE) / SIZE[1] * 1000]


def _drawn(boxes: dict[str, tuple[int, int]]) -> bytes:
    image = Image.new("RGB", SIZE, "white")
    pen = ImageDraw.Draw(image)
    for colour, (x, y) in boxes.items():
        pen.rectangle((x, y, x + SIDE, y + SIDE), fill=COLOURS[colour])
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()
