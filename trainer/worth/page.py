"""Worth as a page (one HTML file, no script) and as Markdown, costs beside points. All text of data is escaped."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any

from pipelines.markdown_text import markdown_text
from trainer.worth.tables import HARMS, HELPS

Row = Mapping[str, Any]
"""A row of `Worth`, with `judge_tokens`, `judge_minutes` and `probe_minutes` of its costs."""

COLOURS = {HELPS: "#2e7d5b", HARMS: "#b91c1c"}
NEUTRAL = "#7a828f"
WIDTH, LABEL, LINE = 760, 250, 22
STYLE = (
    "body{font:15px/1.5 system-ui;margin:2em auto;max-width:1100px;color:#1f2933}table{border-collapse:collapse}"
    "td,th{padding:.25em .7em;border-bottom:1px solid #dde3e9;text-align:left}td.n{text-align:right}"
    f".helps{{color:{COLOURS[HELPS]};font-weight:600}}.harms{{color:{COLOURS[HARMS]};font-weight:600}}"
)
ABOUT = (
    "Points are right answers in a hundred, with less without, on the same held-out questions and training seeds; "
    "brackets are 95 % intervals over screens, episodes and seeds. Where an interval holds 0 it says nothing. Of "
    "twenty rows about one lies outside by chance."
)
HEADS = ("points", "", "by the loss", "rows", "judge tokens", "judge min", "probe min")


def page(title: str, rows: Sequence[Row], proposal: Mapping[str, Any] | None = None) -> str:
    """One HTML file: a picture and a table for each kind of comparison."""
    parts = [f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(title)}</title><style>{STYLE}</style>"]
    parts += [f"<h1>{escape(title)}</h1><p>{escape(ABOUT)}</p>"]
    for kind, some in by_kind(rows):
        parts += [f"<h2>{escape(kind)}</h2>", worth_svg(some), *_table(some)]
    if proposal is not None:
        parts += ["<h2>proposed mixture</h2>", f"<pre>{escape(proposal_text(proposal))}</pre>"]
    return "\n".join([*parts, "</html>\n"])


def markdown(rows: Sequence[Row], proposal: Mapping[str, Any] | None = None) -> str:
    """The same tables, for an asset's page or a terminal."""
    lines = []
    for kind, some in by_kind(rows):
        lines += [f"**{markdown_text(kind)}**\n", f"| | {' | '.join(HEADS)} |", f"|---{'|---' * len(HEADS)}|"]
        lines += [f"| {' | '.join(markdown_text(cell) for cell in _cells(row))} |" for row in some]
        lines.append("")
    if proposal is not None:
        lines += [markdown_text(line) + "  " for line in proposal_text(proposal).splitlines()]
    return "\n".join(lines) + "\n"


def by_kind(rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    """The kinds of comparison in their order, each with its rows, the most points first."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row["kind"], []).append(row)
    return [(kind, sorted(some, key=lambda row: (-row["points"], row["subject"]))) for kind, some in found.items()]


def proposal_text(proposal: Mapping[str, Any]) -> str:
    """The proposed shares beside the current ones."""
    if proposal["shares"] is None:
        return "No proposal: in no domain does an objective's gain have an interval above 0."
    lines = []
    for name, share in proposal["shares"].items():
        low, high = proposal["intervals"][name]
        lines.append(f"{name}: {share:.3f} [{low:.3f}, {high:.3f}], now {proposal['current'].get(name, 0.0):.3f}")
    return "\n".join(lines)


def interval_text(mean: float, low: float | None, high: float | None, digits: int = 1) -> str:
    """A figure with its interval."""
    if low is None or high is None:
        return f"{mean:+.{digits}f}"
    return f"{mean:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]"


def _cells(row: Row) -> list[str]:
    loss = interval_text(row["loss"], row["loss_low"], row["loss_high"], 3)
    return [
        row["subject"],
        interval_text(row["points"], row["low"], row["high"]),
        row["says"],
        f"{loss} {row['loss_says']}",
        f"{row['rows']:,}",
        f"{row['judge_tokens']:,}",
        f"{row['judge_minutes']:.1f}",
        f"{row['probe_minutes']:.1f}",
    ]


def _table(rows: Sequence[Row]) -> Iterator[str]:
    yield f"<table><tr><th>{''.join(f'<th>{head}' for head in HEADS)}</tr>"
    for row in rows:
        subject, points, word, *rest = map(escape, _cells(row))
        yield f'<tr><td>{subject}<td class=n>{points}<td class="{word.split()[0]}">{word}'
        yield f"{''.join(f'<td class=n>{cell}' for cell in rest)}</tr>"
    yield "</table>"


def worth_svg(rows: Sequence[Row]) -> str:
    """A line for each row: its points as a dot, its interval as a whisker, 0 as a line through all."""
    # 0 belongs to the picture: without it nobody sees which side a whisker is on
    ends = [0.0, *(row[name] for row in rows for name in ("points", "low", "high") if row[name] is not None)]
    low, high = min(ends), max(ends)
    span = (high - low) or 1.0

    def x(points: float) -> float:
        return LABEL + (points - low) / span * (WIDTH - LABEL - 60)

    height = LINE * len(rows) + 30
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" font-size="12">']
    parts.append(f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>')
    parts.append(f'<line x1="{x(0):.1f}" y1="4" x2="{x(0):.1f}" y2="{height - 22}" stroke="#c3cad3"/>')
    for place, row in enumerate(rows):
        y, colour = 14 + LINE * place, COLOURS.get(row["says"], NEUTRAL)
        parts.append(f'<text x="{LABEL - 12}" y="{y + 4}" text-anchor="end">{escape(row["subject"][:40])}</text>')
        if row["low"] is not None and row["high"] is not None:
            ends_x = f'x1="{x(row["low"]):.1f}" x2="{x(row["high"]):.1f}"'
            parts.append(f'<line {ends_x} y1="{y}" y2="{y}" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<circle cx="{x(row["points"]):.1f}" cy="{y}" r="4" fill="{colour}"/>')
    parts += [
        f'<text x="{x(value):.1f}" y="{height - 6}" text-anchor="middle">{value:+.1f}</text>' for value in (low, high)
    ]
    return "\n".join([*parts, "</svg>"])
