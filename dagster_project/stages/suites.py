"""`suites/<suite>`: the merged agent on worlds, and on the benchmarks whose native files are here; no condition of the
training tail starts them (`automation.suites_sensor`, switched off as it comes, does)."""

import functools
from collections.abc import Iterator

from dagster_project.settings.deployment import Deployment
from dagster_project.stages.stage import GraphStage, StageWork
from dagster_project.stages.training import domains, given_config
from pipelines import sources as adapters
from pipelines.store.manifest import Manifest
from trainer.stages.care_gate import HELD
from trainer.stages.suites import CODE_VERSION, asset_of, build_suite, inputs_of
from trainer.suites.leaderboard import MEASURED
from trainer.suites.registry import CARE, DESKTOP, SUITES, Suite


def names(deployment: Deployment) -> list[str]:
    """The suites that can be run here: those in worlds, of a domain that is trained, and those whose native files are
    in the raw root. Embedded data of a source is no benchmark."""
    return [name for name, one in SUITES.items() if _is_here(one, deployment)]


def _is_here(one: Suite, deployment: Deployment) -> bool:
    if one.kind == "grounding":
        return deployment.native_folder(one.raw) is not None
    if one.kind == "steps":
        # Embedded episodes are drawn by Vesper, so they measure nothing that others know.
        return deployment.state(one.raw, adapters.registry()[one.raw].descriptor.licence) == "native"
    return one.kind == "worlds" and (not one.domain or one.domain in domains())


def _needs(one: Suite) -> tuple[str, ...]:
    """What has to be here for its worlds."""
    return () if one.kind != "worlds" else ("desktop",) if one.name == DESKTOP else ("browser",)


def stages(deployment: Deployment) -> Iterator[GraphStage]:
    """One stage a suite."""
    for name in names(deployment):
        one = SUITES[name]
        yield GraphStage(
            key=asset_of(name),
            deps=inputs_of(name),
            job="evaluate_suites",
            run=functools.partial(_run, name),
            kinds=("pytorch",),
            code_version=CODE_VERSION,
            checks=(MEASURED, HELD) if name == CARE else (MEASURED,),
            external=True,
            owners=("team:training",),
            pool="trainer",
            settings=("trainer.device", "trainer.suites"),
            needs=("trainer", *_needs(one)),
            description=f"checkpoints/unified on {one.title}, as `vesper eval --suite {name}` measures it, with its "
            "interval and controls. It enters the standings, and the steering of rounds. Started by the job "
            "evaluate_suites, or by the sensor suites_after_training where that is switched on.",
        )


def _run(name: str, work: StageWork) -> Manifest:
    # Suites of steps read the unified source, and worlds have no files.
    folder = work.deployment.native_folder(SUITES[name].raw) if SUITES[name].kind == "grounding" else None
    return build_suite(
        work.store, name, given_config(work), folder, lambda event: work.on_event(event), progress=work.progress
    )
