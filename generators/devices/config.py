"""What an authority and a gateway node are started with. Secrets come from the environment or a file, never from a
command line."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from generators.devices.records import NAME, PRIORITIES, Rules
from generators.devices.tokens import MIN_SECRET
from schemas.settings import nearest

ROLES = ("client", "node", "admin")


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key of the authority's API. `name` stands for its holder; `client` leases, `node` reads the fence feed, `admin`
    registers devices and may do all. A client's leases have at most `max_priority`; it has at most `max_leases` of them
    at a time, with those that it waits for (0: as many as it asks for)."""

    name: str
    key: str = field(repr=False)
    roles: frozenset[str] = frozenset(("client",))
    max_priority: int = 10
    max_leases: int = 0

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ValueError(f"API key: expected a name of letters, digits, '.', '_' or '-', found {self.name[:80]!r}")
        if len(self.key) < 16:
            raise ValueError(f"API key {self.name}: expected at least 16 characters, found {len(self.key)}")
        if not self.roles or not self.roles <= set(ROLES):
            raise ValueError(f"API key {self.name}: expected roles of {', '.join(ROLES)}, found {sorted(self.roles)}")
        if self.max_priority not in PRIORITIES:
            raise ValueError(f"API key {self.name}: expected max_priority in 0..{PRIORITIES[-1]}")
        if type(self.max_leases) is not int or self.max_leases < 0:
            raise ValueError(f"API key {self.name}: expected max_leases of 0 or more, found {self.max_leases!r}")


@dataclass(frozen=True, slots=True)
class AuthorityConfig:
    """The lease authority. `port` 0 takes a free one. `probe_s` between probes of a device (0: none),
    `probe_limit_s` for one."""

    database: Path
    secret: str = field(repr=False)
    keys: tuple[ApiKey, ...]
    host: str = "127.0.0.1"
    port: int = 7300
    rules: Rules = Rules()
    probe_s: float = 30.0
    probe_limit_s: float = 5.0
    probes_at_once: int = 64

    def __post_init__(self) -> None:
        _check_secret(self.secret)
        if not self.keys:
            raise ValueError("authority: expected at least one API key, found none")
        # two keys that are equal would make one holder pass for the other
        if len({key.key for key in self.keys}) < len(self.keys) or len({key.name for key in self.keys}) < len(
            self.keys
        ):
            raise ValueError("authority: expected every API key and name once")
        if self.probe_s < 0 or self.probe_limit_s <= 0 or self.probes_at_once < 1:
            raise ValueError("authority: expected probe_s of 0 or more, probe_limit_s and probes_at_once above 0")


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """A gateway node. `host`, `port`: where it listens (0: a free port); `public_host`, `public_port`: where clients
    and other nodes reach it ("" and 0: the same). `websocket` is "wss" behind a proxy that ends TLS.

    `max_connections` None: what the process's limit of descriptors allows at two a connection. `idle_s`: a connection
    over which nothing was said is closed after it. `buffer` bytes wait at most in each direction before reading stops.
    `fences`: a file in which it remembers ended leases; None: after a start it knows them from the authority alone.
    """

    id: str
    authority_url: str
    api_key: str = field(repr=False)
    secret: str = field(repr=False)
    host: str = "127.0.0.1"
    port: int = 7301
    public_host: str = ""
    public_port: int = 0
    websocket: str = "ws"
    max_connections: int | None = None
    head_s: float = 10.0
    connect_s: float = 5.0
    reply_s: float = 30.0
    idle_s: float = 3600.0
    drain_s: float = 30.0
    buffer: int = 65_536
    fences: Path | None = None

    def __post_init__(self) -> None:
        _check_secret(self.secret)
        if not NAME.fullmatch(self.id):
            raise ValueError(f"node: expected an id of letters, digits, '.', '_' or '-', found {self.id[:80]!r}")
        if self.websocket not in ("ws", "wss"):
            raise ValueError(f"node {self.id}: expected websocket ws or wss, found {self.websocket!r}")
        if self.max_connections is not None and self.max_connections < 1:
            raise ValueError(f"node {self.id}: expected max_connections above 0, found {self.max_connections}")


def authority_config(values: Mapping[str, object]) -> AuthorityConfig:
    """From plain JSON data: the fields' names; `keys` lists those of `ApiKey`, `rules` is a mapping."""
    given = _known(AuthorityConfig, values)
    given["database"] = Path(given["database"])
    given["keys"] = tuple(
        ApiKey(**{**_known(ApiKey, key), "roles": frozenset(key.get("roles", ("client",)))}) for key in given["keys"]
    )
    if "rules" in given:
        given["rules"] = Rules(**_known(Rules, given["rules"]))
    return AuthorityConfig(**given)


def node_config(values: Mapping[str, object]) -> NodeConfig:
    """From plain JSON data: the fields' names."""
    given = _known(NodeConfig, values)
    return NodeConfig(**{**given, "fences": Path(given["fences"]) if given.get("fences") else None})


def read_config(path: Path) -> dict[str, object]:
    """A config file. Raises `ValueError` that names it."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path}: expected a JSON file, found {error}") from None
    if not isinstance(values, dict):
        raise ValueError(f"{path}: expected a JSON object, found {type(values).__name__}")
    return values


def _known(kind: type, values: Mapping[str, object]) -> dict[str, Any]:
    names = {part.name for part in fields(kind)}
    if wrong := sorted(set(values) - names):
        raise ValueError(f"{kind.__name__}: unknown setting {wrong[0]!r}; {nearest(wrong[0], names)}")
    return dict(values)


def _check_secret(secret: str) -> None:
    if len(secret.encode()) < MIN_SECRET:
        raise ValueError(f"gateway secret: expected at least {MIN_SECRET} bytes, found {len(secret.encode())}")
