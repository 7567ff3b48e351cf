"""The graph as plain data: every stage by its asset key, each after what it depends on.

No Dagster here: the definitions, the demo and the external trainer process all read this list.
"""

from dagster_project.settings.deployment import Deployment
from dagster_project.stages import (
    corpus,
    episodes,
    exports,
    generation,
    hygiene,
    judges,
    leaderboard,
    own,
    review,
    safety,
    sources,
    suites,
    training,
    worth,
)
from dagster_project.stages.deployment_names import check_freshness
from dagster_project.stages.stage import GraphStage
from schemas.ids import GENERATED_SOURCE


def stages(deployment: Deployment) -> dict[str, GraphStage]:
    """All stages by key, each after what it depends on. Raises `ValueError` if a key is defined twice or too early, or
    if the deployment names what there isn't."""
    names = sources.enabled(deployment)
    requested, trained = list(suites.stages(deployment)), list(training.stages())
    found: dict[str, GraphStage] = {}
    # In an order in which each stage comes after what it depends on, so that edges can be checked as they
    # come.
    listed = (
        *sources.stages(deployment),
        *hygiene.prints(deployment, names),
        safety.stage(deployment, names),
        *generation.stages(deployment),
        review.refusals(deployment, [*names, GENERATED_SOURCE]),
        *corpus.stages(deployment, names),
        *trained,
        *exports.stages(deployment, {stage.key: stage.job for stage in trained}),
        *episodes.stages(),
        *requested,
        *leaderboard.stages([stage.key for stage in requested]),
        *judges.stages(),
        *worth.stages([*names, GENERATED_SOURCE]),
        *review.stages(deployment, [*names, GENERATED_SOURCE]),
        *own.stages(deployment),  # last, so that they may depend on any of the others
    )
    for stage in listed:
        # A key that comes too early is mostly a circle in the making.
        missing = [dep for dep in stage.deps if dep not in found]
        if missing or stage.key in found:
            raise ValueError(f"stage {stage.key}: defined twice, or before what it depends on: {missing}")
        found[stage.key] = stage
    check_freshness(deployment, found, stages)
    return found
