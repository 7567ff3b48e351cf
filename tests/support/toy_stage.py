"""A stage of one asset for toy graphs, with the checks that a test gives it."""

from __future__ import annotations

from collections.abc import Callable

from dagster_project.stages.stage import GraphStage, StageWork
from pipelines.store.manifest import CheckSpec, Manifest


def _never(work: StageWork) -> Manifest:
    raise AssertionError("this stage isn't run")


def toy_stage(key: str, *checks: CheckSpec, run: Callable[[StageWork], Manifest] = _never) -> GraphStage:
    """A stage that depends on nothing."""
    return GraphStage(
        key=key, deps=(), job="build_corpus", run=run, description="toy", kinds=(), code_version="1", checks=checks
    )
