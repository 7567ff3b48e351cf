"""Comparisons as a page (one HTML file, no script) and as Markdown. All text of data and models is escaped."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.markdown_text import markdown_text
from pipelines.prompts import prompt_text
from trainer.stages.line_chart import line_chart

if TYPE_CHECKING:
    from trainer.stages.compared import Comparison, DifferingSample

STYLE = (
    "body{font:15px/1.5 system-ui;margin:2em auto;max-width:1000px;color:#1f2933}"
    "table{border-collapse:collapse;margin:1em 0}"
    "td,th{padding:.25em .8em;border-bottom:1px solid #dde3e9;text-align:left}td.n{text-align:right}"
    ".up{color:#15803d;font-weight:600}.down{color:#b91c1c;font-weight:600}"
    ".samples{display:grid;grid-template-columns:repeat(auto-fill,minmax(300px,1fr));gap:1em}"
    ".sample{border:1px solid #dde3e9;border-radius:6px;padding:.8em}.sample img{max-width:100%}"
    "code{background:#f2f5f8;padding:0 .3em;overflow-wrap:anywhere}"
)


def question_of(row: Mapping[str, Any]) -> str:
    """What a sample asks, at most 300 characters of it."""
    return prompt_text(row["messages"])[-300:]


def page(found: Sequence[Comparison]) -> str:
    """One HTML file."""
    body = "\n".join(line for one in found for line in _section(one))
    head = f"<!doctype html><html lang=en><meta charset=utf-8><title>Experiments</title><style>{STYLE}</style>"
    return f"{head}<h1>Experiments</h1>\n{body}\n</html>\n"


def markdown(found: Sequence[Comparison]) -> str:
    """The figures alone, for an asset's page or a terminal."""
    lines = []
    for one in found:
        lines.append(f"**{one.stage}: {one.sides[1]} beside {one.sides[0]}**, {one.differing} samples differ\n")
        lines += [f"{markdown_text(one.why)}\n"] if one.why else []
        if one.differs:
            lines.append(f"| made with | {one.sides[0]} | {one.sides[1]} |\n|---|---|---|")
            rows = ((name, *pair) for name, pair in one.differs.items())
            lines += [f"| {' | '.join(markdown_text(cell, 120) for cell in row)} |" for row in rows]
            lines.append("")
        lines.append(f"| | | {one.sides[0]} | {one.sides[1]} | difference | n |\n|---|---|---|---|---|---:|")
        for figure in one.figures:
            cells = (
                figure.domain,
                figure.measure,
                *map(interval_text, (figure.first, figure.second)),
                interval_text(figure.difference),
            )
            lines.append(f"| {' | '.join(markdown_text(cell) for cell in cells)} | {figure.difference['n']} |")
        lines.append("")
    return "\n".join(lines) + "\n"


def interval_text(value: Mapping[str, Any]) -> str:
    # Also in Markdown, so that the asset's page in the UI shows figures.
    """A mean with its 95 % interval, in points of a hundred."""
    if not value.get("n"):
        return "none"
    if value["low"] is None or value["high"] is None:  # too few clusters for an interval
        return f"{100 * value['mean']:.1f}"
    return f"{100 * value['mean']:.1f} [{100 * value['low']:.1f}, {100 * value['high']:.1f}]"


def _section(one: Comparison) -> Iterator[str]:
    first, second = map(html.escape, one.sides)
    yield f"<h2>{html.escape(one.stage)}: {second} beside {first}</h2>"
    yield f"<p>{html.escape(one.why)}</p>" if one.why else ""
    said = " and ".join(f"<code>{html.escape(f'{m.asset}@{m.version}')}</code>" for m in one.versions)
    yield f"<p>{said}; differences are paired, over the same samples, with 95 % intervals.</p>"
    if one.differs:
        yield f"<table><tr><th>made with<th>{first}<th>{second}</tr>"
        for name, pair in one.differs.items():
            yield f"<tr>{''.join(f'<td>{html.escape(cell)}' for cell in (name, *pair))}</tr>"
        yield "</table>"
    yield f"<table><tr><th><th><th>{first}<th>{second}<th>difference<th>n</tr>"
    for figure in one.figures:
        difference = figure.difference
        # Coloured only where the interval lies wholly on one side of 0.
        mark = "up" if (difference.get("low") or 0) > 0 else "down" if (difference.get("high") or 0) < 0 else ""
        cells = "".join(f"<td class=n>{interval_text(value)}" for value in (figure.first, figure.second))
        last = f'<td class="n {mark}">{interval_text(difference)}<td class=n>{difference["n"]}'
        yield f"<tr><td>{figure.domain}<td>{figure.measure}{cells}{last}</tr>"
    yield "</table>"
    for tag, sides in one.curves.items():
        yield line_chart(tag, dict(zip(one.sides, sides, strict=True)))
    yield f"<h3>{one.differing} samples {one.words.yes} on one side alone</h3><div class=samples>"
    yield from (_sample(sample, one) for sample in one.samples)
    yield "</div>"


def _sample(sample: DifferingSample, one: Comparison) -> str:
    words, picture = one.words, f'<img alt="the screen" src="{sample.picture}">' if sample.picture else ""
    truth = f"<p>{words.truth}: <code>{html.escape(sample.truth)}</code></p>"
    lines = [f"<p>{html.escape(sample.question)}</p>{truth}"]
    for side, reply, right in zip(one.sides, sample.replies, sample.right, strict=True):
        mark = f'<span class="up">{words.yes}</span>' if right else f'<span class="down">{words.no}</span>'
        lines.append(f"<p>{html.escape(side)} {mark}: <code>{html.escape(reply[:300])}</code></p>")
    return f"<div class=sample>{picture}{''.join(lines)}</div>"
