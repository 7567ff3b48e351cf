"""Versions that hold a digest of the code they stand for: edited code rebuilds what it made."""

import re
from collections.abc import Sequence
from pathlib import Path

from schemas.ids import digest

_COMMENT_LINES = re.compile(
    r"""(^[ \t\f]*\#[^\n]*(?:\n|\Z))|\#[^\n]*"""
    r"""|"{3}(?:\\.|[^\\])*?"{3}|'{3}(?:\\.|[^\\])*?'{3}|"(?:\\.|[^\\"])*"|'(?:\\.|[^\\'])*'""",
    re.DOTALL | re.MULTILINE,
)
"""A comment that has its line for itself (the group), another comment, or a string."""


def code_digest(modules: Sequence[str]) -> str:
    """First 8 hex digits of sha256 over the source of modules, named as paths below `quality/`; a list of words with
    its suffix.

    Lines that hold nothing but a comment don't count: explaining a step must not judge a whole corpus again.
    """
    folder = Path(__file__).parent
    texts = {name: folder / (name if name.endswith(".txt") else f"{name}.py") for name in modules}
    sources = {name: path.read_text(encoding="utf-8") for name, path in texts.items()}
    return digest([text if name.endswith(".txt") else without_comments(text) for name, text in sources.items()])[:8]


def without_comments(source: str) -> str:
    """Python source without the lines that hold nothing but a comment."""
    # A line that begins with `#` may be part of a string, so strings are found with the comments: outside of both,
    # Python has neither quotes nor number signs. Every process that begins does this for some fifty files, for which
    # Python's own tokenizer takes a third of a second.
    return _COMMENT_LINES.sub(lambda found: "" if found[1] else found[0], source)
