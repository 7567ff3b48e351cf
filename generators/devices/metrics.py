"""Counters, gauges and histograms in the Prometheus text format (version 0.0.4)."""

from __future__ import annotations

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
    """Counts of observed values up to each bound, cumulative as Prometheus wants them."""

    kind = "histogram"

    def __init__(self, name: str, text: str, bounds: tuple[float, ...]) -> None:
        self.name, self.text, self.bounds = name, text, bounds
        self.counts, self.sum = [0] * (len(bounds) + 1), 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    def lines(self) -> list[str]:
        out, total = [], 0
        for bound, count in zip((*map(repr, self.bounds), "+Inf"), self.counts, strict=True):
            total += count
            out.append(f'{self.name}_bucket{{le="{bound}"}} {total}')
        return [*out, f"{self.name}_sum {self.sum:.17g}", f"{self.name}_count {total}"]


def exposition(metrics: list[Counter | Histogram]) -> bytes:
    """All metrics as `/metrics` shows them."""
    lines = []
    for metric in metrics:
        lines += [f"# HELP {metric.name} {metric.text}", f"# TYPE {metric.name} {metric.kind}", *metric.lines()]
    return ("\n".join(lines) + "\n").encode()
