"""Makes what `compose.yaml` needs: passwords, the gateway's keys, the folder for data, the code's revision.

    python deploy/make_secrets.py --data /srv/vesper

`deploy/.env` gets PostgreSQL's password, the data folder, the user that containers run as (whoever calls this) and, in
a git checkout, its commit, which the image records in all that it makes; `deploy/secrets/` gets the authority's and the
nodes' settings and, each in a file of its own, the API keys of an administrator (who registers devices) and of a client
(who leases them). What is there already is left as it is, but for the commit: call this again before newer code is
built.
"""

import argparse
import json
import os
import re
import secrets
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
NODES = 2
REVISION = "VESPER_CODE_REVISION"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder for all data (it becomes $VESPER_HOME)")
    parser.add_argument("--to", type=Path, default=FOLDER, help="where .env and secrets/ go (the script's folder)")
    options = parser.parse_args(arguments)
    if os.getuid() == 0:
        print("make_secrets: run it as the user that containers shall run as, not as root", file=sys.stderr)
        return 2
    data = options.data.expanduser().resolve()
    data.mkdir(parents=True, exist_ok=True)
    settings, revision = options.to / ".env", code_revision()
    if settings.exists():
        before = settings.read_text(encoding="utf-8")
        renewed = with_revision(before, revision)
        if renewed != before:
            replace_private(settings, renewed)
        told = f"its {REVISION} was renewed" if renewed != before else "nothing was changed"
        print(f"{settings} is there already; {told}")
        return 0
    for name, plain in gateway_settings(NODES).items():
        text = plain if isinstance(plain, str) else json.dumps(plain, indent=1)
        write_private(options.to / "secrets" / name, text + "\n")
    lines = {
        "VESPER_UID": os.getuid(),
        "VESPER_GID": os.getgid(),
        "VESPER_DATA": data,
        "VESPER_POSTGRES_PASSWORD": secrets.token_urlsafe(32),
    }
    text = "".join(f"{name}={value}\n" for name, value in lines.items())
    write_private(settings, with_revision(text, revision))  # last: it is whole
    print(f"{settings} and {options.to / 'secrets'} are written; data goes to {data}")
    return 0


def code_revision(root: Path = FOLDER.parent) -> str:
    """The commit of the checkout that is built; empty where it is none, or git isn't here."""
    if not (root / ".git").exists():  # git would look for a repository further up
        return ""
    try:
        said = subprocess.run(["git", "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True)
    except OSError:
        return ""
    return said.stdout.strip() if said.returncode == 0 else ""


def with_revision(text: str, revision: str) -> str:
    """The text of `.env` with this revision of the code; as it is where the revision isn't known."""
    if not revision:
        return text
    line, known = f"{REVISION}={revision}", re.compile(rf"^{REVISION}=.*$", re.MULTILINE)
    if known.search(text):
        return known.sub(line, text)
    ended = "" if not text or text.endswith("\n") else "\n"
    return f"{text}{ended}{line}\n"


def gateway_settings(nodes: int) -> dict[str, object]:
    """File name → settings of the authority and of so many nodes (`generators.devices.config`), or an API key."""
    secret = secrets.token_urlsafe(48)
    keys = {name: secrets.token_urlsafe(32) for name in ("admin", "client", "nodes")}
    roles = {"admin": "admin", "client": "client", "nodes": "node"}
    authority = {
        "database": "/data/gateway/leases.sqlite",
        "secret": secret,
        "host": "0.0.0.0",
        "port": 7300,
        "keys": [
            {"name": name, "key": key, "roles": [roles[name]], **({"max_leases": 64} if name == "client" else {})}
            for name, key in keys.items()
        ],
    }
    made: dict[str, object] = {"authority.json": authority, "admin.key": keys["admin"], "client.key": keys["client"]}
    for number in range(nodes):
        made[f"node-{number}.json"] = {
            "id": f"node-{number}",
            "authority_url": "http://authority:7300",
            "api_key": keys["nodes"],
            "secret": secret,
            "host": "0.0.0.0",
            "port": 7301,
            "public_host": f"node-{number}",
            "public_port": 7301,
        }
    return made


def write_private(path: Path, text: str) -> None:
    """A file that only its owner can read, from its first byte on; one that is there already stays."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
            stream.write(text)


def replace_private(path: Path, text: str) -> None:
    """The same in place of a file that is there: whoever is killed here leaves the old one or the new one."""
    new = path.with_name(f"{path.name}.new")
    new.unlink(missing_ok=True)  # of a call that was killed
    write_private(new, text)
    new.replace(path)


if __name__ == "__main__":
    sys.exit(main())
