"""`deployment.yaml` as values: which sources are on, whose they are, where their native files lie."""

from __future__ import annotations

import fnmatch
import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from pipelines.home import default_home as home

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
_SOURCE_KEYS = {"enabled", "owners", "revision", "raw", "companions"}
_KEYS = {
    "raw_root",
    "embedded",
    "owners",
    "sources",
    "licences",
    "executor",
    "strata_edges",
    "judge",
    "personal_data",
    "beam",
    "generation",
    "upstream",
    "freshness",
    "alerts",
    "preflight",
}
PERSONAL_DATA = ("report", "quarantine")
"""What may become of items with personal data: shown, or kept out of training."""


class DeploymentError(ValueError):
    """`deployment.yaml` says something that isn't understood."""


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """Overrides of one source, companion or suite. `raw` None: `<raw_root>/<source>`. `enabled` None: as soon as there
    are files for it. `companions`: name → their folder, which is where all sources read them."""

    enabled: bool | None = None
    owners: tuple[str, ...] = ()
    revision: str | None = None
    raw: str | None = None
    companions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LicencePolicy:
    """Which licences may train, as glob patterns over what the descriptors say; `deny` wins over `allow`."""

    allow: tuple[str, ...] = ("*",)
    deny: tuple[str, ...] = ()

    def refuses(self, licence: str) -> str:
        """Why a licence isn't allowed here; empty if it is."""
        if any(fnmatch.fnmatchcase(licence.lower(), pattern.lower()) for pattern in self.deny):
            return f"licence {licence!r} is denied by the deployment's policy"
        if not any(fnmatch.fnmatchcase(licence.lower(), pattern.lower()) for pattern in self.allow):
            return f"licence {licence!r} is not among those that the deployment allows ({', '.join(self.allow)})"
        return ""


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """What a model judge may ask of its endpoint, None for no limit; prices are money per million tokens, None unknown.

    What a night's ceiling leaves is pending: it is asked another night and never scored null.
    """

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    requests_per_night: int | None = None
    tokens_per_night: int | None = None
    money_per_night: float | None = None
    """Needs both prices."""
    price_prompt: float | None = None
    price_completion: float | None = None
    ask_again: int = 0
    """Raise it to have what the model couldn't answer asked once more."""
    read: bool = False
    """Whether every judge also gets what Tesseract reads on screens whose source lists no elements."""


@dataclass(frozen=True, slots=True)
class Upstream:
    """Whether the hub is asked which revision of a source's repository is out, and where that hub is (None: the
    library's own, `HF_ENDPOINT`)."""

    hub: bool = False
    endpoint: str | None = None


@dataclass(frozen=True, slots=True)
class Email:
    """Where run failures are mailed; the password of `user` is $VESPER_ALERT_SMTP_PASSWORD."""

    to: tuple[str, ...] = ()
    sender: str = ""
    host: str = "localhost"
    port: int = 25
    starttls: bool = False
    user: str = ""


@dataclass(frozen=True, slots=True)
class Alerts:
    """Who is told when a run has failed or checks begin to warn. `webhook`: an URL, or $VESPER_ALERT_WEBHOOK where
    the URL is a secret."""

    webhook: str = ""
    email: Email | None = None
    ui: str = ""
    """URL of the webserver, to link to the run."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """All settings. `embedded_size`: `tiny` or `demo`; None is the generator's own default."""

    raw_root: Path
    embedded: bool = True
    embedded_size: str | None = None
    embedded_seed: int = 0
    owners: tuple[str, ...] = ("team:data",)
    sources: Mapping[str, SourceSettings] = field(default_factory=dict)
    licences: LicencePolicy = LicencePolicy()
    executor: str = "in_process"
    beam: tuple[str, ...] = ()
    """Beam's flags for reading native files; none: in the run's own process."""
    personal_data: Mapping[str, str] = field(default_factory=dict)
    """Source (`default` for all others) → one of `PERSONAL_DATA`."""
    strata_edges: tuple[int, int] | None = None
    """Expected steps up to which a task of the pool is easy, and medium; None is the pool's own default."""
    judge: JudgeOptions = JudgeOptions()
    generation: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the generation loop (`generators.generation.loop.LoopConfig`), without those that follow."""
    rounds: int = 0
    """Rounds that the sensor `next_round` goes on to by itself; 0: none."""
    steer: bool = False
    """Whether promoted evaluations move a round's shares of easy, medium and hard tasks."""
    devices: tuple[str, ...] = ()
    """Where the loop executes (`generators.execution.device_sources`); none: as the environment says."""
    site_url: str = ""
    workers: int = 2
    """Executions of the loop at a time."""
    upstream: Upstream = Upstream()
    freshness: Mapping[str, float] = field(default_factory=dict)
    """Group or asset key → hours after which it is late."""
    alerts: Alerts = Alerts()
    free_gb: float = 1.0
    """Free space that a run wants in the store before it starts."""

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
        return "embedded" if self.embedded and name in EMBEDDED else "waiting"

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


def load(path: Path | None = None) -> Deployment:
    """Read the file that $VESPER_DEPLOYMENT names, else the one shipped here. Raises `DeploymentError`."""
    chosen = path or Path(os.environ.get("VESPER_DEPLOYMENT") or FILE)
    return _load(chosen.resolve(), home())


@functools.lru_cache(maxsize=8)
def _load(path: Path, vesper_home: Path) -> Deployment:
    import yaml

    try:
        plain = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except (OSError, yaml.YAMLError) as error:
        raise DeploymentError(f"{path.name}: {str(error).splitlines()[0]}") from error
    if not isinstance(plain, dict):
        raise DeploymentError(f"{path.name}: expected a mapping, found {type(plain).__name__}")
    _only(plain, _KEYS, path.name)
    embedded = plain.get("embedded") or {}
    _only(embedded, {"enabled", "size", "seed"}, f"{path.name}: embedded")
    root = plain.get("raw_root")
    executor = plain.get("executor", "in_process")
    generation = dict(plain.get("generation") or {})
    rounds, steer = generation.pop("rounds", 0), generation.pop("steer", False)
    if type(rounds) is not int or rounds < 0:
        raise DeploymentError(f"{path.name}: generation.rounds: expected a whole number from 0 on, found {rounds!r}")
    if type(steer) is not bool:
        raise DeploymentError(f"{path.name}: generation.steer: expected true or false, found {steer!r}")
    devices, site_url = _places(generation.pop("device", None), generation.pop("site_url", None), path.name)
    workers = generation.pop("workers", 2)
    if type(workers) is not int or workers < 1:
        raise DeploymentError(f"{path.name}: generation.workers: expected a whole number from 1 on, found {workers!r}")
    if executor not in ("in_process", "multiprocess"):
        raise DeploymentError(f"{path.name}: executor: expected in_process or multiprocess, found {executor!r}")
    size = os.environ.get("VESPER_EMBEDDED_SIZE") or embedded.get("size")
    return Deployment(
        raw_root=Path(root).expanduser() if root else vesper_home / "incoming",
        embedded=bool(embedded.get("enabled", True)),
        embedded_size=str(size) if size is not None else None,
        embedded_seed=int(embedded.get("seed", 0)),
        owners=tuple(plain.get("owners") or ()),
        sources={name: _source(name, said or {}, path.name) for name, said in (plain.get("sources") or {}).items()},
        licences=_licences(plain.get("licences") or {}, path.name),
        executor=executor,
        beam=_beam(plain.get("beam") or [], path.name),
        strata_edges=_edges(plain.get("strata_edges"), path.name),
        judge=_judge(plain.get("judge") or {}, path.name),
        generation=generation,
        rounds=rounds,
        steer=steer,
        devices=devices,
        site_url=site_url,
        workers=workers,
        upstream=_upstream(plain.get("upstream") or {}, path.name),
        freshness=_freshness(plain.get("freshness") or {}, path.name),
        alerts=_alerts(plain.get("alerts") or {}, path.name),
        free_gb=_free_gb(plain.get("preflight") or {}, path.name),
        personal_data=_personal(plain.get("personal_data") or {}, path.name),
    )


def _places(devices: Any, site_url: Any, file: str) -> tuple[tuple[str, ...], str]:
    named = [devices] if isinstance(devices, str) else devices or []
    if not isinstance(named, list) or not all(one == "local" or _is_url(one) for one in named):
        raise DeploymentError(
            f"{file}: generation.device: expected local, an authority's http address, a list of "
            f"those, or null, found {devices!r}"
        )
    if site_url is not None and not _is_url(site_url):
        raise DeploymentError(f"{file}: generation.site_url: expected an http(s) URL or null, found {site_url!r}")
    return tuple(named), site_url or ""


def _beam(said: Any, file: str) -> tuple[str, ...]:
    if not isinstance(said, list) or not all(isinstance(one, str) and one.startswith("--") for one in said):
        raise DeploymentError(f'{file}: beam: expected a list of flags such as "--runner=DaskRunner", found {said!r}')
    return tuple(said)


def _personal(said: Any, file: str) -> Mapping[str, str]:
    if not isinstance(said, dict) or not set(said.values()) <= set(PERSONAL_DATA):
        raise DeploymentError(
            f"{file}: personal_data: expected {' or '.join(PERSONAL_DATA)} by source (`default`: all), found {said!r}"
        )
    return {str(name): str(policy) for name, policy in said.items()}


def _judge(said: Any, file: str) -> JudgeOptions:
    names = {one.name for one in fields(JudgeOptions)}
    _mapping(said, names, f"{file}: judge")
    if not isinstance(said.get("read", False), bool):
        raise DeploymentError(f"{file}: judge.read: expected true or false, found {said['read']!r}")
    for name, value in said.items():
        if name == "read":
            continue
        counted = name in ("requests_per_night", "tokens_per_night", "ask_again")
        money = "price" in name or "money" in name
        whole = type(value) is int or (type(value) is float and not counted)
        least = 0 if money or counted else 1e-9
        if value is not None and (not whole or not least <= value < float("inf")):
            kind = "a whole number from 0 on" if counted else "a number from 0 on" if money else "a number above 0"
            raise DeploymentError(f"{file}: judge.{name}: expected {kind} or null, found {value!r}")
    options = JudgeOptions(**{name: value for name, value in said.items() if value is not None})
    if options.money_per_night is not None and None in (options.price_prompt, options.price_completion):
        raise DeploymentError(
            f"{file}: judge.money_per_night: expected price_prompt and price_completion beside it, or nobody knows "
            "what a night has cost"
        )
    return options


def _upstream(said: Any, file: str) -> Upstream:
    where = f"{file}: upstream"
    _mapping(said, {"hub", "endpoint"}, where)
    hub, endpoint = said.get("hub", False), said.get("endpoint")
    if type(hub) is not bool or not (endpoint is None or _is_url(endpoint)):
        raise DeploymentError(f"{where}: expected hub: true or false, endpoint: an http(s) URL or null, found {said!r}")
    return Upstream(hub, endpoint)


def _freshness(said: Any, file: str) -> Mapping[str, float]:
    found = {}
    for name, hours in said.items() if isinstance(said, dict) else [(said, said)]:
        if hours is None and isinstance(name, str):
            continue
        if not isinstance(name, str) or type(hours) not in (int, float) or not 1 / 60 <= hours < 1e6:
            raise DeploymentError(
                f"{file}: freshness: expected hours (a minute at least) by group or asset, or null, "
                f"found {name!r}: {hours!r}"
            )
        found[name] = float(hours)
    return found


def _alerts(said: Any, file: str) -> Alerts:
    where = f"{file}: alerts"
    _mapping(said, {"webhook", "email", "ui"}, where)
    for name in ("webhook", "ui"):
        if said.get(name) is not None and not _is_url(said[name]):
            raise DeploymentError(f"{where}.{name}: expected an http(s) URL or null, found {said[name]!r}")
    return Alerts(said.get("webhook") or "", _email(said.get("email"), f"{where}.email"), said.get("ui") or "")


def _email(said: Any, where: str) -> Email | None:
    if not said:
        return None
    _mapping(said, {"to", "from", "host", "port", "starttls", "user"}, where)
    to, sender = said.get("to"), said.get("from")
    if not isinstance(to, list) or not to or not all(_is_address(one) for one in [*to, sender]):
        raise DeploymentError(f"{where}: expected to: a list of addresses, from: an address, found {to!r}, {sender!r}")
    port, starttls = said.get("port", 25), said.get("starttls", False)
    if type(port) is not int or not 0 < port < 65536 or type(starttls) is not bool:
        raise DeploymentError(
            f"{where}: expected port: 1 to 65535, starttls: true or false, found {port!r}, {starttls!r}"
        )
    host, user = str(said.get("host") or "localhost"), str(said.get("user") or "")
    return Email(tuple(to), str(sender), host, port, starttls, user)


def _free_gb(said: Any, file: str) -> float:
    _mapping(said, {"free_gb"}, f"{file}: preflight")
    value = said.get("free_gb", 1.0)
    if type(value) not in (int, float) or not 0 <= value < 1e9:
        raise DeploymentError(f"{file}: preflight.free_gb: expected a number from 0 on, found {value!r}")
    return float(value)


def _is_url(value: Any) -> bool:
    return isinstance(value, str) and value.startswith(("http://", "https://")) and not set(value) & set("\r\n \t")


def _is_address(value: Any) -> bool:
    return isinstance(value, str) and "@" in value and not set(value) & set("\r\n \t,;<>")


def _licences(said: Any, file: str) -> LicencePolicy:
    _mapping(said, {"allow", "deny"}, f"{file}: licences")
    for name, listed in said.items():
        if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
            raise DeploymentError(f"{file}: licences.{name}: expected a list of patterns, found {listed!r}")
    return LicencePolicy(tuple(said.get("allow", ("*",))), tuple(said.get("deny", ())))


def _edges(said: Any, file: str) -> tuple[int, int] | None:
    if said is None:
        return None
    whole = isinstance(said, list) and len(said) == 2 and all(type(edge) is int for edge in said)
    if not whole or not 0 < said[0] < said[1]:
        raise DeploymentError(f"{file}: strata_edges: expected two integers 0 < e1 < e2, found {said!r}")
    return said[0], said[1]


def _source(name: str, said: Mapping[str, Any], file: str) -> SourceSettings:
    _only(said, _SOURCE_KEYS, f"{file}: sources.{name}")
    raw, companions = said.get("raw"), said.get("companions") or {}
    folders = [raw, *companions.values()] if isinstance(companions, dict) else [companions]
    if not all(folder is None or isinstance(folder, str) for folder in folders):
        raise DeploymentError(
            f"{file}: sources.{name}: expected raw: a folder, companions: folders by name, found "
            f"{raw!r}, {companions!r}"
        )
    return SourceSettings(
        enabled=None if said.get("enabled") is None else bool(said["enabled"]),
        owners=tuple(said.get("owners") or ()),
        revision=str(said["revision"]) if said.get("revision") is not None else None,
        raw=raw,
        companions={str(companion): folder for companion, folder in companions.items() if folder is not None},
    )


def _mapping(said: Any, allowed: set[str], where: str) -> None:
    if not isinstance(said, dict):
        raise DeploymentError(f"{where}: expected {', '.join(sorted(allowed))}, found {said!r}")
    _only(said, allowed, where)


def _only(plain: Mapping[str, Any], allowed: set[str], where: str) -> None:
    unknown = sorted(set(plain) - allowed)
    if unknown:
        raise DeploymentError(f"{where}: unknown {unknown[0]!r}; known are {', '.join(sorted(allowed))}")
