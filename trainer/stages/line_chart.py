"""Curves over common axes as SVG, for pages without scripts. Its text takes the page's colour, so it can be dark."""

import html
import math
from collections.abc import Mapping, Sequence

COLOURS = ("#6b7f93", "#d9622b")
WIDTH, HEIGHT, MARGIN = 400, 180, 40
BASE = HEIGHT - MARGIN + 6
FEW = 20
"""Points of a curve that are marked: one alone would not be seen as a line."""


def line_chart(title: str, series: Mapping[str, Sequence[tuple[float, float]]], x_name: str = "step") -> str:
    """One `<svg>` of curves by their names, (x, value) each; "" where no value is a number. Text is escaped."""
    # Not a number: a loss that overflowed has no place on the axes.
    curves = {name: [point for point in points if math.isfinite(point[1])] for name, points in series.items()}
    everything = [point for points in curves.values() for point in points]
    if not everything:
        return ""
    low, high = min(value for _, value in everything), max(value for _, value in everything)
    # At least 1, or a run of one step would divide by 0.
    last = max(1.0, *(x for x, _ in everything))
    # A flat curve has a span of 0.
    span = (high - low) or 1.0
    parts = [f'<text x="{MARGIN}" y="14" font-weight="600">{html.escape(title)}</text>']
    for number, (name, points) in enumerate(curves.items()):
        colour = COLOURS[number % len(COLOURS)]
        places = [
            (MARGIN + x / last * (WIDTH - 2 * MARGIN), HEIGHT - MARGIN - (value - low) / span * (HEIGHT - 2 * MARGIN))
            for x, value in points
        ]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="1.8" points="{line}"/>')
        if len(places) < FEW:
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in places]
        if len(curves) > 1:
            at = f'x="{MARGIN + 130 * number}" y="{HEIGHT - 10}"'
            parts.append(f'<text {at} fill="{colour}">{html.escape(name)}</text>')
    parts.append(f'<text x="2" y="{MARGIN + 4}">{high:.3g}</text><text x="2" y="{HEIGHT - MARGIN}">{low:.3g}</text>')
    parts.append(
        f'<line x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{BASE}" y2="{BASE}" stroke="currentColor" opacity=".25"/>'
    )
    parts.append(f'<text x="{WIDTH - MARGIN}" y="{HEIGHT - 10}" text-anchor="end">{x_name} {last:g}</text>')
    box = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}"'
    return f'<svg {box} font-size="12" fill="currentColor" role="img">{"".join(parts)}</svg>'
