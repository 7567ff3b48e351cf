"""What TensorBoard reads in a folder of event files."""

from __future__ import annotations

from pathlib import Path


def scalars_of(folder: Path) -> dict[str, list[tuple[int, float]]]:
    """Tag → (step, value), in the order of steps."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder))
    found.Reload()
    return {tag: [(e.step, e.value) for e in found.Scalars(tag)] for tag in found.Tags()["scalars"]}
