"""What recorders of the judge bench saw and didn't hand out, so that a family that dries up shows in the report."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

Lost = Counter[tuple[str, str]]
KINDS = {"dropped": "dropped", "unsteady": "unsteady pages", "left_out": "pages left out"}
"""What is lost, as a report calls it → in words."""
SHOWN = 6
"""Lines that are printed of a recorder; the report has all."""


@dataclass
class Losses:
    """Counts by (family, why). `dropped`: episodes and screens that came to nothing; `unsteady`: pages that don't look
    the same twice; `left_out`: pages that nothing starts from."""

    dropped: Lost = field(default_factory=Counter)
    unsteady: Lost = field(default_factory=Counter)
    left_out: Lost = field(default_factory=Counter)

    def drop(self, family: str, why: str) -> None:
        """Count one episode or screen that isn't handed out."""
        self.dropped[family, why] += 1

    def total(self, kind: str) -> int:
        """How many of a kind (see `KINDS`)."""
        return sum(getattr(self, kind).values())

    def plain(self) -> dict[str, dict[str, dict[str, int]]]:
        """Kind → family → why → how many; kinds of which there are none are left out."""
        found: dict[str, dict[str, dict[str, int]]] = {}
        for kind in KINDS:
            families: dict[str, dict[str, int]] = defaultdict(dict)
            for (family, why), number in sorted(getattr(self, kind).items()):
                families[family][why] = number
            if families:
                found[kind] = dict(families)
        return found


def lines(report: Mapping[str, Any]) -> Iterator[str]:
    """What a build's report says of losses, in words: a line for each recorder, then its families and reasons, those
    that lost most first. A report of an earlier build says nothing."""
    for name, kinds in report.get("losses", {}).items():
        rows = [
            (number, KINDS[kind], family, why)
            for kind, families in kinds.items()
            for family, reasons in families.items()
            for why, number in reasons.items()
        ]
        totals: Counter[str] = Counter()
        for number, kind, *_ in rows:
            totals[kind] += number
        yield f"{name}: " + ", ".join(f"{kind} {number}" for kind, number in totals.items())
        order = sorted(rows, key=lambda row: (-row[0], row[1:]))
        for number, kind, family, why in order[:SHOWN]:
            yield f"  {kind} {number}, {family}: {why}"
        if left := order[SHOWN:]:
            yield f"  and {sum(row[0] for row in left)} more, of {len(left)} kinds: see bench.json"
    if dry := report.get("dry"):
        yield f"nothing at all of {', '.join(dry)}"
