"""A graph as one SVG file: columns from left (raw) to right (checkpoint), curves between, nothing loaded from outside.

Edges that follow from others are left out (a transitive reduction), so that stages which read everything stay legible.
"""

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dagster_project.lineage.tables import clean

BOX_W, BOX_H, GAP_X, GAP_Y, TOP, LEFT = 208, 38, 56, 10, 64, 16
COLOURS = {
    "raw": "#cfe3ff",
    "unified": "#d7f0df",
    "verdicts": "#fff0c9",
    "gold": "#ffe1a6",
    "hygiene": "#f4d6e6",
    "fingerprints": "#f4d6e6",
    "mid_training": "#dcd7f7",
    "checkpoints": "#ffcfc4",
    "evaluations": "#e3e3e3",
    "generation": "#cdeff0",
    "task_pool": "#cdeff0",
}
OTHER = "#eeeeee"


@dataclass(frozen=True, slots=True)
class Box:
    """A node of the picture: its key (`asset@version`, shown without the version), a second line, what a pointer over
    it shows, and how it stands out."""

    key: str
    line: str
    hint: str = ""
    mark: str = ""
    """`start` (thick border), `gone` (dashed), `stale` (red border), or nothing."""


def draw(title: str, boxes: Sequence[Box], edges: Mapping[str, Iterable[str]]) -> str:
    """`edges`: key → keys that it was built from; keys without a box are left out. All texts are escaped."""
    known = {box.key for box in boxes}
    # An edge to itself or to what isn't shown would have no place to go.
    above = {key: {dep for dep in edges.get(key, ()) if dep in known and dep != key} for key in sorted(known)}
    depth = _depths(above)
    above = _reduced(above, depth)
    columns = _columns(above, depth)
    tallest = max((len(keys) for keys in columns), default=1)
    place = {
        # Columns are centred against the tallest one.
        key: (LEFT + column * (BOX_W + GAP_X), TOP + (2 * row + tallest - len(keys)) * (BOX_H + GAP_Y) // 2)
        for column, keys in enumerate(columns)
        for row, key in enumerate(keys)
    }
    width = LEFT * 2 + len(columns) * (BOX_W + GAP_X) - GAP_X if columns else 400
    height = TOP + tallest * (BOX_H + GAP_Y) + 16
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="system-ui, sans-serif">',
        f"<title>{_text(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="28" font-size="17" font-weight="600" fill="#222">{_text(title)}</text>',
        f'<text x="{LEFT}" y="48" font-size="11" fill="#666">{len(boxes)} assets, from left to right; '
        "an edge that others imply is not drawn</text>",
        '<g fill="none" stroke="#9aa3ad" stroke-width="1.1">',
        *(_edge(place[dep], place[key]) for key in sorted(above) for dep in sorted(above[key])),
        "</g>",
        *(_box(box, *place[box.key]) for box in sorted(boxes, key=lambda box: box.key)),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _text(text: str, width: int = 120) -> str:
    return html.escape(clean(text, width), quote=True)


def _depths(above: Mapping[str, set[str]]) -> dict[str, int]:
    """Longest way from a node without parents, without recursion. Raises `ValueError` on a cycle."""
    left = {key: set(parents) for key, parents in above.items()}
    depth: dict[str, int] = {}
    while left:
        ready = [key for key, parents in left.items() if not parents]
        if not ready:
            raise ValueError(f"a picture needs a graph without cycles; one holds {sorted(left)[0]!r}")
        for key in ready:
            depth[key] = max((depth[dep] + 1 for dep in above[key]), default=0)
            del left[key]
        done = set(ready)
        for parents in left.values():
            parents -= done
    return depth


def _reduced(above: Mapping[str, set[str]], depth: Mapping[str, int]) -> dict[str, set[str]]:
    """Without the edges that follow from longer ways."""
    ancestors: dict[str, set[str]] = {}
    for key in sorted(above, key=lambda key: depth[key]):
        ancestors[key] = set().union(*(ancestors[dep] | {dep} for dep in above[key])) if above[key] else set()
    return {
        # An input that another input already stands on needs no line of its own.
        key: {dep for dep in deps if not any(dep in ancestors[other] for other in deps)}
        for key, deps in above.items()
    }


def _columns(above: Mapping[str, set[str]], depth: Mapping[str, int]) -> list[list[str]]:
    """Nodes as far right as their readers allow, each column in the order of its neighbours' places."""
    below: dict[str, set[str]] = {key: set() for key in above}
    for key, deps in above.items():
        for dep in deps:
            below[dep].add(key)
    last = max(depth.values(), default=0)
    column: dict[str, int] = {}
    # From the last column to the first, so that each node stands just before its first reader.
    for key in sorted(above, key=lambda key: (-depth[key], key)):
        column[key] = min((column[child] - 1 for child in below[key]), default=last)
    columns = [sorted(key for key in above if column[key] == number) for number in range(last + 1)]
    for _ in range(4):  # barycentre sweeps: a few are enough for a picture
        for near in (above, below):
            row = {key: (place + 0.5) / len(keys) for keys in columns for place, key in enumerate(keys)}
            # Sorted by the mean place of neighbours, above and below in turn: fewer lines cross.
            for keys in columns:
                keys.sort(key=lambda key: (_mean([row[other] for other in near[key]], row[key]), key))
    return [keys for keys in columns if keys]


def _mean(numbers: Sequence[float], otherwise: float) -> float:
    return sum(numbers) / len(numbers) if numbers else otherwise


def _edge(start: tuple[int, int], end: tuple[int, int]) -> str:
    # Straight out of both boxes, then a curve.
    x1, y1, x2, y2 = start[0] + BOX_W, start[1] + BOX_H // 2, end[0], end[1] + BOX_H // 2
    bend = max(GAP_X // 2, (x2 - x1) // 2)
    return f'<path d="M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"/>'


def _box(box: Box, x: int, y: int) -> str:
    colour = COLOURS.get(box.key.partition("/")[0], OTHER)
    stroke = {"start": ' stroke="#222" stroke-width="2.4"', "stale": ' stroke="#c22" stroke-width="2"'}.get(
        box.mark, ' stroke="#8a93a0" stroke-width="1"'
    )
    dashed = ' stroke-dasharray="4 3" fill-opacity="0.35"' if box.mark == "gone" else ""
    return (
        f"<g><title>{_text(box.hint or box.key, 600)}</title>"
        f'<rect x="{x}" y="{y}" width="{BOX_W}" height="{BOX_H}" rx="6" fill="{colour}"{stroke}{dashed}/>'
        f'<text x="{x + 8}" y="{y + 16}" font-size="12" fill="#111">{_text(box.key.partition("@")[0], 31)}</text>'
        f'<text x="{x + 8}" y="{y + 30}" font-size="10" fill="#444">{_text(box.line, 36)}</text></g>'
    )
