"""Which list of elements stands for a picture that several records show, each with a list of its own.

The choice depends on the lists alone, never on which record is read first: so it may be made within a record, within a
batch, within a file and among files, in whatever pieces the records come.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np

from schemas.tables import ELEMENT

_TEXTS = tuple(field.name for field in ELEMENT if field.name != "box")


class ShownPicture(Protocol):
    """A picture and what a record knows to be on it."""

    @property
    def sha256(self) -> str | None: ...

    @property
    def elements(self) -> Sequence[Mapping[str, Any]]: ...


Shown = TypeVar("Shown", bound=ShownPicture)


def is_fuller(elements: Sequence[Mapping[str, Any]], than: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a list of elements (rows of `ELEMENT`) is longer than another or, as long, first in a fixed order."""
    if len(elements) != len(than):
        return len(elements) > len(than)
    # Of two that are equally long the order decides, which has nothing to do with either list's quality.
    return elements != than and _order(elements) < _order(than)


def keep_fullest(screens: dict[str, Shown], screen: Shown) -> None:
    """Put a screen that has a picture into `screens` (by sha256), unless one with a fuller list is there."""
    name = screen.sha256
    if name is not None and (name not in screens or is_fuller(screen.elements, screens[name].elements)):
        screens[name] = screen


def _order(elements: Sequence[Mapping[str, Any]]) -> str:
    """Boxes as the table holds them, in single precision: two that are the same there are the same here."""
    rows = [[[float(np.float32(v)) for v in e["box"]], *(e.get(name) or "" for name in _TEXTS)] for e in elements]
    return json.dumps(rows)
