"""The staircase as a picture: success by row with intervals, and offline RL's steps and traces. SVG, text escaped."""

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 880, 370, 60, 40, 70
COLOURS = {"greedy": "#2f66b3", "sampled": "#8fb2dd", "pass_at_k": "#2e7d5b"}
LABELS = {"greedy": "greedy", "sampled": "sampled (pass@1)", "pass_at_k": "pass@k"}


def staircase_svg(title: str, rows: Mapping[str, object], looks: Sequence[Mapping[str, object]] = ()) -> str:
    """Bars with whiskers of every row; below, where there are looks, the curves of offline RL."""
    extra = 240 if len(looks) > 1 else 0
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT + extra}" '
        f'viewBox="0 0 {WIDTH} {HEIGHT + extra}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT + extra}" fill="#ffffff"/>',
        _text(LEFT, 20, title, size=15),
    ]
    parts += _axis(TOP, HEIGHT - BOTTOM)
    parts += _bars(rows)
    if extra:
        parts += _curves(looks, HEIGHT + 20, HEIGHT + extra - 40)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _text(x: float, y: float, text: str, *, size: int = 12, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="#16181d">{escape(text)}</text>'
    )


def _axis(top: float, bottom: float) -> list[str]:
    found = []
    for part in range(6):
        y = bottom - (bottom - top) * part / 5
        found.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - 20}" y2="{y:.1f}" stroke="#dde1e8"/>')
        found.append(_text(LEFT - 6, y + 4, f"{part / 5:.1f}", anchor="end"))
    return found


def _bars(rows: Mapping[str, Any]) -> list[str]:
    top, bottom = TOP, HEIGHT - BOTTOM
    step = (WIDTH - LEFT - 20) / max(1, len(rows))
    wide = min(22.0, step / 4)
    found = []
    for place, (name, row) in enumerate(rows.items()):
        middle = LEFT + step * (place + 0.5)
        for number, (measure, colour) in enumerate(COLOURS.items()):
            interval = row[measure]
            if interval["mean"] is None:
                continue
            x = middle + (number - 1) * wide

            def y(share: float) -> float:
                return bottom - (bottom - top) * min(1.0, max(0.0, share))

            high = y(interval["mean"])
            found.append(
                f'<rect x="{x - wide / 2 + 1:.1f}" y="{high:.1f}" width="{wide - 2:.1f}" '
                f'height="{bottom - high:.1f}" fill="{colour}"/>'
            )
            found.append(
                f'<line x1="{x:.1f}" y1="{y(interval["low"]):.1f}" x2="{x:.1f}" y2="{y(interval["high"]):.1f}" '
                f'stroke="#16181d"/>'
            )
        for line, word in enumerate(name.replace("_", " ").split(" ", 1)):
            found.append(_text(middle, bottom + 16 + 14 * line, word, anchor="middle"))
    for number, (measure, colour) in enumerate(COLOURS.items()):
        x = LEFT + 150 * number
        found.append(f'<rect x="{x}" y="{bottom + 40}" width="12" height="12" fill="{colour}"/>')
        found.append(_text(x + 18, bottom + 51, LABELS[measure]))
    return found


def _curves(looks: Sequence[Mapping[str, Any]], top: float, bottom: float) -> list[str]:
    last = max(1, max(look["update"] for look in looks))
    found = [
        _text(LEFT, top - 6, "offline RL on validation: step success, trace success, by update"),
        *_axis(top, bottom),
    ]
    for number, (name, colour) in enumerate((("step_success", "#b0632b"), ("trace_success", "#a1486f"))):
        points = [
            (LEFT + (WIDTH - LEFT - 30) * look["update"] / last, bottom - (bottom - top) * look[name])
            for look in looks
            if look[name] is not None
        ]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        found.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        x = WIDTH - 260 + 130 * number
        found.append(f'<rect x="{x}" y="{top - 16}" width="12" height="12" fill="{colour}"/>')
        found.append(_text(x + 18, top - 6, name.replace("_", " ")))
    return [*found, _text(LEFT, bottom + 18, "0"), _text(WIDTH - 30, bottom + 18, str(last), anchor="end")]
