"""`deployment.yaml` as values: which sources are on, whose they are, where their native files lie."""

from __future__ import annotations

import fnmatch
import functools
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "deployment.yaml"
EMBEDDED = (
    "agentnet", "aitw", "aitz", "android_control", "mind2web", "miniwob_demos", "omniact", "screen_annotation",
    "screenqa", "ui_refexp",
)  # fmt: skip
"""Sources that have embedded data (a test holds this to the generator's own list, which is heavy to import)."""
_SOURCE_KEYS = {"enabled", "owners", "revision", "raw", "companions"}
_KEYS = {
    "raw_root", "embedded", "owners", "sources", "licences", "executor", "strata_edges", "judge", "personal_data",
    "generation",
}  # fmt: skip
PERSONAL_DATA = ("report", "quarantine")
"""What may become of items with personal data: shown, or kept out of training."""


class DeploymentError(ValueError):
    """`deployment.yaml` says something that isn't understood."""


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """Overrides of one source. `raw` None: `<raw_root>/<source>`. `enabled` None: as soon as there are files for it."""

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
class JudgeLimits:
    """What a model judge may ask of its endpoint, None for no limit; prices are money per million tokens, None unknown.

    What a night's ceiling leaves is pending: it is asked another night and never scored null.
    """

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    requests_per_night: int | None = None
    tokens_per_night: int | None = None
    price_prompt: float | None = None
    price_completion: float | None = None


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
    personal_data: Mapping[str, str] = field(default_factory=dict)
    """Source (`default` for all others) → one of `PERSONAL_DATA`."""
    strata_edges: tuple[int, int] | None = None
    """Expected steps up to which a task of the pool is easy, and medium; None is the pool's own default."""
    judge: JudgeLimits = JudgeLimits()
    generation: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the generation loop (`generators.generation.loop.LoopConfig`), without `rounds`."""
    rounds: int = 0
    """Rounds that the sensor `next_round` goes on to by itself; 0: none."""

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
        """Where a source's (or companion's) native files lie; None if there are none."""
        said = self.source(name).raw
        if said is not None:
            return Path(said).expanduser()
        path = self.raw_root / name
        return path if path.is_dir() else None


def home() -> Path:
    """$VESPER_HOME, by default `.vesper` in the current folder."""
    return Path(os.environ.get("VESPER_HOME", ".vesper")).expanduser().resolve()


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
    rounds = generation.pop("rounds", 0)
    if type(rounds) is not int or rounds < 0:
        raise DeploymentError(f"{path.name}: generation.rounds: expected a whole number from 0 on, found {rounds!r}")
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
        strata_edges=_edges(plain.get("strata_edges"), path.name),
        judge=_judge(plain.get("judge") or {}, path.name),
        generation=generation,
        rounds=rounds,
        personal_data=_personal(plain.get("personal_data") or {}, path.name),
    )


def _personal(said: Any, file: str) -> Mapping[str, str]:
    if not isinstance(said, dict) or not set(said.values()) <= set(PERSONAL_DATA):
        raise DeploymentError(
            f"{file}: personal_data: expected {' or '.join(PERSONAL_DATA)} by source (`default`: all), found {said!r}"
        )
    return {str(name): str(policy) for name, policy in said.items()}


def _judge(said: Any, file: str) -> JudgeLimits:
    names = {one.name for one in fields(JudgeLimits)}
    if not isinstance(said, dict):
        raise DeploymentError(f"{file}: judge: expected {', '.join(sorted(names))}, found {said!r}")
    _only(said, names, f"{file}: judge")
    for name, value in said.items():
        whole = type(value) is int or (type(value) is float and not name.endswith("night"))
        least = 0 if name.startswith("price") or name.endswith("night") else 1e-9
        if value is not None and (not whole or not value >= least):
            kind = "a whole number from 0 on" if name.endswith("night") else "a number above 0"
            raise DeploymentError(f"{file}: judge.{name}: expected {kind} or null, found {value!r}")
    return JudgeLimits(**said)


def _licences(said: Any, file: str) -> LicencePolicy:
    if not isinstance(said, dict):
        raise DeploymentError(f"{file}: licences: expected allow and deny lists, found {said!r}")
    _only(said, {"allow", "deny"}, f"{file}: licences")
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
    return SourceSettings(
        enabled=None if said.get("enabled") is None else bool(said["enabled"]),
        owners=tuple(said.get("owners") or ()),
        revision=str(said["revision"]) if said.get("revision") is not None else None,
        raw=said.get("raw"),
        companions=dict(said.get("companions") or {}),
    )


def _only(plain: Mapping[str, Any], allowed: set[str], where: str) -> None:
    unknown = sorted(set(plain) - allowed)
    if unknown:
        raise DeploymentError(f"{where}: unknown {unknown[0]!r}; known are {', '.join(sorted(allowed))}")
