"""How far a source may move from its last good version before it is held back."""

from collections.abc import Mapping
from typing import Any

from pipelines.store import Check, CheckSpec, Manifest
from pipelines.store.change_checks import Found, not_fallen, not_shifted, share_not_fallen
from pipelines.takedown.withdrawn import REASON as TAKEDOWN
from schemas.settings import Number, Settings, setting

AGAINST_CURRENT = "_against_current"
"""How the names of these checks end."""
ITEMS_HELD = CheckSpec("items_against_current", "More items are gone than the band allows", sometimes=True)
SHARE_HELD = CheckSpec("share_against_current", "A lower share of records or items was mapped", sometimes=True)
REASONS_HELD = CheckSpec("reasons_against_current", "A quarantine reason rose", blocking=False, sometimes=True)
ACTIONS_HELD = CheckSpec("actions_against_current", "The kinds of actions shifted", blocking=False, sometimes=True)
PICTURES_HELD = CheckSpec("pictures_against_current", "More pictures are gone than the band allows", sometimes=True)
CHECKS = (ITEMS_HELD, SHARE_HELD, PICTURES_HELD, REASONS_HELD, ACTIONS_HELD)


class ChangeBands(Settings):
    """How far a source may move from its current version. What falls further is built, and isn't made current:
    `vesper promote --force --why ...` accepts it."""

    damaged_files: Number = setting(
        0.0,
        "Share of the native files that may be unreadable, or end in the middle, without holding the source back.",
        ge=0,
        le=1,
    )
    broken_pictures: Number = setting(0.01, "Share of pictures that may be unreadable; beyond it warns.", ge=0, le=1)
    rows: Number = setting(0.2, "Share of the mapped items, or of the pictures, that may be gone.", ge=0, le=1)
    mapped: Number = setting(0.05, "By how much the mapped share of records or items may fall.", ge=0, le=1)
    reasons: Number = setting(0.05, "By how much the share of one quarantine reason may rise; beyond it warns.", ge=0)
    actions: Number = setting(0.15, "Share of the steps whose action type may change; beyond it warns.", ge=0, le=1)
    words: tuple[str, ...] = setting(
        (),
        "Columns and action words that may be lost without a warning, as the check `vocabulary_known` writes them: "
        "unknown_action:12.",
    )
    scores: Number = setting(0.15, "Share of the judge's scores that may move; beyond it warns.", ge=0, le=1)


def mapped_share(counts: Mapping[str, Any]) -> float:
    """The mapped share of records or of items, the lower of the two; 1 of nothing. What a takedown refused is as good
    as mapped: it was meant to go."""
    # What people withdrew mustn't hold a source back as if its adapter had lost it.
    gone = taken_items(counts)
    shares = [
        (counts[f"{unit}_mapped"] + gone) / counts[f"{unit}_in"]
        for unit in ("records", "items")
        if counts[f"{unit}_in"]
    ]
    return min([1.0, *shares])


def taken_items(counts: Mapping[str, Any]) -> int:
    """Items that a takedown refused."""
    return int(counts["reasons"].get(TAKEDOWN, 0))


def change_checks(counts: Mapping[str, Any], current: Manifest | None, version: str, bands: ChangeBands) -> list[Check]:
    """Checks of a source's counts against those of its current version; none without one, or where that was built from
    data of another origin (embedded, native), which says nothing about this. Where `version` is current already, what
    it was found to be when it became so."""
    # Embedded data has other sizes than a publisher's: its counts are no base line for native files.
    if current is None or current.counts.get("origin") != counts.get("origin"):
        return []
    # A rerun of the current version would compare it with itself, and every check would pass.
    if current.version == version:
        return [check for check in current.checks if check.name.endswith(AGAINST_CURRENT)]
    before = current.counts
    items, earlier = (one["items_mapped"] + taken_items(one) for one in (counts, before))
    share = mapped_share(counts), mapped_share(before)
    # A row whose picture isn't there is mapped all the same, so a missing folder of pictures shows here alone. What was
    # withdrawn took its pictures along.
    pictures = round(before.get("images", 0) * (1 - min(1.0, taken_items(counts) / max(items, 1))))
    checks = [
        ITEMS_HELD.check(*not_fallen(items, earlier, bands.rows, "items")),
        PICTURES_HELD.check(*not_fallen(counts.get("images", 0), pictures, bands.rows, "pictures")),
        SHARE_HELD.check(*share_not_fallen(*share, bands.mapped, "mapped")),
        REASONS_HELD.check(*_reasons(counts, before, bands.reasons)),
    ]
    # A source of samples alone has no steps, so no actions to compare.
    if counts.get("actions") and before.get("actions"):
        moved = not_shifted(counts["actions"], before["actions"], bands.actions, "steps")
        checks.append(ACTIONS_HELD.check(*moved))
    return checks


def _reasons(counts: Mapping[str, object], before: Mapping[str, object], allowed: float) -> Found:
    def shares(of: Mapping[str, Any]) -> dict[str, float]:
        return {name: number / max(of["items_in"], 1) for name, number in of["reasons"].items()}

    now, then = shares(counts), shares(before)
    # A takedown raises its own reason on purpose.
    rises = {name: share - then.get(name, 0.0) for name, share in now.items() if name != TAKEDOWN}
    risen = {name for name, rise in rises.items() if rise > allowed}
    named = ", ".join(f"{name} {then.get(name, 0.0):.1%} to {now[name]:.1%}" for name in sorted(risen)[:5])
    expected = f"no quarantine reason {100 * allowed:g} points above the current version"
    return not risen, named or "no reason rose", expected, max([0.0, *rises.values()]), allowed
