"""What the lease authority counts, for `/metrics`. No label names a device or a holder."""

from collections import Counter as Tally

from generators.devices.authority.leases import Leases
from generators.devices.metrics import Counter, Gauge, Histogram, exposition
from generators.devices.records import DeviceState, LeaseEnded, QuotaReached, Unknown

# seconds
_ANSWER_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0)
STATES = ("free", "held", "down", "quarantined")


def why_refused(error: Exception) -> str:
    """The label of a refusal."""
    kinds = {QuotaReached: "quota", Unknown: "unknown", LeaseEnded: "ended"}
    return next((why for kind, why in kinds.items() if isinstance(error, kind)), "input")


def _state_of(device: DeviceState) -> str:
    # quarantine goes first: it is what somebody has to act on
    if device.quarantined or device.health == "down":
        return "quarantined" if device.quarantined else "down"
    return "held" if device.lease else "free"


class AuthorityMetrics:
    """The metrics of one authority since it was started; names begin with `vesper_authority_`."""

    def __init__(self) -> None:
        p = "vesper_authority_"
        self.devices = Gauge(p + "devices", "Registered devices, by protocol and state.", "protocol", "state")
        self.leases = Gauge(p + "leases", "Leases that live, by protocol.", "protocol")
        self.waiting = Gauge(p + "requests_waiting", "Requests in the queue, by protocol.", "protocol")
        self.nodes = Gauge(p + "nodes", "Gateway nodes that live.")
        self.refused = Counter(
            p + "refused_total", "Requests refused, by why: key, role, input, quota, unknown or ended.", "why"
        )
        self.answers = Histogram(
            p + "request_seconds",
            "Time to answer, by route; a long poll waits as long as it asked to.",
            _ANSWER_S,
            "route",
        )

    def text(self, leases: Leases) -> bytes:
        """The exposition, gauges as they stand now."""
        states = leases.devices()
        protocols = sorted({state.record.protocol for state in states})
        devices = Tally({(protocol, name): 0 for protocol in protocols for name in STATES})
        devices.update((state.record.protocol, _state_of(state)) for state in states)
        live = Tally({(protocol,): 0 for protocol in protocols})
        waiting = Tally(live)
        live.update((state.record.protocol,) for state in states if state.lease)
        waiting.update((request.protocol,) for request in leases.waiting())
        for gauge, counts in ((self.devices, devices), (self.leases, live), (self.waiting, waiting)):
            gauge.values = {key: float(count) for key, count in counts.items()}
        self.nodes.values = {(): float(len(leases.nodes()))}
        return exposition([self.devices, self.leases, self.waiting, self.nodes, self.refused, self.answers])
