"""Where calls are made: event loops in a few threads, and the places that they share.

The SDK takes two or three milliseconds of CPU a call. One thread that did all of it would be let in too seldom on a
busy machine, where the threads of a pool each get their share; so there are several loops, each with its own
connections, and a question lives in one of them from its start to its end.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Mapping
from typing import Any

from quality.model_client.keys import key_for
from quality.model_client.questions import Garbage

MAX_BODY_BYTES = 8 << 20


class Sender:
    """An event loop in a thread of its own that posts to /chat/completions of one endpoint.

    The key is that of `keys.key_for`, and never written anywhere.
    """

    def __init__(self, base_url: str, model: str) -> None:
        self._base_url = base_url
        self._model = model
        self._client: Any = None
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="judge-sender", daemon=True)
        self._thread.start()

    @property
    def is_open(self) -> bool:
        return self._client is not None

    def open(self) -> None:
        """Load the SDK and make its client, which takes a second the first time."""
        if self._client is None:
            import openai

            self._client = openai.AsyncOpenAI(base_url=self._base_url, api_key=key_for(self._base_url), max_retries=0)

    async def post(self, body: Mapping[str, object], timeout_s: float) -> bytes:
        """The body of the reply. Ends by `timeout_s`, whatever the server does; raises an error of the SDK,
        `TimeoutError`, or `Garbage` for a body without end."""
        # Around all of it: a server that drips bytes keeps a read timeout from ever running out.
        async with asyncio.timeout(timeout_s):
            calls = self._client.chat.completions.with_streaming_response
            # What stands in extra_body replaces the arguments; the SDK walks through those, which takes half its time.
            async with calls.create(model=self._model, messages=[], extra_body=body, timeout=timeout_s) as response:
                data = bytearray()
                async for chunk in response.iter_bytes():
                    # Counted as it arrives, as a length in a header may be a lie.
                    data += chunk
                    if len(data) > MAX_BODY_BYTES:
                        raise Garbage(f"a body of more than {MAX_BODY_BYTES} bytes")
                return bytes(data)

    def close(self) -> None:
        """Close connections, loop and thread."""
        if self._client is not None:
            asyncio.run_coroutine_threadsafe(self._client.close(), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()


class CallSlots:
    """At most so many calls at a time over several event loops; a place that falls free goes to who waits in the same
    loop, else to another, and never lies idle while anyone waits."""

    def __init__(self, number: int) -> None:
        self._free = number
        self._lock = threading.Lock()
        self._waiting: dict[asyncio.AbstractEventLoop, deque[asyncio.Future[None]]] = {}

    async def __aenter__(self) -> None:
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._free > 0:
                self._free -= 1
                return
            turn: asyncio.Future[None] = loop.create_future()
            self._waiting.setdefault(loop, deque()).append(turn)
        await turn

    async def __aexit__(self, *_: object) -> None:
        here = asyncio.get_running_loop()
        with self._lock:
            own = self._waiting.get(here)
            # Own loop first, which needs no wake-up; else the one where most are waiting.
            loop = here if own else max(self._waiting, key=lambda other: len(self._waiting[other]), default=here)
            waiting = self._waiting.get(loop)
            if not waiting:
                self._free += 1
                return
            turn = waiting.popleft()
        if loop is here:
            turn.set_result(None)
        else:
            # Futures belong to their loop, and are resolved from there.
            loop.call_soon_threadsafe(turn.set_result, None)
