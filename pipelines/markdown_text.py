"""Text that comes from data, written so that no Markdown reader takes any of it for markup."""

import html
import re

_SIGNS = re.compile(r"[\\`*\[\]|~!]|(?<![^\W_])_|_(?![^\W_])")
"""An underscore within a word is no markup: it stays, so that addresses that hold one can still be followed."""


def markdown_text(text: str, most: int | None = None) -> str:
    """Text → one line with every sign of Markdown and HTML escaped, fit for a cell of a table; of a text longer than
    `most` characters only the first ones."""
    flat = " ".join(text.split())[:most]
    return _SIGNS.sub(r"\\\g<0>", html.escape(flat, quote=False))
