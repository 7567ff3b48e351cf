"""The compose file as it stands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

BY_COMPOSE = {"VESPER_UID", "VESPER_GID", "VESPER_DATA", "VESPER_POSTGRES_PASSWORD"}
"""Variables that compose.yaml itself reads, from the `.env` that make_secrets.py writes."""
IMAGES = {"PYTHON_IMAGE", "POSTGRES_IMAGE"}
"""Variables that name other images than the usual ones, such as one by its digest."""


def composed() -> Any:
    """deploy/compose.yaml as plain values."""
    return yaml.safe_load((Path(__file__).parents[2] / "deploy" / "compose.yaml").read_text())
