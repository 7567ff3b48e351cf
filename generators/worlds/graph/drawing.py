"""How a screen of a graph looks: its name in a bar, icons in three columns, and under each, where it says so, the name
of the screen that it opens. Each picture is drawn once."""

import io
from functools import lru_cache

from PIL import Image, ImageDraw, ImageFont

from generators.tasks.world_interface import Observation, ScreenElement
from generators.worlds.graph.screen_graph import COLOURS, COLUMNS, Icon, make_graph

SIZE = 320, 480
BAR, TOP, CELL_WIDTH, CELL_HEIGHT, HALF = 48, 64, 100, 132, 26
PAPER, INK, LINE = (248, 249, 251), (23, 32, 44), (55, 71, 89)
KEPT = 4096
"""Screens that are kept: 20 MB."""


@lru_cache(maxsize=KEPT)
def drawn(seed: int, screens: int, icons: int, here: int, labels: bool) -> Observation:
    """A screen of a graph, with its elements: the icons, by their look, and the name in the bar."""
    graph = make_graph(seed, screens, icons)
    picture = Image.new("RGB", SIZE, PAPER)
    draw = ImageDraw.Draw(picture)
    draw.rectangle((0, 0, SIZE[0], BAR), LINE)
    draw.text((SIZE[0] / 2, BAR / 2), graph.names[here], "white", ImageFont.load_default(20), anchor="mm")
    found = [ScreenElement.on_screen((0, 0, SIZE[0], BAR), SIZE, "heading", graph.names[here], "", "title", False)]
    for icon in graph.icons[here]:
        box = _box(icon)
        _shape(draw, icon, box)
        text = graph.names[icon.to] if labels else ""
        if text:
            below = (box[0] + HALF, box[3] + 12)
            draw.text(below, text, INK, ImageFont.load_default(13), anchor="mm")
        found.append(ScreenElement.on_screen(box, SIZE, "icon", text, icon.name, icon.name))
    # Fast instead of small: thousands of screens a second are drawn, and few are kept on disk.
    png = io.BytesIO()
    picture.save(png, "PNG", compress_level=1)
    # Names the screen and not the graph's truth beyond it.
    return Observation(png.getvalue(), tuple(one for one in found if one is not None), f"{seed}/{here}/{labels}")


def _box(icon: Icon) -> tuple[float, float, float, float]:
    """In pixels."""
    row, column = divmod(icon.cell, COLUMNS)
    x = 10 + column * CELL_WIDTH + CELL_WIDTH // 2 + icon.offset[0]
    # Ten pixels higher, to leave room for the label below.
    y = TOP + row * CELL_HEIGHT + CELL_HEIGHT // 2 - 10 + icon.offset[1]
    return x - HALF, y - HALF, x + HALF, y + HALF


def _shape(draw: ImageDraw.ImageDraw, icon: Icon, box: tuple[float, float, float, float]) -> None:
    left, top, right, bottom = box
    x, y, colour = (left + right) / 2, (top + bottom) / 2, COLOURS[icon.colour]
    match icon.shape:
        case "circle":
            draw.ellipse(box, colour)
        case "square":
            draw.rectangle(box, colour)
        case "triangle":
            draw.polygon([(x, top), (right, bottom), (left, bottom)], colour)
        case "diamond":
            draw.polygon([(x, top), (right, y), (x, bottom), (left, y)], colour)
        case "ring":
            draw.ellipse(box, None, colour, 8)
        case "cross":
            draw.rectangle((x - 8, top, x + 8, bottom), colour)
            draw.rectangle((left, y - 8, right, y + 8), colour)
        case "bar":
            draw.rectangle((left, y - 10, right, y + 10), colour)
        # An arch: the upper half of an ellipse.
        case _:
            draw.arc((left, top, right, bottom + HALF), 180, 360, colour, 10)
