"""What the stages of `stages.worth` run."""

from collections.abc import Sequence

from dagster_project.stages.stage import StageWork
from dagster_project.stages.training import given_config
from dagster_project.stages.worth import with_promoted
from pipelines.store.manifest import Manifest
from trainer.stages.worth import Deployed, build_worth


def measured(asset: str, names: Sequence[str], work: StageWork) -> Manifest:
    """Measure what `asset` is about, over the sources `names`, with the mixture and derivers of the deployment."""
    shares = with_promoted(work.store, work.deployment.mixture).shares
    deployed = Deployed(names, shares, tuple(work.deployment.derivers))
    return build_worth(work.store, asset, deployed, given_config(work), work.on_event, progress=work.progress)
