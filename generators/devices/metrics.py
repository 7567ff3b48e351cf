"""Counters, gauges and histograms in the Prometheus text format (version 0.0.4)."""

from bisect import bisect_left
from collections.abc import Callable

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def _labels(names: tuple[str, ...], values: tuple[str, ...]) -> str:
    pairs = [
        '{}="{}"'.format(name, value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n"))
        for name, value in zip(names, values, strict=True)
    ]
    inside = ",".join(pairs)
    return f"{{{inside}}}" if inside else ""


class Counter:
    """A number that only grows, one for each set of label values."""

    kind = "counter"

    def __init__(self, name: str, text: str, *labels: str) -> None:
        self.name, self.text, self.labels = name, text, labels
        self.values: dict[tuple[str, ...], float] = {} if labels else {(): 0.0}

    def add(self, amount: float, *labels: str) -> None:
        self.values[labels] = self.values.get(labels, 0.0) + amount

    def lines(self) -> list[str]:
        return [f"{self.name}{_labels(self.labels, key)} {value:.17g}" for key, value in sorted(self.values.items())]


class Gauge(Counter):
    """A number that goes up and down; `read` gives it where no one counts it."""

    kind = "gauge"

    def __init__(self, name: str, text: str, *labels: str, read: Callable[[], float] | None = None) -> None:
        super().__init__(name, text, *labels)
        self.read = read

    def lines(self) -> list[str]:
        if self.read is not None:
            self.values = {(): self.read()}
        return super().lines()


class Histogram:
    """Counts of observed values up to each bound, cumulative as Prometheus wants them, for each set of label values."""

    kind = "histogram"

    def __init__(self, name: str, text: str, bounds: tuple[float, ...], *labels: str) -> None:
        self.name, self.text, self.bounds, self.labels = name, text, bounds, labels
        self.counts: dict[tuple[str, ...], list[int]] = {} if labels else {(): [0] * (len(bounds) + 1)}
        self.sums: dict[tuple[str, ...], float] = {} if labels else {(): 0.0}

    def observe(self, value: float, *labels: str) -> None:
        self.counts.setdefault(labels, [0] * (len(self.bounds) + 1))[bisect_left(self.bounds, value)] += 1
        self.sums[labels] = self.sums.get(labels, 0.0) + value

    def lines(self) -> list[str]:
        out = []
        for values, counts in sorted(self.counts.items()):
            total, own = 0, _labels(self.labels, values)
            for bound, count in zip((*map(repr, self.bounds), "+Inf"), counts, strict=True):
                total += count
                out.append(f"{self.name}_bucket{_labels((*self.labels, 'le'), (*values, bound))} {total}")
            out += [f"{self.name}_sum{own} {self.sums[values]:.17g}", f"{self.name}_count{own} {total}"]
        return out


def exposition(metrics: list[Counter | Histogram]) -> bytes:
    """All metrics as `/metrics` shows them."""
    lines = []
    for metric in metrics:
        lines += [f"# HELP {metric.name} {metric.text}", f"# TYPE {metric.name} {metric.kind}", *metric.lines()]
    return ("\n".join(lines) + "\n").encode()
