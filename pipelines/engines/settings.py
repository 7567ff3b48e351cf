"""The setting `engine`: who runs the parts of stages, in how many workers, with which options."""

from schemas.settings import NEVER, Number, Settings, Whole, merged, setting

AUTO, IN_PROCESS, PROCESSES = "auto", "in-process", "processes"


class EngineChoice(Settings):
    """An engine with its options. What is made doesn't depend on it."""

    runner: str = setting(
        AUTO,
        "auto (worker processes where there are parts enough that they pay, else this process), in-process, processes, "
        "beam, ray, or an engine of your own (module:name or path/to/file.py:name).",
        in_version=NEVER,
    )
    workers: Whole | None = setting(
        None,
        "Parts that are run at a time; null: one a core, with beam as its options say, with ray as the cluster has "
        "room for.",
        in_version=NEVER,
        ge=1,
    )
    part_bytes: Whole = setting(
        64 << 20,
        "Bytes of native files, with the pictures beside them, that unified maps in one part: smaller files are "
        "joined; larger ones are cut where the source allows it, between row groups of parquet or lines.",
        in_version=NEVER,
        ge=1,
    )
    cpus: Number = setting(1, "CPU cores that ray keeps for a part.", in_version=NEVER, gt=0)
    gpus: Number = setting(
        0, "GPUs that ray keeps for a part; below 1, several parts share one.", in_version=NEVER, ge=0
    )
    options: tuple[str, ...] = setting(
        (), "What the engine itself is told; beam: its flags; ray: --address=HOST:PORT of a cluster.", in_version=NEVER
    )


class EngineSettings(EngineChoice):
    """The engine of all stages, and of some another one."""

    stages: dict[str, EngineChoice] = setting(
        {},
        "Asset or group (unified, verdicts/aitw) → what it has otherwise; an asset's own goes over its group's.",
        in_version=NEVER,
    )

    def of(self, asset: str) -> EngineChoice:
        """The engine of an asset."""
        found = {name: value for name, value in self.given().items() if name != "stages"}
        for name in (asset.partition("/")[0], asset):
            found = merged(found, self.stages[name].given() if name in self.stages else {})
        return EngineChoice(**found)
