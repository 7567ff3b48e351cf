"""A server of /v1/chat/completions as policies ask it: free text out, pictures in, one retry policy, shared limits.

What judges ask (answers of a schema, cached, billed) is `quality.model_client.client`; the sender, the retry policy and
the rate limits are the same. Replies of policies are never cached: a sampled reply is no fact.
"""

import asyncio
import base64
import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from generators.policies.policy import PolicyError
from quality.model_client.questions import Garbage, estimate_tokens, read_usage
from quality.model_client.rate_limit import Level, RateLimiter, RateLimits
from quality.model_client.retry import Failure, Retry, sort_failure
from quality.model_client.sender import Sender

Messages = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How replies are drawn. `extra` goes into the body as it is (vLLM's `chat_template_kwargs`, `top_k`, …)."""

    temperature: float = 0.0
    top_p: float = 1.0
    max_tokens: int = 512
    extra: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ChatText:
    """A reply's text, and the tokens that were billed for it."""

    text: str
    prompt_tokens: int = 0
    completion_tokens: int = 0


class _InMemory:
    """Levels of rate limits for one process (`quality.model_client.rate_limit.Levels`)."""

    def __init__(self) -> None:
        self._levels: dict[str, Level] = {}
        # One process asks one endpoint: no file is needed to share the levels.
        self._lock = threading.Lock()

    def change_level(self, bucket: str, change: Callable[[Level | None], Level]) -> None:
        with self._lock:
            self._levels[bucket] = change(self._levels.get(bucket))


class ChatEndpoint:
    """Asks one model; safe to use from several threads, so the policies of all devices share one.

    The key is that of `quality.model_client.keys.key_for` and never written anywhere. Rate limits hold for
    this object.
    """

    def __init__(
        self, base_url: str, model: str, *, retry: Retry | None = None, limits: RateLimits | None = None
    ) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise ValueError(f"endpoint: expected a URL that begins with http:// or https://, found {base_url!r:.80}")
        if not model:
            raise ValueError(f"endpoint {base_url!r:.80}: expected the name of a model, found none")
        self.model = model
        self.retry = retry or Retry()
        self._url = base_url
        self._limiter = RateLimiter(limits, _InMemory(), base_url) if limits is not None else None
        self._sender: Sender | None = None
        self._opening = threading.Lock()

    def ask(self, messages: Messages, sampling: Sampling | None = None, seed: int = 0) -> ChatText:
        """One reply. Raises `PolicyError` where none can be had: after the last attempt, at the deadline, or at once
        where another try is in vain."""
        drawn = sampling or Sampling()
        body: dict[str, Any] = {
            "messages": list(messages),
            "temperature": drawn.temperature,
            "top_p": drawn.top_p,
            "max_tokens": drawn.max_tokens,
            "seed": seed,
            **(drawn.extra or {}),
        }
        sender = self._opened()
        work = self._tried(sender, body, _estimate(messages, drawn.max_tokens))
        # The sender lives on its own loop and thread; callers of many threads wait for their own future.
        future: Future[ChatText] = asyncio.run_coroutine_threadsafe(work, sender.loop)
        try:
            return future.result()
        except BaseException:
            # Also for Ctrl-C: a request whose caller is gone must not be retried for minutes.
            future.cancel()
            raise

    def close(self) -> None:
        """Close connections; a later question opens them again."""
        with self._opening:
            # Swapped under the lock, closed outside of it: closing waits for requests in flight.
            sender, self._sender = self._sender, None
        if sender is not None:
            sender.close()

    def _opened(self) -> Sender:
        with self._opening:
            if self._sender is None:
                self._sender = Sender(self._url, self.model)
                self._sender.open()
            return self._sender

    async def _tried(self, sender: Sender, body: Mapping[str, object], estimate: int) -> ChatText:
        began, said = time.monotonic(), ""
        for attempt in range(self.retry.attempts):
            if self._limiter is not None:
                wait = self._limiter.take(estimate)
                began += wait  # rate limits don't count against the deadline
                await asyncio.sleep(wait)
            # The deadline spans all attempts, so a slow server can't hold a device longer than it.
            left = began + self.retry.deadline_s - time.monotonic()
            if left <= 0:
                break
            found = await _attempt(sender, body, min(self.retry.timeout_s, left))
            if isinstance(found, ChatText):
                self._correct(estimate, found.prompt_tokens + found.completion_tokens)
                return found
            # Never reached the server: nothing was billed, the limiter gets its tokens back.
            if not found.sent:
                self._correct(estimate, 0)
            said = found.said
            # A refusal (bad key, unknown model) stays one however often it is asked.
            if found.final or not found.retried:
                raise PolicyError(f"{self.model} at {self._url}: {said}")
            if attempt + 1 < self.retry.attempts:
                left = began + self.retry.deadline_s - time.monotonic()
                await asyncio.sleep(max(0.0, min(self.retry.pause_s(attempt, found.asked_s), left)))
        raise PolicyError(
            f"{self.model} at {self._url}: no reply after {self.retry.attempts} attempts or "
            f"{self.retry.deadline_s:g} s; the last: {said}"
        )

    def _correct(self, estimate: int, billed: int) -> None:
        if self._limiter is not None:
            self._limiter.correct(estimate, billed)


async def _attempt(sender: Sender, body: Mapping[str, object], timeout_s: float) -> ChatText | Failure:
    """One call; what isn't the endpoint's failure is raised."""
    try:
        return _read(await sender.post(body, timeout_s))
    except Garbage as garbage:
        return Failure(f"no reply in what it sent: {garbage}")
    except Exception as error:
        failure = sort_failure(error)
        if failure is None:
            raise
        return failure


def picture(image: bytes) -> dict[str, Any]:
    """An encoded screenshot as a part of a message."""
    # By the magic bytes, since worlds give PNG, recordings JPEG or WebP.
    kind = "jpeg" if image[:3] == b"\xff\xd8\xff" else "webp" if image[8:12] == b"WEBP" else "png"
    return {"type": "image_url", "image_url": {"url": f"data:image/{kind};base64,{base64.b64encode(image).decode()}"}}


def sent_messages(messages_json: str, images: Sequence[bytes]) -> list[dict[str, Any]]:
    """The chat of a row (`pipelines.prompts.messages`) as a client sends it: the same turns and parts in the same
    order, each picture in its place. Raises `ValueError` if it shows another number of pictures than there are."""
    turns: list[dict[str, Any]] = json.loads(messages_json)
    chats = [turn for turn in turns if not isinstance(turn["content"], str)]
    # Parts without text are pictures, in the order in which the chat shows them.
    places = [(turn["content"], at) for turn in chats for at, part in enumerate(turn["content"]) if "text" not in part]
    if len(places) != len(images):
        raise ValueError(f"messages: expected {len(places)} pictures, which the chat shows, found {len(images)}")
    for (parts, at), image in zip(places, images, strict=True):
        parts[at] = picture(image)
    return turns


def _read(data: bytes) -> ChatText:
    """The body of a reply → its text. Raises `Garbage` for a body that holds none."""
    try:
        body = json.loads(data)
    # RecursionError: a server that nests ten thousand brackets must not end the process.
    except (ValueError, RecursionError):
        raise Garbage(f"no JSON: {data[:80]!r}") from None
    choices = body.get("choices") if isinstance(body, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    content = message.get("content") if isinstance(message, dict) else None
    if not isinstance(content, str):
        raise Garbage(f"expected text, found {type(content).__name__}")
    usage = read_usage(body)
    # Lone surrogates can't be stored as UTF-8; they become the replacement character.
    text = content.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return ChatText(text, usage.prompt_tokens, usage.completion_tokens) if usage is not None else ChatText(text)


def _estimate(messages: Messages, max_tokens: int) -> int:
    texts: list[str] = []
    images: list[bytes] = []
    for message in messages:
        content: Any = message["content"]
        parts: Any = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for part in parts:
            if part["type"] == "text":
                texts.append(part["text"])
            else:
                data = part["image_url"]["url"].partition(",")[2]
                # Only the head is decoded (it holds the size); the rest is
                # filled up to the length that base64 implies.
                images.append(base64.b64decode(data[:64]) + b"\0" * (len(data) * 3 // 4))
    return estimate_tokens("\n".join(texts), images, max_tokens)
