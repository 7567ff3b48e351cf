"""Versions that hold a digest of the code they stand for: edited code rebuilds what it made."""

import io
import tokenize
from collections.abc import Sequence
from pathlib import Path

from schemas.ids import digest


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
    # Only the tokenizer knows whether a line that begins with `#` is a comment or part of a string.
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {
        token.start[0] for token in tokens if token.type == tokenize.COMMENT and token.line.lstrip().startswith("#")
    }
    lines = source.splitlines(keepends=True)
    return "".join(line for number, line in enumerate(lines, 1) if number not in comments)
