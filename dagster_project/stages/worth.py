"""`worth/*`: what sources, rules and mixtures are worth to the agent, measured by probes; no condition starts them."""

from collections.abc import Iterator, Sequence

from dagster_project.stages.stage import GraphStage, NamedFunction
from generators.proving.judge_bench.assets import NANO
from pipelines.store import Store
from pipelines.store.aliases import aliased
from pipelines.training_data.mixture import DUPLICATES
from pipelines.training_data.mixture_config import MixtureConfig
from schemas.ids import GENERATED_SOURCE
from trainer.settings.stages import HELDOUT
from trainer.worth.tables import CHECKS, CODE_VERSION, MIXTURE, RULES, SOURCES, Worth

FUNCTION = "dagster_project.stage_functions.worth:measured"
PROMOTED = "production"
"""The alias of `worth/mixture` by which a person has the mixture follow a proposal."""


def stages(names: Sequence[str]) -> Iterator[GraphStage]:
    """The three studies over the gold of the sources `names`."""
    gold = tuple(f"gold/{name}" for name in names)
    # Generated trajectories come verified, and have neither native rows nor verdicts.
    judged = tuple(f"{stage}/{name}" for name in names if name != GENERATED_SOURCE for stage in ("unified", "verdicts"))
    studies = {
        SOURCES: (gold, "What each source is worth to the agent: left out of all, and added alone to the base."),
        RULES: (
            (*gold, *judged, DUPLICATES, NANO),
            "What rules are worth: raw against refined and deduplicated, thresholds of the judge, judges, generated "
            "trajectories, each deriver.",
        ),
        MIXTURE: (
            (*gold, DUPLICATES),
            "The shares of objectives that measured transfer proposes, and what they are worth against the current "
            f"ones. The mixture follows the version that a person promotes as `{PROMOTED}`.",
        ),
    }
    for key, (deps, description) in studies.items():
        yield GraphStage(
            key=key,
            deps=(*deps, HELDOUT),
            job="measure_worth",
            run=NamedFunction(FUNCTION, (key, tuple(names))),
            description=f"{description} Probes of nano on equal tokens, three seeds and more, with intervals.",
            kinds=("pytorch", "parquet"),
            code_version=CODE_VERSION,
            table="worth",
            columns=Worth,
            checks=CHECKS,
            external=True,
            owners=("team:training",),
            pool="trainer",
            needs=("trainer",),
            settings=("trainer.worth",),
        )


def with_promoted(store: Store, config: MixtureConfig) -> MixtureConfig:
    """The mixture's settings with the shares of the proposal that a person promoted; as they are where the deployment
    names shares, nothing was promoted, or the promoted version proposes none."""
    version = aliased(store.root(MIXTURE)).get(PROMOTED)
    if version is None or "shares" in config.given():
        # Shares that the deployment names were chosen by a person, too, and nearer.
        return config
    shares = store.version(MIXTURE, version).counts.get("shares")
    return config.changed(shares=shares) if shares else config
