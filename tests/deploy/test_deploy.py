"""What deploy/ says is true: files parse, commands and modules exist, every variable is one that something reads."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "vesper"
OF_OTHERS = {
    "DAGSTER_HOME", "HOME", "POSTGRES_USER", "POSTGRES_DB", "POSTGRES_PASSWORD", "DAGSTER_DISABLE_TELEMETRY",
    "HF_HUB_DISABLE_TELEMETRY", "DO_NOT_TRACK", "PYTHONUNBUFFERED", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
    "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL",
}  # fmt: skip
"""Variables that programs of others read."""
BY_COMPOSE = {"VESPER_UID", "VESPER_GID", "VESPER_DATA", "VESPER_POSTGRES_PASSWORD"}
"""Variables that compose.yaml itself reads, from the `.env` that make_secrets.py writes."""


def _compose() -> Any:
    return yaml.safe_load((DEPLOY / "compose.yaml").read_text())


def _rendered(release: str = "vesper") -> Iterator[tuple[str, Any]]:
    """The chart's objects, with its own values: what stands in `{{ }}` there is a value, quoted or not."""
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def put(match: re.Match[str]) -> str:
        words = match[1].split()
        if words[0] == ".Release.Name":
            return release
        found: Any = values
        for name in words[0].removeprefix(".Values.").split("."):
            found = found[name]
        assert words[1:] in ([], ["|", "quote"]), f"the test can't render {match[0]}"
        return json.dumps(str(found)) if words[1:] else str(found)

    for path in sorted((CHART / "templates").glob("*.yaml")):
        for one in yaml.safe_load_all(re.sub(r"\{\{ *(.+?) *\}\}", put, path.read_text())):
            yield path.name, one


def _pods() -> Iterator[Any]:
    for _, one in _rendered():
        if one["kind"] in ("Deployment", "StatefulSet"):
            yield one["spec"]["template"]["spec"]


def _commands() -> Iterator[list[str]]:
    """Every command that compose.yaml and the chart run, health checks too."""
    for service in _compose()["services"].values():
        if "command" in service:
            yield service["command"]
        test = service.get("healthcheck", {}).get("test", [])
        if test and test[1] != "pg_isready":  # PostgreSQL's own image has it
            yield test[1:]
    for pod in _pods():
        for box in (*pod.get("initContainers", []), *pod["containers"]):
            yield box["args"]
            for probe in (box.get("livenessProbe", {}), box.get("readinessProbe", {})):
                if "exec" in probe:
                    yield probe["exec"]["command"]


def _distinct() -> list[list[str]]:
    return [list(words) for words in dict.fromkeys(tuple(command) for command in _commands())]


@pytest.mark.parametrize("words", _distinct(), ids=lambda words: " ".join(words)[:50])
def test_every_command_exists_with_its_options(words: list[str]) -> None:
    if words[0] == "python":
        if words[1] == "-m":
            assert importlib.util.find_spec(words[2]), words
        else:
            compile(words[2], "<deploy>", "exec")
        return
    scripts = {one.name for one in importlib.metadata.entry_points(group="console_scripts")}
    assert words[0] in scripts, f"{words[0]}: no such program"
    if words[0] == "vesper":
        from dagster_project import cli

        first = next(number for number, word in enumerate(words) if word.startswith("--"))
        with pytest.raises(SystemExit) as ended:
            cli.main([*words[1:first], "--help"])
        assert ended.value.code == 0
        with pytest.raises(SystemExit) as refused:  # an option that it doesn't know is an error of usage, code 2
            cli.main([*words[1:], "--no-such-option"])
        assert refused.value.code == 2
        return
    assert {word for word in words if word.startswith("-")} <= _options(words)


def _options(words: list[str]) -> set[str]:
    """Options of one of Dagster's programs, from its own definition."""
    import click

    known = {
        "dagster": "dagster._cli:create_dagster_cli",
        "dagster-daemon": "dagster._daemon.cli:create_dagster_daemon_cli",
    }
    module, _, name = known.get(words[0], "dagster_webserver.cli:dagster_webserver").partition(":")
    made = getattr(importlib.import_module(module), name)
    command = made if isinstance(made, click.Command) else made()
    for word in words[1:]:
        if isinstance(command, click.Group):
            assert word in command.commands, f"{words[0]}: no command {word}"
            command = command.commands[word]
    return {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}


def _environments() -> Iterator[str]:
    for service in _compose()["services"].values():
        yield from service.get("environment", {})
    for _, one in _rendered():
        if one["kind"] == "ConfigMap" and one["metadata"]["name"].endswith("environment"):
            yield from one["data"]
    for pod in _pods():
        for box in pod["containers"]:
            yield from (entry["name"] for entry in box.get("env", []))
    told = (DEPLOY / "Dockerfile").read_text()
    yield from re.findall(r"^(?:ENV| {3,}) ?([A-Z_]+)=", told, re.MULTILINE)


def test_every_variable_is_one_that_the_code_reads() -> None:
    sources = [path.read_text() for name in ("pipelines", "quality", "generators", "trainer", "dagster_project")
               for path in (ROOT / name).rglob("*.py")]  # fmt: skip
    named = {name for text in sources for name in re.findall(r'"(VESPER_[A-Z_]+)"', text)}
    used = set(_environments())
    assert {"VESPER_HOME", "VESPER_POSTGRES_URL", "VESPER_GATEWAY_SECRET", "POSTGRES_PASSWORD"} <= used
    assert used <= named | OF_OTHERS, used - named - OF_OTHERS
    interpolated = set(re.findall(r"\$\{([A-Z_]+)", (DEPLOY / "compose.yaml").read_text()))
    assert interpolated <= named | BY_COMPOSE, interpolated - named - BY_COMPOSE


def test_nobody_runs_as_root_and_nothing_is_published_beyond_loopback() -> None:
    services = _compose()["services"]
    for name, service in services.items():
        assert all(str(port).startswith("127.0.0.1:") for port in service.get("ports", [])), name
        if name != "postgres":  # its image changes to a user of its own
            assert service["user"].startswith("${VESPER_UID") and service["cap_drop"] == ["ALL"], name
            assert service["read_only"] and service["security_opt"] == ["no-new-privileges:true"], name
    for pod in _pods():
        assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] > 0
        for box in (*pod.get("initContainers", []), *pod["containers"]):
            said = box["securityContext"]
            assert said["capabilities"] == {"drop": ["ALL"]} and not said["allowPrivilegeEscalation"]
    told = (DEPLOY / "Dockerfile").read_text()
    assert re.findall(r"^USER (\d+)", told, re.MULTILINE)[-1] != "0"


def test_what_refers_to_something_refers_to_what_is_there() -> None:
    compose = _compose()
    for name, service in compose["services"].items():
        assert set(service.get("depends_on", {})) <= set(compose["services"]), name
        assert set(service.get("secrets", [])) <= set(compose["secrets"]), name
    place = yaml.safe_load((DEPLOY / "workspace.yaml").read_text())["load_from"][0]["grpc_server"]
    assert place["host"] in compose["services"] and str(place["port"]) in compose["services"]["code"]["command"]
    told = (DEPLOY / "Dockerfile").read_text()
    for copied in re.findall(r"^COPY (.+) \S+$", told, re.MULTILINE):
        assert all((ROOT / name).exists() for name in copied.split()), copied
    volumes = {
        one["metadata"]["name"] for _, one in _rendered() if one["kind"] in ("ConfigMap", "PersistentVolumeClaim")
    }
    services = {one["metadata"]["name"] for _, one in _rendered() if one["kind"] == "Service"}
    for pod in _pods():
        mounted = {mount["name"] for box in (*pod.get("initContainers", []), *pod["containers"])
                   for mount in box["volumeMounts"]}  # fmt: skip
        assert mounted == {volume["name"] for volume in pod["volumes"]}
        for volume in pod["volumes"]:
            name = volume.get("configMap", {}).get("name") or volume.get("persistentVolumeClaim", {}).get("claimName")
            assert name is None or name in volumes, name
    assert {"vesper-code", "vesper-authority", "vesper-node", "vesper-web"} <= services


def test_secrets_are_made_once_and_are_settings_that_the_gateway_takes(tmp_path: Path) -> None:
    sys.path.insert(0, str(DEPLOY))
    try:
        import make_secrets
    finally:
        sys.path.remove(str(DEPLOY))
    from generators.daas.config import authority_config, node_config

    made = make_secrets.gateway_settings(2)
    authority = authority_config(made["authority.json"])  # type: ignore[arg-type]
    nodes = [node_config(made[f"node-{number}.json"]) for number in range(2)]  # type: ignore[arg-type]
    assert {node.secret for node in nodes} == {authority.secret} and len({node.id for node in nodes}) == 2
    key = next(key for key in authority.keys if key.key == nodes[0].api_key)
    assert key.roles == {"node"}
    services = _compose()["services"]
    assert {node.public_host for node in nodes} <= set(services)
    assert f"http://authority:{authority.port}" == nodes[0].authority_url and "authority" in services
    path = tmp_path / "secrets" / "one"
    make_secrets.write_private(path, "first")
    make_secrets.write_private(path, "second")
    assert path.read_text() == "first" and path.stat().st_mode & 0o777 == 0o600


def test_scripts_are_shell_that_parses() -> None:
    for path in DEPLOY.glob("*.sh"):
        done = subprocess.run(["bash", "-n", str(path)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
