"""The routes of the lease authority's API: what each takes and says, and who may."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from generators.devices import records
from generators.devices.authority.leases import Leases
from generators.devices.config import ApiKey

if TYPE_CHECKING:
    from generators.devices.authority.server import Authority

MAX_WAIT_S = 20.0
"""A long poll ends after it, whatever the client named."""

Answer = tuple[int, Any]
"""HTTP status and JSON."""


@dataclass(frozen=True, slots=True)
class AuthorityCall:
    """A request with a known key: path parameters and JSON body, neither checked yet."""

    authority: Authority
    key: ApiKey
    path: dict[str, str]
    body: dict[str, Any]

    @property
    def leases(self) -> Leases:
        return self.authority.leases

    def get(self, name: str, kind: type, default: object = None) -> Any:
        """A field of exactly this type. Raises `ValueError` that names it."""
        value = self.body.get(name, default)
        if type(value) is not kind:
            # `type`, since True is an int to `isinstance`
            raise ValueError(f"{name}: expected {kind.__name__}, found {str(value)[:80]!r}")
        return value

    def number(self, name: str) -> float | None:
        """A field in seconds, None if it isn't there."""
        value = self.body.get(name)
        if value is not None and (type(value) not in (int, float) or not 0 <= value < float("inf")):
            raise ValueError(f"{name}: expected seconds, found {str(value)[:80]!r}")
        return None if value is None else float(value)

    def until(self, silence_s: float) -> float:
        """When this long poll ends (monotonic): after the `wait_s` that it names, MAX_WAIT_S at most, and at half
        the silence after which whoever polls is taken for gone, so that the next poll comes in time."""
        return time.monotonic() + min(self.number("wait_s") or 0.0, MAX_WAIT_S, silence_s / 2)


async def _list_devices(call: AuthorityCall) -> Answer:
    return 200, {"devices": [device_json(state) for state in call.leases.devices()]}


async def _register(call: AuthorityCall) -> Answer:
    labels, options = call.get("labels", list, []), call.get("options", dict, {})
    device = records.DeviceRecord(
        call.get("id", str),
        call.get("protocol", str),
        call.get("host", str),
        call.get("port", int),
        tuple(labels),
        options,
        call.get("node", str, ""),
    )
    call.leases.register(device)
    return 200, device_json(call.leases.device(device.id))


async def _remove(call: AuthorityCall) -> Answer:
    call.leases.remove(call.path["device"])
    return 200, {}


async def _readmit(call: AuthorityCall) -> Answer:
    call.leases.readmit(call.path["device"])
    return 200, device_json(call.leases.device(call.path["device"]))


async def _device_failed(call: AuthorityCall) -> Answer:
    put_away = call.leases.fail(call.path["device"], call.get("reason", str))
    return 200, {"quarantined": put_away}


async def _lease(call: AuthorityCall) -> Answer:
    priority = call.get("priority", int, 0)
    if priority > call.key.max_priority:
        raise ValueError(
            f"lease: key {call.key.name} may ask for a priority up to {call.key.max_priority}, found {priority}"
        )
    request = records.LeaseRequest(
        call.get("request", str),
        call.key.name,
        call.get("protocol", str),
        tuple(call.get("labels", list, [])),
        call.get("device", str, ""),
        priority,
        call.number("ttl_s"),
        call.number("idle_s"),
    )
    # this very request doesn't count, as asking again asks after the same
    most, held = call.key.max_leases, call.leases.count_of(request.holder, request.id)
    if most and held >= most:
        raise records.QuotaReached(
            f"lease: key {request.holder} has or waits for {held} leases, and may have {most} at a time"
        )
    until = call.until(call.leases.rules.dead_s)
    # compared with what stands after: only a change wakes those who wait
    before = call.leases.newest_change()
    found: records.DeviceLease | records.LeaseWaiting | None = call.leases.ask(request)
    if call.leases.newest_change() != before:
        call.authority.changed()
    while isinstance(found, records.LeaseWaiting):
        if not await call.authority.wait(until):
            return 202, {"state": "waiting", "ahead": found.ahead}
        # The client may have gone and withdrawn it, and nobody ends this call for that: asked for here once more, the
        # request would come back and take a device that nobody uses.
        found = call.leases.look(request)
    if found is None:
        return 202, {"state": "gone", "ahead": 0}  # a client that is still there polls again
    return 200, call.authority.grant(found)


async def _withdraw(call: AuthorityCall) -> Answer:
    call.leases.withdraw(call.path["request"], call.key.name)
    return 200, {}


def _own(call: AuthorityCall) -> records.DeviceLease:
    found = call.leases.lease(call.path["lease"])
    if found.holder != call.key.name and "admin" not in call.key.roles:
        # as if it weren't there: whose lease it is concerns nobody else
        raise records.Unknown(f"lease {found.id}: unknown")
    return found


async def _heartbeat(call: AuthorityCall) -> Answer:
    _own(call)
    lease = call.leases.heartbeat(call.path["lease"], call.get("fence", int), call.number("unused_s") or 0.0)
    record = call.leases.device(lease.device).record
    return 200, {
        "expires_in_s": lease.expires_at - call.leases.now(),
        "nodes": call.authority.order(record),
        "wanted": call.leases.is_wanted(lease.id),
    }


async def _release(call: AuthorityCall) -> Answer:
    _own(call)
    call.leases.release(call.path["lease"], call.get("fence", int))
    return 200, {}


async def _lease_failed(call: AuthorityCall) -> Answer:
    lease = _own(call)
    reason, fence = call.get("reason", str), call.get("fence", int)
    return 200, {"quarantined": call.leases.fail(lease.device, reason, lease.id, fence)}


async def _fences(call: AuthorityCall) -> Answer:
    me = records.NodeRecord(call.get("node", str), call.get("host", str), call.get("port", int))
    leaving = call.get("leaving", bool, False)
    if not leaving:
        # a node that leaves is no owner of devices any more, but fences still reach it
        is_new = me not in call.leases.nodes()
        call.leases.announce(me)
        if is_new:
            call.authority.changed()
    # another epoch: the authority was started again, and its numbers mean something else
    same = call.get("epoch", str, "") == call.authority.epoch
    after, known = call.get("after", int, 0) if same else 0, call.get("nodes", list, [])
    until = call.until(call.leases.rules.node_dead_s)
    apart = (me.id,) if leaving else ()  # it knows itself still, and isn't listed any more: that is no news
    known = [name for name in known if name not in apart]
    while True:
        change, floors = call.leases.floors(after)
        nodes = call.leases.nodes()
        news = floors or not same or [node.id for node in nodes if node.id not in apart] != known
        if news or not await call.authority.wait(until):
            said = [node_json(node) for node in nodes]
            return 200, {"epoch": call.authority.epoch, "change": change, "floors": floors, "nodes": said}


async def _retire(call: AuthorityCall) -> Answer:
    call.leases.retire(call.get("node", str))
    return 200, {}


async def _nodes(call: AuthorityCall) -> Answer:
    return 200, {"nodes": [node_json(node) for node in call.leases.nodes()]}


_ANY = ("client", "node", "admin")
ROUTES: tuple[tuple[str, str, tuple[str, ...], Callable[[AuthorityCall], Awaitable[Answer]], bool], ...] = (
    ("GET", "/v1/devices", _ANY, _list_devices, False),
    ("POST", "/v1/devices", ("admin",), _register, True),
    ("DELETE", "/v1/devices/{device}", ("admin",), _remove, True),
    ("POST", "/v1/devices/{device}/readmit", ("admin",), _readmit, True),
    ("POST", "/v1/devices/{device}/failure", ("admin",), _device_failed, True),
    ("POST", "/v1/leases", ("client", "admin"), _lease, False),
    ("DELETE", "/v1/requests/{request}", ("client", "admin"), _withdraw, True),
    ("POST", "/v1/leases/{lease}/heartbeat", ("client", "admin"), _heartbeat, False),
    ("POST", "/v1/leases/{lease}/release", ("client", "admin"), _release, True),
    ("POST", "/v1/leases/{lease}/failure", ("client", "admin"), _lease_failed, True),
    ("POST", "/v1/fences", ("node", "admin"), _fences, False),
    ("POST", "/v1/nodes/retire", ("node", "admin"), _retire, True),
    ("GET", "/v1/nodes", _ANY, _nodes, False),
)
"""Method, path, roles that may, handler, whether it wakes those who wait."""


def node_json(node: records.NodeRecord) -> dict[str, object]:
    return {"id": node.id, "host": node.host, "port": node.port}


def device_json(state: records.DeviceState) -> dict[str, object]:
    record = state.record
    return {
        "id": record.id,
        "protocol": record.protocol,
        "host": record.host,
        "port": record.port,
        "labels": list(record.labels),
        "node": record.node,
        "health": state.health,
        "health_reason": state.health_reason,
        "failures": state.failures,
        "quarantined": state.quarantined,
        "fence": state.fence,
        "holder": state.holder,
        "priority": state.priority,
    }
