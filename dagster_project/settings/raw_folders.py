"""Where the native files of a store lie: its own embedded data, or what the deployment says."""

from pathlib import Path

from dagster_project.settings.deployment import Deployment


def raw_folder(settings: Deployment, store_home: Path, name: str) -> Path:
    """The folder of `raw/<name>` for the store at `store_home`, which needn't be $VESPER_HOME: as the deployment says,
    else in that store's `incoming`, else its embedded data."""
    said = "raw_root" in settings.model_fields_set
    settings = settings if said else settings.model_copy(update={"raw_root": store_home / "incoming"})
    return settings.native_folder(name) or store_home / "raw" / name
