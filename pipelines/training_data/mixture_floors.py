"""Floors of a mixture: what each objective, platform and action type has to have of an epoch, however short data is.

A mixture takes what there is. Where an objective has next to nothing, the others fill its place, and a model would be
trained on nearly one of them alone. So a version that is short of a floor doesn't become current.
"""

from collections.abc import Iterator, Mapping, Sequence

from pipelines.store import Check, CheckSpec
from pipelines.training_data.mixture_config import MixtureConfig
from schemas.action_types import SPACES, WIDEST
from schemas.tables import PLATFORMS

FLOORS = {
    "objective": CheckSpec("every objective has its floor", "An objective has too little data of its own"),
    "platform": CheckSpec("every platform has its floor", "A platform is all but missing from the epoch"),
    "action": CheckSpec("every action type has its floor", "An action type is all but missing from navigation"),
}
"""By the groups of the table `shares`."""

Reached = Mapping[str, Mapping[str, float]]
"""Group → name → token share reached; of an action type the share of navigation's tokens. What has no data isn't in
it, but for objectives."""


def floors_of(group: str, reached: Mapping[str, float], config: MixtureConfig) -> dict[str, float]:
    """Name → the least share it has to have, of a group of which `reached` was reached."""
    if group == "objective":
        # Objectives have a floor even without data; platforms and action types only where there is some, or
        # `floors` says so.
        common = {name: share * config.least_of_target for name, share in config.shares.items()}
    else:
        least = config.least_platform if group == "platform" else config.least_action
        common = dict.fromkeys(reached, least)
    known: Sequence[str] = {"platform": PLATFORMS, "action": tuple(SPACES[WIDEST])}.get(group, tuple(config.shares))
    return common | {name: share for name, share in config.floors.items() if name in known}


def floor_checks(reached: Reached, rows: int, config: MixtureConfig) -> Iterator[Check]:
    """A check a group, which names all that is short and by how much. `rows`: of the epoch; one of them more or less
    is nothing to block for."""
    for group, spec in FLOORS.items():
        floors = floors_of(group, reached[group], config)
        missing = {name: least - reached[group].get(name, 0.0) for name, least in floors.items()}
        # A row is the smallest step that shares can move by.
        short = {name: gap for name, gap in missing.items() if gap > 1 / max(rows, 1)}
        said = [
            f"{name} {reached[group].get(name, 0.0):.2%} of {floors[name]:.2%}"
            for name in sorted(short, key=lambda name: (-short[name], name))
        ]
        found = f"short by {max(short.values()):.2%} at most: {', '.join(said)}" if short else "none is short"
        yield spec.check(not short, found, "at least the floor of each", max(missing.values(), default=0.0), 0.0)
