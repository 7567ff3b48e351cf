"""Where executions get their devices from: worlds opened on this machine, and devices leased from a gateway.

A pool says of what kind a contract's device must be (devices of one kind stand for one another) and opens one. Whoever
opens a device uses and closes it in the same thread; `Device.kill` alone may be called from another.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from generators.devices.device import DeviceError
from generators.execution.leased_worlds import LEASED_WORLDS
from generators.tasks.task_spec import TaskSpec
from generators.tasks.world_interface import World
from generators.worlds.registry import WORLDS, open_world

if TYPE_CHECKING:
    from generators.devices.client.sync_sdk import SyncClient, SyncSession

log = logging.getLogger(__name__)
Opener = Callable[[], AbstractContextManager[World]]


@dataclass(frozen=True)
class Device:
    """An open device. `fail` reports that it failed by itself; `kill` makes a call that hangs end, from any thread;
    `wanted` tells whether others wait who have fewer: then it is closed after the task that it is at."""

    name: str
    world: World
    fail: Callable[[str], None] = field(default=lambda reason: None)
    kill: Callable[[], None] = field(default=lambda: None)
    wanted: Callable[[], bool] = field(default=lambda: False)


class DevicePool(Protocol):
    """Opens devices. One with a true `keeps_idle` lets a worker that goes on with another kind keep its device open."""

    def kind(self, contract: TaskSpec) -> str:
        """Kind of device that a contract needs. Raises `ValueError` for one that no device of this pool can run."""
        ...

    def most(self, kind: str) -> int | None:
        """How many devices of a kind can be open at once; None: any number."""
        ...

    def open(self, kind: str) -> AbstractContextManager[Device]:
        """A device for the time of a `with`. Raises whatever keeps it from opening; `ValueError`, `ImportError` and
        `BrowserMissing` mean that it never will."""
        ...


class LocalPool:
    """Worlds on this machine, each in a browser (or session) of its own, or in one that its thread keeps
    (`generators.devices.browser.keep_browser`).

    `worlds` are openers by name, those of the registry unless given; `most` in use at once of each. A device that is
    said to have failed takes its browser with it, so that the next one begins with another.
    """

    def __init__(
        self, worlds: Mapping[str, Opener] | None = None, most: int | None = None, *, keeps_idle: bool = False
    ) -> None:
        self.keeps_idle = keeps_idle
        self._worlds = dict(worlds) if worlds is not None else None
        self._most = most
        self._numbers = 0

    def kind(self, contract: TaskSpec) -> str:
        worlds = WORLDS if self._worlds is None else self._worlds
        if contract.world not in worlds:
            known = ", ".join(worlds)
            raise ValueError(f"task {contract.task_id}: no device has the world {contract.world!r:.60}; known: {known}")
        return contract.world

    def most(self, kind: str) -> int | None:
        return self._most

    @contextmanager
    def open(self, kind: str) -> Iterator[Device]:
        with contextlib.ExitStack() as stack:
            # one world at a time, or two that open at once would be taken for each other's children
            with _opening:
                # what this process has started so far, so that the world's own children are told apart
                before = _descendants()
                opened = open_world(kind) if self._worlds is None else self._worlds[kind]()
                world = stack.enter_context(opened)
                started = _Started.by_this_thread(before)
                self._numbers += 1
                number = self._numbers
            yield Device(f"local/{kind}/{number}", world, lambda reason: started.kill(), started.kill)


@dataclass(frozen=True)
class LeaseWish:
    """What to ask the gateway for, and how the device becomes a world: `wrap` takes the session."""

    protocol: str
    labels: tuple[str, ...] = ()
    wrap: Callable[[SyncSession], World] = field(default=lambda session: session)


class GatewayPool:
    """Devices leased from a gateway: `wishes` by name of the world. One request waits for `wait_s`."""

    def __init__(self, client: SyncClient, wishes: Mapping[str, LeaseWish], wait_s: float = 20.0) -> None:
        self._client, self._wishes, self._wait_s = client, dict(wishes), wait_s

    def kind(self, contract: TaskSpec) -> str:
        if contract.world not in self._wishes:
            known = ", ".join(self._wishes)
            raise ValueError(f"task {contract.task_id}: no lease is set for the world {contract.world!r:.60}: {known}")
        return contract.world

    def most(self, kind: str) -> int | None:
        """All devices that are registered for it: those that are down or held by others are waited for."""
        wish = self._wishes[kind]
        labels = set(wish.labels)
        try:
            found = [one for one in self._client.devices() if suits(one, wish.protocol, labels)]
        except DeviceError:
            return None  # the authority is down: leases are waited for, whoever asks
        return max(1, len(found))

    @contextmanager
    def open(self, kind: str) -> Iterator[Device]:
        wish = self._wishes[kind]
        lease = self._client.lease(wish.protocol, wish.labels, wait_s=self._wait_s)
        with lease as session:
            session.open()
            yield Device(
                session.name,
                wish.wrap(session),
                # the SDK's own release, so that a hung call ends with an error that the worker understands
                lambda reason: _report(session, reason),
                session.release,
                lambda: session.wanted,
            )


def leased_worlds(names: Sequence[str], **options: object) -> dict[str, LeaseWish]:
    """Wishes for worlds that `execution.leased_worlds` knows; `options` are what they need (`site_url`).
    Raises `ValueError` for another name."""
    wishes = {}
    for name in names:
        if name not in LEASED_WORLDS:
            raise ValueError(f"leased world: expected one of {', '.join(LEASED_WORLDS)}, found {name!r:.60}")
        protocol, labels, make = LEASED_WORLDS[name]
        wishes[name] = LeaseWish(protocol, labels, make(**options))
    return wishes


def suits(device: Mapping[str, Any], protocol: str, labels: set[str]) -> bool:
    """Whether a registered device is one that a lease of that protocol and labels may get."""
    return device["protocol"] == protocol and labels <= set(device["labels"])


def _report(session: SyncSession, reason: str) -> None:
    try:
        session.fail(reason)
    except DeviceError as error:
        log.info("device %s: %s", session.name, error)


class WrappedPool:
    """A pool whose worlds go through `wrap` (`LoopConfig.wrapped`), which puts `worlds.wrappers` around them."""

    def __init__(self, pool: DevicePool, wrap: Callable[[World], World]) -> None:
        self._pool, self._wrap = pool, wrap

    def kind(self, contract: TaskSpec) -> str:
        return self._pool.kind(contract)

    def most(self, kind: str) -> int | None:
        return self._pool.most(kind)

    @contextmanager
    def open(self, kind: str) -> Iterator[Device]:
        """Raises what `wrap` raises, such as `ValueError` for a world in which nothing can be planted."""
        with self._pool.open(kind) as device:
            yield replace(device, world=self._wrap(device.world))


class Pools:
    """Several pools as one: the first that has a world for a contract runs it."""

    def __init__(self, *members: DevicePool) -> None:
        self._members = members

    def kind(self, contract: TaskSpec) -> str:
        reasons = []
        for number, member in enumerate(self._members):
            try:
                # the number keeps apart devices of two pools that have the same kind
                return f"{number}:{member.kind(contract)}"
            except ValueError as error:
                reasons.append(str(error))
        raise ValueError("; ".join(reasons) or "no pool of devices")

    def most(self, kind: str) -> int | None:
        member, name = self._split(kind)
        return member.most(name)

    def open(self, kind: str) -> AbstractContextManager[Device]:
        member, name = self._split(kind)
        return member.open(name)

    def _split(self, kind: str) -> tuple[DevicePool, str]:
        number, _, name = kind.partition(":")
        return self._members[int(number)], name


# -- processes that a local world started (Linux; elsewhere none are seen, and a call that hangs isn't ended) ---------

_opening = threading.Lock()
"""Held while a local world opens: so the children that this process has then and hadn't before are that world's."""
_mine = threading.local()
"""`roots`: the children of this process that worlds of a thread started, a Chromium that it keeps below one of them."""


@dataclass(frozen=True)
class _Started:
    """Children of this process that a thread's worlds started. Those that had children of their own (`helpers`) drive a
    browser and go on when it is ended: through them the waiting call learns that it is gone."""

    roots: frozenset[int]
    helpers: frozenset[int]

    @classmethod
    def by_this_thread(cls, before: Mapping[int, int]) -> _Started:
        """What is there now and wasn't `before`, with what earlier worlds of this thread left running."""
        now = _descendants()
        earlier: frozenset[int] = getattr(_mine, "roots", frozenset())
        children = {pid for pid, parent in now.items() if parent == os.getpid()}
        # of earlier worlds only what still runs: ids of processes are used again
        _mine.roots = frozenset(children & (earlier | (children - before.keys())))
        return cls(_mine.roots, _mine.roots & frozenset(now.values()))

    def kill(self) -> None:
        """End them and all below them but the helpers."""
        now = _descendants()
        # still a child of this process: an id may belong to another one by now
        ended = {pid for pid in self.roots if now.get(pid) == os.getpid()}
        while more := {pid for pid, parent in now.items() if parent in ended} - ended:
            ended |= more
        for pid in ended - self.helpers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _descendants() -> dict[int, int]:
    """Process → its parent, of all processes below this one."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        # a process may end between the listing and the reading
        with contextlib.suppress(OSError, ValueError, IndexError):
            # the name of a program may hold brackets and blanks: what counts stands behind the last bracket
            parents[int(entry.parent.name)] = int(entry.read_text().rpartition(")")[2].split()[1])
    own = os.getpid()
    found = {}
    for pid in parents:
        above, steps = parents.get(pid, 0), 0
        # bounded: a chain of parents that changes meanwhile might never end
        while above not in (own, 0, 1) and steps < 64:
            above, steps = parents.get(above, 0), steps + 1
        if above == own:
            found[pid] = parents[pid]
    return found
