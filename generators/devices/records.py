"""What the lease authority knows and says: devices, requests, leases, the rules they follow. Times are seconds since
1970 by the authority's clock; durations are seconds."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from generators.devices.device import PROTOCOLS

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""Names of devices and nodes: they stand in URLs, request lines and log lines."""
HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}|[0-9A-Fa-f:.]{2,45}")
LABEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=:/+-]{0,127}")
PRIORITIES = range(0, 101)


class LeaseEnded(Exception):
    """The lease is over for good; `state` is how it ended (see `DeviceLease`), the message says why."""

    def __init__(self, state: str, reason: str) -> None:
        super().__init__(reason)
        self.state = state


class Unknown(LookupError):
    """No such device, lease or request; the message names it."""


class QuotaReached(ValueError):
    """The key has as many leases as it may have; the message says how many."""


@dataclass(frozen=True, slots=True)
class Rules:
    """How leases run. A holder beats every `heartbeat_s` and is dead after `dead_s` of silence; a lease ends after its
    TTL, or after `idle_s` without use; a device is quarantined after `quarantine_after` infrastructure failures in a
    row, if so many holders reported them as `quarantine_holders` says, or its probe fails, too; a request that nobody
    polls is dropped after `dead_s`. A gateway node not heard of for `node_dead_s` is forgotten. A long poll is answered
    within half of its silence (`dead_s` of a request, `node_dead_s` of a node)."""

    heartbeat_s: float = 10.0
    dead_s: float = 30.0
    ttl_s: float = 3600.0
    max_ttl_s: float = 86_400.0
    idle_s: float = 600.0
    quarantine_after: int = 3
    quarantine_holders: int = 2
    keep_ended_s: float = 86_400.0
    node_dead_s: float = 30.0

    def __post_init__(self) -> None:
        if not 0 < self.heartbeat_s < self.dead_s <= self.max_ttl_s or not 0 < self.ttl_s <= self.max_ttl_s:
            raise ValueError(f"rules: expected 0 < heartbeat_s < dead_s and ttl_s <= max_ttl_s, found {self}")
        if min(self.quarantine_after, self.quarantine_holders) < 1 or self.idle_s <= 0 or self.node_dead_s <= 0:
            raise ValueError(
                "rules: expected quarantine_after and quarantine_holders of 1 or more, idle_s and node_dead_s above 0, "
                f"found {self}"
            )


@dataclass(frozen=True, slots=True)
class DeviceRecord:
    """A device as it is registered. `labels` are its capabilities, plain words or `key=value`; `options` go to the
    driver as they are; `node` is the gateway node that should own it ("": rendezvous hashing decides)."""

    id: str
    protocol: str
    host: str
    port: int
    labels: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    node: str = ""

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.id):
            raise ValueError(f"device id: expected letters, digits, '.', '_' or '-', found {self.id[:80]!r}")
        if self.protocol not in PROTOCOLS:
            raise ValueError(
                f"device {self.id}: expected a protocol of {', '.join(PROTOCOLS)}, found {self.protocol!r}"
            )
        if not HOST.fullmatch(self.host):
            raise ValueError(f"device {self.id}: expected a host name or address, found {self.host[:80]!r}")
        if not 1 <= self.port <= 65_535:
            raise ValueError(f"device {self.id}: expected a port in 1..65535, found {self.port}")
        if self.node and not NAME.fullmatch(self.node):
            raise ValueError(f"device {self.id}: expected the name of a node, found {self.node[:80]!r}")
        check_labels(self.labels)


@dataclass(frozen=True, slots=True)
class DeviceState:
    """A device with what has become of it. `fence` is the newest fencing token given; tokens below `floor` are cut
    off. `quarantined` is the reason, "" if it isn't."""

    record: DeviceRecord
    health: str
    health_reason: str
    failures: int
    quarantined: str
    fence: int
    floor: int
    lease: str | None
    holder: str | None
    priority: int | None


@dataclass(frozen=True, slots=True)
class LeaseRequest:
    """A request for a device with all of `labels` (or for `device` itself). Asking again with the same `id` asks after
    the same request, so a lost answer never takes two devices. Higher `priority` goes first and takes from lower."""

    id: str
    holder: str
    protocol: str
    labels: tuple[str, ...] = ()
    device: str = ""
    priority: int = 0
    ttl_s: float | None = None
    idle_s: float | None = None

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.id):
            raise ValueError(f"request id: expected letters, digits, '.', '_' or '-', found {self.id[:80]!r}")
        if self.protocol not in PROTOCOLS:
            raise ValueError(f"lease: expected a protocol of {', '.join(PROTOCOLS)}, found {self.protocol[:40]!r}")
        if self.priority not in PRIORITIES:
            raise ValueError(f"lease: expected a priority in 0..{PRIORITIES[-1]}, found {self.priority}")
        for name, value in (("ttl_s", self.ttl_s), ("idle_s", self.idle_s)):
            if value is not None and not 0 < value < float("inf"):
                raise ValueError(f"lease: expected {name} above 0, found {value}")
        check_labels(self.labels)


@dataclass(frozen=True, slots=True)
class DeviceLease:
    """Leave to use a device until `expires_at`. `state` is "live", or how it ended: "released" (given back),
    "preempted" (by a higher priority), "expired" (its TTL is over), "dead" (no heartbeat), "idle" (unused),
    "quarantined" or "removed" (its device was)."""

    id: str
    request: str
    device: str
    fence: int
    holder: str
    priority: int
    granted_at: float
    expires_at: float
    state: str
    reason: str


@dataclass(frozen=True, slots=True)
class LeaseWaiting:
    """The request stands in the queue; `ahead` requests for the protocol stand before it."""

    request: str
    ahead: int


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A gateway node as it announced itself."""

    id: str
    host: str
    port: int

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.id):
            raise ValueError(f"node id: expected letters, digits, '.', '_' or '-', found {self.id[:80]!r}")
        if not HOST.fullmatch(self.host) or not 1 <= self.port <= 65_535:
            raise ValueError(f"node {self.id}: expected host and port, found {self.host[:80]!r}:{self.port}")


def check_labels(labels: tuple[str, ...]) -> None:
    """Raises `ValueError` that names the first label that isn't one."""
    for label in labels:
        if not isinstance(label, str) or not LABEL.fullmatch(label):
            raise ValueError(f"label: expected letters, digits and ._=:/+-, found {str(label)[:80]!r}")
