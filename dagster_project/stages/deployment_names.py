"""Names in `deployment.yaml` that there aren't: they would change nothing, so that a typo would pass for a setting."""

from collections.abc import Callable, Iterable, Mapping

from dagster_project.settings.deployment import Deployment, DeploymentError, LicencePolicy, SourceSettings
from dagster_project.stages.stage import GraphStage
from pipelines import sources, suites
from schemas.settings import nearest


def check_sources(deployment: Deployment) -> None:
    """Look at the names of sources, companions and suites. Raises `DeploymentError` for one that is unknown, for a
    setting that has no effect on it, and for a companion that is said to lie in two places."""
    # Companions and suites may be named as well, though not everything can be said of them.
    trained, retained = sources.registry(), suites.registry()
    companions = {name for adapter in trained.values() for name in adapter.descriptor.companions}
    for name, said in deployment.sources.items():
        if name not in {*trained, *companions, *retained}:
            raise _unknown("unknown source", name, (*trained, *companions, *retained), trained)
        # Neither a companion nor a suite trains, so there is nothing to switch on or off.
        if said.enabled is not None and name not in trained:
            what = (
                "a companion, here for the sources that use it"
                if name in companions
                else ("evaluation data, which training data is held against once its files are here")
            )
            folder = deployment.native_folder(name) or deployment.raw_root / name
            without = f"give it no `raw`, and have no folder {folder}" if said.raw else f"have no folder {folder}"
            raise DeploymentError(
                f"deployment: sources.{name}.enabled: expected it for sources that train, found {name}, which is "
                f"{what}; leave it out (to do without {name}, {without})"
            )
        own = trained[name].descriptor.companions if name in trained else ()
        for companion in said.companions:
            if companion not in own:
                raise _unknown(f"sources.{name}: unknown companion", companion, own)
    for name in companions:
        deployment.native_folder(name)  # raises where sources disagree
    for name in deployment.personal_data:
        if name not in trained and name != "default":
            raise _unknown("personal_data: unknown source", name, ("default", *trained))


def check_freshness(
    deployment: Deployment, stages: Mapping[str, GraphStage], graph_of: Callable[[Deployment], Mapping[str, GraphStage]]
) -> None:
    """Look at the groups and assets that `freshness` names; `stages` are those of this deployment, `graph_of` makes
    those of another. One that is switched off here, or waits for its files, may be named. Raises `DeploymentError` for
    one that can never be late."""
    found = [name for name in deployment.freshness if name not in _dated(stages)]
    if not found:
        return
    # As if every source had files and no licence were refused: what is only waiting may be named.
    here = {name: SourceSettings(raw=".") for name in (*sources.registry(), *suites.registry())}
    every = graph_of(deployment.changed(sources=here, licences=LicencePolicy(), freshness={}))
    known = _dated(every)
    for name in found:
        # It exists, and is made round by round, so no hour makes it late.
        if name not in known and any(name in (stage.key, stage.group) for stage in every.values()):
            raise DeploymentError(
                f"deployment: freshness: expected groups or assets that can be late, found {name}, "
                "which is made round by round; leave it out"
            )
        if name not in known:
            groups = {one for one in known if "/" not in one}
            raise _unknown("freshness: unknown group or asset", name, known, groups)


def _dated(stages: Mapping[str, GraphStage]) -> set[str]:
    """Assets that can be late, and their groups."""
    return {name for stage in stages.values() if not stage.by_round for name in (stage.key, stage.group)}


def _unknown(what: str, name: str, known: Iterable[str], few: Iterable[str] = ()) -> DeploymentError:
    """What to raise for a name that isn't among `known`: see `nearest`."""
    return DeploymentError(f"deployment: {what} {name[:80]!r}; {nearest(name, known, few)}")
