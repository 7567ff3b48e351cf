"""The judge bench's assets and their versions: what the graph knows of them before anything runs."""

from pipelines.store.manifest import CheckSpec
from quality.code_version import code_digest
from quality.judges.nano.training import TRAINING_VERSION

BENCH, NANO = "bench/judge", "checkpoints/nano_judge"
MEASURED = ("rules", "nano")
"""Judges that ask no model, so that their figures are assets."""
BUILD_VERSION = 3
_NANO = ("transition", "step", "sample", "episode", "look", "forest", "head", "augment", "training")
NANO_VERSION = f"{TRAINING_VERSION}.{code_digest(tuple(f'judges/nano/{name}' for name in _NANO))}"
HAS_PLANTED_DEFECTS = CheckSpec("has planted defects", "Not one planted defect could be confirmed")
ENOUGH_EXAMPLES = CheckSpec("enough examples", "Fewer than 50 examples of a unit to train the nano judge on")
CUTS_ARE_RISKS = CheckSpec("cuts are risks", "A cut of the trained judge isn't between 0 and 1")
ABOVE_CHANCE = CheckSpec("better than chance", "The judge ranks held-out defects hardly better than a coin")
BENCH_CHECKS = (HAS_PLANTED_DEFECTS,)
NANO_CHECKS = (ENOUGH_EXAMPLES, CUTS_ARE_RISKS)
FIGURE_CHECKS = (ABOVE_CHANCE,)


def figures_of(judge: str) -> str:
    """The asset that holds a judge's figures."""
    return f"evaluations/judge_{judge}"
