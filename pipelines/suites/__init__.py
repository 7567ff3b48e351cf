"""One file per evaluation suite; the registry finds them by scanning this folder.

A suite is what a checkpoint is scored on, so nothing of it may train. Its file holds a card and `items`, which reads
the native files as a stream. A suite never becomes steps or samples: its items are only turned into fingerprints
(`quality.contamination.fingerprints`) that training data is held against. A file whose name starts with `_` is a
helper.
"""

import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from pipelines.mapping.adapter import Raw
from schemas.settings import nearest

Scope = Literal["target", "goal"]


@dataclass(frozen=True, slots=True)
class SuiteCard:
    """What a suite is, a constant in its file."""

    id: str
    title: str
    origin: str
    licence: str
    citation: str
    size: str
    frame: str
    """Native coordinate frame: unit, axis order, origin."""
    known_problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SuiteItem:
    """One question of a suite. `box` is left, top, right, bottom in 0..1000, `points` are (x, y) in 0..1000."""

    id: str
    instruction: str
    language: str | None = None
    box: tuple[float, float, float, float] | None = None
    points: tuple[tuple[float, float], ...] = ()
    picture: str | None = None
    """The picture's name, relative to the raw folder where it was found, else as the row says."""
    data: bytes | None = None
    """The picture's encoded bytes; None if it isn't there."""
    app: str | None = None
    scope: Scope = "target"
    """Whether the instruction names one place on the screen, or the goal of an episode."""
    notes: tuple[str, ...] = ()
    """What is wrong with the item though it stays: `bad_box`, `picture_missing`, ..."""


@dataclass(frozen=True, slots=True)
class BadRow:
    """A native row that is no item; counted by its reason. `ends`: its file can't be read on behind it."""

    file: str
    locator: str
    reason: str
    detail: str = ""
    ends: bool = False


@dataclass(frozen=True, slots=True)
class RegisteredSuite:
    """A registered suite."""

    card: SuiteCard
    items: Callable[[Raw], Iterator[SuiteItem | BadRow]]


@functools.cache
def registry() -> dict[str, RegisteredSuite]:
    """All suites by id, sorted. Raises `ValueError` for a file without `CARD` and `items`, or of another name."""
    found: dict[str, RegisteredSuite] = {}
    for info in pkgutil.iter_modules(__path__):
        if info.name.startswith("_"):
            continue
        module = importlib.import_module(f"{__name__}.{info.name}")
        card, items = getattr(module, "CARD", None), getattr(module, "items", None)
        if not isinstance(card, SuiteCard) or not callable(items):
            raise ValueError(f"suite {info.name}: expected CARD (a SuiteCard) and items(raw) in the file")
        if card.id != info.name:
            raise ValueError(f"suite {info.name}: the card's id is {card.id!r}; it must equal the file name")
        found[info.name] = RegisteredSuite(card, items)
    return dict(sorted(found.items()))


def get(suite: str) -> RegisteredSuite:
    """A suite by id. Raises `ValueError` that lists the known ones."""
    suites = registry()
    if suite not in suites:
        raise ValueError(f"unknown evaluation suite {suite[:60]!r}; {nearest(suite, suites)}")
    return suites[suite]
