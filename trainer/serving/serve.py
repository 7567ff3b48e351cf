"""A checkpoint behind the OpenAI protocol: `/v1/chat/completions` (text and pictures in, text out) and `/v1/models`.

For small models and for trying out; large ones are vLLM's (`make serve`). Pictures come as data URIs only: nothing is
fetched. One reply (or `n` to one prompt) is made at a time, in the order of asking, and none for a client that has
gone. Bodies, pictures, texts and replies have limits; what the server can't do is refused, never passed over. It
listens on the loopback and refuses pages (`pipelines.http_guard`); elsewhere it needs a key (`VESPER_SERVE_API_KEY`).
"""

from __future__ import annotations

import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from pipelines.http_guard import LOOPBACK, App, Guard, Refusal
from pipelines.ports import named_port
from trainer.serving.chat_reply import ChatReply
from trainer.serving.chat_request import ChatAsk, ChatRequests
from trainer.serving.checkpoint_policy import CheckpointPolicy
from trainer.serving.limits import ServeLimits
from trainer.serving.requests import RequestRefused, check_key, read_object
from trainer.serving.turns import Caller, TurnReply

if TYPE_CHECKING:
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

    from trainer.modeling.batches import Row
    from trainer.modeling.checkpoint import Checkpoint
    from trainer.modeling.generation import Completion
    from trainer.modeling.processor import Processor

KEY_VARIABLE = "VESPER_SERVE_API_KEY"
CUT_HEADER = "X-Vesper-Cut"
"""Of an answer: which texts were read without their middle."""


class ChatServer:
    """The application over one checkpoint. `name` is the model's; `key` is asked for where it isn't empty; `hosts` are
    the Host headers that are answered (empty: any). `cut_texts`: see `ChatRequests`."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        name: str = "",
        key: str = "",
        limits: ServeLimits | None = None,
        hosts: tuple[str, ...] = LOOPBACK,
        cut_texts: bool = False,
    ) -> None:
        self.name = name or CheckpointPolicy(checkpoint).name
        self.limits = limits or ServeLimits()
        self._checkpoint, self._key, self._hosts = checkpoint, key, hosts
        # the model's lock, and that of reading requests, which needn't wait for a reply
        self._lock, self._reading = threading.Lock(), threading.Lock()
        # anyio's lock is fair: replies are made in the order in which they were asked for
        self._turn = anyio.Lock()
        text = checkpoint.model.config.get_text_config()
        self._vocabulary = int(text.vocab_size)
        reader = checkpoint.processor.apart()
        context = int(text.max_position_embeddings)
        self._requests = ChatRequests(self.name, reader, self.limits, context, self._vocabulary, cut_texts)

    def app(self) -> App:
        """The ASGI application, behind the guard: no page reaches it, whatever name it gives this machine."""
        from starlette.applications import Starlette
        from starlette.exceptions import HTTPException

        handlers: Any = {RequestRefused: _answer_refused, HTTPException: _answer_unknown}
        starlette = Starlette(routes=self.routes(), exception_handlers=handlers)
        return Guard(starlette, hosts=self._hosts, untyped=True, written=_refused)

    def routes(self) -> list[Route]:
        """What is answered."""
        from starlette.routing import Route

        return [
            Route("/v1/models", self._models, methods=["GET"]),
            # a name may hold slashes, as a hub's do
            Route("/v1/models/{name:path}", self._models, methods=["GET"]),
            Route("/v1/chat/completions", self._chat, methods=["POST"]),
            Route("/health", self._health, methods=["GET"]),
        ]

    async def _health(self, request: Request) -> Response:
        from starlette.responses import JSONResponse

        return JSONResponse({"status": "ok", "model": self.name})

    async def _models(self, request: Request) -> Response:
        from starlette.responses import JSONResponse

        self._admit(request)
        model = {"id": self.name, "object": "model", "created": 0, "owned_by": "vesper"}
        name = request.path_params.get("name")
        if name not in (None, self.name):
            raise RequestRefused(
                404, f"expected the model {self.name!r}, found {name!r:.80}", "model", "model_not_found"
            )
        return JSONResponse(model if name else {"object": "list", "data": [model]})

    async def _chat(self, request: Request) -> Response:
        from starlette.concurrency import run_in_threadpool

        self._admit(request)
        ask = await run_in_threadpool(self._read, await self._body(request))
        headers = {CUT_HEADER: "; ".join(ask.cut)} if ask.cut else {}
        if ask.cut:
            logging.getLogger("uvicorn.error").warning("read without its middle: %s", headers[CUT_HEADER])
        reply: Any = TurnReply(self._turn, partial(self._answer, ask), streamed=ask.stream, headers=headers)
        return reply

    def _read(self, body: dict[str, Any]) -> ChatAsk:
        with self._reading:  # one tokenizer isn't for two threads
            return self._requests.read(body)

    def _admit(self, request: Request) -> None:
        check_key(request.headers, self._key)

    async def _body(self, request: Request) -> dict[str, Any]:
        return await read_object(request, self.limits.body_bytes)

    # -- the reply -------------------------------------------------------------------------------------------------

    def _answer(self, ask: ChatAsk, caller: Caller) -> None:
        """Make the reply and send it, whole or as it grows. Raises `RequestRefused` for what can't be put to the model,
        `ClientGone` when nobody waits any more."""
        import torch

        from trainer.modeling.batches import BadSample
        from trainer.modeling.generation import generate

        model, processor = self._checkpoint.model, self._checkpoint.processor
        device = next(model.parameters()).device
        generator = torch.Generator(device).manual_seed(ask.seed % 2**63) if ask.temperature > 0 else None
        reply = ChatReply(ask, self.name, processor, caller)
        with self._lock, caller.watching(model):
            try:
                prompt = processor.prompt(ask.row)
            except BadSample as bad:
                raise RequestRefused(400, str(bad)[:300], "messages", "bad_image") from bad
            in_parts = processor.preset.reading.mode != "whole" and len(prompt.pictures) == 1
            if in_parts and (ask.n > 1 or ask.logprobs):
                raise RequestRefused(
                    400,
                    f"expected n 1 and no logprobs, found n {ask.n} and logprobs {ask.logprobs}: this model looks at a "
                    "screen in parts (serve it with --reading whole for one look)",
                    code="read_in_parts",
                )
            # not before: until here a refusal may still be the whole answer
            reply.begin()
            sample = partial(
                generate,
                model,
                processor,
                temperature=ask.temperature,
                max_new_tokens=ask.max_tokens,
                generator=generator,
                shaping=ask.shaping,
            )
            if in_parts:
                replies, prompt_tokens = _read_in_parts(ask, processor, sample, caller)
            else:
                replies = sample([ask.row], group=ask.n, batch_size=ask.n, on_tokens=reply.grow)
                prompt_tokens = len(prompt.ids)
        reply.finish(replies, prompt_tokens)


def _read_in_parts(
    ask: ChatAsk, processor: Processor, sample: Callable[..., list[Completion]], caller: Caller
) -> tuple[list[Completion], int]:
    """(the answer, in the frame of the screen, tokens of all prompts that it took)."""
    from trainer.reading.read import read

    tokens = 0

    def stays(_: Completion) -> bool:
        caller.stay()
        return False

    def put(rows: Sequence[Row]) -> list[Completion]:
        nonlocal tokens
        tokens += sum(processor.prompt_length(row) for row in rows)
        return sample(rows, on_tokens=stays, decided=ask.shaping is None)

    row = {**ask.row, "objective": "navigation"}  # its reply may point
    [answer] = read([row], processor.preset.reading, put, processor.pixels)
    ends = [place for stop in ask.stops if (place := answer.text.find(stop)) >= 0]
    return [replace(answer.completion, row=0, member=0, text=answer.text[: min(ends) if ends else None])], tokens


def _answer_refused(request: Request, refused: RequestRefused) -> Response:
    from starlette.responses import JSONResponse

    return JSONResponse(refused.body(), refused.status)


def _answer_unknown(request: Request, error: HTTPException) -> Response:
    """A path or a method that isn't served, in the protocol's form as well."""
    asked = f"{request.method} {request.url.path[:80]}"
    refused = RequestRefused(error.status_code, f"{asked} isn't served; see docs/training.md", code="not_served")
    answer = _answer_refused(request, refused)
    answer.headers.update(error.headers or {})
    return answer


def _refused(refusal: Refusal) -> tuple[int, str, bytes]:
    """What the guard refuses, in the protocol's form; a foreign Host is 403, as clients of the protocol know it."""
    status = 403 if refusal.status == 421 else refusal.status
    body = RequestRefused(status, refusal.message, code=refusal.code).body()
    return status, "application/json", json.dumps(body).encode()


class Application(Protocol):
    """What `serving` serves."""

    def app(self) -> App:
        """The ASGI application."""
        ...


@contextmanager
def serving(server: Application, host: str = "127.0.0.1", port: int = 0) -> Iterator[tuple[str, threading.Thread]]:
    """Serve in a thread; (the base URL of OpenAI's protocol, the thread that ends with it). Port 0 is a free one.

    Raises `OSError` for a port that is taken, `ValueError` for a foreign host without a key.
    """
    import uvicorn

    if host not in LOOPBACK and not os.environ.get(KEY_VARIABLE):
        raise ValueError(f"--host {host}: whoever reaches this machine could ask; set {KEY_VARIABLE} to a key first")
    # opened here: a port that is taken is known at once, and port 0 has its number
    with named_port(host, port):
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
