"""`deployment.yaml` as values: which sources are on, whose they are, where their native files lie.

What nobody says has the default of its field; the file goes over that, and over the file the environment
(`dagster_project.settings.environment`) and what a command is given. Null is as if it weren't said.
"""

import fnmatch
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, field_validator, model_validator

from dagster_project.settings.environment import Environment
from dagster_project.settings.exports import ExportSettings
from pipelines.derivers.trajectory_config import TrajectoryConfig
from pipelines.engines.settings import EngineSettings
from pipelines.home import default_home as home
from pipelines.prompts.history import HistoryConfig
from pipelines.training_data.mixture_config import MixtureConfig
from pipelines.unify.changes import ChangeBands
from schemas.action_types import ACTION_SPACE, ActionSpace
from schemas.settings import Flag, Number, Settings, SettingsError, Whole, merged, setting

FILE = Path(__file__).parents[1] / "deployment.yaml"
EMBEDDED = (
    "agentnet",
    "aitw",
    "aitz",
    "android_control",
    "mind2web",
    "miniwob_demos",
    "omniact",
    "screen_annotation",
    "screenqa",
    "ui_refexp",
)
"""Sources that have embedded data (a test holds this to the generator's own list, which is heavy to import)."""


class DeploymentError(ValueError):
    """`deployment.yaml` says something that isn't understood."""


def _url(text: str) -> str:
    if not text.startswith(("http://", "https://")) or set(text) & set("\r\n \t"):
        raise ValueError(f"expected an http(s) URL, found {text[:80]!r}")
    return text


def _address(text: str) -> str:
    if "@" not in text or set(text) & set("\r\n \t,;<>"):
        raise ValueError(f"expected an address, found {text[:80]!r}")
    return text


def _place(text: str) -> str:
    if text != "local" and not text.startswith(("http://", "https://")):
        raise ValueError(f"expected local or an http(s) address of an authority, found {text[:80]!r}")
    return text if text == "local" else _url(text)


Url = Annotated[str, AfterValidator(_url)]
Address = Annotated[str, AfterValidator(_address)]
Place = Annotated[str, AfterValidator(_place)]
Hours = Annotated[Number, Field(ge=1 / 60, lt=1e6)]


class SourceSettings(Settings):
    """Overrides of one source, companion or suite."""

    enabled: Flag | None = setting(
        None,
        "false: outside the fan-in, still visible in the graph; true: in, even while it waits for files; null: in as "
        "soon as it has files. Evaluation data is never switched off.",
    )
    owners: tuple[str, ...] = setting((), "Its owners; none: the deployment's.")
    revision: str | None = setting(None, "The revision of its hub repository; null: the newest.")
    raw: str | None = setting(None, "The folder of its native files; null: <raw_root>/<source>.")
    companions: dict[str, str] = setting({}, "Companion → its folder, which is where all sources read it.")
    changes: ChangeBands = setting(ChangeBands(), "How far it may move from its current version.")


class LicencePolicy(Settings):
    """Which licences may train, as patterns over what `vesper sources list` shows."""

    allow: tuple[str, ...] = setting(("*",), "Patterns of licences that may train.")
    deny: tuple[str, ...] = setting((), "Patterns of licences that may not; these win.")

    def refuses(self, licence: str) -> str:
        """Why a licence isn't allowed here; empty if it is."""
        # Denied wins over allowed.
        if any(fnmatch.fnmatchcase(licence.lower(), pattern.lower()) for pattern in self.deny):
            return f"licence {licence!r} is denied by the deployment's policy"
        if not any(fnmatch.fnmatchcase(licence.lower(), pattern.lower()) for pattern in self.allow):
            return f"licence {licence!r} is not among those that the deployment allows ({', '.join(self.allow)})"
        return ""


class EmbeddedData(Settings):
    """Vesper's own data for sources without native files."""

    enabled: Flag = setting(True, "Whether sources without native files get it.")
    size: Literal["tiny", "demo"] | None = setting(None, "How much of it; null: demo.")
    seed: Whole = setting(0, "Of what it shows.")


class JudgeOptions(Settings):
    """What a model judge may ask of its endpoint, null for no limit. What a night's ceiling leaves is pending: it is
    asked another night and never scored null."""

    requests_per_minute: Number | None = setting(None, "Requests a minute.", gt=0)
    tokens_per_minute: Number | None = setting(None, "Tokens a minute.", gt=0)
    requests_per_night: Whole | None = setting(None, "Requests a night; what is left waits for the next.", ge=0)
    tokens_per_night: Whole | None = setting(None, "Tokens a night; what is left waits for the next.", ge=0)
    money_per_night: Number | None = setting(None, "Money a night; needs both prices.", ge=0)
    price_prompt: Number | None = setting(None, "Money per million tokens of prompts; null: unknown.", ge=0)
    price_completion: Number | None = setting(None, "Money per million tokens of replies; null: unknown.", ge=0)
    ask_again: Whole = setting(0, "Raise it to have what the model couldn't answer asked once more.", ge=0)
    batch: Flag = setting(False, "Whether sources are judged by /v1/batches, within a day; set the prices of batches.")
    read: Flag = setting(False, "Whether every judge also gets what a program reads on screens without elements.")
    reader: Literal["tesseract", "rapidocr"] = setting("tesseract", "What reads; RapidOCR reads Chinese as well.")
    thoughts: Flag = setting(
        False, "Whether a step whose thought contradicts its action gets a low score, whatever the judge."
    )
    process: Flag = setting(False, "Whether a run that leaves out what its goal names gets one, whatever the judge.")

    @property
    def reader_used(self) -> str:
        """The program that reads; "" where none does."""
        return self.reader if self.read else ""

    @model_validator(mode="after")
    def _prices(self) -> Self:
        if self.money_per_night is not None and None in (self.price_prompt, self.price_completion):
            raise ValueError(
                "money_per_night: expected price_prompt and price_completion beside it, or nobody knows what a night "
                "has cost, found none"
            )
        return self


class GenerationSettings(Settings):
    """The generation loop. Other names here are those of `generators.generation.loop.LoopConfig`, as
    `vesper generate --help` lists them: ground, targets, tasks, error_rate, …"""

    model_config = ConfigDict(extra="allow")

    rounds: Whole = setting(0, "Rounds that the sensor next_round runs by itself, one after the other; 0: none.", ge=0)
    steer: Flag = setting(False, "Promoted evaluations move a round's shares of easy, medium and hard tasks.")
    device: tuple[Place, ...] = setting(
        (),
        "Where tasks are executed: local, the address of a gateway's authority (http://host:7300, its key in "
        "$VESPER_GATEWAY_KEY), or a list: a task goes to the first that has its world. None: $VESPER_DEVICES, else "
        "local.",
    )
    site_url: Url | None = setting(None, "Where leased browsers find the sites' page; null: $VESPER_SITE_URL.")
    workers: Whole = setting(2, "Tasks that are executed at a time.", ge=1)

    @field_validator("device", mode="before")
    @classmethod
    def _one(cls, said: object) -> Any:
        return (said,) if isinstance(said, str) else said

    @property
    def loop(self) -> Mapping[str, Any]:
        """The settings of the loop itself: what a round is, wherever it is executed."""
        return self.__pydantic_extra__ or {}


class TaskPoolSettings(Settings):
    """Dynamic tasks of online RL, which are inferred from gold episodes."""

    proposer: str = setting("", "A multimodal model that infers tasks from recordings; none: their instructions alone.")
    proposer_url: Url | None = setting(None, "Its endpoint, for example http://127.0.0.1:8000/v1.")
    most_unopened: Number = setting(
        0.9,
        "Share of dynamic tasks that name no app, or one that no world here shows, above which a check warns.",
        ge=0,
        le=1,
    )

    @model_validator(mode="after")
    def _reachable(self) -> Self:
        if self.proposer and self.proposer_url is None:
            raise ValueError("proposer_url: expected the endpoint of the proposer, found none")
        return self


class Upstream(Settings):
    """Whether the hub is asked which revision of a source's repository is out. A new one makes the source stale, and
    its next refresh pulls it: of sources that `vesper sources pull` brought, or that are enabled and have no files."""

    hub: Flag = setting(False, "Ask it.")
    endpoint: Url | None = setting(None, "Where the hub is; null: the library's own ($HF_ENDPOINT).")


class Email(Settings):
    """Where run failures are mailed; the password of `user` is $VESPER_ALERT_SMTP_PASSWORD."""

    to: tuple[Address, ...] = setting(..., "Addresses to alert.", min_length=1)
    sender: Address = setting(..., "The address that it comes from.", alias="from")
    host: str = setting("localhost", "The mail server.")
    port: Whole = setting(25, "Its port.", ge=1, le=65535)
    starttls: Flag = setting(False, "Encrypt the connection.")
    user: str = setting("", "Who logs in; empty: nobody.")


class Alerts(Settings):
    """Who is alerted when a run has failed or checks begin to warn."""

    webhook: Url | None = setting(
        None,
        'A URL that gets a POST of JSON ({"text": ...}, as chat rooms take it); $VESPER_ALERT_WEBHOOK where the URL is '
        "a secret.",
    )
    email: Email | None = setting(None, "Where failures are mailed; null: nowhere.")
    ui: Url | None = setting(None, "The webserver's URL, to link to the run.")


class Preflight(Settings):
    """What is looked at before a run starts."""

    free_gb: Number = setting(1.0, "Free space in the store without which no run starts, in GB.", ge=0, lt=1e9)


class Deployment(Settings):
    """All settings of a deployment."""

    raw_root: Path = setting(
        None,
        "Native files lie in <raw_root>/<source>/; new ones start a refresh of it. Not said: $VESPER_HOME/incoming.",
        default_factory=lambda: home() / "incoming",
    )
    action_space: ActionSpace = setting(
        ACTION_SPACE,
        "Which actions rows hold and checkpoints speak: v2 has RightClick, SelectOption, GetUrl and TakeNote beside "
        "the 16 of v1.5.",
    )
    history: HistoryConfig = setting(
        HistoryConfig(), "How navigation samples show the steps before; the trainer's `history` follows it."
    )
    embedded: EmbeddedData = setting(EmbeddedData(), "Embedded data for sources without native files.")
    owners: tuple[str, ...] = setting(("team:data",), "Owners of all assets that have none of their own.")
    sources: dict[str, SourceSettings] = setting({}, "Source, companion or suite → what is said of it.")
    licences: LicencePolicy = setting(
        LicencePolicy(),
        "Which licences may train. A source that isn't allowed stays visible in the graph and is neither pulled nor "
        "ingested.",
    )
    strata_edges: tuple[Whole, Whole] | None = setting(
        None,
        "Expected steps up to which a task of the pool is easy, and medium; null: [10, 20], for recordings of real "
        "apps.",
    )
    task_pool: TaskPoolSettings = setting(TaskPoolSettings(), "Dynamic tasks of online RL.")
    executor: Literal["in_process", "multiprocess"] = setting(
        "in_process", "Whether Dagster runs steps of a run one after the other, or side by side."
    )
    engine: EngineSettings = setting(EngineSettings(), "Who runs the parts of stages.")
    mixture: MixtureConfig = setting(MixtureConfig(), "Which rows train, and how often.")
    judge: JudgeOptions = setting(JudgeOptions(), "What a model judge may ask of its endpoint.")
    assets: tuple[str, ...] = setting(
        (),
        "Functions (module:name or path/to/file.py:name) that give stages of your own, which become assets beside the "
        "others.",
    )
    derivers: tuple[str, ...] = setting(
        (),
        "Derivers that make samples of a source's gold, too: page_function, or your own (module:name or "
        "path/to/file.py:name).",
    )
    trajectories: TrajectoryConfig = setting(
        TrajectoryConfig(), "Samples of whole runs of the generation loop, failures included (gold/generated)."
    )
    personal_data: dict[str, Literal["report", "quarantine"]] = setting(
        {},
        "What becomes of items with personal data, by source (`default` for all others): shown in hygiene/safety, or "
        "kept out of training.",
    )
    generation: GenerationSettings = setting(GenerationSettings.parsed({}), "The generation loop.")
    upstream: Upstream = setting(Upstream(), "Whether the hub is asked for new revisions.")
    freshness: dict[str, Hours] = setting({}, "Group or asset → hours after which the UI shows it as late.")
    alerts: Alerts = setting(Alerts(), "Who is alerted of failures.")
    exports: tuple[ExportSettings, ...] = setting(
        (),
        "What is exported as assets exports/<name>: forms of the corpus, or kind, form and filters of the corpus, the "
        "task pool or a checkpoint.",
    )
    runbook: Url | None = setting(
        None, "Where the runbook is served (…/runbook.html), so that each check in the UI links to its line."
    )
    preflight: Preflight = setting(Preflight(), "What is looked at before a run starts.")
    trainer: dict[str, Any] = setting(
        {}, "Settings of training (see Trainer below) over what the preset says; $VESPER_TRAINER goes over these."
    )

    @field_validator("raw_root", mode="before")
    @classmethod
    def _home_of_user(cls, said: object) -> Any:
        return Path(said).expanduser() if isinstance(said, str) else said

    @model_validator(mode="after")
    def _edges(self) -> Self:
        if self.strata_edges is not None and not 0 < self.strata_edges[0] < self.strata_edges[1]:
            raise ValueError(f"strata_edges: expected two integers 0 < e1 < e2, found {list(self.strata_edges)}")
        return self

    def source(self, name: str) -> SourceSettings:
        """Settings of a source, defaults if nothing is said of it."""
        return self.sources.get(name, SourceSettings())

    def state(self, name: str, licence: str) -> str:
        """What becomes of a source here: `off` (switched off), `licence` (not allowed), `native` (its files are here),
        `embedded` (Vesper makes some), or `waiting` (for files; `enabled: true` puts it into the graph even so)."""
        if self.source(name).enabled is False:
            return "off"
        if self.licences.refuses(licence):
            return "licence"
        if self.native_folder(name) is not None:
            return "native"
        return "embedded" if self.embedded.enabled and name in EMBEDDED else "waiting"

    def native_folder(self, name: str) -> Path | None:
        """Where the native files of a source, companion or suite lie; None if there are none.

        A companion is one asset with one folder, whether it says where (`raw`) or the sources that use it do
        (`companions`). Raises `DeploymentError` if they disagree.
        """
        said = {
            f"sources.{user}.companions.{name}": settings.companions[name]
            for user, settings in self.sources.items()
            if name in settings.companions
        }
        if (raw := self.source(name).raw) is not None:
            said[f"sources.{name}.raw"] = raw
        folders = {where: Path(text).expanduser() for where, text in said.items()}
        # Two folders for one asset would be read as one version.
        if len(set(folders.values())) > 1:
            found = ", ".join(f"{where}: {folder}" for where, folder in folders.items())
            raise DeploymentError(
                f"deployment: expected one folder for {name}, which all read as raw/{name}, found {found}; "
                f"say it once, as sources.{name}.raw"
            )
        if folders:
            return next(iter(folders.values()))
        path = self.raw_root / name
        return path if path.is_dir() else None


def load(path: Path | None = None, **flags: object) -> Deployment:
    """The settings: defaults, over them the file (that of $VESPER_DEPLOYMENT, else the one shipped here), over it the
    environment, over both `flags` (settings by name). Raises `DeploymentError`."""
    environment = Environment.read()
    chosen = path or (environment.deployment or FILE)
    # Cached by path and home: both may change within a process of the tests.
    found = _load(chosen.resolve(), home())
    # From the weakest to the strongest.
    layers = [layer for layer in (environment.over_deployment(), environment.run_settings, flags) if layer]
    return found if not layers else _checked(functools.reduce(merged, layers, found.given()), chosen.name)


@functools.lru_cache(maxsize=8)
def _load(path: Path, vesper_home: Path) -> Deployment:
    """`vesper_home` is where `raw_root` lies by default: another one, another deployment."""
    import yaml

    try:
        plain = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, yaml.YAMLError) as error:
        raise DeploymentError(f"{path.name}: {str(error).splitlines()[0]}") from error
    if not isinstance(plain, dict):
        raise DeploymentError(f"{path.name}: expected a mapping, found {type(plain).__name__}")
    return _checked(_without_nulls(plain), path.name)


def _checked(plain: Mapping[str, object], where: str) -> Deployment:
    try:
        return Deployment.parsed(plain, where)
    except SettingsError as error:
        raise DeploymentError(str(error)) from None


def _without_nulls(said: object) -> Any:
    if isinstance(said, dict):
        # A key without a value is as good as none.
        return {name: _without_nulls(value) for name, value in said.items() if value is not None}
    return said
