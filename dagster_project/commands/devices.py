"""`vesper gateway` and `vesper devices`: phones, browsers and desktops that many agents share.

One machine needs no configuration: `vesper gateway serve` makes its keys once in $VESPER_HOME/gateway (readable by the
owner alone) and runs the lease authority and one gateway node. Several machines share a config file or the environment.
"""

import argparse
import json
import os
import secrets
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from dagster_project.settings.deployment import home
from generators.devices.authority.server import serve_authority
from generators.devices.client.authority_client import AuthorityClient
from generators.devices.client.forward import serve_forward
from generators.devices.config import authority_config, node_config, read_config
from generators.devices.device import PROTOCOLS
from generators.devices.gateway.node import serve_node
from generators.worlds.android.serve import serve_phone
from generators.worlds.serve_sites import serve_sites
from pipelines.processes import end_process

EXAMPLES = {
    "gateway": """examples:
  vesper gateway serve                             the authority and one node of this machine, until Ctrl+C
  vesper gateway authority --config gateway.json   the authority alone
  vesper gateway node --config gateway.json        one more node""",
    "devices": """examples:
  vesper devices phone --port 5555                 an emulated phone; then: adb connect 127.0.0.1:5555
  vesper devices add pixel --protocol adb --address 127.0.0.1:5555 --label kind=phone
  vesper devices list
  vesper devices forward adb --device pixel --port 6000     then: adb connect 127.0.0.1:6000
  vesper devices forward cdp --port 9222           then: curl http://127.0.0.1:9222/json/version""",
}
AUTHORITY_PORT, NODE_PORT = 7300, 7301
KEY, SECRET, URL = "VESPER_GATEWAY_KEY", "VESPER_GATEWAY_SECRET", "VESPER_GATEWAY_URL"


def configure(command: str, parser: argparse.ArgumentParser) -> None:
    """Arguments of both commands."""
    parser.epilog = EXAMPLES[command]
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    (_gateway if command == "gateway" else _devices)(actions)


def _gateway(actions: Any) -> None:
    both = actions.add_parser("serve", help="the lease authority and one node of this machine, until Ctrl+C")
    both.add_argument("--authority-port", type=int, default=AUTHORITY_PORT, help=f"default {AUTHORITY_PORT}")
    both.add_argument("--node-port", type=int, default=NODE_PORT, help=f"default {NODE_PORT}")
    both.set_defaults(run=serve)
    for name, stated, run in (
        ("authority", "the lease authority alone", authority),
        ("node", "one gateway node", node),
    ):
        sub = actions.add_parser(
            name,
            help=stated,
            description=f"{stated[0].upper()}{stated[1:]}; `secret` and keys may "
            f"stand in ${SECRET} and ${KEY} instead of the file.",
        )
        sub.add_argument(
            "--config",
            type=Path,
            required=True,
            metavar="FILE",
            help="JSON: the fields of AuthorityConfig or NodeConfig (docs/devices.md)",
        )
        sub.set_defaults(run=run)


def _devices(actions: Any) -> None:
    def action(name: str, text: str, run: Any) -> Any:
        sub = actions.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        sub.set_defaults(run=run)
        return sub

    def asks(sub: Any) -> None:
        sub.add_argument("--authority", metavar="URL", help=f"default ${URL}, else this machine's")

    listing = action("list", "registered devices, their health and who holds them", show)
    listing.add_argument("--json", action="store_true", help="all that is known")
    asks(listing)
    adding = action("add", "register a device", add)
    adding.add_argument("id", help="its name: letters, digits, '.', '_' and '-'")
    adding.add_argument("--protocol", choices=PROTOCOLS, required=True)
    adding.add_argument("--address", required=True, metavar="HOST:PORT")
    adding.add_argument("--label", action="append", default=[], help="a capability, such as kind=phone; repeatable")
    adding.add_argument("--options", default="{}", metavar="JSON", help="for the driver (docs/devices.md)")
    asks(adding)
    leading = action("forward", "lease a device and keep a local port that leads to it, until Ctrl+C", forward)
    leading.add_argument("protocol", choices=PROTOCOLS)
    leading.add_argument("--device", default="", help="its name (default: any that is free)")
    leading.add_argument("--port", type=int, default=0, help="the local port (default: a free one)")
    leading.add_argument("--priority", type=int, default=0, help="0 to 100; higher takes from lower (0)")
    asks(leading)
    phone_parser = action("phone", "serve an emulated phone that `adb connect` opens, until Ctrl+C", phone)
    phone_parser.add_argument("--port", type=int, default=5555, help="0 takes a free one (5555)")
    sites_parser = action("sites", "serve the page of FSM sites, for browsers that are devices, until Ctrl+C", sites)
    sites_parser.add_argument("--port", type=int, default=8123, help="0 takes a free one (8123)")


# --- gateway ----------------------------------------------------------------------------------------------------------
def serve(options: argparse.Namespace) -> int:
    """The authority in a process of its own, a node in this one."""
    folder, retained = _home(), _own()
    authority_file = folder / "authority.json"
    keys = [{"name": name, "key": retained[name], "roles": [name]} for name in ("client", "node", "admin")]
    plain = {
        "database": str(folder / "leases.sqlite"),
        "secret": retained["secret"],
        "keys": keys,
        "port": options.authority_port,
    }
    # Keys are in it.
    _write_private(authority_file, plain)
    words = [sys.executable, "-m", "dagster_project.cli", "gateway", "authority", "--config", str(authority_file)]
    child = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        # Its first line says where it listens, or nothing if it ended.
        said = child.stdout.readline().strip()
        if not said:
            raise RuntimeError(f"the lease authority didn't start (port {options.authority_port}); see above")
        print(said, flush=True)
        url = said.rpartition(" ")[2]
        # Other commands of this machine find the authority by this file.
        _write_private(folder / "address.json", {"url": url})
        serve_node(
            node_config(
                {
                    "id": "local",
                    "authority_url": url,
                    "api_key": retained["node"],
                    "secret": retained["secret"],
                    "port": options.node_port,
                    "fences": str(folder / "local.fences"),
                }
            )
        )
    finally:
        # The authority ends with the node.
        end_process(child, grace_s=10)
    return 0


def authority(options: argparse.Namespace) -> int:
    """The authority of a config file."""
    serve_authority(authority_config(_with_secret(read_config(options.config))))
    return 0


def node(options: argparse.Namespace) -> int:
    """A node of a config file."""
    values = _with_secret(read_config(options.config))
    # The file wins over the environment: it was written for this node.
    if os.environ.get(KEY):
        values.setdefault("api_key", os.environ[KEY])
    values.setdefault("fences", str(_home() / f"{values.get('id', 'node')}.fences"))
    serve_node(node_config(values))
    return 0


def _with_secret(values: dict[str, Any]) -> dict[str, Any]:
    if os.environ.get(SECRET):
        values.setdefault("secret", os.environ[SECRET])
    return values


def _home() -> Path:
    folder = home() / "gateway"
    # Only the owner looks in: it holds keys.
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def _own() -> dict[str, str]:
    """This machine's secret and API keys, made once."""
    path = _home() / "keys.json"
    if not path.is_file():
        _write_private(path, {name: secrets.token_urlsafe(32) for name in ("secret", "client", "node", "admin")})
    retained: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    return retained


def _write_private(path: Path, plain: object) -> None:
    """A file that only its owner can read, from its first byte on."""
    # Made anew, as an old file might be readable by others.
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
        json.dump(plain, stream)


# --- devices ----------------------------------------------------------------------------------------------------------
def _authority_and_key(options: argparse.Namespace, role: str) -> tuple[str, str]:
    """(the authority's address, API key)."""
    url, key = options.authority or os.environ.get(URL, ""), os.environ.get(KEY, "")
    if not url:
        path = _home() / "address.json"
        if not path.is_file():
            raise ValueError(
                f"devices: no authority is known; run `vesper gateway serve`, or give --authority or ${URL}"
            )
        url = str(json.loads(path.read_text(encoding="utf-8"))["url"])
    # A key of the environment wins over this machine's own.
    return url, key or _own()[role]


def _call(options: argparse.Namespace, role: str, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    import asyncio

    async def call() -> Any:
        async with AuthorityClient(*_authority_and_key(options, role)) as client:
            return await client.call(method, path, body)

    return asyncio.run(call())


def show(options: argparse.Namespace) -> int:
    """One line a device."""
    found = _call(options, "admin", "GET", "/v1/devices")["devices"]
    if options.json:
        print(json.dumps(found, indent=1, sort_keys=True))
        return 0
    for one in found:
        state = f"quarantined: {one['quarantined']}" if one["quarantined"] else one["health"]
        held = f"held by {one['holder']}" if one["holder"] else "free"
        address = f"{one['host']}:{one['port']}"
        print(f"{one['id']:20} {one['protocol']:4} {address:24} {state:10} {held:16} {' '.join(one['labels'])}")
    if not found:
        print("no devices are registered; add one with `vesper devices add`")
    return 0


def add(options: argparse.Namespace) -> int:
    """Register a device."""
    # From the right, as an IPv6 address holds colons as well.
    host, _, port = options.address.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"--address: expected HOST:PORT, found {options.address!r}")
    try:
        driver = json.loads(options.options)
    except ValueError as error:
        raise ValueError(f"--options: expected JSON, found {options.options[:80]!r}") from error
    body = {
        "id": options.id,
        "protocol": options.protocol,
        "host": host,
        "port": int(port),
        "labels": options.label,
        "options": driver,
    }
    _call(options, "admin", "POST", "/v1/devices", body)
    print(f"{options.id} is registered")
    return 0


def forward(options: argparse.Namespace) -> int:
    """Hold a lease and its local port."""
    url, key = _authority_and_key(options, "client")
    said = serve_forward(url, key, options.protocol, options.device, options.port, options.priority)
    print(said)
    return 0 if said == "stopped" else 1


def phone(options: argparse.Namespace) -> int:
    """The emulated phone."""
    import asyncio

    asyncio.run(serve_phone(options.port))
    return 0


def sites(options: argparse.Namespace) -> int:
    """The page of FSM sites."""
    with serve_sites(port=options.port) as address:
        print(address, flush=True)
        threading.Event().wait()
    return 0
