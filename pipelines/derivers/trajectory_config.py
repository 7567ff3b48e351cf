"""Which derivers of whole trajectories make samples, and which runs are good enough for what."""

from __future__ import annotations

from schemas.settings import Number, Settings, setting


class TrajectoryConfig(Settings):
    """Samples of whole trajectories, failures included."""

    derivers: tuple[str, ...] = setting(
        (),
        "Derivers of whole trajectories: step_data, or your own (module:name or path/to/file.py:name). Without any, "
        "failures teach nothing.",
    )
    rough_from: Number | None = setting(
        None,
        "Score, 0 to 10, from which on a run that isn't verified is rough but usable: its actions train, in "
        "mid-training only. Null: none is.",
        ge=0,
        le=10,
    )
