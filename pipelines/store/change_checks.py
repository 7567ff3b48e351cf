"""What a new version's figures say against those of the current one: what fell, and what shifted.

A stage that loses half of its input can hold every promise it makes about the rest. Only the last good version tells.
Each function gives what a `CheckSpec` makes a check of: (passed, found, expected, value, limit).
"""

from collections.abc import Mapping

Found = tuple[bool, str, str, float, float]
"""Whether a check passed, what was found, what was expected; the number found, and the one that it is held to."""


def not_fallen(now: float, before: float, allowed: float, unit: str) -> Found:
    """A number of things may fall by the share `allowed` (0 to 1) of what it was."""
    # Nothing can be lost of nothing: the first version of an empty asset passes.
    lost = (before - now) / before if before > 0 else 0.0
    fewer = f" ({lost:.1%} fewer)" if lost > 0 else ""
    found = f"{now:,} {unit}, {before:,} in the current version{fewer}"
    return lost <= allowed, found, f"at most {allowed:.0%} fewer than in the current version", lost, allowed


def share_not_fallen(now: float, before: float, allowed: float, what: str) -> Found:
    """A share (0 to 1) may fall by `allowed`."""
    found = f"{now:.1%} {what}, {before:.1%} in the current version"
    expected = f"at most {100 * allowed:g} points below the current version"
    return before - now <= allowed, found, expected, before - now, allowed


def not_shifted(now: Mapping[str, float], before: Mapping[str, float], allowed: float, what: str) -> Found:
    """Two histograms may differ by `allowed` of their mass (total variation distance, 0 to 1)."""
    there, here = sum(before.values()), sum(now.values())
    # An empty side has no shares, so nothing can have shifted.
    moved: dict[str, float] = {}
    if there and here:
        moved = {key: now.get(key, 0) / here - before.get(key, 0) / there for key in {*now, *before}}
    # Halved, as each share that moved is missing in one place and too much in another.
    distance = sum(abs(share) for share in moved.values()) / 2
    # By name where they moved alike, so that the text is the same on each run.
    largest = sorted(moved.items(), key=lambda item: (-abs(item[1]), item[0]))[:3]
    named = ", ".join(f"{key} {share:+.1%}" for key, share in largest if share)
    found = f"{distance:.1%} of {what} moved" + (f": {named}" if named else "")
    return distance <= allowed, found, f"at most {allowed:.0%} against the current version", distance, allowed
