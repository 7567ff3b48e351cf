"""`leaderboard/standings`: all checkpoints on all suites, with history; remade whenever an evaluation or suite is."""

from collections.abc import Iterator, Sequence

from dagster_project.stages.stage import GraphStage, StageWork
from pipelines.store.manifest import Manifest
from trainer.stages.assets import STAGES, asset_of
from trainer.suites.leaderboard import ASSET, CHECKS, CODE_VERSION, Standings, build_standings


def stages(suites: Sequence[str]) -> Iterator[GraphStage]:
    """The one stage, after every evaluation and every suite (asset keys); it takes those that there are."""
    evaluations = (asset_of(name) for name in STAGES if name.startswith("evaluations/"))
    yield GraphStage(
        key=ASSET,
        deps=(*evaluations, *suites),
        job="train",
        run=_run,
        kinds=("parquet",),
        code_version=CODE_VERSION,
        table="rows",
        columns=Standings,
        checks=CHECKS,
        owners=("team:training",),
        description="Every checkpoint on every suite with its interval and the best control, the newest evaluations "
        "and all before them. suites/* and `vesper eval CKPT --suite NAME --record` add to it.",
    )


def _run(work: StageWork) -> Manifest:
    return build_standings(work.store)
