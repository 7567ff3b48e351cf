"""A page as data (headings, text, tables, bars, pictures), written as Markdown for the UI and as HTML for a browser.

All text is data from strangers: it is escaped in both, and never markup.
"""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pipelines.markdown_text import markdown_text

CSS = """
:root{color-scheme:light dark;--ink:#22304a;--pale:#9db4c0;--line:#d7dee6;--ground:#fff}
@media(prefers-color-scheme:dark){:root{--ink:#e5ebf3;--pale:#5d7886;--line:#33404f;--ground:#151b24}}
body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:var(--ink);
background:var(--ground)}
h1{font-size:1.6rem;margin-bottom:.2rem}h2{font-size:1.1rem;margin-top:2rem;border-bottom:1px solid var(--line)}
table{border-collapse:collapse;font-size:.85rem;width:100%}th,td{text-align:left;padding:.25rem .6rem .25rem 0;
border-bottom:1px solid var(--line);vertical-align:top}td.n,th.n{text-align:right;font-variant-numeric:tabular-nums}
.bar{background:var(--pale);height:.7rem;display:inline-block;border-radius:2px}
.grid{display:grid;grid-template-columns:repeat(auto-fill,minmax(13rem,1fr));gap:1rem}
figure{margin:0}figure img{width:100%;height:15rem;object-fit:contain;border:1px solid var(--line);border-radius:4px}
figcaption{font-size:.75rem;overflow-wrap:anywhere}
"""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page: text, a table (rows of cells under names), bars (name → number), pictures (file, caption)."""

    title: str
    text: str = ""
    names: tuple[str, ...] = ()
    rows: Sequence[Sequence[object]] = ()
    bars: Mapping[str, float] = field(default_factory=dict)
    pictures: Sequence[tuple[str, str]] = ()


def markdown(title: str, sections: Sequence[Section]) -> str:
    """The page as Markdown; pictures are left to the caller."""
    lines = [f"# {markdown_text(title)}", ""]
    for section in sections:
        lines += [f"## {markdown_text(section.title)}", ""] if section.title else []
        lines += [markdown_text(section.text), ""] if section.text else []
        if section.rows:
            lines += [_row(section.names), "|" + "---|" * len(section.names)]
            lines += [_row([_cell(cell) for cell in row]) for row in section.rows]
            lines.append("")
        if section.bars:
            lines += ["| | |", "|---|---|"]
            lines += [f"| {markdown_text(name)} | {_cell(value)} |" for name, value in section.bars.items()]
            lines.append("")
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(markdown_text, cells))} |"


def page(title: str, sections: Sequence[Section]) -> str:
    """The page as one HTML document; pictures are linked by their relative names."""
    # All that comes from data is escaped.
    body = [f"<h1>{html.escape(title)}</h1>"]
    for section in sections:
        body += [f"<h2>{html.escape(section.title)}</h2>"] if section.title else []
        body += [f"<p>{html.escape(section.text)}</p>"] if section.text else []
        body += _html_table(section.names, section.rows) if section.rows else []
        body += _html_bars(section.bars) if section.bars else []
        if section.pictures:
            figures = (
                f'<figure><img src="{html.escape(name)}" alt="" loading="lazy">'
                f"<figcaption>{html.escape(caption)}</figcaption></figure>"
                for name, caption in section.pictures
            )
            body.append(f'<div class="grid">{"".join(figures)}</div>')
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    return (
        f'<!doctype html><html lang="en"><head>{head}<title>{html.escape(title)}</title><style>{CSS}</style></head>'
        f"<body>{''.join(body)}</body></html>\n"
    )


def _html_table(names: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    def cell(tag: str, value: object, kind: object) -> str:
        # Numbers stand to the right.
        numeric = ' class="n"' if isinstance(kind, int | float) else ""
        return f"<{tag}{numeric}>{html.escape(_cell(value))}</{tag}>"

    first = rows[0]
    head = "".join(cell("th", name, kind) for name, kind in zip(names, first, strict=True))
    lines = ("".join(cell("td", value, value) for value in row) for row in rows)
    return [f"<table><tr>{head}</tr>", *(f"<tr>{line}</tr>" for line in lines), "</table>"]


def _html_bars(bars: Mapping[str, float]) -> list[str]:
    # A chart of zeros has no longest bar.
    most = max(bars.values()) or 1
    return [
        "<table>",
        *(
            f'<tr><td>{html.escape(name)}</td><td class="n">{_cell(value)}</td>'
            f'<td style="width:60%"><span class="bar" style="width:{100 * value / most:.1f}%"></span></td></tr>'
            for name, value in bars.items()
        ),
        "</table>",
    ]


def _cell(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: ""}[value]
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
