"""OSWorld-G: elements of Ubuntu desktops as boxes, polygons and refusals; original and refined wordings of one picture.

`classification_result.json` and `buckets.json` hold no instruction and are passed over by name.
"""

import math

from pipelines.suites import SuiteCard
from pipelines.suites._rows import Box, Form, Row, thousandths

CARD = SuiteCard(
    id="osworld_g",
    title="OSWorld-G",
    origin="https://github.com/xlang-ai/OSWorld-G",
    licence="unconfirmed",
    citation="Xie et al. 2025, Scaling Computer-Use Grounding via User Interface Decomposition and Synthesis (Jedi)",
    size="564 instructions",
    frame="pixels x, y, width, height; polygons x, y, ...; origin top left",
    known_problems=("original wordings are hard to understand: a refined file exists",),
)
SIDE_FILES = ("classification_result", "buckets")


def target(row: Row, size: tuple[int, int] | None) -> tuple[Box | None, tuple[tuple[float, float], ...]]:
    """Box or polygon of a row in 0..1000; neither for a refusal. Raises `ValueError` on another shape."""
    if "box_type" not in row:  # a result document: corner pixels
        return (None if row.get("bbox") is None else thousandths(row["bbox"], "xyxy", size)), ()
    kind, values = row["box_type"], row.get("box_coordinates")
    if kind == "refusal":
        return None, ()
    if kind == "bbox":
        return thousandths(values, "xywh", size), ()
    if kind != "polygon" or not isinstance(values, list) or len(values) < 6 or len(values) % 2 or size is None:
        raise ValueError(f"expected a bbox, polygon or refusal, found {kind!r} {values!r:.60}")
    if not all(isinstance(v, int | float) and math.isfinite(v) for v in values):
        raise ValueError(f"expected numbers in a polygon, found {values!r:.80}")
    points = tuple((values[i] * 1000 / size[0], values[i + 1] * 1000 / size[1]) for i in range(0, len(values), 2))
    xs, ys = zip(*points, strict=True)
    return (min(xs), min(ys), max(xs), max(ys)), points


FORM = Form(lambda row: "xywh", box_of=target, beside=tuple(f"*{name}*" for name in SIDE_FILES))
items = FORM.items
"""Rows of `OSWorld-G.json`, `OSWorld-G_refined.json` and of result documents."""
