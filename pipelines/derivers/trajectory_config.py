"""Which derivers of whole trajectories make samples, and which runs are good enough for what."""

from schemas.settings import Number, Settings, setting


class TrajectoryConfig(Settings):
    """Samples of whole trajectories, failures included."""

    derivers: tuple[str, ...] = setting(
        (),
        "Derivers of whole trajectories: step_data, error_recovery, reflection, dynamics, planning, page_levels, or "
        "your own (module:name or path/to/file.py:name). Without any, failures teach nothing.",
    )
    rough_from: Number | None = setting(
        None,
        "Score, 0 to 10, from which on a run that isn't verified is rough but usable: its actions train, in "
        "mid-training only. Null: none is.",
        ge=0,
        le=10,
    )
    replay: tuple[str, ...] = setting(
        (),
        "Worlds whose runs are carried out again to find their wrong steps, what was right instead and what undoes a "
        "step, such as fsm (without a browser) and graph. A world has to come back to the same state by the same "
        "actions. None: no error is located.",
    )
