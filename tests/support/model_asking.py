"""Questions for a model client, how patient it is with a test's server, and the answers that its book has kept."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

from openai_server import COMPLETION_TOKENS, PROMPT_TOKENS

from quality.model_client.client import Request, Retry

QUICK = Retry(attempts=6, base_s=0.01, cap_s=0.05, timeout_s=10, deadline_s=20, breaker_limit=6)
SCHEMA = {"alignment": int, "reason": str}
PER_ANSWER = PROMPT_TOKENS + COMPLETION_TOKENS


def questions(count: int, first: int = 0) -> list[Request]:
    return [Request("t", "system", f"question {k}", (), SCHEMA) for k in range(first, first + count)]


def answers_kept(folder: Path) -> int:
    """Answers in a folder's book (`AnswerBook`), of all models and nights; 0 where there is no book yet."""
    path = folder / "judge.sqlite"
    if not path.exists():
        return 0
    with contextlib.closing(sqlite3.connect(path, timeout=60)) as base:
        return int(base.execute("SELECT count(*) FROM answers").fetchone()[0])
