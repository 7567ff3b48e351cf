"""What the stage `episodes/unified` runs."""

from dagster_project.stages.stage import StageWork
from dagster_project.stages.training import given_config
from pipelines.store.manifest import Manifest
from trainer.stages.play_episodes import build_episodes


def make(work: StageWork) -> Manifest:
    """Let the merged agent play."""
    return build_episodes(work.store, given_config(work), lambda event: work.on_event(event))
