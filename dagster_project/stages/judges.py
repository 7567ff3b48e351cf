"""How far judges can be trusted: the judge bench, the nano judge trained on it, and each judge's figures."""

from collections.abc import Iterator

from dagster_project.stages.stage import GraphStage, NamedFunction
from generators.proving.judge_bench import assets
from generators.proving.judge_bench.assets import BENCH, BUILD_VERSION, MEASURED, NANO, NANO_VERSION, figures_of

OWNERS = ("team:quality",)
FUNCTIONS = "dagster_project.stage_functions.judges"


def stages() -> Iterator[GraphStage]:
    """The bench, the nano judge, and the figures of the judges that ask no model."""
    yield GraphStage(
        key=BENCH,
        deps=(),
        job="build_corpus",
        run=NamedFunction(f"{FUNCTIONS}:bench"),
        kinds=("parquet",),
        code_version=str(BUILD_VERSION),
        checks=assets.BENCH_CHECKS,
        external=True,
        owners=OWNERS,
        pool="bench",
        needs=("browser",),
        description="Sound traces and screens from real Chromium with confirmed defects planted in copies, hard "
        "negatives, and natural errors: the ground truth for judges.",
    )
    yield GraphStage(
        key=NANO,
        deps=(BENCH,),
        job="train",
        run=NamedFunction(f"{FUNCTIONS}:nano"),
        kinds=("pytorch",),
        code_version=NANO_VERSION,
        checks=assets.NANO_CHECKS,
        external=True,
        owners=OWNERS,
        pool="bench",
        settings=("judge",),
        description="A judge that works offline: small heads on pixels, UI tree and sentence embeddings, trained on "
        "what of the bench isn't held out.",
    )
    # One asset a judge: only the nano judge has weights to wait for.
    for name in MEASURED:
        deps = (BENCH, *((NANO,) if name == "nano" else ()))
        yield GraphStage(
            key=figures_of(name),
            deps=deps,
            job="train",
            run=NamedFunction(f"{FUNCTIONS}:measured", (name,)),
            kinds=("pytorch",) if name == "nano" else ("python",),
            code_version="1",
            checks=assets.FIGURE_CHECKS,
            external=True,
            owners=OWNERS,
            pool="bench",
            settings=("judge",),
            description=f"The {name} judge on held-out page families, operators and magnitudes: AUROC and recall per "
            "defect, calibration, agreement on the bands; with and without a UI tree.",
        )
