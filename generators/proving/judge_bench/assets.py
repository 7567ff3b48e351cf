"""The judge bench's assets and their versions: what the graph knows of them before anything runs."""

from __future__ import annotations

from quality.code_version import code_digest
from quality.judges.nano.training import TRAINING_VERSION

BENCH, NANO = "bench/judge", "checkpoints/nano_judge"
MEASURED = ("rules", "nano")
"""Judges that ask no model, so that their figures are assets."""
BUILD_VERSION = 3
_NANO = ("transition", "step", "sample", "episode", "look", "forest", "head", "augment", "training")
NANO_VERSION = f"{TRAINING_VERSION}.{code_digest(tuple(f'judges/nano/{name}' for name in _NANO))}"


def figures_of(judge: str) -> str:
    """The asset that holds a judge's figures."""
    return f"evaluations/judge_{judge}"
