"""One reply at a time, in the order they were asked for, and none for a client that has gone.

Who waits and goes leaves the queue; who goes while the reply is made ends it at the next token, or at the next layer
while the prompt is read.
"""

from __future__ import annotations

import json
import logging
import math
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pipelines.http_guard import Scope
from trainer.serving.requests import RequestRefused

if TYPE_CHECKING:
    import anyio


class ClientGone(Exception):
    """Nobody waits for this reply any more."""


class Caller:
    """Who asked, as the thread that makes the reply knows it: `send` gives what is ready, `stay` raises `ClientGone`
    once nobody waits for more."""

    def __init__(self, give: Callable[[dict[str, Any]], None] = lambda answer: None) -> None:
        self.gone = threading.Event()
        self.send = give

    def stay(self) -> bool:
        """Go on only if somebody waits. Always false, as `generate` asks whether a reply is to end."""
        if self.gone.is_set():
            raise ClientGone
        return False

    def _before_layer(self, layer: object, given: object) -> None:
        self.stay()  # what a hook returns would be the layer's input

    @contextmanager
    def watching(self, model: Any) -> Iterator[None]:
        """`stay` before each layer of a model, so that a long prompt isn't read to its end for nobody."""
        from transformers.modeling_layers import GradientCheckpointingLayer  # what every layer of theirs is

        layers = [one for one in model.modules() if isinstance(one, GradientCheckpointingLayer)]
        hooks = [layer.register_forward_pre_hook(self._before_layer) for layer in layers]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()


class TurnReply:
    """An ASGI answer that is made when its turn comes. `job` runs in a thread and sends what is ready to its caller:
    one object, or many if it is `streamed`, as server-sent events. Raised before anything is sent, `RequestRefused` is
    the answer. `after` is called at the end, whatever came of it."""

    def __init__(
        self,
        turn: anyio.Lock,
        job: Callable[[Caller], None],
        *,
        streamed: bool = False,
        headers: Mapping[str, str] | None = None,
        after: Callable[[], None] = lambda: None,
    ) -> None:
        self._turn, self._job, self._streamed, self._headers, self._after = turn, job, streamed, headers, after

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """Answer, or stop when the client goes."""
        import anyio

        # without bound, so that a slow client never holds up the thread that makes replies
        give, ready = anyio.create_memory_object_stream[dict[str, Any] | RequestRefused](math.inf)
        caller = Caller(lambda answer: anyio.from_thread.run_sync(give.send_nowait, answer))

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            caller.gone.set()
            group.cancel_scope.cancel()  # the queue is left; a thread that works is awaited, and stops by itself

        async def work() -> None:
            # closing it ends `_pass_on`
            with give:
                try:
                    async with self._turn:
                        await anyio.to_thread.run_sync(self._job, caller)
                except RequestRefused as refused:
                    give.send_nowait(refused)
                except ClientGone:
                    logging.getLogger("uvicorn.error").warning("a client went before its reply was ready: stopped")

        try:
            async with anyio.create_task_group() as group:
                group.start_soon(watch)
                group.start_soon(work)
                with ready:
                    await self._pass_on(scope, receive, send, ready)
                group.cancel_scope.cancel()
        finally:
            self._after()

    async def _pass_on(self, scope: Scope, receive: Any, send: Any, ready: Any) -> None:
        from starlette.responses import JSONResponse

        begun = False
        async for one in ready:
            refused = isinstance(one, RequestRefused)
            plain = one.body() if isinstance(one, RequestRefused) else one
            # before anything is sent a refusal can have its own status
            if not begun and (refused or not self._streamed):
                status = one.status if isinstance(one, RequestRefused) else 200
                await JSONResponse(plain, status, self._headers)(scope, receive, send)
                return
            if not begun:
                begun = True
                own = [(name.lower().encode(), value.encode()) for name, value in (self._headers or {}).items()]
                kind = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
                await send({"type": "http.response.start", "status": 200, "headers": [*kind, *own]})
            data = f"data: {json.dumps(plain, ensure_ascii=False)}\n\n".encode()
            await send({"type": "http.response.body", "body": data, "more_body": True})
        if begun:
            await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})
