"""A checkpoint behind the OpenAI protocol: `/v1/chat/completions` (text and pictures in, text out) and `/v1/models`.

For small models and for trying out; large ones are vLLM's (`make serve`). Pictures come as data URIs only: nothing is
fetched. One reply (or `n` to one prompt) is made at a time. Bodies, pictures, texts and replies have limits; what the
server can't do is refused, never passed over. It listens on the loopback and refuses pages (`pipelines.http_guard`);
elsewhere it needs a key (`VESPER_SERVE_API_KEY`).
"""

from __future__ import annotations

import base64
import hmac
import json
import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.http_guard import LOOPBACK, App, Guard, Refusal
from pipelines.store.images import image_size
from trainer.serving.checkpoint_policy import CheckpointPolicy

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from trainer.modeling.checkpoint import Checkpoint
from trainer.serving.limits import ServeLimits

KEY_VARIABLE = "VESPER_SERVE_API_KEY"
_DATA_URI = re.compile(r"data:image/(?:png|jpe?g|webp|bmp|gif);base64,", re.IGNORECASE)
_ONLY: Mapping[str, tuple[Any, ...]] = {
    "stream": (False,),
    "top_p": (1, 1.0),
    "stop": ([],),
    "tools": ([],),
    "presence_penalty": (0, 0.0),
    "frequency_penalty": (0, 0.0),
    "logit_bias": ({},),
    "response_format": ({"type": "text"},),
    "top_logprobs": (0,),
    "tool_choice": ("none", "auto"),
    "functions": ([],),
    "stream_options": (),
    "top_k": (0, -1),
    "min_p": (0, 0.0),
    "repetition_penalty": (1, 1.0),
    "stop_token_ids": ([],),
    "chat_template_kwargs": ({},),
}
"""Parameters that would change the reply in a way that isn't built: only these values (or none) are taken."""
_HEEDED = ("model", "messages", "temperature", "max_tokens", "max_completion_tokens", "n", "seed", "logprobs")
_WITHOUT_EFFECT = (
    "user",
    "metadata",
    "store",
    "service_tier",
    "parallel_tool_calls",
    "safety_identifier",
    "prompt_cache_key",
)
"""Parameters of the protocol that say nothing of the reply: any value is taken."""
_KNOWN = frozenset({*_ONLY, *_HEEDED, *_WITHOUT_EFFECT})


class RequestRefused(ValueError):
    """A request that isn't answered: HTTP status, the parameter at fault."""

    def __init__(self, status: int, message: str, param: str = "", code: str = "invalid_value") -> None:
        super().__init__(message)
        self.status, self.param, self.code = status, param, code

    def body(self) -> dict[str, object]:
        """In the protocol's form."""
        kind = "authentication_error" if self.status == 401 else "invalid_request_error"
        return {"error": {"message": str(self), "type": kind, "param": self.param or None, "code": self.code}}


@dataclass(frozen=True, slots=True)
class Ask:
    """A checked request. `row` is like a row of the shards."""

    row: dict[str, Any]
    temperature: float
    max_tokens: int
    n: int
    seed: int
    logprobs: bool


class ChatServer:
    """The application over one checkpoint. `name` is the model's; `key` is asked for where it isn't empty; `hosts` are
    the Host headers that are answered (empty: any)."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        name: str = "",
        key: str = "",
        limits: ServeLimits | None = None,
        hosts: tuple[str, ...] = LOOPBACK,
    ) -> None:
        self.name = name or CheckpointPolicy(checkpoint).name
        self.limits = limits or ServeLimits()
        self._checkpoint, self._key, self._hosts = checkpoint, key, hosts
        self._lock = threading.Lock()

    def app(self) -> App:
        """The ASGI application, behind the guard: no page reaches it, whatever name it gives this machine."""
        from starlette.applications import Starlette

        return Guard(Starlette(routes=self.routes()), hosts=self._hosts, untyped=True, written=_refused)

    def routes(self) -> list[Route]:
        """What is answered."""
        from starlette.routing import Route

        return [
            Route("/v1/models", self._models, methods=["GET"]),
            Route("/v1/chat/completions", self._chat, methods=["POST"]),
            Route("/health", self._health, methods=["GET"]),
        ]

    async def _health(self, request: Request) -> Response:
        from starlette.responses import JSONResponse

        return JSONResponse({"status": "ok", "model": self.name})

    async def _models(self, request: Request) -> Response:
        from starlette.responses import JSONResponse

        try:
            self._admit(request)
        except RequestRefused as refused:
            return JSONResponse(refused.body(), refused.status)
        model = {"id": self.name, "object": "model", "created": 0, "owned_by": "vesper"}
        return JSONResponse({"object": "list", "data": [model]})

    async def _chat(self, request: Request) -> Response:
        from starlette.concurrency import run_in_threadpool
        from starlette.responses import JSONResponse

        try:
            self._admit(request)
            body = await self._body(request)
            ask = self.check(body)
            answer = await run_in_threadpool(self.answer, ask)
        except RequestRefused as refused:
            return JSONResponse(refused.body(), refused.status)
        return JSONResponse(answer)

    def _admit(self, request: Request) -> None:
        """Raises `RequestRefused` for a wrong key."""
        given = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self._key and not hmac.compare_digest(given.encode(), self._key.encode()):
            raise RequestRefused(401, "expected the server's key as `Authorization: Bearer …`", code="invalid_api_key")

    async def _body(self, request: Request) -> dict[str, Any]:
        """The body as an object, read no further than its limit."""
        whole = bytearray()
        async for part in request.stream():
            whole += part
            if len(whole) > self.limits.body_bytes:
                raise RequestRefused(
                    413, f"expected a body of at most {self.limits.body_bytes} bytes", code="too_large"
                )
        try:
            found = json.loads(bytes(whole))
        except (ValueError, RecursionError):
            raise RequestRefused(400, "expected a JSON body", code="bad_json") from None
        if not isinstance(found, dict):
            raise RequestRefused(400, f"expected a JSON object, found {type(found).__name__}", code="bad_json")
        return found

    # -- what is asked ---------------------------------------------------------------------------------------------

    def check(self, body: Mapping[str, object]) -> Ask:
        """A request's body → what is asked. Raises `RequestRefused` naming the parameter, what was expected and
        found."""
        if body.get("model") != self.name:
            found = str(body.get("model"))[:80]
            raise RequestRefused(404, f"expected the model {self.name!r}, found {found!r}", "model", "model_not_found")
        for name, value in body.items():
            if value is not None and (name not in _KNOWN or (name in _ONLY and value not in _ONLY[name])):
                name = name[:80]
                raise RequestRefused(
                    400, f"{name}: {json.dumps(value)[:60]} isn't built; leave it out", name, "unsupported"
                )
        most = self.limits.max_tokens
        asked = body.get("max_tokens") if body.get("max_completion_tokens") is None else body["max_completion_tokens"]
        default = min(most, self._checkpoint.processor.preset.max_answer_tokens)
        row = self._row(body.get("messages"))
        return Ask(
            row,
            number_in(body, "temperature", 1.0, 0.0, 2.0),
            default if asked is None else int(number_in({"max_tokens": asked}, "max_tokens", 0, 1, most, whole=True)),
            int(number_in(body, "n", 1, 1, self.limits.n, whole=True)),
            int(number_in(body, "seed", secrets.randbits(31), -(2**63), 2**63, whole=True)),
            _flag(body, "logprobs"),
        )

    def _row(self, messages: object) -> dict[str, Any]:
        limits = self.limits
        if not isinstance(messages, list) or not 1 <= len(messages) <= limits.turns:
            raise RequestRefused(400, f"messages: expected a list of 1 to {limits.turns} turns", "messages")
        images: list[bytes] = []
        turns, chars = [], 0
        for number, turn in enumerate(messages):
            where = f"messages[{number}]"
            if not isinstance(turn, dict) or turn.get("role") not in ("system", "user", "assistant"):
                raise RequestRefused(400, f"{where}: expected a turn of system, user or assistant", "messages")
            content = turn.get("content")
            parts: Any = [{"type": "text", "text": content}] if isinstance(content, str) else content
            if not isinstance(parts, list):
                raise RequestRefused(400, f"{where}.content: expected text or a list of parts", "messages")
            made = []
            for part in parts:
                kind = part.get("type") if isinstance(part, dict) else None
                if kind == "text" and isinstance(part.get("text"), str):
                    chars += len(part["text"])
                    made.append({"type": "text", "text": _whole(part["text"])})
                elif kind == "image_url":
                    images.append(self._image(part.get("image_url"), where))
                    made.append({"type": "image"})
                else:
                    raise RequestRefused(
                        400, f"{where}: expected parts of type text or image_url, found {kind!r:.40}", "messages"
                    )
            turns.append({"role": turn["role"], "content": made})
        if len(images) > limits.images or chars > limits.text_chars:
            raise RequestRefused(
                413,
                f"expected at most {limits.images} pictures and {limits.text_chars} characters, found "
                f"{len(images)} and {chars}",
                "messages",
                "too_large",
            )
        if turns[-1]["role"] != "user":
            raise RequestRefused(400, "messages: expected a user's turn at the end", "messages")
        return {"sample_id": "request", "messages": json.dumps(turns), "images": images, "answer": ""}

    def _image(self, value: object, where: str) -> bytes:
        url = value.get("url") if isinstance(value, dict) else None
        found = _DATA_URI.match(url) if isinstance(url, str) else None
        if found is None or not isinstance(url, str):
            raise RequestRefused(
                400, f"{where}: expected a picture as data:image/…;base64,…; nothing is fetched", "messages"
            )
        if (len(url) - found.end()) * 3 // 4 > self.limits.image_bytes:
            raise RequestRefused(
                413, f"{where}: expected a picture of at most {self.limits.image_bytes} bytes", "messages", "too_large"
            )
        try:
            data = base64.b64decode(url[found.end() :], validate=True)
            width, height = image_size(data)
        except ValueError:  # `binascii.Error` and `ImageError` are
            raise RequestRefused(
                400, f"{where}: expected a picture that can be read", "messages", "bad_image"
            ) from None
        if width * height > self.limits.image_pixels:
            raise RequestRefused(
                413,
                f"{where}: expected at most {self.limits.image_pixels} pixels, found {width} x {height}",
                "messages",
                "too_large",
            )
        return data

    # -- the reply -------------------------------------------------------------------------------------------------

    def answer(self, ask: Ask) -> dict[str, object]:
        """The reply as the protocol has it. Raises `RequestRefused` for what can't be put to the model."""
        import torch

        from trainer.modeling.batches import BadSample
        from trainer.modeling.generation import generate

        model, processor = self._checkpoint.model, self._checkpoint.processor
        device = next(model.parameters()).device
        generator = torch.Generator(device).manual_seed(ask.seed % 2**63) if ask.temperature > 0 else None
        with self._lock:
            try:
                prompt = processor.prompt(ask.row)
                replies = generate(
                    model,
                    processor,
                    [ask.row],
                    group=ask.n,
                    temperature=ask.temperature,
                    max_new_tokens=ask.max_tokens,
                    generator=generator,
                    batch_size=ask.n,
                )
            except BadSample as bad:
                raise RequestRefused(400, str(bad)[:300], "messages", "bad_image") from bad
        choices = [
            {
                "index": index,
                "finish_reason": "stop" if reply.finished else "length",
                "message": {"role": "assistant", "content": reply.text, "refusal": None},
                "logprobs": self._logprobs(reply) if ask.logprobs else None,
            }
            for index, reply in enumerate(replies)
        ]
        spent = sum(len(reply.token_ids) for reply in replies)
        usage = {"prompt_tokens": len(prompt.ids), "completion_tokens": spent, "total_tokens": len(prompt.ids) + spent}
        return {
            "id": f"chatcmpl-{secrets.token_hex(12)}",
            "object": "chat.completion",
            "created": int(time.time()),
            "model": self.name,
            "choices": choices,
            "usage": usage,
        }

    def _logprobs(self, reply: Any) -> dict[str, Any]:
        """Of every sampled token, under the distribution that it was sampled from."""
        text = self._checkpoint.processor.tokenizer.convert_ids_to_tokens(reply.token_ids)
        content = [
            {"token": token, "logprob": logprob, "bytes": None, "top_logprobs": []}
            for token, logprob in zip(text, reply.logprobs, strict=True)
        ]
        return {"content": content, "refusal": None}


def _refused(refusal: Refusal) -> tuple[int, str, bytes]:
    """What the guard refuses, in the protocol's form; a foreign Host is 403, as clients of the protocol know it."""
    status = 403 if refusal.status == 421 else refusal.status
    body = RequestRefused(status, refusal.message, code=refusal.code).body()
    return status, "application/json", json.dumps(body).encode()


def _whole(text: str) -> str:
    """Lone surrogates, which JSON can hold and no tokenizer takes, replaced."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def number_in(
    body: Mapping[str, Any], name: str, default: float, low: float, high: float, whole: bool = False
) -> float:
    """A number of a request's body, `default` where it has none; `whole`: an integer. Raises `RequestRefused` unless it
    lies in `low`..`high`."""
    value = body.get(name)
    if value is None:
        return default
    good = isinstance(value, int if whole else int | float) and not isinstance(value, bool) and low <= value <= high
    if not good:
        raise RequestRefused(
            400, f"{name}: expected a{' whole' if whole else ''} number in {low:g}..{high:g}, found {value!r:.40}", name
        )
    return value if isinstance(value, int) else float(value)


def _flag(body: Mapping[str, object], name: str) -> bool:
    value = body.get(name)
    if value not in (None, True, False):
        raise RequestRefused(400, f"{name}: expected true or false, found {value!r:.40}", name)
    return bool(value)


@contextmanager
def serving(server: ChatServer, host: str = "127.0.0.1", port: int = 0) -> Iterator[tuple[str, threading.Thread]]:
    """Serve in a thread; (its base URL, the thread that ends with it). Port 0 is a free one.

    Raises `OSError` for a port that is taken, `ValueError` for a foreign host without a key.
    """
    import uvicorn

    if host not in LOOPBACK and not os.environ.get(KEY_VARIABLE):
        raise ValueError(f"--host {host}: whoever reaches this machine could ask; set {KEY_VARIABLE} to a key first")
    listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    config = uvicorn.Config(
        server.app(), log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=5
    )
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listening]}, name="chat-server", daemon=True)
    thread.start()
    try:
        while not running.started:
            if not thread.is_alive():
                raise RuntimeError("chat server: it ended while it started")
            time.sleep(0.01)
        shown = f"[{host}]" if ":" in host else host
        yield f"http://{shown}:{listening.getsockname()[1]}/v1", thread
    finally:
        running.should_exit = True
        thread.join(10)
        listening.close()
