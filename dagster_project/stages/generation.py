"""The generation loop's stages: one partition a round, and what all rounds together give the corpus and the task pool.

Rounds learn from each other through `feedback/verified`, which is promoted and never an edge.
"""

from collections.abc import Iterator

from dagster_project.settings.deployment import Deployment
from dagster_project.stages.stage import GraphStage, NamedFunction
from generators.generation import round_checks
from generators.generation.round_names import BANK, CATALOGUE, GOLD, TRAJECTORIES, VERIFIED
from generators.generation.round_tables import CatalogueRows
from generators.tasks import task_pool
from generators.tasks.task_pool import GENERATED
from pipelines.store.manifest import CheckSpec
from schemas.ids import GENERATED_SOURCE
from schemas.tables import Samples, Table, Tasks, Trajectories, TrajectoryRuns

ROUND_STAGES = (CATALOGUE, BANK, TRAJECTORIES, VERIFIED)
VERSION = "1"
FUNCTIONS = "dagster_project.stage_functions.generation"
OF_A_ROUND: tuple[tuple[str, tuple[str, ...], str, str, type[Table], tuple[CheckSpec, ...], str], ...] = (
    (
        CATALOGUE,
        (),
        "catalogue",
        "catalogue",
        CatalogueRows,
        round_checks.CATALOGUE_CHECKS,
        "What targets can do, as far as functional maps, screens and verified runs of earlier rounds say: counts, "
        "coverage, why tasks failed.",
    ),
    (
        BANK,
        (CATALOGUE,),
        "bank",
        "tasks",
        Tasks,
        round_checks.BANK_CHECKS,
        "New tasks as executable contracts, like no task of the bank; the stratum mix is the same in every round.",
    ),
    (
        TRAJECTORIES,
        (BANK,),
        "trajectories",
        "trajectory_runs",
        TrajectoryRuns,
        round_checks.TRAJECTORY_CHECKS,
        "What the policy made of the tasks, on leased devices; a crash costs the step in flight.",
    ),
    (
        VERIFIED,
        (BANK, TRAJECTORIES),
        "verified",
        "trajectories",
        Trajectories,
        round_checks.VERIFIED_CHECKS,
        "Verdicts by rules, the world's own rule and several annotators; the yield, and the world's truth beside it.",
    ),
)
"""Key, what it reads, function, table with its columns, checks, and what it is."""


def stages(deployment: Deployment) -> Iterator[GraphStage]:
    """Four stages a round, then `gold/generated` and `task_pool/generated` over all rounds."""
    for key, deps, function, table, columns, checks, description in OF_A_ROUND:
        yield GraphStage(
            key=key,
            deps=deps,
            job="generate_round",
            run=NamedFunction(f"{FUNCTIONS}:{function}"),
            description=description,
            kinds=("parquet",),
            code_version=VERSION,
            table=table,
            columns=columns,
            checks=checks,
            owners=deployment.owners,
            by_round=True,
            # Devices outlive a crash of the stage, so its process is one that can be killed with all that it
            # started.
            external=key == TRAJECTORIES,
            pool="devices" if key == TRAJECTORIES else None,
            # Only execution needs devices and worlds; proposing and verifying read tables.
            needs=("ground",) if key == TRAJECTORIES else (),
            settings=("generation",),
        )
    yield GraphStage(
        key=GOLD,
        deps=(VERIFIED,),
        job="collect_rounds",
        run=NamedFunction(f"{FUNCTIONS}:gold"),
        kinds=("parquet",),
        code_version=VERSION,
        table="samples",
        columns=Samples,
        checks=round_checks.GOLD_CHECKS,
        owners=deployment.owners,
        tags={"source": GENERATED_SOURCE},
        description="Verified trajectories of all rounds as a source of the corpus, and the samples derived from them.",
    )
    yield GraphStage(
        key=GENERATED,
        deps=(VERIFIED,),
        job="collect_rounds",
        run=NamedFunction(f"{FUNCTIONS}:pool"),
        kinds=("parquet",),
        code_version=VERSION,
        table="tasks",
        columns=Tasks,
        checks=(task_pool.HAS_TASKS,),
        owners=deployment.owners,
        description="Tasks that a verified trajectory has done, with the steps that the shortest one took.",
    )
