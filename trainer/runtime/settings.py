"""Settings that come as JSON: a name that nobody knows is an error, never passed over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def require_known(what: str, given: Mapping[str, Any], known: Iterable[str]) -> None:
    """Raises `ValueError` naming the settings of `what` that aren't among those `known`, and these."""
    known = sorted(known)
    if unknown := sorted(set(given) - set(known)):
        raise ValueError(f"{what}: unknown {unknown}; known are {known}")
