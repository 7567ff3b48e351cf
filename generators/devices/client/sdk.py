"""The client SDK: lease a device, act on it, release it. One interface over all protocols.

    async with Client(url, key) as client:
        async with client.lease(protocol="cdp", labels=["lang=zh"], priority=5) as session:
            await session.reset({})
            await session.act(Click((500, 500)))
            screen = await session.observe()

A session heartbeats in the background. If its lease is lost, the call in flight and every later one raise `LeaseLost`.
If a gateway node or a connection fails, the next call goes another way: `observe`, `reset` and `state` are tried again
at once; an `act` that may have happened is never repeated and raises `DeviceError`.
"""

import asyncio
import contextlib
import importlib
import logging
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

from generators.devices.client.authority_client import AuthorityClient, AuthorityDown, AuthorityRefused
from generators.devices.device import AsyncDevice, DeviceEndpoint, DeviceError, Driver, LeaseLost
from generators.tasks.world_interface import Observation
from schemas.actions import Action

log = logging.getLogger(__name__)
T = TypeVar("T")

DRIVERS: dict[str, str | Driver] = {
    "cdp": "generators.devices.drivers.cdp:connect",
    "adb": "generators.devices.drivers.adb:connect",
    "ssh": "generators.devices.drivers.ssh:connect",
}
"""Driver of each protocol, imported when it is first used."""

# seconds that a request is waited for in one call, so that its end is noticed; and before another try
POLL_S = 15.0
RETRY_S = 0.5


def load_driver(driver: str | Driver) -> Driver:
    """A driver from `module:function`."""
    if not isinstance(driver, str):
        return driver
    module, _, name = driver.partition(":")
    found: Driver = getattr(importlib.import_module(module), name)
    return found


class Client:
    """Leases devices of one authority. `drivers`: as DRIVERS, for tests and protocols of one's own."""

    def __init__(self, authority_url: str, api_key: str, drivers: Mapping[str, str | Driver] | None = None) -> None:
        self._authority = AuthorityClient(authority_url, api_key)
        self._drivers = DRIVERS if drivers is None else drivers

    async def __aenter__(self) -> "Client":
        await self._authority.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> None:
        await self._authority.__aexit__(*error)

    async def devices(self) -> list[dict[str, object]]:
        """All registered devices with their health, quarantine and holder."""
        found: list[dict[str, Any]] = (await self._authority.call("GET", "/v1/devices"))["devices"]
        return found

    @contextlib.asynccontextmanager
    async def lease(
        self,
        protocol: str,
        labels: Sequence[str] = (),
        priority: int = 0,
        device: str = "",
        ttl_s: float | None = None,
        idle_s: float | None = None,
        wait_s: float = 60.0,
    ) -> "AsyncIterator[Session]":
        """A session on a device that speaks `protocol` and has all `labels` (or on `device`), released at the end.
        Waits in the queue for up to `wait_s`. Raises `DeviceError` if there is none by then, `AuthorityRefused`."""
        if protocol not in self._drivers:
            raise ValueError(f"lease: expected a protocol of {', '.join(self._drivers)}, found {protocol!r}")
        wish = {
            "protocol": protocol,
            "labels": list(labels),
            "priority": priority,
            "device": device,
            "ttl_s": ttl_s,
            "idle_s": idle_s,
        }
        grant = await self._ask({name: value for name, value in wish.items() if value is not None}, wait_s)
        session = Session(self._authority, grant, self._drivers[protocol])
        try:
            yield session
        finally:
            # released whatever ended the block: nobody else may use the device until then
            await session.release()

    async def _ask(self, wish: Mapping[str, object], wait_s: float) -> dict[str, Any]:
        # one id for all polls, so that a lost answer never takes two devices
        request, end = uuid.uuid4().hex, time.monotonic() + wait_s
        try:
            while True:
                left = max(0.0, min(POLL_S, end - time.monotonic()))
                down: AuthorityDown | None = None
                try:
                    body = {**wish, "request": request, "wait_s": left}
                    answer = await self._authority.call("POST", "/v1/leases", body, left)
                    if answer["state"] == "granted":
                        return answer
                except AuthorityDown as error:  # it may be starting again; the same request is asked for
                    down = error
                    await asyncio.sleep(min(RETRY_S, left))
                if time.monotonic() >= end:
                    why = str(down) if down else f"{answer['ahead']} requests stand before this one"
                    raise DeviceError(f"lease of {wish['protocol']}: no device within {wait_s:g} s; {why}")
        except BaseException:
            # a request that nobody withdraws could take a device that nobody waits for
            with contextlib.suppress(DeviceError, AuthorityRefused):
                await asyncio.shield(self._authority.call("DELETE", f"/v1/requests/{request}"))
            raise


class Session:
    """A leased device. Calls are made one after the other. The connection is opened by the first."""

    def __init__(self, authority: AuthorityClient, grant: Mapping[str, Any], driver: str | Driver) -> None:
        self.device: str = grant["device"]
        self.protocol: str = grant["protocol"]
        self.fence: int = grant["fence"]
        self.labels: tuple[str, ...] = tuple(grant["labels"])
        # the grant says how long, not until when: the clocks of two machines differ
        self.expires_at = time.monotonic() + grant["expires_in_s"]  # by this process's monotonic clock
        self._authority, self._grant, self._driver = authority, grant, driver
        self._nodes: list[dict[str, Any]] = grant["nodes"]
        self._opened: tuple[AbstractAsyncContextManager[AsyncDevice], AsyncDevice] | None = None
        self._lock = asyncio.Lock()
        self._lost: LeaseLost | None = None
        self._limit: asyncio.Timeout | None = None
        self._used = time.monotonic()
        self._released = False
        self.wanted = False
        """Whether another of the same priority waits for such a device and holds fewer, as of the last heartbeat. Who
        has more to do then gives this one back between two tasks, and stands in line again."""
        self.on_lost: list[Callable[[], None]] = []
        self._heart = asyncio.get_running_loop().create_task(self._beat_on())

    # -- what a device does -----------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        return self.device

    @property
    def platform(self) -> str:
        return self._shown().platform

    @property
    def size_px(self) -> tuple[int, int]:
        return self._shown().size_px

    async def open(self) -> None:
        """Connect now and not with the first call; `platform` and `size_px` are known then."""
        await self._call(lambda device: asyncio.sleep(0), again=True)

    async def observe(self) -> Observation:
        """Picture, and the UI tree where there is one."""
        return await self._call(lambda device: device.observe(), again=True)

    async def act(self, action: Action) -> None:
        """One action, at most once. After a `DeviceError` nobody knows whether it happened: observe."""
        await self._call(lambda device: device.act(action), again=False)

    async def reset(self, start: Mapping[str, object]) -> None:
        """Back to a snapshot."""
        await self._call(lambda device: device.reset(start), again=True)

    async def state(self) -> dict[str, Any]:
        """The truth behind the screen, where the device reports it."""
        return await self._call(lambda device: device.state(), again=True)

    async def release(self) -> None:
        """Give the device back. If the authority can't be reached, the lease ends by itself."""
        if self._released:
            return
        self._released = True
        self._heart.cancel()
        await asyncio.gather(self._heart, return_exceptions=True)
        lost = self._lost
        self._lose(LeaseLost(f"device {self.device}: the lease was released"))  # ends a call in flight
        async with self._lock:
            await self._disconnect()
        # a lost lease is the authority's already
        if lost is None:
            try:
                await self._authority.call("POST", f"{self._path}/release", {"fence": self.fence})
            except (DeviceError, AuthorityRefused) as error:
                log.info("lease of %s: not released: %s", self.device, error)

    # -- for what works below the drivers ---------------------------------------------------------------------------

    def endpoints(self) -> list[DeviceEndpoint]:
        # read with every call: nodes come and go while a lease lives
        """The ways to the device, the best first. Raises `LeaseLost`; `DeviceError` if no gateway node lives."""
        self._check()
        if not self._nodes:
            raise DeviceError(f"device {self.device}: no gateway node lives; start one")
        more = self.device, self._grant["token"], self._grant["options"]
        return [DeviceEndpoint(self.protocol, node["host"], node["port"], *more) for node in self._nodes]

    def touch(self) -> None:
        """The device was used: puts off its idle release."""
        self._used = time.monotonic()

    async def fail(self, reason: str) -> None:
        """Report an infrastructure failure of the device; a few in a row put it in quarantine."""
        try:
            await self._authority.call("POST", f"{self._path}/failure", {"fence": self.fence, "reason": reason[:300]})
        except LeaseLost as lost:
            self._lose(lost)
        except AuthorityDown as error:
            log.warning("device %s: failure not reported: %s", self.device, error)

    # -- inside -----------------------------------------------------------------------------------------------------

    @property
    def _path(self) -> str:
        return f"/v1/leases/{self._grant['lease']}"

    def _shown(self) -> AsyncDevice:
        if self._opened is None:
            raise DeviceError(f"device {self.device}: not connected; `await session.open()` first")
        return self._opened[1]

    def _check(self) -> None:
        # also without a word from the authority, which may be down just now
        if self._lost is None and time.monotonic() >= self.expires_at:
            self._lose(LeaseLost(f"device {self.device}: the lease's time is over"))
        if self._lost is not None:
            raise self._lost

    def _lose(self, lost: LeaseLost) -> None:
        if self._lost is None:
            self._lost = lost
            if self._limit is not None:  # a call is in flight: it ends now
                # the time limit of the call is moved to now: that ends it as if it had taken too long
                self._limit.reschedule(asyncio.get_running_loop().time())
            for tell in self.on_lost:
                tell()

    async def _beat_on(self) -> None:
        while self._lost is None:
            left = self.expires_at - time.monotonic()
            await asyncio.sleep(max(0.0, min(self._grant["heartbeat_s"], left)))
            if time.monotonic() >= self.expires_at:
                self._lose(LeaseLost(f"device {self.device}: the lease's time is over"))
            else:
                await self._beat()

    async def _beat(self) -> None:
        """One heartbeat; with the authority down the lease holds to its TTL."""
        body = {"fence": self.fence, "unused_s": time.monotonic() - self._used}
        try:
            answer = await self._authority.call("POST", f"{self._path}/heartbeat", body)
            # an empty list is no news: with no node at all the old ones may come back
            self._nodes = answer["nodes"] or self._nodes
            self.wanted = bool(answer.get("wanted"))
        except LeaseLost as lost:
            self._lose(lost)
        except AuthorityRefused as error:
            self._lose(LeaseLost(f"device {self.device}: {error}"))
        except AuthorityDown as error:
            log.warning("device %s: no heartbeat: %s", self.device, error)

    async def _call(self, work: Callable[[AsyncDevice], Awaitable[T]], again: bool) -> T:
        async with self._lock:
            self._check()
            self.touch()
            try:
                # no limit of its own: `_lose` sets one when the lease is gone
                async with asyncio.timeout(None) as self._limit:
                    return await self._try_ways(work, again)
            except TimeoutError:
                self._check()
                raise DeviceError(f"device {self.device}: no answer in time") from None
            finally:
                self._limit = None
                self.touch()

    async def _try_ways(self, work: Callable[[AsyncDevice], Awaitable[T]], again: bool) -> T:
        """Over the open connection, then over each node in turn; what has begun is tried again only where `again`."""
        first = self._opened is not None
        # the open connection first, then every node from the best on
        ways: list[DeviceEndpoint | None] = [*([None] if first else []), *self.endpoints()]
        failure = DeviceError(f"device {self.device}: no way to it")
        for way in ways:
            begun = False
            try:
                device = self._opened[1] if way is None and self._opened else await self._connect(way)
                begun = True
                return await work(device)
            except asyncio.CancelledError:
                await self._disconnect()  # half an answer may stand in it
                raise
            except LeaseLost as lost:
                await self._disconnect()
                self._lose(lost)
                raise
            except DeviceError as error:
                failure = error
                await self._disconnect()
                await self._beat()  # it may be that the lease is lost: then that is the reason
                self._check()
                # the act may have happened before the connection broke: nobody knows, so it isn't repeated
                if begun and not again:
                    raise
        # a device that no node can be asked about isn't known to be at fault
        if await self._some_node_answers():  # else it is the gateway that failed, not the device
            await self.fail(str(failure))
        raise failure

    async def _some_node_answers(self) -> bool:
        for node in self._nodes:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(2):
                    _, writer = await asyncio.open_connection(node["host"], node["port"])
                writer.close()
                return True
        return False

    async def _connect(self, way: DeviceEndpoint | None) -> AsyncDevice:
        assert way is not None
        connect = load_driver(self._driver)
        try:
            entered = connect(way)
            device = await entered.__aenter__()
        except ValueError as error:  # options that the driver doesn't take: this device is at fault, and no other
            raise DeviceError(f"device {self.device}: {error}") from error
        self._opened = entered, device
        return device

    async def _disconnect(self) -> None:
        opened, self._opened = self._opened, None
        if opened is not None:
            try:
                await opened[0].__aexit__(None, None, None)
            except Exception as error:  # it is broken already; what matters was raised before
                log.info("device %s: closing its connection: %s", self.device, error)
