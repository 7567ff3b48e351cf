"""UI-Vision: element grounding by basic, functional and spatial instructions; the headline is the mean of the three.

Layout grounding asks for a box and is scored by overlap; a model that points can't answer it, so its rows are passed
over and counted.
"""

from pipelines.suites.ui_vision import FORM
from trainer.suites.reading import Benchmark, Row, stem, text

SPLITS = ("basic", "functional", "spatial")


def labels(row: Row, file: str, side: object) -> dict[str, str | tuple[str, ...]]:
    """split, category of the program, the program, type."""
    split = next((split for split in SPLITS if split in stem(file)), "unknown")
    return {
        "platform": "desktop",
        "split": split,
        "category": text(row, "category"),
        "application": text(row, "platform"),
        "type": text(row, "element_type", "ui_type"),
    }


def skips(row: Row, file: str) -> str:
    """Layouts."""
    return "layout_asks_for_a_box" if "layout" in stem(file) or "explanation" in row else ""


UI_VISION = Benchmark(
    "ui_vision",
    "UI-Vision",
    FORM,
    labels,
    (("split",), ("split", "category"), ("split", "type"), ("application",)),
    headline="split",
    skips=skips,
    wordings=("", ":explanation"),
)
