"""One writer per asset across machines: a lock object with owner and expiry, created by a conditional PUT.

    <url>/assets/<asset>/lock.json   who builds it, until when, and what that build reads
    <url>/collect.json               who deletes (`vesper gc`), until when

A lease is renewed every third of its time, so that one of a machine that died is over after `LEASE_S`, which who comes
next waits for. Taking over what is over, and renewing, are conditional PUTs too, and a commit checks whether the lease
is still its own before it makes anything current. Machines' clocks may differ by minutes.

On a store without conditional PUTs (`Objects.exclusive` is False) two writers that begin within the same moment may
both believe that they hold an asset. What then still holds: equal inputs give equal names and bytes, parts of different
inputs have different names, and the pointer names one whole version, the last one put.
"""

import contextlib
import functools
import json
import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipelines.store.files import StoreError
from pipelines.store.object_store.objects import Found, Objects

LEASE_S = 300.0
COLLECT = "collect.json"
WAIT_S = 600.0
"""How long a build waits for `vesper gc`."""
_LOOK_S = 1.0

logger = logging.getLogger(__name__)


class StoreLease:
    """Held from `take` to `release`; renewed in the background."""

    def __init__(self, objects: Objects, name: str, facts: Mapping[str, Any]) -> None:
        self._objects, self._name = objects, name
        self._facts = {
            # Names of hosts and process numbers repeat between containers; the mark is this lease's own.
            **facts,
            "host": socket.gethostname(),
            "machine": _machine(),
            "pid": os.getpid(),
            "mark": uuid.uuid4().hex,
        }
        self._held: Found | None = None
        self._over = threading.Event()
        self._turn = threading.Lock()

    def take(self, what: str) -> None:
        """Raises `StoreError` if somebody else holds it: at once if that is a process of this machine, else as soon as
        the lease is renewed. One that nobody renews is waited for: a container that was made anew can't know whether
        the one before it is dead. `what` begins the message."""
        there = self._wait_for_the_dead(what)
        if not self._put(there):
            raise StoreError(f"{what}: the lock was taken by another writer just now; run it again")
        threading.Thread(target=self._renew, name="vesper-lease", daemon=True).start()

    def _wait_for_the_dead(self, what: str) -> Found | None:
        """The lock object that may be replaced, None if there is none."""
        seen: bytes | None = None
        end = time.monotonic() + 1.5 * LEASE_S  # clocks may differ
        while (there := self._objects.read(self._name)) is not None and not _is_over(plain := parse(there)):
            # A living process of this machine renews its lease: there is no use in waiting for it.
            near = bool(_machine()) and plain.get("machine") == _machine()
            # It changed while we looked, so somebody renews it.
            if near or there.data != (seen or there.data) or time.monotonic() > end:
                raise StoreError(f"{what}: locked by {holder_text(plain)}; one writer per asset")
            if seen is None:
                logger.warning("%s: waiting for the lock of %s", what, holder_text(plain))
                seen = there.data
            time.sleep(_LOOK_S)
        return there

    def require(self, what: str) -> None:
        """Raises `StoreError` if it was lost: this machine slept or was cut off for longer than the lease."""
        with self._turn:
            if not self._is_ours():
                raise StoreError(f"{what}: the lock was lost to another writer meanwhile; run it again")

    def release(self) -> None:
        """Give it back, if it is still ours."""
        self._over.set()
        # A store that is away can't be told; the lease then ends by its time.
        with self._turn, contextlib.suppress(StoreError):  # else it ends by itself
            if self._is_ours():
                self._objects.delete([self._name])
            self._held = None

    def _put(self, there: Found | None) -> bool:
        data = json.dumps({**self._facts, "expires": time.time() + LEASE_S}, sort_keys=True).encode()
        if not self._objects.replace(self._name, data, there):
            # Somebody was faster in this moment.
            return False
        # Read back for its tag, by which the next renewal is conditional.
        self._held = self._objects.read(self._name)
        return self._held is not None and self._held.data == data

    def _is_ours(self) -> bool:
        now = self._objects.read(self._name)
        return now is not None and parse(now).get("mark") == self._facts["mark"]

    def _renew(self) -> None:
        # Three times within its time, so that one renewal may fail.
        while not self._over.wait(LEASE_S / 3):
            with (
                self._turn,
                contextlib.suppress(StoreError),
            ):  # the store is away: tried again, and reported at the commit
                # Lost for good: whoever commits is told by `require`.
                if self._held is None or not self._put(self._held):
                    return


@contextlib.contextmanager
def lease(objects: Objects, name: str, facts: Mapping[str, object], what: str) -> Iterator[StoreLease]:
    """Hold a lock object meanwhile. Raises `StoreError` if somebody else does."""
    taken = StoreLease(objects, name, facts)
    taken.take(what)
    try:
        yield taken
    finally:
        taken.release()


def parse(found: Found) -> dict[str, object]:
    """What a lock object says. One that can't be read is over: its writer puts it whole or not at all."""
    try:
        plain = json.loads(found.data)
        return {**plain, "expires": float(plain["expires"]), "pid": int(plain["pid"]), "host": str(plain["host"])}
    except (ValueError, TypeError, KeyError):
        return {"expires": 0.0, "pid": 0, "host": ""}


def holder_of(objects: Objects, name: str) -> dict[str, Any] | None:
    """Who holds a lock object now; None if nobody does."""
    found = objects.read(name)
    return None if found is None or _is_over(plain := parse(found)) else plain


def wait_for_collection(objects: Objects, what: str) -> None:
    """Return once nobody deletes. Raises `StoreError` after `WAIT_S`."""
    end = time.monotonic() + WAIT_S
    while (plain := holder_of(objects, COLLECT)) is not None:
        if time.monotonic() >= end:
            raise StoreError(f"{what}: `vesper gc` by {holder_text(plain)} still deletes; run it again after that")
        time.sleep(_LOOK_S)


def holder_text(plain: Mapping[str, Any]) -> str:
    """An owner in words; what it says of itself is not trusted to be short."""
    left = max(plain["expires"] - time.time(), 0)
    return f"process {plain['pid']} on {plain['host'][:80]!r} (its lease runs for {left:.0f} s more unless renewed)"


def _is_over(plain: Mapping[str, Any]) -> bool:
    """Whether its time is over, or its owner is a dead process of this machine."""
    # Its time is over, whoever it was.
    if plain["expires"] < time.time():
        return True
    return bool(_machine()) and plain.get("machine") == _machine() and not _lives(plain["pid"])


@functools.cache
def _machine() -> str:
    """This boot of this machine and its process numbers (containers count their own); empty if nobody says. Names of
    hosts won't do: containers on different machines may have the same."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip() + os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return True
