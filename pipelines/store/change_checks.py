"""Checks of a new version against the current one: what fell, and what shifted.

A stage that loses half of its input can hold every promise it makes about the rest. Only the last good version tells.
"""

from __future__ import annotations

from collections.abc import Mapping

from pipelines.store.manifest import Check


def has_not_fallen(name: str, now: float, before: float, allowed: float, unit: str) -> Check:
    """A number of things may fall by the share `allowed` (0 to 1) of what it was; a blocking check."""
    lost = (before - now) / before if before > 0 else 0.0
    return Check(
        name,
        lost <= allowed,
        f"{now:,} {unit}, {before:,} in the current version" + (f" ({lost:.1%} fewer)" if lost > 0 else ""),
        f"at most {allowed:.0%} fewer than in the current version",
    )


def share_has_not_fallen(name: str, now: float, before: float, allowed: float, what: str) -> Check:
    """A share (0 to 1) may fall by `allowed`; a blocking check."""
    return Check(
        name,
        before - now <= allowed,
        f"{now:.1%} {what}, {before:.1%} in the current version",
        f"at most {100 * allowed:g} points below the current version",
    )


def has_not_shifted(
    name: str, now: Mapping[str, float], before: Mapping[str, float], allowed: float, what: str
) -> Check:
    """Two histograms may differ by `allowed` of their mass (total variation distance, 0 to 1). It warns: a shift is
    worth a look, and may be what was wanted."""
    there, here = sum(before.values()), sum(now.values())
    moved: dict[str, float] = {}
    if there and here:
        moved = {key: now.get(key, 0) / here - before.get(key, 0) / there for key in {*now, *before}}
    distance = sum(abs(share) for share in moved.values()) / 2
    largest = sorted(moved.items(), key=lambda item: (-abs(item[1]), item[0]))[:3]
    named = ", ".join(f"{key} {share:+.1%}" for key, share in largest if share)
    return Check(
        name,
        distance <= allowed,
        f"{distance:.1%} of {what} moved" + (f": {named}" if named else ""),
        f"at most {allowed:.0%} against the current version",
        blocking=False,
    )
