"""How far judges can be trusted: the judge bench, the nano judge trained on it, and each judge's figures."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from dagster_project.stages.stage import GraphStage, StageWork
from generators.proving.judge_bench import stages as judge_stages
from generators.proving.judge_bench.build import BUILD_VERSION
from pipelines.store.manifest import Manifest

OWNERS = ("team:quality",)


def stages() -> Iterator[GraphStage]:
    """The bench, the nano judge, and the figures of the judges that ask no model."""
    yield GraphStage(
        key=judge_stages.BENCH,
        deps=(),
        job="build_corpus",
        run=_bench,
        kinds=("parquet",),
        code_version=str(BUILD_VERSION),
        external=True,
        owners=OWNERS,
        pool="bench",
        needs=("browser",),
        description="Sound traces and screens from real Chromium with confirmed defects planted in copies, hard "
        "negatives, and natural errors: the ground truth for judges.",
    )
    yield GraphStage(
        key=judge_stages.NANO,
        deps=(judge_stages.BENCH,),
        job="train",
        run=_nano,
        kinds=("pytorch",),
        code_version=judge_stages.NANO_VERSION,
        external=True,
        owners=OWNERS,
        pool="bench",
        description="A judge that works offline: small heads on pixels, UI tree and sentence embeddings, trained on "
        "what of the bench isn't held out.",
    )
    for name in judge_stages.MEASURED:
        deps = (judge_stages.BENCH, *((judge_stages.NANO,) if name == "nano" else ()))
        yield GraphStage(
            key=f"evaluations/judge_{name}",
            deps=deps,
            job="train",
            run=functools.partial(_measured, name),
            kinds=("pytorch",) if name == "nano" else ("python",),
            code_version="1",
            external=True,
            owners=OWNERS,
            pool="bench",
            description=f"The {name} judge on held-out page families, operators and magnitudes: AUROC and recall per "
            "defect, calibration, agreement on the bands; with and without a UI tree.",
        )


def _bench(work: StageWork) -> Manifest:
    pages = work.store.home / "pages" / "tabler"
    return judge_stages.build_bench(work.store, pages=pages if pages.is_dir() else None)


def _nano(work: StageWork) -> Manifest:
    return judge_stages.train_judge(work.store, read=work.deployment.judge.read)


def _measured(name: str, work: StageWork) -> Manifest:
    return judge_stages.measure_judge(work.store, name, work.deployment.judge.read)
