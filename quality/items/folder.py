"""The output folder of `vesper unify` as one part, without a store."""

from pathlib import Path

from pipelines.commands import read_tables
from quality.items.part import SourcePart
from quality.items.screens import ScreenBank, ScreenFolder
from schemas.tables import Samples, Screens, Steps


def read_directory(in_dir: Path) -> SourcePart:
    """The output folder of `vesper unify` as one part. Raises `ValueError` if it isn't one."""
    steps, samples = read_tables(in_dir, "steps", Steps), read_tables(in_dir, "samples", Samples)
    screens = read_tables(in_dir, "screens", Screens)
    if not steps.num_rows and not samples.num_rows:
        raise ValueError(f"{in_dir}: expected steps*.parquet or samples*.parquet with rows, made by `vesper unify`")
    return SourcePart("directory", steps, samples, screens, ScreenBank(screens, ScreenFolder(in_dir / "screens")))
