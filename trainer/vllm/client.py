"""One vLLM server over HTTP, as its version 0.33.0 speaks: tokens in and out, and its weights changed between replies.

    POST /inference/v1/generate                             `vllm serve --enable-scale-out`
    POST /pause /resume /collective_rpc /update_weight_version, GET /weight_info /get_world_size
    POST /init_weight_transfer_engine /start_weight_update /update_weights /finish_weight_update
                                                            all of them with VLLM_SERVER_DEV_MODE=1

The second and third kind ask for no key, whatever `--api-key` says: such a server belongs on a network of its own.
"""

import asyncio
import json
import os
import threading
from collections.abc import Mapping
from concurrent.futures import CancelledError
from typing import Any

from quality.model_client.retry import sort_failure

KEY_VARIABLE = "VLLM_API_KEY"
"""vLLM's own variable for the key of `/v1` and `/inference`."""
GENERATE = "/inference/v1/generate"
# seconds for calls that only ask, or switch something
PROBE_S = 10.0


class ServerError(RuntimeError):
    """A call that the server didn't answer as it should. `refused`: it would refuse the same call again."""

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


class VllmClient:
    """Calls one server; safe to use from several threads. `endpoint` is its root (`http://10.0.0.2:8000`); a trailing
    `/v1` is taken off. Every call ends by its time limit, also against a server that drips bytes."""

    def __init__(self, endpoint: str) -> None:
        if not endpoint.startswith(("http://", "https://")):
            raise ValueError(
                f"vLLM endpoint: expected a URL that begins with http:// or https://, found {endpoint!r:.80}"
            )
        self.endpoint = endpoint.rstrip("/").removesuffix("/v1")
        self._client: Any = None
        self._opening = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def close(self) -> None:
        """End calls, connections and the thread; a later call opens them again."""
        with self._opening:
            loop, thread, client = self._loop, self._thread, self._client
            self._loop = self._thread = self._client = None
        if loop is None or thread is None:
            return
        asyncio.run_coroutine_threadsafe(_shut(client), loop).result(PROBE_S)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PROBE_S)
        loop.close()

    def call(
        self,
        path: str,
        body: Mapping[str, object] | None = None,
        *,
        timeout_s: float,
        params: Mapping[str, str] | None = None,
        method: str = "post",
    ) -> dict[str, Any]:
        """The JSON object that the server answers ({} for an empty body). Raises `ServerError`."""
        loop = self._opened()
        future = asyncio.run_coroutine_threadsafe(self._send(method, path, body, params, timeout_s), loop)
        try:
            return future.result()
        except ServerError:
            raise
        except CancelledError as error:
            raise ServerError(f"{self.endpoint}{path}: the client was closed") from error
        except Exception as error:
            failure = sort_failure(error)
            if failure is None:
                raise
            raise ServerError(f"{self.endpoint}{path}: {failure.said}", refused=not failure.retried) from error
        # Ctrl+C in the thread that waits: nobody wants the answer any more
        except BaseException:
            future.cancel()
            raise

    async def _send(
        self,
        method: str,
        path: str,
        body: Mapping[str, object] | None,
        params: Mapping[str, str] | None,
        timeout_s: float,
    ) -> dict[str, Any]:
        options: dict[str, Any] = {"timeout": timeout_s, **({"params": dict(params)} if params else {})}
        # around the whole call: the client's own limit is between two bytes, which a server may drip
        async with asyncio.timeout(timeout_s):
            if method == "get":
                text = await self._client.get(path, cast_to=str, options=options)
            else:
                text = await self._client.post(path, cast_to=str, body=dict(body or {}), options=options)
        if not text:
            return {}
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            raise ServerError(f"{self.endpoint}{path}: expected JSON, found {text[:80]!r}") from None
        if not isinstance(found, dict):
            raise ServerError(f"{self.endpoint}{path}: expected a JSON object, found {type(found).__name__}")
        return found

    def _opened(self) -> asyncio.AbstractEventLoop:
        with self._opening:
            if self._loop is None:
                import openai

                # one loop in a thread of its own, since calls come from the threads of many workers
                self._loop = asyncio.new_event_loop()
                self._client = openai.AsyncOpenAI(
                    # retries are the engine's, which may have another server to ask
                    base_url=self.endpoint,
                    api_key=os.environ.get(KEY_VARIABLE) or "none",
                    max_retries=0,
                )
                self._thread = threading.Thread(target=self._loop.run_forever, name="vllm-client", daemon=True)
                self._thread.start()
            return self._loop

    # -- tokens --------------------------------------------------------------------------------------------------------

    def generate(self, body: Mapping[str, object], timeout_s: float) -> dict[str, object]:
        """See `trainer.vllm.token_protocol`."""
        return self.call(GENERATE, body, timeout_s=timeout_s)

    # -- weights -------------------------------------------------------------------------------------------------------

    def pause(self, timeout_s: float) -> None:
        """Let replies that have begun come to their end, take no others, and clear what was cached of the weights."""
        self.call("/pause", params={"mode": "wait", "clear_cache": "true"}, timeout_s=timeout_s)

    def resume(self) -> None:
        """Take requests again."""
        self.call("/resume", timeout_s=PROBE_S)

    def collective_rpc(self, rpc: str, kwargs: Mapping[str, str], timeout_s: float) -> None:
        """Call a method of every worker."""
        self.call("/collective_rpc", {"method": rpc, "kwargs": dict(kwargs)}, timeout_s=timeout_s)

    def set_weight_version(self, label: str) -> None:
        """Have all replies from now on carry this label."""
        self.call("/update_weight_version", {"new_version": label}, timeout_s=PROBE_S)

    def weight_version(self) -> str:
        """The label that replies carry."""
        return str(self.call("/weight_info", method="get", timeout_s=PROBE_S).get("weight_version"))

    def world_size(self) -> int:
        """Workers of the server, over all of its devices."""
        found = self.call("/get_world_size", method="get", timeout_s=PROBE_S).get("world_size")
        if not isinstance(found, int) or found < 1:
            raise ServerError(f"{self.endpoint}/get_world_size: expected a number of workers, found {found!r:.40}")
        return found


async def _shut(client: Any) -> None:
    """Whoever waits for an answer gets `ServerError`."""
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await client.close()
