"""Searches with patterns of task files: strangers' patterns may take for ever, so each search has a time of its own."""

import json
import re
import subprocess
import sys
from collections.abc import Sequence

SEARCH_S = 5.0
MAX_PATTERN, MAX_CHARS = 2000, 1 << 20
_SEARCH = (
    "import json,re,sys;asked=json.load(sys.stdin);"
    "print(int(any(re.search(asked['pattern'],line) for line in asked['lines'])))"
)


class RuleError(ValueError):
    """Rules of a task that its function can't read: the task can't be decided."""


def found_in(pattern: str, lines: Sequence[str]) -> bool:
    """Whether some line matches. Raises `RuleError` for a pattern that is none, or takes longer than `SEARCH_S`."""
    try:
        re.compile(pattern[: MAX_PATTERN + 1])
        if len(pattern) > MAX_PATTERN:
            raise ValueError(f"longer than {MAX_PATTERN} characters")
    except (re.error, ValueError, RecursionError, OverflowError) as error:
        raise RuleError(f"pattern {pattern[:60]!r}: {error}") from error
    asked = json.dumps({"pattern": pattern, "lines": [line[:MAX_CHARS] for line in lines]})
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", _SEARCH], input=asked, capture_output=True, text=True, timeout=SEARCH_S
        )
    except subprocess.TimeoutExpired:
        raise RuleError(f"pattern {pattern[:60]!r} took longer than {SEARCH_S:g} s") from None
    if done.returncode:
        raise RuleError(f"pattern {pattern[:60]!r}: {done.stderr.strip()[-200:]}")
    return done.stdout.strip() == "1"
