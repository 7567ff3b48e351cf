"""The SDK for code that isn't async: the same names, over an event loop in a thread of its own. A `SyncSession` is a
World (`generators.tasks.world_interface`)."""

import asyncio
import contextlib
import threading
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from generators.devices.client.sdk import Client, Session
from generators.devices.device import Driver
from generators.tasks.world_interface import Observation
from schemas.actions import Action

T = TypeVar("T")


class LoopThread:
    """An event loop that runs in a thread until `close`."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="devices", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Result of a coroutine; an interrupt here cancels it there."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            # work whose result nobody waits for any more
            future.cancel()
            raise

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


class SyncClient:
    """`Client` without `async`."""

    def __init__(self, authority_url: str, api_key: str, drivers: Mapping[str, str | Driver] | None = None) -> None:
        self._client = Client(authority_url, api_key, drivers)

    def __enter__(self) -> "SyncClient":
        self._thread = LoopThread()
        try:
            self._thread.run(self._client.__aenter__())
        except BaseException:
            self._thread.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        try:
            self._thread.run(self._client.__aexit__(None, None, None))
        finally:
            self._thread.close()

    def devices(self) -> list[dict[str, object]]:
        """All registered devices."""
        return self._thread.run(self._client.devices())

    @contextlib.contextmanager
    def lease(
        self,
        protocol: str,
        labels: Sequence[str] = (),
        priority: int = 0,
        device: str = "",
        ttl_s: float | None = None,
        idle_s: float | None = None,
        wait_s: float = 60.0,
    ) -> "Iterator[SyncSession]":
        """As `Client.lease`."""
        entered = self._client.lease(protocol, labels, priority, device, ttl_s, idle_s, wait_s)
        session = self._thread.run(entered.__aenter__())
        try:
            yield SyncSession(session, self._thread)
        finally:
            self._thread.run(entered.__aexit__(None, None, None))


class SyncSession:
    """`Session` without `async`; a World whose name is the device's. `platform` and `size_px` connect if need be."""

    def __init__(self, session: Session, thread: LoopThread) -> None:
        self.session, self._thread = session, thread

    @property
    def name(self) -> str:
        return self.session.device

    @property
    def platform(self) -> str:
        self.open()
        return self.session.platform

    @property
    def size_px(self) -> tuple[int, int]:
        self.open()
        return self.session.size_px

    @property
    def wanted(self) -> bool:
        """As `Session.wanted`."""
        return self.session.wanted

    def open(self) -> None:
        """Connect now."""
        self._thread.run(self.session.open())

    def observe(self) -> Observation:
        """As `Session.observe`."""
        return self._thread.run(self.session.observe())

    def act(self, action: Action) -> None:
        """As `Session.act`."""
        self._thread.run(self.session.act(action))

    def reset(self, start: Mapping[str, object]) -> None:
        """As `Session.reset`."""
        self._thread.run(self.session.reset(start))

    def state(self) -> dict[str, Any]:
        """As `Session.state`."""
        return self._thread.run(self.session.state())

    def fail(self, reason: str) -> None:
        """As `Session.fail`."""
        self._thread.run(self.session.fail(reason))

    def release(self) -> None:
        """As `Session.release`."""
        self._thread.run(self.session.release())
