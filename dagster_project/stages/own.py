"""Stages of your own: what the functions that `assets` of the deployment names add to the graph."""

from collections.abc import Iterator
from typing import Any

from dagster_project.settings.deployment import Deployment, DeploymentError
from dagster_project.stages.stage import GraphStage
from pipelines.extensions import find_part


def stages(deployment: Deployment) -> Iterator[GraphStage]:
    """The stages that each function gives for a deployment. Raises `DeploymentError` if there is no such function, or
    it gives something else."""
    for name in deployment.assets:
        try:
            # No table of names: one's own stages are always named by module or path.
            function: Any = find_part("assets", name, {})
        except ValueError as error:
            raise DeploymentError(f"deployment: {error}") from error
        if not callable(function):
            raise DeploymentError(f"deployment: assets: expected a function at {name}, found {type(function).__name__}")
        # What comes of other people's code is looked at before it is in the graph.
        for stage in function(deployment):
            if not isinstance(stage, GraphStage):
                raise DeploymentError(f"deployment: assets: expected {name} to give GraphStages, found {stage!r:.80}")
            yield stage
