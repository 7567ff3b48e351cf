"""A site as one html file that needs nothing else: for any browser, on any device."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from generators.environments.fsm.machine import Machine
from generators.environments.fsm.spec import Site

FOLDER = Path(__file__).parent


def render(site: Site, start: Mapping[str, Any] | None = None) -> str:
    """The site's html, opened at a snapshot ({"page"?, "variables"?}). Raises `WorldError` for an illegal snapshot.

    The spec stands in a script of type JSON with `<` escaped, so no text of it can end the script."""
    told = {"page": (start or {}).get("page", ""), "variables": dict((start or {}).get("variables") or {})}
    Machine(site).start(told["page"], told["variables"])
    data = json.dumps([site.plain(), told], ensure_ascii=False, sort_keys=True).replace("<", "\\u003c")
    style, layout, runtime = (_part(name) for name in ("style.css", "layout.js", "runtime.js"))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{html.escape(site.name)}</title>\n'
        f'<style>\n{style}</style>\n</head>\n<body>\n<div id="page"></div>\n'
        f'<script type="application/json" id="spec">{data}</script>\n<script>\n{layout}</script>\n'
        f"<script>\n{runtime}</script>\n"
        "<script>fsmOpen(...JSON.parse(document.getElementById('spec').textContent));</script>\n</body>\n</html>\n"
    )


def _part(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")
