"""$DAGSTER_HOME: the history that `vesper demo` writes and `make dev` shows."""

from __future__ import annotations

import os
from pathlib import Path

from dagster_project import deployment

TEMPLATE = Path(__file__).parent / "dagster.yaml"


def prepare(home: Path | None = None) -> Path:
    """Make $VESPER_HOME/dagster with the shipped settings (an edited copy is left alone); set the environment."""
    folder = (home or deployment.home()) / "dagster"
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "dagster.yaml"
    if not settings.exists():
        settings.write_text(TEMPLATE.read_text(encoding="utf-8"), encoding="utf-8")
    os.environ["DAGSTER_HOME"] = str(folder)
    os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "1")
    return folder


if __name__ == "__main__":
    print(prepare())
