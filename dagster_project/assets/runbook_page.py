"""The runbook's lines of checks, from the page in `docs/`: for checks' metadata, and as a page of `vesper web`."""

import functools
import html
import re
from pathlib import Path

PAGE = "/runbook"
"""Where `vesper web` serves `runbook_page`."""
RUNBOOK = Path(__file__).with_name("runbook.md")
"""A link to the page in `docs/`, so that the wheel holds it."""
LINE = re.compile(r'^\| <a id="(\w+)"></a>`([^`]*)` \|([^|]*)\|([^|]*)\|([^|]*)\|([^|]*)\|$', re.MULTILINE)
"""Of a check: its anchor, its name, whether it blocks, what a failure means, where to look first, what to do."""
LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


@functools.cache
def runbook_lines() -> dict[str, tuple[str, ...]]:
    """Anchor of a check → the other cells of its line, as plain text."""
    lines = LINE.findall(RUNBOOK.read_text(encoding="utf-8"))
    return {slug: tuple(LINK.sub(r"\1", one).replace("**", "").strip() for one in cells) for slug, *cells in lines}


def runbook_page() -> str:
    """The lines as HTML, each at its anchor."""
    style = "body{font:15px/1.5 system-ui;max-width:50em;margin:2em auto}:target{background:#fff3c4}"
    parts = [f"<!doctype html><meta charset=utf-8><title>Runbook</title><style>{style}</style><h1>Runbook</h1>"]
    for slug, cells in runbook_lines().items():
        name, blocks, means, look, do = (html.escape(cell.replace("`", "")) for cell in cells)
        parts.append(f"<section id={slug}><h2>{name}</h2><p>If it fails, it {blocks}: {means}")
        parts.append(f"<p>Look first: {look}<p>Then do: {do}</section>")
    return "\n".join(parts)
