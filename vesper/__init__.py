"""Vesper from your own code: what a store holds, as tables, as data sets and as models.

    import vesper

    store = vesper.open()                                   # $VESPER_HOME, by default .vesper
    store.corpus(source="aitz", objective="grounding").dataset()
    store.checkpoint("unified").load()

The import itself loads neither Arrow nor torch nor Dagster; a method that needs an extra which isn't installed says
which. What isn't named here is internal, and changes without notice.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING

from vesper.own_names import check_own_names

if TYPE_CHECKING:
    from vesper.checkpoint import Checkpoint
    from vesper.corpus import Rows
    from vesper.store import Asset, Store

__version__ = "0.1.0"
"""The one home of the version: the package's metadata are made from it."""
__all__ = ["Asset", "Checkpoint", "Rows", "Store", "__version__", "open"]

_MODULES = {"Asset": "store", "Checkpoint": "checkpoint", "Rows": "corpus", "Store": "store"}

check_own_names()


def open(home: str | Path | None = None) -> Store:
    """The store at `home` ($VESPER_HOME, by default `.vesper` of the current folder), to read. Raises `ValueError` if
    there is none."""
    from vesper.store import Store  # with Arrow, which nobody waits for who only imports vesper

    return Store(home)


def __getattr__(name: str) -> object:
    """The classes of what `open` gives, for annotations: loaded when they are named, as above."""
    if name not in _MODULES:
        raise AttributeError(f"module 'vesper' has no attribute {name!r}")
    return getattr(importlib.import_module(f"vesper.{_MODULES[name]}"), name)
