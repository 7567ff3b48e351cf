"""What of the corpus is exported: settings that a deployment and a command read without loading any data code."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Literal

from schemas.settings import Flag, Settings, Whole, setting

if TYPE_CHECKING:
    from pipelines.training_data.dataset_card import Group


_BY_GROUP = ("licence", "platform", "objective", "split")
Refuses = Callable[[str], str]
"""Licence → why the deployment's policy doesn't allow training on it; empty if it does."""


def require_allowed(what: str, groups: Collection[Group], refuses: Refuses, instead: str = "") -> None:
    """Raise `ValueError` for a source whose licence the policy refuses: what may not train here is not for others to
    train on, and rows may be older than that word. `instead`: what to do, if no filter helps."""
    for group in sorted(groups):
        if why := refuses(group.licence):
            raise ValueError(f"{what}: source {group.source}: {why}; {instead or 'leave it out by source or licence'}")


class Filters(Settings):
    """What of the corpus is exported, and in files of which size."""

    source: tuple[str, ...] = setting((), "Only these sources; none: all.")
    licence: tuple[str, ...] = setting((), "Only licences that match one of these patterns (Apache-*); none: all.")
    platform: tuple[Literal["mobile", "web", "desktop"], ...] = setting((), "Only these platforms; none: all.")
    objective: tuple[Literal["perception", "vqa", "grounding", "navigation"], ...] = setting(
        (), "Only these objectives; none: all."
    )
    split: tuple[Literal["train", "validation", "test"], ...] = setting((), "Only these splits; none: all.")
    score: Whole | None = setting(
        None,
        "Only what a judge scored at least so high, 0 to 10: the sample, and all that it was made from.",
        ge=0,
        le=10,
    )
    mixture: Flag = setting(False, "Rows and repeats of mid_training/mixture, instead of each row once.")
    shard_mb: Whole = setting(256, "Size in MB from which a file is closed and the next begun.", ge=1)

    def plain(self) -> dict[str, Any]:
        """As JSON values; the same names in another order are the same filter."""
        return {name: sorted({*said}) if isinstance(said, list) else said for name, said in super().plain().items()}

    def require(self, asset: str, there: Collection[Group], left: int, more: str = "") -> None:
        """Raise `ValueError` for a source that no row has, as a misspelled one beside others would go unnoticed, and
        where nothing is `left`. `there`: groups of all rows; `more`: what else may be the reason."""
        if not there:
            raise ValueError(
                f"{asset}: expected packed samples or tasks, found none in it; leave --asset out for the usual"
            )
        sources = sorted({group.source for group in there})
        if missing := sorted(set(self.source) - set(sources)):
            raise ValueError(f"{asset}: source: expected any of {', '.join(sources)}, found {missing[0]!r:.60}")
        if not left:
            # A line that can be read: what each filter could say, not every group of rows.
            held = {name: sorted({getattr(group, name) for group in there} - {""}) for name in ("source", *_BY_GROUP)}
            listed = "; ".join(f"{name} {', '.join(words)}" for name, words in held.items() if words)
            raise ValueError(f"{asset}: expected rows that filters leave, found none; it holds {listed}{more}")

    def require_only(self, kind: str, names: Collection[str]) -> None:
        """Raise `ValueError` for a filter that is set and means nothing to a kind, whose own are `names`."""
        for name in ("source", *_BY_GROUP, "score", "mixture"):
            if name not in names and getattr(self, name) != type(self).model_fields[name].default:
                own = f"{', '.join(names)} for a {kind}" if names else f"no filter for a {kind}, which is whole"
                raise ValueError(f"{name}: expected {own}, found {name}")

    def takes(self, group: Group) -> bool:
        """Whether rows of a group are taken, whatever their score."""
        licence = any(fnmatch.fnmatchcase(group.licence.lower(), pattern.lower()) for pattern in self.licence)
        return (licence or not self.licence) and all(
            not wanted or found in wanted
            for wanted, found in (
                (self.source, group.source),
                (self.platform, group.platform),
                (self.objective, group.objective),
                (self.split, group.split),
            )
        )
