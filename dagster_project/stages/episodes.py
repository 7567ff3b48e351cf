"""`episodes/unified`: the merged agent at play in a real browser, as pictures on its own page and the checkpoint's."""

from collections.abc import Iterator

from dagster_project.stages.stage import GraphStage, NamedFunction
from trainer.settings.stages import settings_of
from trainer.stages.episodes import AGENT, ASSET, CHECKS, CODE_VERSION


def stages() -> Iterator[GraphStage]:
    """The one stage."""
    yield GraphStage(
        key=ASSET,
        deps=(AGENT,),
        job="train",
        run=NamedFunction("dagster_project.stage_functions.episodes:make"),
        kinds=("pytorch",),
        code_version=CODE_VERSION,
        checks=CHECKS,
        external=True,
        owners=("team:training",),
        pool="trainer",
        settings=tuple(f"trainer.{word}" for word in settings_of(ASSET)),
        needs=("trainer", "browser"),
        shown_on=AGENT,
        description="checkpoints/unified plays tasks of a world until one episode is solved and one failed; both as "
        "animated pictures with the actions drawn. To look at, as `vesper play` does it: suites measure.",
    )
