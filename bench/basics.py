"""How long the definitions take to load."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.timing import best, result

ROOT = Path(__file__).parents[1]


def rows() -> Iterator[dict[str, Any]]:
    """Dagster definitions of all sources, assets and checks: seconds to load, beside importing Dagster alone."""

    def seconds(code: str) -> float:
        return best(lambda: subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True))

    ours = seconds("from dagster_project.definitions import defs; defs().get_repository_def()")
    peer = seconds("import dagster")
    yield result("start with all definitions", ours, "s", "import dagster alone", peer, digits=2)
