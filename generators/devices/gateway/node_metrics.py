"""What a gateway node counts. No label names a device or a holder."""

from collections import Counter as Tally
from collections.abc import Callable, Iterable

from generators.devices.gateway.relay import Relay
from generators.devices.metrics import Counter, Gauge, Histogram, exposition

# seconds
_CONNECT_S = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)


class NodeMetrics:
    """The metrics of one node; names begin with `vesper_gateway_`."""

    def __init__(
        self, connections: Callable[[], float], feed_age_s: Callable[[], float], nodes: Callable[[], float]
    ) -> None:
        p = "vesper_gateway_"
        self.open = Gauge(p + "connections", "Client connections that stand open.", read=connections)
        self.feed_age = Gauge(p + "feed_age_seconds", "Since the authority was heard; -1: never.", read=feed_age_s)
        self.nodes = Gauge(p + "nodes", "Nodes that this one knows of, itself with them.", read=nodes)
        self.standing = Gauge(
            p + "relays", "Relays that stand open, by protocol and what they lead to.", "protocol", "to"
        )
        self.relays = Counter(p + "relays_total", "Relays begun, by protocol and what they lead to.", "protocol", "to")
        self.ended = Counter(p + "relays_ended_total", "Relays ended, by how.", "how")
        self.refused = Counter(p + "refused_total", "Connections refused, by why.", "why")
        self.bytes = Counter(p + "bytes_total", "Bytes relayed, by direction.", "direction")
        self.connect = Histogram(p + "connect_seconds", "Time to connect to a device or another node.", _CONNECT_S)
        self._up = self._down = 0

    def count(self, size: int, up: bool) -> None:
        """Bytes relayed, `up` = towards the device. Called for every read, so it is kept plain."""
        if up:
            self._up += size
        else:
            self._down += size

    def text(self, relays: Iterable[Relay]) -> bytes:
        """The exposition; `relays` are those that stand open."""
        self.bytes.values = {("to_device",): float(self._up), ("to_client",): float(self._down)}
        standing = Tally((relay.protocol, "node" if relay.forwarded else "device") for relay in relays)
        self.standing.values = {key: float(count) for key, count in standing.items()}
        gauges = [self.open, self.feed_age, self.nodes, self.standing]
        return exposition([*gauges, self.relays, self.ended, self.refused, self.bytes, self.connect])
