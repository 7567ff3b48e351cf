"""Versions that hold a digest of the code they stand for: edited code rebuilds what it made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from schemas.ids import digest


def code_digest(modules: Sequence[str]) -> str:
    """First 8 hex digits of sha256 over the source of modules, named as paths below `quality/`."""
    folder = Path(__file__).parent
    return digest([(folder / f"{name}.py").read_text(encoding="utf-8") for name in modules])[:8]
