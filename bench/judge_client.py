"""Figures of the judge's client: requests a second beside a bare loop over the `openai` client, at equal concurrency.

Both ask the same questions of the same local server, a process of its own that answers after 0.2 s, give or take a
half. The bare loop is a thread pool that calls the SDK and reads nothing; ours checks, stores and books every answer.
They take turns, the best of some rounds counts, and both must have got all answers.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.timing import result

SERVER = Path(__file__).parents[1] / "tests" / "support" / "openai_server.py"
CONCURRENCY = 32
REQUESTS = 600
ROUNDS = 3


def rows(small: int = 1) -> Iterator[dict[str, Any]]:
    """Requests a second with 32 in flight; a ratio is ours over the bare loop's."""
    count = max(REQUESTS // small, CONCURRENCY)
    with server(0.2, 0.1) as url:
        ours, bare = 0.0, 0.0
        _bare(url, CONCURRENCY)  # imports and the server's first connections
        for turn in range(1 if small > 1 else ROUNDS):
            bare = max(bare, count / _bare(url, count))
            ours = max(ours, count / _ours(url, count, turn))
    yield result(
        f"judge client, {CONCURRENCY} in flight, 0.2 s a request", ours, "requests/s", "bare openai client loop", bare
    )


@contextlib.contextmanager
def server(latency_s: float, jitter_s: float) -> Iterator[str]:
    """URL of a local server in a process of its own."""
    command = [sys.executable, str(SERVER), "--latency", str(latency_s), "--jitter", str(jitter_s)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdin is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait(10)
        process.stdout.close()


def _requests(count: int, word: str = "question") -> list[Any]:
    from quality.judges.openai_judge import _ALIGNMENT, STEP_RUBRIC, TEMPLATE_VERSION
    from quality.model_client.client import Request

    return [Request(TEMPLATE_VERSION, STEP_RUBRIC, f"{word} {k}", (), _ALIGNMENT) for k in range(count)]


def _ours(url: str, count: int, turn: int) -> float:
    from quality.model_client.client import ModelClient

    requests = _requests(count)
    with tempfile.TemporaryDirectory() as folder:
        client = ModelClient(url, f"m{turn}", Path(folder), concurrency=CONCURRENCY)
        client.ask_all(_requests(CONCURRENCY, "first"))  # both have their connections before time is taken
        began = time.perf_counter()
        answers = client.ask_all(requests)
        took = time.perf_counter() - began
        client.close()
    if sum(answer is not None for answer in answers) != count or client.requests_sent != count + CONCURRENCY:
        raise AssertionError(f"judge client: {count} questions, {client.requests_sent} requests")
    return took


def _bare(url: str, count: int) -> float:
    import openai

    client = openai.OpenAI(base_url=url, api_key="none", max_retries=0)

    def ask(request: Any) -> str:
        schema = {"name": "answer", "schema": request.json_schema(), "strict": True}
        reply: Any = client.chat.completions.create(
            model="m",
            temperature=0,
            max_tokens=400,
            response_format={"type": "json_schema", "json_schema": schema},
            messages=[{"role": "system", "content": request.system}, {"role": "user", "content": request.text}],
        )  # type: ignore[call-overload]
        return str(reply.choices[0].message.content)

    requests = _requests(count)
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        list(pool.map(ask, _requests(CONCURRENCY, "first")))
        began = time.perf_counter()
        texts = list(pool.map(ask, requests))
        took = time.perf_counter() - began
    client.close()
    if sum("fits" in text for text in texts) != count:
        raise AssertionError("bare loop: answers are missing")
    return took


if __name__ == "__main__":
    print(json.dumps(list(rows()), indent=1))
