"""Questions for a model client, and how patient it is with a test's server."""

from __future__ import annotations

from openai_server import COMPLETION_TOKENS, PROMPT_TOKENS

from quality.model_client.client import Request, Retry

QUICK = Retry(attempts=6, base_s=0.01, cap_s=0.05, timeout_s=10, deadline_s=20, breaker_limit=6)
SCHEMA = {"alignment": int, "reason": str}
PER_ANSWER = PROMPT_TOKENS + COMPLETION_TOKENS


def questions(count: int, first: int = 0) -> list[Request]:
    return [Request("t", "system", f"question {k}", (), SCHEMA) for k in range(first, first + count)]
