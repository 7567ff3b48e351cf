"""One way to ask a model that speaks the OpenAI protocol: schema, cache, retries, breaker.

The SDK's own retries are off; `Retry` is the only policy. Only complete, valid answers are cached, by content: model,
template version, schema, decoding, text and image keys; so an unchanged rerun sends nothing. A failure is never an
answer: after its last attempt a request raises `JudgeError`, and `breaker_limit` failures in a row stop all others.

Untrusted text goes into `data_block` only: JSON inside a named tag, with `<` escaped, so it can't close the tag; the
system message is a constant.
"""

from __future__ import annotations

import base64
import json
import os
import random
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from quality.judge import Cost, JudgeError
from schemas.ids import digest

RETRIED_STATUS = frozenset({408, 409, 425, 429})
"""Client errors worth another try; every 5xx is too."""


@dataclass(frozen=True, slots=True)
class Retry:
    """attempts in all, full-jitter backoff base_s·2^n up to cap_s, seconds per call and per request altogether."""

    attempts: int = 6
    base_s: float = 0.5
    cap_s: float = 20.0
    timeout_s: float = 60.0
    deadline_s: float = 300.0
    breaker_limit: int = 12


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of a request: `key` names its content without making it; `png` makes the bytes."""

    key: str
    png: Callable[[], bytes] = field(compare=False)


@dataclass(frozen=True, slots=True)
class Request:
    """A question. `schema` maps each field of the answer to `int` (0..10), `str`, or a tuple of allowed words."""

    template_version: str
    system: str
    text: str
    pictures: tuple[Picture, ...]
    schema: Mapping[str, Any]

    def json_schema(self) -> dict[str, Any]:
        """JSON schema of the answer: flat, all fields required, nothing else allowed."""
        kinds = {name: _field_schema(kind) for name, kind in self.schema.items()}
        return {"type": "object", "properties": kinds, "required": list(kinds), "additionalProperties": False}


def _field_schema(kind: Any) -> dict[str, Any]:
    if kind is int:
        return {"type": "integer", "enum": list(range(11))}
    return {"type": "string"} if kind is str else {"type": "string", "enum": list(kind)}


class Garbage(ValueError):
    """An answer that is no JSON of the schema."""


def read_answer(text: str | None, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Answer text → checked fields. Raises `Garbage` that says what is wrong; never repairs or guesses."""
    try:
        plain = json.loads(text or "")
    except ValueError as error:
        raise Garbage(f"no JSON: {(text or '')[:80]!r}") from error
    if not isinstance(plain, dict) or set(plain) != set(schema):
        found = sorted(plain) if isinstance(plain, dict) else type(plain).__name__
        raise Garbage(f"expected the fields {sorted(schema)}, found {str(found)[:120]}")
    for name, kind in schema.items():
        value = plain[name]
        if kind is int and not (type(value) is int and 0 <= value <= 10):
            raise Garbage(f"{name}: expected an integer 0..10, found {value!r:.40}")
        if kind is str and not isinstance(value, str):
            raise Garbage(f"{name}: expected text, found {value!r:.40}")
        if isinstance(kind, tuple) and value not in kind:
            raise Garbage(f"{name}: expected one of {kind}, found {value!r:.40}")
    return plain


def data_block(name: str, value: Any) -> str:
    """Untrusted data as delimited JSON; `<` is escaped, so nothing inside can close the block."""
    return f'<data name="{name}">\n{json.dumps(value, ensure_ascii=False).replace("<", chr(92) + "u003c")}\n</data>'


@dataclass(frozen=True, slots=True)
class Answer:
    """Checked fields of an answer, and what it cost."""

    fields: dict[str, Any]
    cost: Cost


class ModelClient:
    """Asks a model; safe to use from several threads.

    `base_url` and `model` name the endpoint; the key is read from `VESPER_JUDGE_API_KEY` or `OPENAI_API_KEY` and never
    written anywhere. `cache` is a folder, usually `$VESPER_HOME/cache/judge`.
    """

    def __init__(
        self,
        base_url: str,
        model: str,
        cache: Path | None,
        *,
        retry: Retry | None = None,
        concurrency: int = 8,
        max_tokens: int = 400,
    ) -> None:
        if concurrency < 1:
            raise ValueError(f"concurrency: expected at least 1, found {concurrency}")
        self.model = model
        self.retry = retry or Retry()
        self.requests_sent = 0
        self._cache = cache
        self._concurrency = concurrency
        self._max_tokens = max_tokens
        self._base_url = base_url
        self._lock = threading.Lock()
        self._failures = 0
        self._dead: str | None = None
        self._client: Any = None

    def ask_all(self, requests: Sequence[Request]) -> list[Answer]:
        """Answers in order, at most `concurrency` requests at a time.

        Every request is tried (so that all complete answers are cached) unless the endpoint is dead; then raises
        `JudgeError` with the first failure and their number.
        """
        with ThreadPoolExecutor(self._concurrency) as pool:
            results = list(pool.map(self._try, requests))
        failures = [result for result in results if isinstance(result, JudgeError)]
        if failures:
            raise JudgeError(f"{len(failures)} of {len(requests)} requests failed; the first: {failures[0]}")
        return [result for result in results if isinstance(result, Answer)]

    def _try(self, request: Request) -> Answer | JudgeError:
        try:
            return self.ask(request)
        except JudgeError as error:
            return error

    def ask(self, request: Request) -> Answer:
        """One answer, from the cache if it is there. Raises `JudgeError`."""
        path = self._cache_path(request)
        if (cached := self._read_cache(path, request)) is not None:
            return cached
        answer = self._ask_with_retries(request)
        self._write_cache(path, answer)
        return answer

    def _ask_with_retries(self, request: Request) -> Answer:
        start, last = time.monotonic(), "no attempt"
        for attempt in range(self.retry.attempts):
            if self._dead:
                raise JudgeError(self._dead)
            left = self.retry.deadline_s - (time.monotonic() - start)
            if left <= 0:
                last += f"; deadline of {self.retry.deadline_s} s passed"
                break
            wait_s: float | None = None
            try:
                answer = self._send(request, attempt, min(self.retry.timeout_s, left))
                with self._lock:
                    self._failures = 0
                return answer
            except Garbage as error:
                last = f"invalid answer: {error}"
            except Exception as error:  # sorted by kind in _sort: unknown ones are raised again
                last, wait_s = self._sort(error)
            backoff = random.uniform(0, min(self.retry.cap_s, self.retry.base_s * 2**attempt))
            pause = min(max(wait_s or 0.0, backoff), max(self.retry.deadline_s - (time.monotonic() - start), 0.0))
            if attempt + 1 < self.retry.attempts:
                time.sleep(pause)
        tried = f"no valid answer in {self.retry.attempts} attempts"
        raise JudgeError(f"judge {self.model} at {self._base_url}: {tried}; {last}")

    def _sort(self, error: Exception) -> tuple[str, float | None]:
        """A failed call → (what to say, seconds the server asks to wait). Ends everything if it can't get better."""
        import openai

        if isinstance(error, openai.APIStatusError):
            status, said = error.status_code, str(error.message)[:160]
            if status in RETRIED_STATUS or status >= 500:
                if status != 429:
                    self._count_failure(f"HTTP {status}")
                return f"HTTP {status}: {said}", _retry_after(error.response.headers.get("retry-after"))
            if status in (400, 413, 422):
                raise JudgeError(f"judge {self.model}: the request was refused, HTTP {status}: {said}") from None
            self._dead = f"judge {self.model} at {self._base_url}: HTTP {status}: {said}; check URL, model and key"
            raise JudgeError(self._dead) from None
        if isinstance(error, openai.APIConnectionError):  # includes APITimeoutError
            self._count_failure(type(error).__name__)
            return type(error).__name__, None
        if isinstance(error, openai.APIError):
            self._count_failure(type(error).__name__)
            return f"{type(error).__name__}: {str(error)[:160]}", None
        if isinstance(error, ValueError):  # a body that is no JSON at all
            return f"invalid body: {str(error)[:80]}", None
        raise error

    def _count_failure(self, what: str) -> None:
        with self._lock:
            self._failures += 1
            if self._failures >= self.retry.breaker_limit and not self._dead:
                self._dead = (
                    f"judge {self.model} at {self._base_url} is dead: {self._failures} failures in a row, the last "
                    f"{what}; start it again and rerun: all answers so far are kept"
                )

    def _send(self, request: Request, attempt: int, timeout_s: float) -> Answer:
        content: list[dict[str, Any]] = [{"type": "text", "text": request.text}]
        for picture in request.pictures:
            url = f"data:image/png;base64,{base64.b64encode(picture.png()).decode()}"
            content.append({"type": "image_url", "image_url": {"url": url}})
        schema = {"name": "answer", "schema": request.json_schema(), "strict": True}
        with self._lock:
            self.requests_sent += 1
        began = time.monotonic()
        reply = self._openai().chat.completions.create(
            model=self.model,
            messages=[{"role": "system", "content": request.system}, {"role": "user", "content": content}],
            response_format={"type": "json_schema", "json_schema": schema},
            temperature=0,
            seed=attempt,  # a server that is deterministic would repeat its garbage
            max_tokens=self._max_tokens,
            timeout=timeout_s,
        )
        seconds = time.monotonic() - began
        choices = getattr(reply, "choices", None)
        if not choices or choices[0].message is None:
            raise Garbage("no choices")
        if choices[0].finish_reason != "stop":
            raise Garbage(f"incomplete: finish_reason {choices[0].finish_reason!r}")
        fields = read_answer(choices[0].message.content, request.schema)
        prompt, completion = (reply.usage.prompt_tokens, reply.usage.completion_tokens) if reply.usage else (0, 0)
        return Answer(fields, Cost(prompt, completion, seconds))

    def _openai(self) -> Any:
        with self._lock:
            if self._client is None:
                import openai

                key = os.environ.get("VESPER_JUDGE_API_KEY") or os.environ.get("OPENAI_API_KEY") or "none"
                self._client = openai.OpenAI(base_url=self._base_url, api_key=key, max_retries=0)
            return self._client

    def _cache_path(self, request: Request) -> Path | None:
        if self._cache is None:
            return None
        key = digest(
            {
                "model": self.model, "template": request.template_version, "system": request.system,
                "schema": request.json_schema(), "decoding": {"temperature": 0, "max_tokens": self._max_tokens},
                "text": request.text, "pictures": [picture.key for picture in request.pictures],
            }
        )  # fmt: skip
        return self._cache / key[:2] / f"{key}.json"

    def _read_cache(self, path: Path | None, request: Request) -> Answer | None:
        if path is None or not path.exists():
            return None
        try:
            plain = json.loads(path.read_text(encoding="utf-8"))
            fields = read_answer(json.dumps(plain["answer"]), request.schema)
        except (ValueError, KeyError, TypeError):
            return None  # a damaged entry is asked again
        return Answer(fields, Cost(int(plain["prompt_tokens"]), int(plain["completion_tokens"]), 0.0, cached=True))

    def _write_cache(self, path: Path | None, answer: Answer) -> None:
        if path is None:
            return
        plain = {
            "answer": answer.fields, "prompt_tokens": answer.cost.prompt_tokens,
            "completion_tokens": answer.cost.completion_tokens,
        }  # fmt: skip
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".put-")
        with os.fdopen(handle, "w", encoding="utf-8") as stream:
            json.dump(plain, stream, ensure_ascii=False, sort_keys=True)
        os.replace(temporary, path)


def _retry_after(value: str | None) -> float | None:
    """Seconds of a Retry-After header; dates and nonsense are ignored."""
    try:
        return max(float(value), 0.0) if value else None
    except ValueError:
        return None
