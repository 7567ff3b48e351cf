"""`leaderboard/standings`: all checkpoints on all suites, with history; remade whenever an evaluation is."""

from __future__ import annotations

from collections.abc import Iterator

from dagster_project.graph import Stage, Work
from pipelines.storage.manifest import Manifest
from trainer.stages import STAGES, asset_of
from trainer.suites.leaderboard import ASSET, CODE_VERSION, Standings, build_standings


def stages() -> Iterator[Stage]:
    """The one stage, after every evaluation."""
    yield Stage(
        key=ASSET, deps=tuple(asset_of(name) for name in STAGES if name.startswith("evaluations/")), job="train",
        run=_run, kinds=("parquet",), code_version=CODE_VERSION, table="rows", columns=Standings,
        owners=("team:training",),
        description="Every checkpoint on every suite with its interval and the best control, the newest evaluations "
        "and all before them. `vesper eval CKPT --suite NAME --record` adds to it.",
    )  # fmt: skip


def _run(work: Work) -> Manifest:
    return build_standings(work.store)
