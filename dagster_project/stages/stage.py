"""What a stage is: one asset by its key, what it depends on, and the function that makes it; and what that is given."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from dagster_project.settings.deployment import Deployment
from pipelines.engines.run_parts import Execution
from pipelines.extensions import find_part
from pipelines.store import Store
from pipelines.store.manifest import CheckSpec, Manifest
from schemas.tables import Table

if TYPE_CHECKING:
    from pipelines.exports.form import ExportForm

Job = Literal[
    "refresh_sources",
    "generate_round",
    "collect_rounds",
    "build_corpus",
    "train",
    "train_others",
    "evaluate_suites",
    "measure_worth",
    "run_experiment",
]
Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class JudgeSettings:
    """Which judge: rules (embedded), or a model behind the OpenAI protocol."""

    name: str = "rules"
    base_url: str | None = None
    model: str | None = None


@dataclass(frozen=True)
class StageWork:
    """What a stage is given."""

    store: Store
    deployment: Deployment
    judge: JudgeSettings = JudgeSettings()
    on_event: Callable[[Event], None] = field(default=lambda event: None)
    progress: bool = False
    """Whether long work shows bars on stderr."""
    partition: str = ""
    """The round ("round_001") of a stage that is made round by round; the experiment of one that is made beside the
    mainline."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """What this run sets over the deployment, by its settings' names; `deployment` holds it already."""

    @property
    def execution(self) -> Execution:
        """How its parts are run."""
        return Execution(self.deployment.engine, self.on_event, self.progress)


@dataclass(frozen=True)
class NamedFunction:
    """A function by where it stands (`module:name`, or a file's path for the module), imported when it is first called:
    so the definitions load without the code that makes the data. Arguments in `given` come before those of the call."""

    where: str
    given: tuple[Any, ...] = ()

    @property
    def function(self) -> Callable[..., Any]:
        """The function itself. Raises `ValueError` if it isn't there."""
        found: Callable[..., Any] = find_part("stage function", self.where, {})
        return found

    def __call__(self, *arguments: object) -> Any:
        return self.function(*self.given, *arguments)


@dataclass(frozen=True)
class GraphStage:
    """One asset. `table` is the table whose rows `dagster/row_count` counts (None: records or files)."""

    key: str
    deps: tuple[str, ...]
    job: Job
    run: Callable[[StageWork], Manifest]
    description: str
    kinds: tuple[str, ...]
    code_version: str
    table: str | None = None
    columns: type[Table] | None = None
    """The columns of `table`, with their meanings."""
    checks: tuple[CheckSpec, ...] = ()
    """What its manifests are checked for, each a check in the UI. None declared: one check stands for them all."""
    reads_gold: bool = True
    """Whether the gold that it depends on is read; false where it only comes after it."""
    external: bool = False
    """Runs in a process of its own, through Pipes (training, and what needs its memory back afterwards)."""
    ranks: Callable[[Mapping[str, Any]], int] = field(default=lambda given: 1)
    """In how many processes an `external` stage runs, by torchrun where it is more than one; asked when it starts, with
    `StageWork.given`."""
    settings: tuple[str, ...] = ()
    """Settings of the deployment that a run may set for it (`trainer.midtrain`, `mixture`): the launchpad's form."""
    by_round: bool = False
    """Partitioned: one part a round of the generation loop."""
    by_experiment: bool = False
    """Partitioned: one part an experiment (`trainer.stages.experiments`)."""
    owners: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    shown_on: str = ""
    """Key of an asset on whose page its pictures are shown as well, as an observation."""
    pool: str | None = None
    form: "ExportForm[Any] | None" = None
    """Of an export of rows: who loads it, by which lines."""
    needs: tuple[str, ...] = ()
    """What has to be here before a run that makes it starts (`preflight.PROBES`); disk space always."""

    @property
    def partitioned(self) -> bool:
        return self.by_round or self.by_experiment

    def stored_as(self, partition: str) -> str:
        """The store's key of a part; that of the stage itself where `partition` is ""."""
        if self.by_experiment and partition:
            # `experiments/<name>/checkpoints/…`: an experiment's assets lie in a folder of its own.
            first, _, rest = self.key.partition("/")
            return f"{first}/{partition}/{rest}"
        return f"{self.key}/{partition}" if partition else self.key

    @property
    def group(self) -> str:
        """The first word of the key."""
        return self.key.partition("/")[0]
